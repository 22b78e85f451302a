"""Tasks of an import, read and cleaned by child processes, one per core; their parts come out in the order of the tasks.

Invariants
1. Parts come in the same order, and hold the same, however many processes read.
2. So many files wait to be stored at most, whatever the size of the import.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from memory_mcp.base.children import Child
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.capture.exclusions import CaptureRules
from memory_mcp.capture.gate import Gate
from memory_mcp.capture.handover import SliceWriter
from memory_mcp.capture.pipeline import Task, read_task
from memory_mcp.importers.base import Importer, ImportReport

#: Complete files, of some megabytes each, that wait to be stored at most.
_MOST_WAITING = 12
#: Bytes from which child processes pay: each takes a third of a second to begin.
_MUCH = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChildSetup:
    """The first message to a child process."""

    importer: Importer
    #: Where its files go, and how their names begin.
    folder: Path
    token: str
    #: What is never recorded.
    capture: CaptureRules


@dataclass(frozen=True, slots=True)
class TaskStep:
    """A step of a task."""

    #: A complete file; "" when there is none.
    name: str
    #: The file that is being read, and how much of the task is done (0..1).
    file: Path
    done: float
    #: What the whole task did; with its last step.
    report: ImportReport | None = None


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """A task and its place among all."""

    number: int
    task: Task


def iter_steps(hello: ChildSetup, numbered: NumberedTask, gate: Gate) -> Iterator[TaskStep]:
    """Yield a task's complete files, then a step with its report.

    Raises what reading raises.
    """
    task = numbered.task
    writer = SliceWriter(hello.folder, hello.token, numbered.number, hello.importer.name)
    report = ImportReport()
    at, done = task.files[0].path, 0.0

    def tell(_: ImportReport, file: Path, fraction: float) -> None:
        nonlocal at, done
        at, done = file, fraction

    for _ in read_task(task, hello.importer, writer, writer, gate, report, tell):
        while writer.complete_files:
            yield TaskStep(writer.complete_files.pop(0), at, done)
    writer.flush()
    while writer.complete_files:
        yield TaskStep(writer.complete_files.pop(0), at, done)
    yield TaskStep("", at, 1.0, report)


def begin(hello: ChildSetup) -> Callable[[NumberedTask | None], TaskStep]:
    """Return what a child process answers to tasks.

    A task is answered with its first step, None with the next step.
    """
    gate = Gate(hello.capture)
    under_way: Iterator[TaskStep] = iter(())

    def answer(numbered: NumberedTask | None) -> TaskStep:
        nonlocal under_way
        if numbered is not None:
            under_way = iter_steps(hello, numbered, gate)
        return next(under_way)

    return answer


class ReadingPool:
    """Reads tasks ahead of the thread that stores them.

    A context manager, which ends the children.
    """

    def __init__(self, hello: ChildSetup, tasks: Sequence[Task]) -> None:
        self._setup = hello
        self._tasks = [NumberedTask(n, t) for n, t in enumerate(tasks)]
        self._steps: list[deque[TaskStep]] = [deque() for _ in tasks]
        self._next_task = self._current_task = self._waiting_files = 0
        self._error: BaseException | None = None
        self._condition = threading.Condition()
        self._is_ended = False
        self._children: list[Child] = []

    def __enter__(self) -> "ReadingPool":
        if sum(t.task.size for t in self._tasks) >= _MUCH:
            try:
                for _ in range(min(os.cpu_count() or 1, len(self._tasks))):
                    self._children.append(Child("memory_mcp.capture.reading_pool", self._setup))
            except OSError:
                # As many as there could be had read.
                pass
            except KeyboardInterrupt:
                self._end_children(at_once=True)
                raise
        for child in self._children:
            threading.Thread(target=self._feed_child, args=(child,), name="reading", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end_children(at_once=kind is not None)

    def _end_children(self, *, at_once: bool) -> None:
        with self._condition:
            self._is_ended = True
            self._condition.notify_all()
        for child in self._children:
            child.end(at_once=at_once)

    def iter_steps(self) -> Iterator[tuple[Task, TaskStep]]:
        """Yield (task, step) in the order of the tasks; blocks.

        Raises SourceUnreadable when a child has died, and what reading raised in one.
        """
        if not self._children:
            gate = Gate(self._setup.capture)
            for numbered in self._tasks:
                yield from ((numbered.task, part) for part in iter_steps(self._setup, numbered, gate))
            return
        for numbered in self._tasks:
            while True:
                part = self._wait_for_step(numbered.number)
                yield numbered.task, part
                if part.report is not None:
                    break

    def _wait_for_step(self, number: int) -> TaskStep:
        """Return the next step; raises what made the reading fail."""
        with self._condition:
            self._current_task = number
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._steps[number] or self._error is not None)
            if not self._steps[number]:
                assert self._error is not None
                raise self._error
            part = self._steps[number].popleft()
            self._waiting_files -= bool(part.name)
            return part

    def _feed_child(self, child: Child) -> None:
        try:
            child.begun.result()
            while (numbered := self._claim_task()) is not None:
                part: TaskStep = child.ask(numbered)
                while self._add_step(numbered.number, part) and part.report is None:
                    part = child.ask(None)
        except (OSError, EOFError, ValueError):
            hint = "What was acknowledged is stored; run the command again to go on."
            self._note_error(SourceUnreadable("a process that reads files has ended", hint))
        except BaseException as error:
            self._note_error(error)

    def _claim_task(self) -> NumberedTask | None:
        with self._condition:
            if self._is_ended or self._error is not None or self._next_task == len(self._tasks):
                return None
            self._next_task += 1
            return self._tasks[self._next_task - 1]

    def _add_step(self, number: int, part: TaskStep) -> bool:
        """Add a step, and wait; return False when reading was ended.

        There is room for 12 complete files in all; the task being stored has room for 12 steps of its own as well.
        """
        with self._condition:
            self._steps[number].append(part)
            self._waiting_files += bool(part.name)
            self._condition.notify_all()
            self._condition.wait_for(
                # The task that is being stored goes on while others fill the room: they wait for it.
                lambda: (
                    self._is_ended
                    or self._waiting_files < _MOST_WAITING
                    or (number == self._current_task and len(self._steps[number]) < _MOST_WAITING)
                )
            )
            return not self._is_ended

    def _note_error(self, error: BaseException) -> None:
        with self._condition:
            self._error = self._error or error
            self._condition.notify_all()
