"""Import files: read, clean, append in batches, and remember what was read.

Invariants
1. A file's mark is written only after the events before it are acknowledged; a crash between the two stores nothing
   twice, because ids follow from the source.
2. A file that shrank or whose beginning changed is read again from its start.
3. No record and no file can stop an import: what cannot be read is counted.
4. An event without a time shares its transaction with a neighbour of its own file whenever there is one, because that
   is where its time comes from.
5. Files are read in groups that follow from their sizes alone, and no transaction holds events of two groups: who reads
   the groups, one process or several, changes nothing of what is stored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from pathlib import Path
from time import perf_counter, time
from typing import Protocol

from memory_mcp.base import metrics
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.failpoints import failpoint
from memory_mcp.capture.exclusions import PAUSED
from memory_mcp.capture.gate import Gate
from memory_mcp.importers.base import Growth, Importer, ImportReport, Quote, ReadStep
from memory_mcp.importers.marks import Mark, find_start, mark_name, stamp_of
from memory_mcp.model.event import EventDraft, Trust
from memory_mcp.storage.values import AppendResult, WriteRequest

#: Events per transaction.
BATCH = 500
#: Characters per transaction, so that a batch of long messages stays small too: some 20 ms of the process that stores it.
BATCH_CHARS = 1024 * 1024
#: Bytes, and files, from which a group of files is large enough.
GROUP_BYTES, GROUP_FILES = 4 * 1024 * 1024, 256

#: A file, a folder whose files the importer lists, or the files themselves.
Source = Path | Sequence[Path]
Progress = Callable[[ImportReport, Path, float], None]


class DraftLog(Protocol):
    """Stores clean drafts: the event log, or the process that owns it."""

    def append(
        self, drafts: Sequence[EventDraft], source: str, trust: Trust | None = None, request: WriteRequest | None = None
    ) -> AppendResult:
        """Store drafts, see EventLog."""
        ...


class MarkWriter(Protocol):
    """Stores high-water marks."""

    def set_positions(self, values: Mapping[str, str]) -> None:
        """Store marks by name, together; see Outbox."""
        ...


class MarkStore(MarkWriter, Protocol):
    """Stores and returns high-water marks."""

    def get_positions(self, prefix: str) -> dict[str, str]:
        """Return the marks whose names begin with `prefix`, by name; see Outbox."""
        ...


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read, as it was when listed."""

    path: Path
    #: What its mark is stored under.
    name: str
    #: Bytes.
    size: int
    #: What changes with its content (see `stamp_of`).
    stamp: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Task:
    """Files that are read one after the other by one process."""

    files: tuple[SourceFile, ...]
    #: Marks of those of them that were read before, by name.
    marks: Mapping[str, str] = field(default_factory=dict)
    #: Number of events, about, to read from the files changed last; None for all.
    newest: int | None = None

    @property
    def size(self) -> int:
        """The size of all its files in bytes."""
        return sum(f.size for f in self.files)


class Pipeline:
    """The write path of importers and tools."""

    def __init__(self, log: DraftLog, marks: MarkStore, gate: Gate) -> None:
        self._log = log
        self._marks = marks
        self._gate = gate

    def import_source(
        self, importer: Importer, source: Source, progress: Progress | None = None, newest: int | None = None
    ) -> ImportReport:
        """Import what is not stored yet from `source`.

        `newest` reads only about so many events, of the files changed last; `report.cut` says that older ones are left,
        and a later run without it reads them. `progress` gets the report, the file and the fraction done. Raises
        SourceUnreadable if there is nothing there, and what storing raises; files that cannot be read are counted.
        """
        report = ImportReport()
        tasks = list_tasks(importer, source, self._marks.get_positions(mark_prefix(importer)), newest, report)
        done, total = 0, sum(t.size for t in tasks)
        for task in tasks:
            done_before = done

            def tell(now: ImportReport, file: Path, part: float, task: Task = task, done_before: int = done_before) -> None:
                if progress is not None:
                    progress(now, file, (done_before + part * task.size) / total if total else 1.0)

            for _ in read_task(task, importer, self._log, self._marks, self._gate, report, tell):
                continue
            done += task.size
        finish_report(report, self._gate)
        return report

    def store_drafts(
        self, drafts: Sequence[EventDraft], source: str, trust: Trust | None = None, request: WriteRequest | None = None
    ) -> AppendResult:
        """Store drafts of a tool, all or nothing.

        Raises InvalidQuery with the first draft that the gate refuses, or whose project is paused now, and what storing
        raises.
        """
        report = ImportReport()
        clean: list[EventDraft] = []
        for number, draft in enumerate(drafts, 1):
            outcome = self._gate.check_draft(draft, report)
            if self._gate.capture.is_paused(draft.project, int(time() * 1000)):
                # A pause counts for the time of writing, not the event's own time.
                outcome = PAUSED
            if isinstance(outcome, str):
                hint = "Nothing was stored; leave it out or correct it, and send all of them again."
                if outcome == PAUSED:
                    hint = "Nothing was stored. A person ends the pause with: memory-mcp resume"
                raise InvalidQuery(f"event {number} of {len(drafts)} is refused: {outcome}", hint)
            clean.append(outcome)
        _count_redactions(report)
        return self._log.append(clean, source, trust, request)


def mark_prefix(importer: Importer) -> str:
    """Return how the names of an importer's marks begin: `import:<name>:`."""
    return f"import:{importer.name}:"


def list_tasks(
    importer: Importer, source: Source, marks: Mapping[str, str], newest: int | None, report: ImportReport
) -> list[Task]:
    """Return the files of a source in groups, with their marks.

    `marks` are all marks of the importer, by name. Groups end at 4 MB or 256 files; there is one if only the newest are
    wanted. Counts files in `report`; those that vanish meanwhile as failed. Raises SourceUnreadable if the path is missing.
    """
    groups: list[list[SourceFile]] = [[]]
    group_bytes = 0
    for file in importer.iter_files(source) if isinstance(source, Path) else source:
        report.files += 1
        try:
            size, stamp = stamp_of(file, importer.growth)
            written = file.stat().st_mtime_ns
        except OSError as error:
            report.add_failure(file, str(error))
            continue
        if newest is None and (group_bytes >= GROUP_BYTES or len(groups[-1]) >= GROUP_FILES):
            groups.append([])
            group_bytes = 0
        groups[-1].append(SourceFile(file, mark_name(importer.name, file), size, stamp, written))
        group_bytes += size
    return [Task(tuple(g), {f.name: marks[f.name] for f in g if f.name in marks}, newest) for g in groups if g]


def read_task(
    task: Task,
    importer: Importer,
    log: DraftLog,
    marks: MarkWriter,
    gate: Gate,
    report: ImportReport,
    progress: Progress | None = None,
) -> Iterator[None]:
    """Read, clean and store the new content of a task's files.

    Yields regularly, so that the caller may stop. `progress` gets the fraction of the task. Raises what storing raises.
    """
    run = _TaskRun(task, importer, log, marks, gate, report, progress)
    yield from run.read_all() if task.newest is None else run.read_newest(task.newest)
    run.flush()
    yield


def finish_report(report: ImportReport, gate: Gate) -> None:
    """Redact the quotes of a complete report, and count redactions."""
    hidden = ImportReport()
    report.quotes = {
        reason: [Quote(q.file, q.line, gate.redact_text(q.text, hidden)) for q in several]
        for reason, several in report.quotes.items()
    }
    _count_redactions(report)


def _count_redactions(report: ImportReport) -> None:
    for rule, times in report.redacted.items():
        metrics.count("redactions_total", times, rule=rule)


@dataclass(slots=True)
class _Step:
    """Events of one record that are not stored, and the mark after them."""

    file: SourceFile
    drafts: list[EventDraft]
    mark: Mark | None


class _TaskRun:
    """One task: its report, and the steps to be stored together."""

    def __init__(
        self,
        task: Task,
        importer: Importer,
        log: DraftLog,
        marks: MarkWriter,
        gate: Gate,
        report: ImportReport,
        progress: Progress | None,
    ) -> None:
        self.report = report
        self._importer, self._log, self._marks, self._gate = importer, log, marks, gate
        self._progress = progress
        self._files, self._marks_before = task.files, task.marks
        self._steps: list[_Step] = []
        self._event_count = self._char_count = 0
        self._done, self._total = 0, task.size

    def read_all(self) -> Iterator[None]:
        """Read every file from where its last run ended; yields regularly."""
        for file in self._files:
            yield from self._read_guarded(file, self._read_whole)

    def read_newest(self, limit: int) -> Iterator[None]:
        """Read files, latest change first, for `limit` events in all.

        Of the last file its end; `report.cut` says whether any are left.
        """
        remaining = limit

        def read_end(file: SourceFile, start: Mark) -> Iterator[None]:
            nonlocal remaining
            # Counting first costs a second reading and saves holding the events.
            count = sum(len(step.drafts) for step in self._importer.read_file(file.path, start.offset, ImportReport()))
            if count <= remaining:
                yield from self._read_whole(file, start)
            else:
                self.report.cut = True
                drafts = (draft for step in self._iter_steps(file, start) for draft in step.drafts)
                for draft in islice(drafts, count - remaining, None):
                    self._add_drafts(file, (draft,), None)
                    yield
                self._end_file(file, None)
            remaining -= min(count, remaining)

        for file in sorted(self._files, key=lambda f: (-f.mtime_ns, f.name)):
            if remaining <= 0:
                self.report.cut = True
                return
            yield from self._read_guarded(file, read_end)

    def flush(self, count: int | None = None) -> None:
        """Store the events of the first `count` steps, then their marks.

        In one transaction; by default of all steps. Raises what storing raises; the steps stay then.
        """
        clock = perf_counter()
        steps = self._steps[:count]
        drafts = [draft for step in steps for draft in step.drafts]
        if drafts:
            stored = self._log.append(drafts, self._importer.name)
            self.report.new += len(stored.new_ids)
            self.report.known += len(stored.known_ids)
            failpoint("import.batch_stored")
        last = {step.file.name: step.mark for step in steps}
        marks = {name: mark.to_text() for name, mark in last.items() if mark is not None}
        if marks:
            self._marks.set_positions(marks)
            failpoint("import.mark_written")
        del self._steps[:count]
        self._event_count -= len(drafts)
        self._char_count -= sum(len(draft.text) for draft in drafts)
        self.report.seconds["store"] += perf_counter() - clock

    def _read_guarded(self, file: SourceFile, read: Callable[[SourceFile, Mark], Iterator[None]]) -> Iterator[None]:
        try:
            last_mark = Mark.from_text(self._marks_before.get(file.name, ""))
            start = find_start(file.path, file.stamp, last_mark, self._importer.growth)
            if start is None:
                self.report.files_unchanged += 1
            else:
                yield from read(file, start)
        except OSError as error:
            self.report.add_failure(file.path, str(error))
        self._report_progress(file, file.size)
        self._done += file.size

    def _read_whole(self, file: SourceFile, start: Mark) -> Iterator[None]:
        offset = start.offset
        in_bytes = self._importer.growth is Growth.APPENDED
        for step in self._iter_steps(file, start):
            self.report.bytes += max(0, step.offset - offset) if in_bytes else 0
            offset = step.offset
            self._add_drafts(file, step.drafts, start.with_offset(offset))
            yield
        self.report.bytes += 0 if in_bytes else file.size
        self._end_file(file, start.with_end(offset, file.stamp))

    def _iter_steps(self, file: SourceFile, start: Mark) -> Iterator[ReadStep]:
        steps = self._importer.read_file(file.path, start.offset, self.report)
        while True:
            clock = perf_counter()
            step = next(steps, None)
            self.report.seconds["read"] += perf_counter() - clock
            if step is None:
                return
            yield step

    def _add_drafts(self, file: SourceFile, drafts: Sequence[EventDraft], mark: Mark | None) -> None:
        """Clean drafts, and store once enough wait.

        The mark is written once they are stored. Before drafts without a time, steps of other files are stored.
        """
        clock = perf_counter()
        clean = [clean_draft for draft in drafts if (clean_draft := self._gate.clean_draft(draft, self.report)) is not None]
        self.report.seconds["redact"] += perf_counter() - clock
        if any(draft.timestamp is None for draft in clean):
            self.flush(sum(step.file is not file for step in self._steps))
        if not clean and self._steps and self._steps[-1].file is file:
            self._steps[-1].mark = mark
            return
        self._steps.append(_Step(file, clean, mark))
        self._event_count += len(clean)
        self._char_count += sum(len(draft.text) for draft in clean)
        if self._event_count >= BATCH or self._char_count >= BATCH_CHARS:
            # The last step stays behind: it lends its time to an untimed one that may follow.
            self.flush(max(1, len(self._steps) - 1))
            self._report_progress(file, mark.offset if mark else 0)

    def _end_file(self, file: SourceFile, mark: Mark | None) -> None:
        """Store what waits if it is much or times depend on it."""
        if self._steps and self._steps[-1].file is file:
            self._steps[-1].mark = mark
        else:
            self._steps.append(_Step(file, [], mark))
        if any(draft.timestamp is None for step in self._steps for draft in step.drafts) or len(self._steps) > 2 * BATCH:
            self.flush()

    def _report_progress(self, file: SourceFile, offset: int) -> None:
        if self._progress is not None:
            done = min(1.0, (self._done + min(offset, file.size)) / self._total) if self._total else 1.0
            self._progress(self.report, file.path, done)
