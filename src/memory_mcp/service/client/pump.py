"""Relays one client's stdin and stdout to the daemon, and goes on with the next daemon when one dies. Standard library only.

Invariants
1. Every line of the client reaches a daemon, but what `handshake` answers in its place (see `relay`).
2. Nothing is said to stdout but what a daemon answered, and errors for lines and calls that no daemon could take.
3. Without a daemon it goes on trying for one: it never opens the store itself. While another process has the store, a child
   that never opens it either stands in: it greets the client and says to each call who has it.
"""

import os
import select
import signal
import socket
import sys
import threading
import time
from typing import Any

from memory_mcp.base import lines, machine
from memory_mcp.service.client import handshake, link
from memory_mcp.service.client.relay import Relay

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


class _Arrival:
    """Reaches the daemon in a thread, so that the client is answered meanwhile."""

    def __init__(self, daemon: link.Wanted) -> None:
        self._daemon = daemon
        self._line: link.Line | None = None
        self._error: Exception | None = None
        #: Can be read from once the daemon is reached, or cannot be.
        self.done, self._end = socket.socketpair()
        threading.Thread(target=self._reach_daemon, name="reaching", daemon=True).start()

    def _reach_daemon(self) -> None:
        try:
            self._line = link.reach_daemon(self._daemon, "mcp")
        except Exception as error:
            self._error = error
        self._end.close()

    def take_line(self) -> link.Line:
        """Return the connection; raises what reaching it raised."""
        self.done.close()
        if self._line is None:
            raise self._error or OSError("no daemon could be reached")
        return self._line


class Pump:
    """The loop between two descriptors and a daemon."""

    def __init__(
        self,
        daemon: link.Wanted,
        line: link.Line | None,
        stands_in: bool = False,
        saved: handshake.SavedAnswers | None = None,
    ) -> None:
        """Relay to a connected daemon, or with `saved` answers to one that is reached meanwhile."""
        self._wanted = daemon
        self._arrival = _Arrival(daemon) if saved else None
        self._status = 0
        self._stands_in = stands_in
        self._source, self._sink = machine.End(0, reads=True), machine.End(1, reads=False)
        self._relay = Relay(os.urandom(8).hex(), saved)
        self._line: link.Line | None = line
        self._from_client, self._from_daemon = lines.Splitter(), lines.Splitter(link.LONGEST)
        self._to_daemon, self._to_client = bytearray(), bytearray()
        self._ended, self._leaves = False, 0.0
        self._began = time.monotonic()
        self._next_try, self._next_look = 0.0, self._began + _LOOK
        if line is not None:
            self._pass_on(bytes(line.rest))

    def run(self) -> int:
        """Relay until the client is gone or all is answered.

        Returns the exit status: that of a refusal, else 0.
        """
        goes_on = True
        while goes_on:
            if self._line is None and not (self._arrival and self._relay.waiting):
                if self._ended and not self._to_client:
                    break
                if self._relay.waiting and not self._ended and time.monotonic() >= self._next_try:
                    self._reconnect()
            goes_on = self._move_data()
        self._sink.close()
        return self._status

    def _move_data(self) -> bool:
        sock = self._line.sock if self._line else None
        reads: list[Any] = [self._arrival.done] if self._arrival else []
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
            return not self._ended or self._arrival is not None or time.monotonic() < self._leaves
        if self._arrival and self._arrival.done in readable:
            self._meet_daemon(self._arrival)
        if self._sink in writable:
            try:
                del self._to_client[: self._sink.write(self._to_client[:_PIPE])]
            except OSError:
                return False
        if sock is not None and sock in writable:
            self._write_daemon()
        if self._source in readable:
            self._read_client()
        if self._line is not None and self._line.sock in readable:
            self._read_daemon()
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

    def _write_daemon(self) -> None:
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

    def _read_daemon(self) -> None:
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

    def _meet_daemon(self, arrival: _Arrival) -> None:
        """Go on with the daemon that was reached, or with what stands in for it."""
        self._arrival, self._relay.saved = None, None
        self._leaves = time.monotonic() + _LEAVE
        try:
            line = arrival.take_line()
        except link.Refused as error:
            sys.stderr.write(f"{error}\n")
            self._to_client += b"".join(self._relay.give_up_all(str(error)))
            self._ended, self._status = True, error.status
        except Exception as error:
            sys.stderr.write(f"memory-mcp: {error}\n")
            from memory_mcp.service.client import standin

            if standin.is_needed(self._wanted, error) and not machine.WINDOWS:
                self._stands_in = True
                self._take_daemon(standin.start_stand_in(self._wanted))
        else:
            _print_notes(line)
            self._take_daemon(line)

    def _reconnect(self) -> None:
        try:
            line = link.reach_daemon(self._wanted, "mcp")
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
        owner_lives = machine.lives(standin.read_owner_process(self._wanted.directory))
        if owner_lives and now < self._next_look:
            return
        self._next_look = now + _LOOK
        try:
            line = link.reach_daemon(self._wanted, "mcp")
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
        messages, errors = self._relay.take_replay()
        self._line = line
        self._wanted.note_identity()
        line.sock.setblocking(False)
        self._to_daemon = bytearray(b"".join(messages))
        self._to_client += b"".join(errors)
        self._pass_on(bytes(line.rest))


def run(daemon: link.Wanted, start: bool = True) -> int | None:
    """Relay stdin and stdout to the daemon until the client goes.

    Returns 0, or the exit status of a refusal, told on stderr. Where no daemon runs, `start` has one started, and tried for
    again while calls wait: a slow start would else leave this client without one for its life. Where the last daemon's answers
    to a handshake still hold, the client gets them meanwhile. None, with nothing read yet, where this process has to serve: no
    daemon starts with the settings, the directory can only be read, or there is no daemon and no `start`.
    """
    line: link.Line | None = None
    stands_in = False
    results = handshake.load_results(daemon.directory, handshake.compute_fingerprint(daemon.settings)) if start else {}
    saved = handshake.SavedAnswers(results) if results and os.access(daemon.directory, os.W_OK) else None
    try:
        line = None if saved else link.reach_daemon(daemon, "mcp", start)
    except link.Refused as error:
        sys.stderr.write(f"{error}\n")
        return error.status
    except (OSError, ValueError) as error:
        if not start or str(error).startswith("INVALID_ARGUMENT"):
            return None
        sys.stderr.write(f"memory-mcp: {error}\n")
        from memory_mcp.service.client import standin

        stands_in = standin.is_needed(daemon, error)
        # A pair of sockets is nobody's stdin on Windows.
        reads_only = os.path.isdir(daemon.directory) and not os.access(daemon.directory, os.W_OK)
        if stands_in and (machine.WINDOWS or reads_only):
            return None
        line = standin.start_stand_in(daemon) if stands_in else None
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if line is not None:
        daemon.note_identity()
        if not stands_in:
            _print_notes(line)
        line.sock.setblocking(False)
    return Pump(daemon, line, stands_in, saved).run()


def _print_notes(line: link.Line) -> None:
    for note in link.describe_daemon(line.about):
        sys.stderr.write(f"memory-mcp: {note}\n")
