"""Child processes of low priority, and the frames they exchange with this one over pipes; they end when their parent does.

A child never opens the store: what it needs is sent to it, and what it makes comes back, in small frames, because taking
one apart holds the interpreter's lock.
"""

import gc
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from memory_mcp import machine

_LENGTH = 8
#: Requests that are made, and that are sent, before the answer to an earlier one has come.
_AHEAD = 3
#: Far below whatever somebody waits for.
_NICE = 10
#: How long a child may take to end once its input is closed (seconds).
_GRACE = 2.0
#: Of a child, who started it; anybody else may outlive its starter.
_parent: int | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A value that several children get: pickled once."""

    data: bytes

    @classmethod
    def of(cls, value: object) -> "Packed":
        """A value's pickle."""
        return cls(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def send(stream: IO[bytes], value: object) -> None:
    """One frame: its length, then its pickle."""
    data = value.data if isinstance(value, Packed) else Packed.of(value).data
    stream.write(len(data).to_bytes(_LENGTH, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> object:
    """The next frame; EOFError when the other side has gone."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "little")
    data = stream.read(size) if len(head) == _LENGTH else b""
    if not data or len(data) < size:
        raise EOFError("the other process has ended")
    return pickle.loads(data)


def end_without_parent() -> None:
    """Raise EOFError in a child whose parent has gone: for work that takes minutes. Elsewhere nothing happens."""
    if _parent is not None and os.getppid() != _parent:
        raise EOFError("the other process has ended")


#: Of those within `few_collections` now, and what held before the first of them.
_few: list[tuple[int, int, int]] = []
_few_lock = threading.Lock()


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage rarely: bulk work and imports make millions of objects and no cycles; looking for them cost a tenth.

    Threads may be within it side by side; the last to leave puts back what held before the first.
    """
    with _few_lock:
        _few.append(_few[-1] if _few else gc.get_threshold())
        gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        with _few_lock:
            before = _few.pop()
            if not _few:
                gc.set_threshold(*before)


#: Children that were not ended yet.
_running: "set[Child]" = set()


def kill_all() -> None:
    """Kill every child that still runs, for a process that is about to end without `Child.end`."""
    for child in [*_running]:
        child.kill()


class Child:
    """One process that runs a module of this package; the module's `main` is `answering` with what it does."""

    def __init__(self, module: str, hello: object) -> None:
        # stderr goes where this process's own goes; -P as the working directory may hold modules of any name.
        command = [sys.executable, "-P", "-m", module]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **machine.grouped())
        _running.add(self)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._ready = False
        #: One caller at a time talks to it.
        self.turn = threading.Lock()
        send(self._input, hello)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, a signal as a negative number; None while it runs."""
        return self._process.poll()

    def begin(self) -> None:
        """Wait until it has loaded what it needs: half a second the first time. OSError or EOFError when it has gone."""
        if not self._ready:
            receive(self._output)
            self._ready = True

    def ask(self, request: object) -> object:
        """What it answers; raises what it raised there, OSError or EOFError when it has gone."""
        send(self._input, request)
        return self._answer()

    def ask_all(self, requests: Iterable[object]) -> Iterator[object]:
        """Its answers to several requests in order; it always has the next while it works on one, and one more is made."""
        waiting = 0
        for request in _ahead(requests):
            send(self._input, request)
            waiting += 1
            if waiting > _AHEAD:
                yield self._answer()
                waiting -= 1
        for _ in range(waiting):
            yield self._answer()

    def _answer(self) -> object:
        answer = receive(self._output)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self) -> None:
        """Kill the process, whatever it does; nothing happens when it has ended."""
        self._process.kill()

    def end(self, *, at_once: bool = False) -> None:
        """Close its input and wait for its end; a second call does nothing.

        It is killed after two seconds, because it may be stopped or busy; `at_once`, or while it is still loading, now.
        """
        # Closing waits for a thread that is writing to it, and that thread for a child that does not read.
        late = threading.Timer(_GRACE, self.kill)
        late.daemon = True
        if at_once or not self._ready:
            self.kill()
        else:
            late.start()
        with suppress(OSError):
            self._input.close()
        self._process.wait()
        late.cancel()
        _running.discard(self)
        # Whoever still reads from it has met its end by now.
        with self.turn:
            self._output.close()


def answering(begin: Callable[[object], Callable[[object], object]]) -> None:
    """A child's whole life: `begin` with the hello, then an answer to each frame until the parent has gone.

    Ends the process: what is left unwritten for a parent that has gone would be said to be lost at an ordinary end.
    """
    global _parent
    _parent = os.getppid()
    # Else it ends with a traceback, which an import's child writes to the terminal of whoever started that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    machine.lower(_NICE)
    # Opened anew: where PYTHONUNBUFFERED is set, those of `sys` write once and forget what a signal left unwritten.
    source, sink = open(0, "rb", closefd=False), open(1, "wb", closefd=False)  # noqa: SIM115 - for as long as it lives
    # Nothing that prints may come between the frames.
    sys.stdout = sys.stderr
    with few_collections(), suppress(EOFError, OSError):
        work = begin(receive(source))
        send(sink, "ready")
        _answer_all(work, source, sink)
    sys.stderr.flush()
    os._exit(0)


def _answer_all(work: Callable[[object], object], source: IO[bytes], sink: IO[bytes]) -> None:
    while True:
        try:
            request = receive(source)
        except EOFError:
            return
        try:
            answer: object = work(request)
        except Exception as error:
            answer = error
        try:
            send(sink, answer)
        except OSError:
            return


def _ahead(requests: Iterable[object]) -> Iterator[object]:
    """The same, made in a thread of its own while the ones before are being sent; what making one raises comes here."""
    made: queue.Queue[tuple[object, BaseException | None]] = queue.Queue(_AHEAD)
    ended = threading.Event()
    end = object()

    def put(value: object, error: BaseException | None = None) -> bool:
        while not ended.is_set():
            with suppress(queue.Full):
                made.put((value, error), timeout=0.2)
                return True
        return False

    def make() -> None:
        try:
            for request in requests:
                if not put(request):
                    return
            put(end)
        except BaseException as error:
            put(end, error)

    threading.Thread(target=make, name="reading ahead", daemon=True).start()
    try:
        while True:
            value, error = made.get()
            if error is not None:
                raise error
            if value is end:
                return
            yield value
    finally:
        ended.set()
