"""Files in, stored events out: read, cleaned, appended in batches, and remembered so that nothing is read twice.

Invariants
1. A file's mark is written only after the events before it are acknowledged; a crash between the two stores nothing
   twice, because ids follow from the source.
2. A file that shrank or whose beginning changed is read again from its start.
3. No record and no file can stop an import: what cannot be read is counted.
4. An event without a time shares its transaction with a neighbour of its own file whenever there is one, because that
   is where its time comes from.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Protocol

from memory_mcp import metrics
from memory_mcp.errors import InvalidQuery
from memory_mcp.failpoints import failpoint
from memory_mcp.ingest.base import Importer, ImportReport, Quote, Read
from memory_mcp.ingest.gate import Gate
from memory_mcp.ingest.marks import Mark, find_start, mark_name
from memory_mcp.model.event import EventDraft, Trust
from memory_mcp.storage.values import Appended, Request

#: Events per transaction.
BATCH = 500
#: Characters per transaction, so that a batch of long messages stays small too.
BATCH_CHARS = 16 * 1024 * 1024

Progress = Callable[[ImportReport, Path, float], None]


class Log(Protocol):
    """Where clean drafts go: the event log, or the process that has it."""

    def append(
        self, drafts: Sequence[EventDraft], source: str, trust: Trust | None = None, request: Request | None = None
    ) -> Appended:
        """See EventLog."""
        ...


class Marks(Protocol):
    """Where high-water marks are kept."""

    def mark(self, follower: str, value: str) -> None:
        """See Outbox."""
        ...

    def marks(self, prefix: str) -> dict[str, str]:
        """See Outbox."""
        ...


class Pipeline:
    """The write path of importers and tools."""

    def __init__(self, log: Log, marks: Marks, gate: Gate) -> None:
        self._log = log
        self._marks = marks
        self._gate = gate

    def run(self, importer: Importer, path: Path, progress: Progress | None = None, newest: int | None = None) -> ImportReport:
        """Import everything at `path` that is not stored yet; SourceUnreadable when there is nothing there.

        `newest` reads only about so many events, of the files changed last; `report.cut` says that older ones are
        left, and a later run without it reads them. `progress` hears of the report, the file and the fraction done.
        """
        run = _Run(importer, self._log, self._marks, self._gate, progress)
        run.survey(path)
        if newest is None:
            run.read_all()
        else:
            run.read_newest(newest)
        run.flush()
        run.report.quotes = {k: [self._clean(q) for q in v] for k, v in run.report.quotes.items()}
        _tell(run.report)
        return run.report

    def accept(
        self, drafts: Sequence[EventDraft], source: str, trust: Trust | None = None, request: Request | None = None
    ) -> Appended:
        """Store drafts that a tool hands in, all or nothing; InvalidQuery naming the first one that is refused."""
        report = ImportReport()
        clean: list[EventDraft] = []
        for number, draft in enumerate(drafts, 1):
            outcome = self._gate.check(draft, report)
            if isinstance(outcome, str):
                hint = "Nothing was stored; leave it out or correct it, and send all of them again."
                raise InvalidQuery(f"event {number} of {len(drafts)} is refused: {outcome}", hint)
            clean.append(outcome)
        _tell(report)
        return self._log.append(clean, source, trust, request)

    def _clean(self, quote: Quote) -> Quote:
        return Quote(quote.file, quote.line, self._gate.redact(quote.text, ImportReport()))


def _tell(report: ImportReport) -> None:
    for rule, times in report.redacted.items():
        metrics.count("redactions_total", times, rule=rule)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    #: What its mark is stored under.
    name: str
    size: int
    mtime_ns: int


@dataclass(slots=True)
class _Step:
    """The events of one record, not stored yet, and the mark that is true once they are."""

    file: _File
    drafts: list[EventDraft]
    mark: Mark | None


class _Run:
    """One import: its report, and the steps that wait to be stored together."""

    def __init__(self, importer: Importer, log: Log, marks: Marks, gate: Gate, progress: Progress | None) -> None:
        self.report = ImportReport()
        self._importer, self._log, self._marks, self._gate = importer, log, marks, gate
        self._progress = progress
        self._known = marks.marks(f"import:{importer.name}:")
        self._files: list[_File] = []
        self._steps: list[_Step] = []
        self._waiting = self._chars = 0
        self._done = self._total = 0

    def survey(self, path: Path) -> None:
        """List the files there are, with their sizes; what vanishes meanwhile is counted."""
        for found in self._importer.files(path):
            self.report.files += 1
            try:
                state = found.stat()
            except OSError as error:
                self.report.fail(found, str(error))
                continue
            name = mark_name(self._importer.name, found)
            self._files.append(_File(found, name, state.st_size, state.st_mtime_ns))
            self._total += state.st_size

    def read_all(self) -> None:
        """Read every file from where its last run ended."""
        for file in self._files:
            self._guarded(file, lambda file, start: self._store(file, start, self._steps_from(file, start)))

    def read_newest(self, wanted: int) -> None:
        """Read files, latest change first, until `wanted` events are read; of the last file only its end."""
        left = wanted

        def read(file: _File, start: Mark) -> None:
            nonlocal left
            left -= self._read_end(file, start, left)

        for file in sorted(self._files, key=lambda f: (-f.mtime_ns, f.name)):
            if left <= 0:
                self.report.cut = True
                return
            self._guarded(file, read)

    def flush(self, count: int | None = None) -> None:
        """Store the first `count` steps, by default all, then the marks of the files they came from."""
        clock = perf_counter()
        steps = self._steps[:count]
        drafts = [draft for step in steps for draft in step.drafts]
        if drafts:
            stored = self._log.append(drafts, self._importer.name)
            self.report.new += len(stored.new)
            self.report.known += len(stored.known)
            failpoint("import.batch_stored")
        for name, mark in {step.file.name: step.mark for step in steps}.items():
            if mark is not None:
                self._marks.mark(name, mark.dump())
                failpoint("import.mark_written")
        del self._steps[:count]
        self._waiting -= len(drafts)
        self._chars -= sum(len(draft.text) for draft in drafts)
        self.report.seconds["store"] += perf_counter() - clock

    def _guarded(self, file: _File, read: Callable[[_File, Mark], None]) -> None:
        try:
            start = find_start(file.path, file.size, Mark.parse(self._known.get(file.name, "")))
            if start is None:
                self.report.files_unchanged += 1
            else:
                read(file, start)
        except OSError as error:
            self.report.fail(file.path, str(error))
        self._done += file.size
        self._tell(file, 0)

    def _read_end(self, file: _File, start: Mark, wanted: int) -> int:
        """Read the last `wanted` events of a file; how many that were. A file that is cut gets no mark."""
        # Counting first costs a second reading and saves holding the events.
        count = sum(len(step.drafts) for step in self._importer.read(file.path, start.offset, ImportReport()))
        if count <= wanted:
            self._store(file, start, self._steps_from(file, start))
            return count
        self.report.cut = True
        drafts = (draft for step in self._steps_from(file, start) for draft in step.drafts)
        for draft in islice(drafts, count - wanted, None):
            self._add(file, (draft,), None)
        self._end(file, None)
        return wanted

    def _steps_from(self, file: _File, start: Mark) -> Iterator[Read]:
        """The importer's steps, the time they take counted."""
        steps = self._importer.read(file.path, start.offset, self.report)
        while True:
            clock = perf_counter()
            step = next(steps, None)
            self.report.seconds["read"] += perf_counter() - clock
            if step is None:
                return
            yield step

    def _store(self, file: _File, start: Mark, steps: Iterable[Read]) -> None:
        offset = start.offset
        for step in steps:
            self.report.bytes += max(0, step.offset - offset)
            offset = step.offset
            self._add(file, step.drafts, start.at(offset))
        self._end(file, start.ended(offset, file.size))

    def _add(self, file: _File, drafts: Sequence[EventDraft], mark: Mark | None) -> None:
        clock = perf_counter()
        clean = [kept for draft in drafts if (kept := self._gate.clean(draft, self.report)) is not None]
        self.report.seconds["redact"] += perf_counter() - clock
        if any(draft.timestamp is None for draft in clean):
            self.flush(sum(step.file is not file for step in self._steps))
        if not clean and self._steps and self._steps[-1].file is file:
            self._steps[-1].mark = mark
            return
        self._steps.append(_Step(file, clean, mark))
        self._waiting += len(clean)
        self._chars += sum(len(draft.text) for draft in clean)
        if self._waiting >= BATCH or self._chars >= BATCH_CHARS:
            # The last step stays behind: it lends its time to an untimed one that may follow.
            self.flush(max(1, len(self._steps) - 1))
            self._tell(file, mark.offset if mark else 0)

    def _end(self, file: _File, mark: Mark | None) -> None:
        """The file is read; its steps may wait for those of the next file, unless their times depend on each other."""
        if self._steps and self._steps[-1].file is file:
            self._steps[-1].mark = mark
        else:
            self._steps.append(_Step(file, [], mark))
        if any(draft.timestamp is None for step in self._steps for draft in step.drafts) or len(self._steps) > 2 * BATCH:
            self.flush()

    def _tell(self, file: _File, offset: int) -> None:
        if self._progress is not None:
            done = min(1.0, (self._done + offset) / self._total) if self._total else 1.0
            self._progress(self.report, file.path, done)
