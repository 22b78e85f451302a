"""Relays one client's stdin and stdout to the daemon, and goes on with the next daemon when one dies. Standard library only.

Invariants
1. Every line of the client reaches a daemon: what was in flight when one died is sent again to the next, under the same
   request key, so that a write is applied once.
2. The client sees one connection: its handshake is said again to each new daemon in the client's own era, and the second
   answer is swallowed.
3. Nothing is said to stdout but what a daemon answered, and errors for lines and calls that no daemon could take.
4. Without a daemon it goes on trying for one: it never opens the store itself. While another process has the store, a child
   that never opens it either stands in: it greets the client and says to each call who has it.

Change here: what survives the daemon's death.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from memory_mcp.base import lines, machine
from memory_mcp.service.client import link

#: Set in a call's `_meta`; see the server's side for what it does.
KEY = "memory-mcp/key"
#: A call that was in flight at so many deaths is not sent again: it may be what kills. Fewer would give up calls that were
#: only slow while something else did (measured with a daemon killed every three seconds).
_DEATHS = 8
_CHUNK = 1 << 16
#: How long a daemon may take to close after the client has gone (seconds).
_LEAVE = 5.0
#: A pipe that is ready takes this much without blocking (POSIX).
_PIPE = 4096
#: A client's handshake waits so long for a daemon that does not come (seconds): clients give up after a minute.
_HANDSHAKE = 50.0
#: Between two tries for a daemon while calls wait (seconds).
_PAUSE = 0.5
#: Between two tries for a daemon while the process that has the store lives (seconds): each starts one, which ends at once.
_LOOK = 30.0
#: Waiting bytes above which one side is not read any further.
_FULL = 8 * 1024 * 1024
#: Requests of a handshake that a new daemon must hear again besides the first, by what they set.
_LASTING = {"logging/setLevel": "level", "resources/subscribe": "uri"}
_UNDONE = {"resources/unsubscribe": "resources/subscribe"}
#: By these a client greets, in one era or the other; an error for one of them would end the connection.
_GREETINGS = frozenset({"initialize", "server/discover"})
#: The code of an error for a call that no daemon could take, and how most answers begin.
_UNAVAILABLE = -32000
_USUAL = b'{"jsonrpc":"2.0","id":'


class Relay:
    """What is needed to continue a conversation with another daemon."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = 0
        self._replays = 0
        self._opening: bytes = b""
        self._opening_id = ""
        self._answered = False
        self._initialized: bytes = b""
        self._lasting: dict[tuple[str, str], dict[str, Any]] = {}
        #: Requests without an answer: id, line, how many daemons have died over it, and whether it greets.
        self._pending: dict[str, list[Any]] = {}
        self._swallow: set[str] = set()
        #: Answers of this relay itself, until they are taken out.
        self.answers: list[bytes] = []

    @property
    def waiting(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._pending)

    def from_client(self, client_line: bytes | lines.Cut) -> bytes:
        """Return a client's line for the daemon, calls with a key."""
        checked = lines.read(client_line.removesuffix(b"\n") if isinstance(client_line, bytes) else client_line)
        line, message = checked.line, checked.message
        if checked.answer:
            self.answers.append(checked.answer)
        if message is None or "method" not in message:
            return line
        method, params = message["method"], message.get("params") or {}
        if "id" not in message:
            if method == "notifications/initialized":
                self._initialized = line
            elif method == "notifications/cancelled":
                self._pending.pop(json.dumps(params.get("requestId")), None)
            return line
        if method == "tools/call":
            self._calls += 1
            meta = params.get("_meta")
            params["_meta"] = {**(meta if isinstance(meta, dict) else {}), KEY: f"{self._name}:{self._calls}"}
            message["params"] = params
            # Not escaped: the daemon bounds a line as this relay does, and escapes would make it longer.
            line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            if len(line) > lines.LONGEST + _CHUNK:
                # Numbers may be written longer than they came; the daemon would close the connection over it.
                self.answers.append(lines.too_long(message["id"]))
                return b""
        name = json.dumps(message["id"])
        if method == "initialize":
            self._opening, self._opening_id, self._answered = line, name, False
        self._note_lasting(method, params, message)
        self._pending[name] = [line, 0, method in _GREETINGS]
        return line

    def _note_lasting(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> None:
        if method in _LASTING:
            what = str(params.get("uri", "")) if method == "resources/subscribe" else ""
            self._lasting[method, what] = message
        elif method in _UNDONE:
            self._lasting.pop((_UNDONE[method], str(params.get("uri", ""))), None)

    def from_daemon(self, line: bytes) -> bytes:
        """Return a daemon's line for the client, closing what it answers."""
        name = _find_answered_id(line)
        if name is None:
            return line
        if name in self._swallow:
            self._swallow.discard(name)
            return b""
        if name == self._opening_id:
            # A client whose first greeting timed out greets in the older era too. Refused, it is not to be said again.
            self._answered = b'"result"' in line[:200]
        self._pending.pop(name, None)
        return line

    def count_death(self) -> None:
        """Count one more death of a daemon for each open request."""
        for entry in self._pending.values():
            entry[1] += 1

    def again(self) -> tuple[list[bytes], list[bytes]]:
        """Return lines for a new daemon, and errors for the client.

        Lines: handshake, what lasts, open calls. Errors: for calls given up.
        """
        self._swallow.clear()
        messages: list[bytes] = []
        if self._opening and self._answered:
            messages.append(self._opening)
            self._swallow.add(self._opening_id)
            if self._initialized:
                messages.append(self._initialized)
            for message in self._lasting.values():
                self._replays += 1
                name = f"{self._name}:again:{self._replays}"
                self._swallow.add(json.dumps(name))
                messages.append(json.dumps({**message, "id": name}, separators=(",", ":")).encode() + b"\n")
        given_up = [name for name, (_, deaths, _) in self._pending.items() if deaths >= _DEATHS]
        errors = [self._give_up(name, "the daemon ended each time this call was made") for name in given_up]
        return messages + [line for line, *_ in self._pending.values()], errors

    def give_up_all(self, why: str, but_greetings: bool = False) -> list[bytes]:
        """Return errors that give `why` for all open requests.

        These are dropped; with `but_greetings` greetings are left waiting.
        """
        return [self._give_up(name, why) for name, (*_, greets) in list(self._pending.items()) if not (greets and but_greetings)]

    def _give_up(self, name: str, why: str) -> bytes:
        del self._pending[name]
        hint = "memory-mcp doctor looks into it; nothing acknowledged is lost. A retry may help (retryable: true)."
        text = f"UNAVAILABLE: {why}. {hint}"
        error = {"jsonrpc": "2.0", "id": json.loads(name), "error": {"code": _UNAVAILABLE, "message": text}}
        return json.dumps(error, separators=(",", ":")).encode() + b"\n"


def _find_answered_id(line: bytes) -> str | None:
    """Return the id, as JSON, that a daemon's line answers."""
    head = line[:200]
    if head.startswith(_USUAL):
        # The id can be read without reading a long answer.
        token, _, tail = head[len(_USUAL) :].partition(b",")
        if tail.startswith((b'"result"', b'"error"')):
            with suppress(ValueError):
                return json.dumps(json.loads(token))
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or "method" in message or "id" not in message:
        return None
    return json.dumps(message["id"])


class Pump:
    """The loop between two descriptors and a daemon."""

    def __init__(self, daemon: link.Wanted, line: link.Line | None, stands_in: bool = False) -> None:
        self._wanted = daemon
        self._stands_in = stands_in
        self._source, self._sink = machine.End(0, reads=True), machine.End(1, reads=False)
        self._relay = Relay(os.urandom(8).hex())
        self._line: link.Line | None = line
        self._from_client, self._from_daemon = lines.Splitter(), lines.Splitter(link.LONGEST)
        self._to_daemon, self._to_client = bytearray(), bytearray()
        self._ended, self._leaves = False, 0.0
        self._began = time.monotonic()
        self._next_try, self._next_look = 0.0, self._began + _LOOK
        if line is not None:
            self._pass_on(bytes(line.rest))

    def run(self) -> None:
        """Relay until the client is gone or all is answered."""
        goes_on = True
        while goes_on:
            if self._line is None:
                if self._ended and not self._to_client:
                    break
                if self._relay.waiting and not self._ended and time.monotonic() >= self._next_try:
                    self._reconnect()
            goes_on = self._turn()
        self._sink.close()

    def _turn(self) -> bool:
        sock = self._line.sock if self._line else None
        reads: list[Any] = []
        if not self._ended and len(self._to_daemon) < _FULL:
            reads.append(self._source)
        if sock is not None and len(self._to_client) < _FULL:
            reads.append(sock)
        writes: list[Any] = ([sock] if sock is not None and self._to_daemon else []) + ([self._sink] if self._to_client else [])
        if (not reads and not writes) or (self._ended and not self._sink.listens()):
            return False
        tries = self._ended or (sock is None and self._relay.waiting)
        readable, writable, _ = select.select(reads, writes, [], _PAUSE if tries else None)
        if not readable and not writable:
            return not self._ended or time.monotonic() < self._leaves
        if self._sink in writable:
            try:
                del self._to_client[: self._sink.write(self._to_client[:_PIPE])]
            except OSError:
                return False
        if sock is not None and sock in writable:
            self._send()
        if self._source in readable:
            self._read_client()
        if self._line is not None and self._line.sock in readable:
            self._receive()
        return True

    def _read_client(self) -> None:
        """Pass on what the client sent.

        At its end let the daemon finish within `_LEAVE` seconds.
        """
        try:
            got = self._source.read(_CHUNK)
        except OSError:
            got = b""
        if self._stands_in and got:
            self._look_for_daemon()
        for line in self._from_client.feed(got) if got else [self._from_client.end()]:
            self._to_daemon += self._relay.from_client(line)
        self._to_client += b"".join(self._relay.answers)
        self._relay.answers.clear()
        if self._line is None:
            # What the relay holds as in flight is said again by `_again`; the rest has nobody to hear it.
            self._to_daemon.clear()
        if not got:
            self._ended, self._leaves = True, time.monotonic() + _LEAVE
            self._close_writing()

    def _close_writing(self) -> None:
        if self._line is not None and not self._to_daemon:
            try:
                self._line.sock.shutdown(1)
            except OSError:
                self._drop_daemon()

    def _send(self) -> None:
        assert self._line is not None
        try:
            done = self._line.sock.send(self._to_daemon[: 1 << 18])
        except BlockingIOError:
            return
        except OSError:
            self._drop_daemon()
            return
        del self._to_daemon[:done]
        if self._ended:
            self._close_writing()

    def _receive(self) -> None:
        assert self._line is not None
        try:
            got = self._line.sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self._pass_on(got)
        if not got:
            self._drop_daemon()

    def _pass_on(self, got: bytes) -> None:
        """Pass on bytes of the daemon."""
        for line in self._from_daemon.feed(got):
            if isinstance(line, lines.Cut):
                self._drop_daemon()
                return
            self._to_client += self._relay.from_daemon(line + b"\n")

    def _drop_daemon(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line, self._stands_in = None, False
        self._relay.count_death()
        self._from_daemon.end()
        self._to_daemon.clear()

    def _reconnect(self) -> None:
        try:
            line = link.reach(self._wanted, "mcp")
        except (OSError, ValueError, link.Refused) as error:
            why = str(error).rstrip(".") or "no daemon could be reached"
            patient = time.monotonic() - self._began < _HANDSHAKE and not isinstance(error, link.Refused)
            self._to_client += b"".join(self._relay.give_up_all(why, but_greetings=patient))
            self._next_try = time.monotonic() + _PAUSE
            return
        self._take_daemon(line)

    def _look_for_daemon(self) -> None:
        from memory_mcp.service.client import standin

        now = time.monotonic()
        owner_lives = machine.lives(standin.alone(self._wanted.directory))
        if owner_lives and now < self._next_look:
            return
        self._next_look = now + _LOOK
        try:
            line = link.reach(self._wanted, "mcp")
        except link.Unusable:
            return
        except (OSError, ValueError, link.Refused):
            if not owner_lives:
                # It starts slowly; the one that stands in would name a process that has ended.
                self._drop_daemon()
            return
        if self._line is not None:
            self._line.close()
        self._stands_in = False
        self._from_daemon.end()
        self._take_daemon(line)

    def _take_daemon(self, line: link.Line) -> None:
        messages, errors = self._relay.again()
        self._line = line
        self._wanted.note_identity()
        line.sock.setblocking(False)
        self._to_daemon = bytearray(b"".join(messages))
        self._to_client += b"".join(errors)
        self._pass_on(bytes(line.rest))


def run(daemon: link.Wanted, start: bool = True) -> int | None:
    """Relay stdin and stdout to the daemon until the client goes.

    Returns 0, or the exit status of a refusal, told on stderr. Where no daemon runs, `start` has one started, and tried for
    again while calls wait: a slow start would else leave this client without one for its life. None, with nothing read yet,
    where this process has to serve: no daemon starts with the settings, the directory can only be read, or there is no daemon
    and no `start`.
    """
    line: link.Line | None = None
    stands_in = False
    try:
        line = link.reach(daemon, "mcp", start)
    except link.Refused as error:
        sys.stderr.write(f"{error}\n")
        return error.status
    except (OSError, ValueError) as error:
        if not start or str(error).startswith("INVALID_ARGUMENT"):
            return None
        sys.stderr.write(f"memory-mcp: {error}\n")
        from memory_mcp.service.client import standin

        stands_in = isinstance(error, link.Unusable) or ("is in use by" in str(error) and standin.alone(daemon.directory) > 0)
        # A pair of sockets is nobody's stdin on Windows.
        reads_only = os.path.isdir(daemon.directory) and not os.access(daemon.directory, os.W_OK)
        if stands_in and (machine.WINDOWS or reads_only):
            return None
        line = standin.begin(daemon) if stands_in else None
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if line is not None:
        daemon.note_identity()
        for note in link.notes(line.about) if not stands_in else ():
            sys.stderr.write(f"memory-mcp: {note}\n")
        line.sock.setblocking(False)
    Pump(daemon, line, stands_in).run()
    return 0
