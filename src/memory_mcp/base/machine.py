"""What differs between operating systems, in one place: processes, priorities, locks, consoles, signals, private files.

Standard library only, and each part loads what it needs where it needs it: what starts with every prompt uses this.
"""

from __future__ import annotations

import os
import select
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO, Any

WINDOWS = sys.platform == "win32"
#: Flags for opening a file that is nobody's link, waits for nobody and is not inherited, as far as the system has them.
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
PRIVATE = NO_LINK | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
#: Of the Windows API: a process without a console window, in a group of its own; priorities.
_NO_WINDOW, _OWN_GROUP = 0x08000000, 0x00000200
_BELOW_NORMAL, _IDLE = 0x00004000, 0x00000040
#: Steps of `lower` from which a Windows process works only while others rest.
_FAR_BELOW = 10
_STILL_ACTIVE, _QUERY = 259, 0x1000
_CHUNK = 1 << 16
#: How long the last words may take (seconds).
_LAST_WORDS = 5.0


def owns(state: os.stat_result) -> bool:
    """Return whether a file is this user's; True without owner numbers."""
    return not hasattr(os, "getuid") or state.st_uid == os.getuid()


def peer(sock: Any) -> int | None:
    """Return the user number of a Unix socket's listener.

    None where unknown. It is asked of the system, which noted it when that process began to listen.
    """
    import _socket

    if hasattr(_socket, "SO_PEERCRED"):
        # pid, uid and gid, a 32-bit number each.
        credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[4:8], sys.byteorder)
    if sys.platform == "darwin":
        # LOCAL_PEERCRED of SOL_LOCAL: a version and the user number come first.
        credentials = sock.getsockopt(0, 1, 76)
        return int.from_bytes(credentials[4:8], sys.byteorder)
    return None


def is_foreign_peer(sock: Any) -> bool:
    """Return whether a Unix socket's listener is another user's."""
    user = peer(sock)
    return user is not None and user != os.getuid()


class Aside:
    """A private file, put in place once it is on disk.

    Use as a context manager, which gives a stream to write to, of UTF-8 where it is `text`. OSError when it cannot be
    written; whatever the block raises, nothing is left behind. Where several processes may write the same place at once, each
    names an `aside` of its own, in the same file system. Without `names` a power failure may take the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], aside: str | os.PathLike[str] = "", *, text: bool = False, names: bool = True
    ) -> None:
        """Prepare writing `path`; nothing is opened before the block begins.

        `aside` is the file written first, PLACE.new for "". `names`: whether the end waits until the
        folder's names are on disk.
        """
        self._place = os.fspath(path)
        self._aside = os.fspath(aside) or f"{self._place}.new"
        self._text = text
        self._names = names

    def __enter__(self) -> IO[Any]:
        # What a process that was killed has left.
        if os.path.lexists(self._aside):
            os.unlink(self._aside)
        descriptor = os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PRIVATE, 0o600)
        self._stream: IO[Any] = (
            os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") if self._text else os.fdopen(descriptor, "wb")
        )
        return self._stream

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with self._stream:
                if kind is None:
                    on_disk(self._stream)
            if kind is None:
                os.replace(self._aside, self._place)
        except BaseException:
            os.unlink(self._aside)
            raise
        if kind is not None:
            os.unlink(self._aside)
        elif self._names:
            sync_names(os.path.dirname(self._place))


def put(path: str | os.PathLike[str], content: bytes, aside: str | os.PathLike[str] = "") -> None:
    """Write a small private file whole, once on disk.

    Its mode is 0600. Raises OSError when that fails. `aside` is written first, PLACE.new for "", as `Aside` does.
    """
    with Aside(path, aside) as stream:
        stream.write(content)


def on_disk(stream: IO[Any]) -> None:
    """Flush a stream and wait for the disk (fsync).

    Raises OSError where that fails.
    """
    stream.flush()
    os.fsync(stream.fileno())


def sync_names(folder: str | os.PathLike[str]) -> None:
    """Wait until the names in a folder are on disk.

    Does nothing where the platform cannot, and reports no error.
    """
    try:
        descriptor = os.open(folder or ".", os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


def iter_files(folder: str | os.PathLike[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files below a folder with their states.

    Sorted within each folder; links are left out. Other processes may work in it: what vanishes meanwhile, or cannot be looked
    at, is left out, too.
    """
    for parent, folder_names, file_names in os.walk(folder):
        folder_names.sort()
        for name in sorted(file_names):
            path = os.path.join(parent, name)
            try:
                state = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(state.st_mode):
                yield path, state


def size_of(path: str | os.PathLike[str]) -> int:
    """Return the bytes of a file or a folder's files."""
    try:
        state = os.stat(path)
    except OSError:
        return 0
    return sum(file_state.st_size for _, file_state in iter_files(path)) if stat.S_ISDIR(state.st_mode) else state.st_size


def ancestors(most: int = 6) -> list[int]:
    """Return the processes above this one, the nearest first."""
    pids = [os.getppid()]
    try:
        while len(pids) < most and pids[-1] > 1:
            with open(f"/proc/{pids[-1]}/stat", "rb") as stream:
                pids.append(int(stream.read().rpartition(b")")[2].split()[1]))
    except (OSError, ValueError, IndexError):
        return pids
    return [pid for pid in pids if pid > 1]


def lower(steps: int) -> None:
    """Lower this process's priority for good, by `steps` of niceness."""
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.windll.kernel32
        kernel.SetPriorityClass(kernel.GetCurrentProcess(), _IDLE if steps >= _FAR_BELOW else _BELOW_NORMAL)
    else:
        os.nice(steps)


def group_options(platform: str = sys.platform) -> dict[str, Any]:
    """Return `Popen` arguments for a process group in this terminal.

    A key stroke meant for this process (Ctrl-C) does not reach it. They are {"process_group": 0}, on
    Windows {"creationflags": flags}, there without a console window.
    """
    return {"creationflags": _NO_WINDOW | _OWN_GROUP} if platform == "win32" else {"process_group": 0}


def apart(platform: str = sys.platform) -> dict[str, Any]:
    """Return `Popen` arguments for a child without this terminal.

    They are {"start_new_session": True}, on Windows {"creationflags": flags}, there without a console window.
    """
    return {"creationflags": _NO_WINDOW | _OWN_GROUP} if platform == "win32" else {"start_new_session": True}


def ending_signals() -> list[signal.Signals]:
    """Return the signals that ask a process to end."""
    import signal

    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
    return [number for name in names if (number := getattr(signal, name, None)) is not None]


def lives(pid: int) -> bool:
    """Return whether a process of this user runs.

    A zombie does not, and another user's process counts as none.
    """
    if sys.platform == "win32":
        return _lives_on_windows(pid)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        # No /proc here: the signal's word counts.
        return not os.path.isdir("/proc/self")


def _lives_on_windows(pid: int) -> bool:
    import ctypes

    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined, unused-ignore]
    handle = kernel.OpenProcess(_QUERY, False, pid)
    if not handle:
        return False
    status = ctypes.c_ulong()
    kernel.GetExitCodeProcess(handle, ctypes.byref(status))
    kernel.CloseHandle(handle)
    return status.value == _STILL_ACTIVE


def lock(handle: int, *, shared: bool = False) -> None:
    """Lock an open file for this process until it is closed.

    `handle` is its descriptor. With `shared` others may share it, and nobody may have it alone; on Windows there is no such
    lock, and only the file's next byte is locked. Raises OSError at once when another has it.
    """
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


class Started:
    """A process that this one started and that outlives it."""

    def __init__(self, pid: int, popen: Any = None) -> None:
        self.pid = pid
        self._popen = popen
        self._status: int | None = None

    def ended(self) -> int | None:
        """Return the exit status without waiting, None while it runs.

        A signal is a negative number. Without a Popen the system is asked with `waitpid`: the process must be this one's child.
        """
        if self._popen is not None:
            status: int | None = self._popen.poll()
            return status
        if self._status is None:
            # The system tells it once.
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status


def start(words: Sequence[str], environ: Mapping[str, str], log: str) -> Started:
    """Start a process in a session of its own.

    No signal to this group reaches it. Its output and errors go to the end of the file `log`, made with mode 0600 and no link;
    its input is empty. Raises OSError when it cannot be started.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK
    if not hasattr(os, "posix_spawn"):
        import subprocess

        log_file = os.open(log, flags, 0o600)
        try:
            nothing = subprocess.DEVNULL
            popen = subprocess.Popen(list(words), stdin=nothing, stdout=log_file, stderr=log_file, env=dict(environ), **apart())
        finally:
            os.close(log_file)
        return Started(popen.pid, popen)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return Started(os.posix_spawn(words[0], list(words), dict(environ), file_actions=actions, setsid=True))


def listens(file: int) -> bool:
    """Return whether somebody still reads a pipe or socket."""
    if not hasattr(select, "poll"):
        return True
    look = select.poll()
    look.register(file, 0)
    return not any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in look.poll(0))


class End:
    """An end of a pipe as `select` takes it.

    The file itself, or where it takes sockets alone, one that a thread serves.
    """

    def __init__(self, file: int, reads: bool, platform: str = sys.platform) -> None:
        self._file = file
        self._sock: socket.socket | None = None
        if platform == "win32":
            import socket
            import threading

            self._sock, other = socket.socketpair()
            work = self._hand_in if reads else self._hand_out
            self._thread = threading.Thread(target=work, args=(other,), name="pipe", daemon=True)
            self._thread.start()

    def fileno(self) -> int:
        """Return the number that `select` takes."""
        return self._file if self._sock is None else self._sock.fileno()

    def read(self, size: int) -> bytes:
        """Return what is there, waiting for it, at most `size` bytes."""
        return os.read(self._file, size) if self._sock is None else self._sock.recv(size)

    def write(self, data: bytes | bytearray) -> int:
        """Write some of the data and return how many bytes.

        Raises OSError when nobody listens.
        """
        return os.write(self._file, data) if self._sock is None else self._sock.send(data)

    def listens(self) -> bool:
        """Return whether somebody still reads what is written to the file."""
        return listens(self._file)

    def close(self) -> None:
        """Close the socket and wait `_LAST_WORDS` seconds for its thread.

        So that it passes on what was written. The file itself stays open; nothing happens where there is no thread.
        """
        if self._sock is not None:
            self._sock.close()
            self._thread.join(_LAST_WORDS)

    def _hand_in(self, other: socket.socket) -> None:
        """Pass on from the file to `other` (thread)."""
        with other:
            try:
                while got := os.read(self._file, _CHUNK):
                    other.sendall(got)
            except OSError:
                return

    def _hand_out(self, other: socket.socket) -> None:
        """Pass on from `other` to the file (thread)."""
        with other:
            try:
                while got := other.recv(_CHUNK):
                    while got:
                        got = got[os.write(self._file, got) :]
            except OSError:
                return
