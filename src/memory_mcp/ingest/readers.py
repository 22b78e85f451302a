"""Tasks of an import, read and cleaned by child processes, one per core; their parts come out in the order of the tasks.

Invariants
1. Parts come in the same order, and hold the same, however many processes read.
2. So many files wait to be stored at most, whatever the size of the import.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.base.children import Child
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.ingest.base import Importer, ImportReport
from memory_mcp.ingest.capture import Capture
from memory_mcp.ingest.gate import Gate
from memory_mcp.ingest.handover import Writer
from memory_mcp.ingest.pipeline import Task, reading

#: Complete files, of some megabytes each, that wait to be stored at most.
_MOST_WAITING = 12
#: Bytes from which child processes pay: each takes a third of a second to begin.
_MUCH = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message to a child process."""

    importer: Importer
    #: Where its files go, and how their names begin.
    folder: Path
    token: str
    #: What is never recorded.
    capture: Capture


@dataclass(frozen=True, slots=True)
class Part:
    """A step of a task."""

    #: A complete file; "" when there is none.
    name: str
    #: The file that is being read, and how much of the task is done (0..1).
    file: Path
    done: float
    #: What the whole task did; with its last step.
    report: ImportReport | None = None


@dataclass(frozen=True, slots=True)
class Numbered:
    """A task and its place among all."""

    number: int
    task: Task


def parts(hello: Hello, numbered: Numbered, gate: Gate) -> Iterator[Part]:
    """Yield the parts of a task as it is read: its complete files, then one with the report. Raises what reading raises."""
    task = numbered.task
    writer = Writer(hello.folder, hello.token, numbered.number, hello.importer.name)
    report = ImportReport()
    at, done = task.files[0].path, 0.0

    def tell(_: ImportReport, file: Path, fraction: float) -> None:
        """Note which file is read and how much of the task is done."""
        nonlocal at, done
        at, done = file, fraction

    for _ in reading(task, hello.importer, writer, writer, gate, report, tell):
        while writer.complete:
            yield Part(writer.complete.pop(0), at, done)
    writer.flush()
    while writer.complete:
        yield Part(writer.complete.pop(0), at, done)
    yield Part("", at, 1.0, report)


def begin(hello: Hello) -> Callable[[Numbered | None], Part]:
    """Return what a child process does: it answers a task with its first part, and None with the next part."""
    gate = Gate(hello.capture)
    under_way: Iterator[Part] = iter(())

    def answer(numbered: Numbered | None) -> Part:
        """Return the next part of the task under way, or the first one of a new task."""
        nonlocal under_way
        if numbered is not None:
            under_way = parts(hello, numbered, gate)
        return next(under_way)

    return answer


class Readers:
    """Reads tasks ahead of the thread that stores them. Use as a context manager, which ends the children."""

    def __init__(self, hello: Hello, tasks: Sequence[Task]) -> None:
        """Take on the tasks of an import; children are started on entering."""
        self._hello = hello
        self._tasks = [Numbered(n, t) for n, t in enumerate(tasks)]
        self._made: list[deque[Part]] = [deque() for _ in tasks]
        self._next = self._current = self._waiting = 0
        self._failed: BaseException | None = None
        self._changed = threading.Condition()
        self._ended = False
        self._children: list[Child] = []

    def __enter__(self) -> "Readers":
        """Start a child per core, fewer for fewer tasks or if the system starts no more, none below 8 MB; return self."""
        if sum(t.task.size for t in self._tasks) >= _MUCH:
            try:
                for _ in range(min(os.cpu_count() or 1, len(self._tasks))):
                    self._children.append(Child("memory_mcp.ingest.readers", self._hello))
            except OSError:
                # As many as there could be had read.
                pass
            except KeyboardInterrupt:
                self._end(at_once=True)
                raise
        for child in self._children:
            threading.Thread(target=self._feed, args=(child,), name="reading", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the children; what they are reading is dropped if the import failed or was stopped."""
        self._end(at_once=kind is not None)

    def _end(self, *, at_once: bool) -> None:
        """End the children, at once or when their task is read, and wake who waits for them."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for child in self._children:
            child.end(at_once=at_once)

    def parts(self) -> Iterator[tuple[Task, Part]]:
        """Yield (task, part) for every part, in the order of the tasks; blocks until the next is read.

        Raises SourceUnreadable when a child has died, and what reading raised in one.
        """
        if not self._children:
            gate = Gate(self._hello.capture)
            for numbered in self._tasks:
                yield from ((numbered.task, part) for part in parts(self._hello, numbered, gate))
            return
        for numbered in self._tasks:
            while True:
                part = self._take(numbered.number)
                yield numbered.task, part
                if part.report is not None:
                    break

    def _take(self, number: int) -> Part:
        """Return the next part of a task, waited for; the previous one is stored by now. Raises what made the reading fail."""
        with self._changed:
            self._current = number
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._made[number] or self._failed is not None)
            if not self._made[number]:
                assert self._failed is not None
                raise self._failed
            part = self._made[number].popleft()
            self._waiting -= bool(part.name)
            return part

    def _feed(self, child: Child) -> None:
        """Have a child read task after task until none is left; its error, or its end, becomes the error of the whole reading."""
        try:
            child.begun.result()
            while (numbered := self._claim()) is not None:
                part: Part = child.ask(numbered)
                while self._give(numbered.number, part) and part.report is None:
                    part = child.ask(None)
        except (OSError, EOFError, ValueError):
            hint = "What was acknowledged is stored; run the command again to go on."
            self._fail(SourceUnreadable("a process that reads files has ended", hint))
        except BaseException as error:
            self._fail(error)

    def _claim(self) -> Numbered | None:
        """Return the next task that no child has; None when there is none, or reading has ended or failed."""
        with self._changed:
            if self._ended or self._failed is not None or self._next == len(self._tasks):
                return None
            self._next += 1
            return self._tasks[self._next - 1]

    def _give(self, number: int, part: Part) -> bool:
        """Add a part of the task `number`, and wait until another may wait; return False when reading was ended meanwhile.

        There is room for 12 complete files in all; the task being stored has room for 12 parts of its own besides.
        """
        with self._changed:
            self._made[number].append(part)
            self._waiting += bool(part.name)
            self._changed.notify_all()
            self._changed.wait_for(
                # The task that is being stored goes on while others fill the room: they wait for it.
                lambda: (
                    self._ended
                    or self._waiting < _MOST_WAITING
                    or (number == self._current and len(self._made[number]) < _MOST_WAITING)
                )
            )
            return not self._ended

    def _fail(self, error: BaseException) -> None:
        """Note an error, unless one was noted before, and wake who waits for parts."""
        with self._changed:
            self._failed = self._failed or error
            self._changed.notify_all()
