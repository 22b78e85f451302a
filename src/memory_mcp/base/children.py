"""Child processes of low priority, and the frames they exchange with this one over pipes; they end when their parent does.

A child never opens the store: what it needs is sent to it, and what it makes comes back, in small frames, because taking
one apart holds the interpreter's lock. Why this is no pool of the standard library: docs/decisions/0013-pipes-to-children.md.
"""

import gc
import importlib
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from typing import IO, TYPE_CHECKING, Any

from memory_mcp.base import machine

if TYPE_CHECKING:
    from concurrent.futures import Future

_LENGTH = 8
#: Requests of `feed` that a child has at most before its answer to the first of them has come.
_AHEAD = 6
#: Far below whatever somebody waits for.
_NICE = 10
#: Linux shares processors among sessions before it looks at niceness; the niceness of a session, on systems that have it. It is
#: taken once in a tenth of a second from all processes together: how often it is tried, and how long between two tries (seconds).
_SESSION_NICE, _TRIES, _PAUSE = "/proc/self/autogroup", 20, 0.15
#: How long a child may take to end once its input is closed (seconds).
_GRACE = 2.0


class Packed(bytes):
    """A value that several children get: pickled once."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> "Packed":
        """Return a value as its pickle for `send`."""
        return cls(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def send(stream: IO[bytes], value: object) -> None:
    """Write one frame and flush it.

    Length in 8 bytes, then the pickle, a Packed as it is. OSError where the other side has gone.
    """
    data = value if isinstance(value, Packed) else Packed.of(value)
    stream.write(len(data).to_bytes(_LENGTH, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> object:
    """Return the value of the next frame, unpickled, waiting for it.

    Raises EOFError when the other side has gone.
    """
    return pickle.loads(_read_frame(stream))


def _read_frame(stream: IO[bytes]) -> bytes:
    """Return the pickle of the next frame, waiting for it.

    Raises EOFError at the end or within a frame.
    """
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "little")
    data = stream.read(size) if len(head) == _LENGTH else b""
    if not data or len(data) < size:
        raise EOFError("the other process has ended")
    return data


#: Of those within `few_collections` now, and what held before the first of them.
_few: list[tuple[int, int, int]] = []
_few_lock = threading.Lock()


@contextmanager
def few_collections() -> Iterator[None]:
    """Have garbage collected rarely while the block runs.

    Bulk work makes millions of objects and no cycles. Looking for them took a tenth of the time. Threads may be within it side
    by side; the last to leave puts back what held before the first.
    """
    with _few_lock:
        _few.append(_few[-1] if _few else gc.get_threshold())
        gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        with _few_lock:
            thresholds = _few.pop()
            if not _few:
                gc.set_threshold(*thresholds)


#: Children that were not ended yet.
_running: "set[Child]" = set()


def kill_all() -> None:
    """Kill every child that still runs, without waiting."""
    for child in [*_running]:
        child.kill()


class Child:
    """A process that answers requests by a function of ours.

    It calls `begin` of a module of this package with `hello`, and then what that returned with each request. Use as a context
    manager, or call `end`.
    """

    def __init__(self, module: str, hello: object) -> None:
        # Loaded where a child is started, not in the child: that costs it a tenth of its start.
        import subprocess
        from concurrent.futures import Future

        # stderr goes where this process's own goes; -P as the working directory may hold modules of any name.
        command = [sys.executable, "-P", "-m", "memory_mcp.base.children", module]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **machine.apart())
        _running.add(self)
        #: Has a result once the child has loaded what it needs, half a second the first time; EOFError if it never will.
        self.begun: Future[Any] = Future()
        self._answers = deque([self.begun])
        self._gone: Exception | None = None
        self._lock = threading.Lock()
        #: None ends the input.
        self._requests: queue.SimpleQueue[Packed | None] = queue.SimpleQueue()
        self._requests.put(Packed.of(hello))
        self._threads = [threading.Thread(target=work, name="child", daemon=True) for work in (self._write, self._read_answers)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def waiting(self) -> int:
        """The number of frames without an answer, the hello included."""
        return len(self._answers)

    def submit(self, request: object) -> "Future[Any]":
        """Send a request; return its answer as a future.

        Answers come in the order of the requests. The future raises what the child's work raised, and OSError or EOFError if the
        child has gone, before this call too. Raises what pickling the request raises.
        """
        from concurrent.futures import Future

        data = request if isinstance(request, Packed) else Packed.of(request)
        answer: Future[Any] = Future()
        with self._lock:
            gone = self._gone
            if gone is None:
                self._answers.append(answer)
                self._requests.put(data)
        if gone is not None:
            answer.set_exception(gone)
        return answer

    def ask(self, request: object) -> Any:
        """Send a request, wait for its answer and return it.

        Raises what the work raised, OSError or EOFError without a child.
        """
        return self.submit(request).result()

    def kill(self) -> None:
        """Kill the process, whatever it does."""
        self._process.kill()

    def end(self, *, at_once: bool = False) -> None:
        """Close the child's input, which ends it, and wait for that.

        A second call does nothing. It is killed after `_GRACE` seconds, because it may be stopped; with `at_once`, or while it
        is still loading, it is killed right away. Answers that are still open raise then.
        """
        late = threading.Timer(_GRACE, self.kill)
        late.daemon = True
        if at_once or not self.begun.done():
            self.kill()
        else:
            late.start()
        self._requests.put(None)
        self._process.wait()
        late.cancel()
        _running.discard(self)
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        """Send requests until None or the child's end (thread)."""
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError), pipe:
            while (request := self._requests.get()) is not None:
                send(pipe, request)

    def _read_answers(self) -> None:
        """Hand each answer to its future (thread)."""
        pipe = self._process.stdout
        assert pipe is not None
        try:
            with pipe:
                while True:
                    answer = receive(pipe)
                    future = self._answers.popleft()
                    if isinstance(answer, BaseException):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        except Exception as error:
            # Where the next answer would begin is unknown.
            self.kill()
            with self._lock:
                self._gone = error
            while self._answers:
                self._answers.popleft().set_exception(error)


def feed(groups: Sequence[Sequence[Child]], requests: Iterable[object]) -> Iterator[tuple[int, Any]]:
    """Give each request to one child of every group; yield (index of the group, answer).

    Whichever has room; every child's answers are yielded as they come. The groups are of one size. A child has at most `_AHEAD`
    requests at once; the next request is taken only when there is room. Raises what a child raised, OSError or EOFError if one
    has gone.
    """
    rooms: list[queue.SimpleQueue[tuple[Child, Future[Any] | None]]] = [queue.SimpleQueue() for _ in groups]
    for group, room in zip(groups, rooms, strict=True):
        for child in [*group] * _AHEAD:
            room.put((child, None))
    for packed in chain(map(Packed.of, requests), repeat(None, _AHEAD * len(groups[0]))):
        for index, room in enumerate(rooms):
            child, answer = room.get()
            if answer is not None:
                yield index, answer.result()
            if packed is not None:
                child.submit(packed).add_done_callback(partial(_free_place, room, child))


def _free_place(room: "queue.SimpleQueue[Any]", child: Child, answer: "Future[Any]") -> None:
    room.put((child, answer))


def answering(begin: Callable[[Any], Callable[[Any], object]]) -> None:
    """Run a child's whole life; never return.

    It calls `begin` with the hello, then answers each frame until the parent has gone. An error of the work is the answer to its
    frame; one of `begin` ends the child with a traceback. Ends the process at once (os._exit): what is left unwritten for a
    parent that has gone would be said to be lost at an ordinary end.
    """
    # Else it ends with a traceback, which an import's child writes to the terminal of whoever started that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    machine.lower(_NICE)
    if sys.platform == "linux" and os.getsid(0) == os.getpid():
        threading.Thread(target=_lower_session, name="priority", daemon=True).start()
    # Opened anew: where PYTHONUNBUFFERED is set, those of `sys` write once and forget what a signal left unwritten.
    source, sink = open(0, "rb", closefd=False), open(1, "wb", closefd=False)  # noqa: SIM115 - for as long as it lives
    # Nothing that prints may come between the frames.
    sys.stdout = sys.stderr
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        """Queue each frame (thread); the input's end ends the process."""
        with suppress(EOFError, OSError):
            while True:
                requests.put(_read_frame(source))
        _end()

    with few_collections(), suppress(OSError):
        threading.Thread(target=read, name="requests", daemon=True).start()
        work = begin(pickle.loads(requests.get()))
        send(sink, "ready")
        while True:
            request = pickle.loads(requests.get())
            try:
                answer: object = work(request)
            except Exception as error:
                answer = error
            send(sink, answer)
    _end()


def _lower_session() -> None:
    """Lower the priority of this child's session, which is its own (thread)."""
    for _ in range(_TRIES):
        try:
            session = os.open(_SESSION_NICE, os.O_WRONLY)
            try:
                os.write(session, str(_NICE).encode("ascii"))
            finally:
                os.close(session)
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:
            return
        else:
            return


def _end() -> None:
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    # By its own name, since what the child works with imports that, too.
    importlib.import_module("memory_mcp.base.children").answering(importlib.import_module(sys.argv[1]).begin)
