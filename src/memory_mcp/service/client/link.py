"""Connects to the daemon of a data directory: finds or starts it, says who calls, and calls methods. Standard library only.

A connection begins with one line from the caller (`hello`) and one line back; after that it carries newline-delimited
JSON-RPC: MCP for kind "mcp", the private methods for kind "rpc".

Invariants
1. Of many that want a daemon at once, one starts it: whoever holds the start lock.
2. A socket nobody listens on counts as no daemon; what answers belongs to the same user, or nothing is said to it.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from memory_mcp import __version__
from memory_mcp.base import machine, ownership, paths
from memory_mcp.service.client.door import connect

#: How long a new daemon may take until it listens, and how often is looked (seconds).
START_PATIENCE, _POLL = 20.0, 0.01
#: Settings of the environment that tell nothing about a daemon, or that every caller may have its own of.
_OWN = frozenset({"STORAGE__DATA_DIR", "SERVER__DAEMON", "FAILPOINT"})
#: Exit status for arguments and settings that cannot be used.
_ASKED_WRONGLY = 2
#: A daemon that is killed while it starts is started again so often.
_KILLS = 3
#: Daemons started by this process.
_started: list[machine.Started] = []
#: A frame of the private methods is never longer (bytes).
LONGEST = 256 * 1024 * 1024


def describe_daemon(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a person should know of the daemon that answers."""
    theirs = str(about.get("memory-mcp", ""))
    if theirs != __version__:
        yield f"the daemon is version {theirs}, this program {__version__}; install one of them everywhere (memory-mcp doctor)"
    if note := about.get("note"):
        yield note


class Unreachable(OSError):
    """No daemon runs, and none could be started."""


class Unusable(Unreachable):
    """No daemon can serve the directory as it is."""


class Refused(Exception):
    """The daemon's answer is an error.

    `status` is the exit status the command line gives it, `hint` ends the message.
    """

    def __init__(self, code: str, message: str, status: int = 1, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.hint = hint


class Wanted:
    """The daemon that is needed: its data directory and settings."""

    def __init__(self, directory: str, config: str = "", flags: Mapping[str, str] | None = None, project: str = "") -> None:
        self.directory = directory
        self.config = os.path.abspath(os.path.expanduser(config)) if config else ""
        #: Settings given as flags, by their dotted names.
        self.flags = dict(flags or {})
        #: The project that the command line names for what is asked; an identity or a directory.
        self.project = project
        #: Device and inode of the directory as this process first met a daemon there.
        self.first_identity: list[int] = []

    def note_identity(self) -> None:
        """Note which directory this is, unless that is known.

        The daemon is told: it may have begun in an empty new one.
        """
        if not self.first_identity:
            self.first_identity = paths.identity(self.directory)

    @property
    def arguments(self) -> list[str]:
        """The arguments of Python that run the daemon."""
        # -P: the caller's directory may hold modules of any name.
        words = ["-P", "-m", "memory_mcp", "daemon", "run", "--data-dir", self.directory]
        if self.config:
            words += ["--config", self.config]
        if "server.profile" in self.flags:
            words += ["--profile", self.flags["server.profile"]]
        return words

    @property
    def settings(self) -> dict[str, str]:
        """The caller's settings as text, to compare with the daemon's.

        Of the environment and the flags. Keys are variables' names without the prefix, and `config`; settings that every caller
        may have of its own are left out.
        """
        variables = {k: v for k, v in os.environ.items() if k.startswith(paths.PREFIX) and "__" in k}
        settings = {k.removeprefix(paths.PREFIX): v for k, v in variables.items() if k.removeprefix(paths.PREFIX) not in _OWN}
        for key, value in self.flags.items():
            settings[key.replace(".", "__").upper()] = value
        config = self.config or os.environ.get(paths.PREFIX + "CONFIG", "")
        return {"config": os.path.abspath(os.path.expanduser(config)) if config else "", **settings}


def can_run_daemon() -> bool:
    """Whether this platform can run a daemon."""
    return hasattr(os, "posix_spawn") or machine.WINDOWS


class Line:
    """A connection that sends and receives JSON objects, one a line."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        #: What came behind the last whole line.
        self.rest = bytearray()
        #: What the daemon said of itself: version, pid, note.
        self.about: dict[str, Any] = {}

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one object as a line.

        Raises OSError when the daemon has gone or does not read in time.
        """
        self.sock.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """Return the next object, waiting for it.

        Raises ConnectionError for a daemon that has gone or an answer too long, TimeoutError, and ValueError for no JSON.
        """
        start = 0
        while (end := self.rest.find(b"\n", start)) < 0:
            start = len(self.rest)
            if start > LONGEST:
                raise ConnectionError("the daemon's answer is too long")
            got = self.sock.recv(1 << 16)
            if not got:
                raise ConnectionResetError("the daemon has gone")
            self.rest += got
        line = bytes(self.rest[:end])
        del self.rest[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Close the connection and its socket."""
        self.sock.close()


def exchange_hellos(sock: socket.socket, kind: str, daemon: Wanted, patience: float = START_PATIENCE) -> Line:
    """Exchange hellos on a socket, each side within `patience` seconds.

    Returns the connection, of `kind` "mcp" or "rpc". Raises OSError or ValueError when no hello comes back.
    """
    line = Line(sock)
    # What tells the caller's project, and keys for a command; everything else of its environment stays with it.
    environ = {k: os.environ[k] for k in paths.ASKED if k in os.environ} | paths.key_variables(os.environ)
    if daemon.project:
        environ.setdefault(paths.PROJECT, daemon.project)
    sock.settimeout(max(patience, _POLL))
    line.send(
        {
            "memory-mcp": __version__,
            "kind": kind,
            "pid": os.getpid(),
            "cwd": paths.here(),
            # Whoever types a command is in nobody's session, whatever started their terminal.
            "above": machine.ancestors() if kind == "mcp" or any(os.environ.get(name) for name in paths.BY_MODEL) else [],
            "sessions": [os.environ[name] for name in paths.SESSIONS if os.environ.get(name)],
            "environ": environ,
            "settings": daemon.settings,
            "directory": daemon.first_identity,
            # Whatever the daemon was started with, a caller that wants to be bound is.
            "locked": paths.setting("server", "scope_lock", False, file=daemon.config) is True,
        }
    )
    line.about = line.receive()
    sock.settimeout(None)
    return line


def reach_daemon(daemon: Wanted, kind: str, start: bool = True, patience: float = START_PATIENCE) -> Line:
    """Connect to the daemon and exchange hellos.

    `kind` is "mcp", or "rpc" for the private methods. With `start` one is started where none runs, and one of an older version
    or with a changed settings file is replaced. Raises Unreachable where none could be started, Refused where the caller's
    settings cannot be used; another OSError or ValueError where none runs and none is to be started, for an odd hello, and when
    `patience` seconds are over.
    """
    end, started = time.monotonic() + patience, 0
    while True:
        try:
            line = exchange_hellos(connect(daemon.directory), kind, daemon, end - time.monotonic())
        except (OSError, ValueError):
            if not start or time.monotonic() >= end:
                raise
            if started > _KILLS:
                log = paths.log_file(daemon.directory)
                raise Unreachable(f"the daemon ends as soon as it has started; see {log}") from None
            started += _start_daemon(daemon, end)
            continue
        why = _why_replace(line.about) if start and time.monotonic() < end else ""
        if why:
            line.close()
            _stop_daemon(daemon, int(line.about.get("pid", 0)), why)
            continue
        if start and (refused := line.about.get("refused")):
            line.close()
            raise Refused("INVALID_ARGUMENT", refused, _ASKED_WRONGLY)
        return line


def call_method(directory: str, method: str, params: Mapping[str, Any], deadline: float) -> dict[str, Any]:
    """Call a private method on a new connection; no daemon is started for it.

    Raises OSError where it is not answered in about `deadline` seconds, Refused for an error.
    """
    end = time.monotonic() + deadline
    line = reach_daemon(Wanted(directory), "rpc", False, deadline)
    try:
        line.sock.settimeout(max(end - time.monotonic(), _POLL))
        return call_on_line(line, method, params)
    finally:
        line.close()


def call_on_line(
    line: Line, method: str, params: Mapping[str, Any], hear: Callable[[dict[str, Any]], None] = lambda _: None
) -> dict[str, Any]:
    """Call a private method on an open connection.

    `hear` gets the messages that come before the result. Raises Refused when the daemon answers with an error, and what
    `Line.send` and `Line.receive` raise.
    """
    line.send({"id": 1, "method": method, "params": params})
    while True:
        message = line.receive()
        if "error" in message:
            error = message["error"]
            why = error.get("message", "")
            raise Refused(error.get("code", "INTERNAL"), why, int(error.get("status", 1)), error.get("hint", ""))
        if "result" in message:
            result: dict[str, Any] = message["result"]
            return result
        hear(message)


@contextmanager
def hold_start_lock(directory: str, end: float) -> Iterator[None]:
    """Hold the lock under which a daemon is started.

    It is waited for until `end` (monotonic clock, seconds). Makes a missing directory. Raises Unusable where it cannot be a data
    directory, Unreachable when the lock was held till then.
    """
    if why := ownership.unfit(directory):
        raise Unusable(why)
    odd, kind = paths.planted(directory)
    if odd:
        raise Unusable(f"{odd} is {kind}, and nothing inside a data directory may be one. {paths.remedy(odd, kind)}")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        handle = os.open(paths.start_lock(directory), os.O_CREAT | os.O_RDWR | machine.PRIVATE, 0o600)
    except OSError as error:
        raise Unusable(f"the data directory {directory} cannot be used: {error.strerror}") from None
    try:
        while True:
            try:
                machine.lock(handle)
                break
            except OSError:
                if time.monotonic() >= end:
                    raise Unreachable("another process has been starting the daemon for too long") from None
                time.sleep(_POLL)
        yield
    finally:
        os.close(handle)


def _start_daemon(address: Wanted, end: float) -> bool:
    """Start a daemon and wait until it listens.

    Not where one listens already; returns whether it was started. One that is killed meanwhile is started again, up to `_KILLS`
    times. Raises Unreachable when it ends at once or does not listen before `end` (monotonic clock, seconds), and what
    `starting` raises.
    """
    with hold_start_lock(address.directory, end):
        if _is_listening(address.directory):
            return False
        log = paths.log_file(address.directory)
        log_size = os.path.getsize(log) if os.path.exists(log) else 0
        _started[:] = [process for process in _started if process.ended() is None]
        daemon, kills = _spawn_daemon(address, log), 0
        while time.monotonic() < end:
            if _is_listening(address.directory):
                return True
            ended = daemon.ended()
            if ended is not None and (ended >= 0 or kills >= _KILLS):
                raise Unreachable(_last_words(log, log_size))
            if ended is not None:
                daemon, kills = _spawn_daemon(address, log), kills + 1
            time.sleep(_POLL)
        raise Unreachable(f"the daemon did not listen within {START_PATIENCE:.0f} s; see {log}")


def start_aside(daemon: Wanted) -> None:
    """Start the daemon by a separate process; return at once.

    Whether the daemon comes is not known; raises OSError where no process can be started.
    """
    words = ["-P", "-m", "memory_mcp", "daemon", "start", "--data-dir", daemon.directory]
    words += ["--config", daemon.config] if daemon.config else []
    machine.start([sys.executable, *words], _make_environment(), os.devnull)


def _is_listening(directory: str) -> bool:
    try:
        connect(directory).close()
    except OSError:
        return False
    return True


def _spawn_daemon(daemon: Wanted, log: str) -> machine.Started:
    _started.append(machine.start([sys.executable, *daemon.arguments], _make_environment(), log))
    return _started[-1]


def _make_environment() -> dict[str, str]:
    """Return the environment of a daemon."""
    environ = {k: v for k, v in os.environ.items() if k not in (paths.PROJECT, *paths.DECLARED, "PYTHONSTARTUP")}
    # Many threads with an arena each keep memory that one would give back.
    environ.setdefault("MALLOC_ARENA_MAX", "2")
    return environ


def _last_words(log: str, log_size: int) -> str:
    """Return the log's last line after the first `log_size` bytes."""
    from memory_mcp.base import foreign_files

    try:
        with foreign_files.open_file(log) as stream:
            stream.seek(log_size)
            lines = [line for line in stream.read(1 << 16).decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1] if lines else f"the daemon ended at once; see {log}"


def _why_replace(about: Mapping[str, Any]) -> str:
    """Return why the daemon must be replaced, "" for no reason."""
    theirs = str(about.get("memory-mcp", ""))
    if theirs and _parse_version(__version__) > _parse_version(theirs):
        return f"version {__version__} takes over"
    return f"the settings file changed ({about['stale']})" if about.get("stale") else ""


def _stop_daemon(daemon: Wanted, pid: int, why: str) -> None:
    """Ask the daemon of a process id to end.

    Another one that answers meanwhile is left alone. It does not wait for the end; after an error, which is ignored, it waits
    `_POLL` seconds.
    """
    try:
        line = exchange_hellos(connect(daemon.directory), "rpc", daemon)
        if line.about.get("pid") == pid:
            call_on_line(line, "daemon/stop", {"reason": why})
        line.close()
    except (OSError, ValueError, Refused):
        # It is going already; whoever listens next is asked again.
        time.sleep(_POLL)


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+", maxsplit=1)[0].split(".") if part.isdecimal())
