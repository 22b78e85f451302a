"""The memory that bulk commands write to: opened in this process, or the daemon's.

Files are read and cleaned by the command's own process, at low priority; the daemon stores what it is sent, files it in the
tree, and answers other callers meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memory_mcp.app import App
from memory_mcp.base import machine, paths
from memory_mcp.base.children import few_collections
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.capture.sources import all_importers, make_importer
from memory_mcp.cli.failures import translate_refusal
from memory_mcp.config import Settings
from memory_mcp.service.client import link

if TYPE_CHECKING:
    from memory_mcp.capture.exclusions import CaptureRules
    from memory_mcp.capture.handover import ImportClaim
    from memory_mcp.capture.pipeline import Source
    from memory_mcp.importers.base import Importer, ImportReport
    from memory_mcp.model.event import EventDraft

#: Niceness of bulk work: below interactive work.
_NICE = 5
#: After a daemon ended, the next gets what was not acknowledged again, which changes nothing.
_TRIES, _A_WHILE = 5, 1.0

#: Events that were new, and that were known.
Counts = tuple[int, int]
Tell = Callable[["ImportReport", Path, float], None]


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Events to file and documents to index after storing."""

    #: Events that are not in the tree yet.
    to_file: int
    #: Of the work on the indexes that is known: done, and in all (0: not begun).
    indexed: int = 0
    to_index: int = 0


class Memory(Protocol):
    """A memory that bulk commands write to."""

    settings: Settings
    #: Rules of what is not recorded.
    capture: "CaptureRules"

    def importer(self, name: str) -> "Importer":
        """Return an importer; InvalidQuery for an unknown name."""
        ...

    def importers(self) -> "list[Importer]":
        """Return all importers."""
        ...

    def marks(self, prefix: str) -> dict[str, str]:
        """Return the positions of importers by name, as opaque texts."""
        ...

    def run_import(self, name: str, source: "Source", progress: Tell | None, newest: int | None) -> "ImportReport":
        """Read, clean and store files; return the report.

        `source` is files, or a folder whose files the importer lists; `newest`: only about so many events, None for all.
        `progress` gets the report so far, the file, and the share that is done (0..1).
        """
        ...

    def append(self, drafts: "Sequence[EventDraft]", source: str) -> "Counts":
        """Commit clean drafts; return how many were new and known."""
        ...

    def build(self, progress: Callable[["Upkeep"], None]) -> dict[str, float]:
        """Bring the tree up to date; return seconds by stage.

        In the daemon also its indexes. `progress` is called now and then with what is left.
        """
        ...

    def holdings(self) -> dict[str, Any]:
        """Return counts of what the memory has, as JSON values."""
        ...

    def carry(self, what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a function of `requests` by its name."""
        ...


class Here:
    """A memory opened in this process."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.settings, self.capture = app.settings, app.gate.capture
        self.importer, self.importers, self.run_import = app.importer, app.importers, app.run_import
        self.marks = app.storage.outbox.get_positions
        self.holdings = app.holdings

    def append(self, drafts: "Sequence[EventDraft]", source: str) -> Counts:
        """Store drafts through the App."""
        stored = self._app.append(drafts, source)
        return len(stored.new_ids), len(stored.known_ids)

    def carry(self, what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a function of `requests`; KeyError for an unknown name."""
        from memory_mcp.requests import carrying, first_questions, merging, portable

        give = {
            f.__name__: f for f in (carrying.page, carrying.day, *merging.METHODS, *portable.METHODS, *first_questions.METHODS)
        }[what]
        return give(self._app, arguments)

    def build(self, progress: Callable[[Upkeep], None]) -> dict[str, float]:
        """Bring the tree up to date; indexes follow at their next use."""
        from memory_mcp.tree.derive.derivation import ExecutionMode

        pending_count = self._app.derivation.count_pending()

        def tell(count: int) -> None:
            nonlocal pending_count
            pending_count = max(0, pending_count - count)
            progress(Upkeep(pending_count))

        spent = self._app.derivation.run(mode=ExecutionMode.SHARED, progress=tell)
        return {"segment+summarise": spent.segment_seconds, "roll up": spent.period_seconds}


class There:
    """The daemon's memory.

    Every method raises LayerUnavailable where no daemon can be reached, and what the daemon reports.
    """

    def __init__(self, settings: Settings, target: link.Wanted) -> None:
        from memory_mcp.capture.exclusions import CaptureRules

        self.settings = settings
        self.capture = CaptureRules.from_settings(settings.ingest, settings.storage.directory)
        self._wanted = target
        self._line: link.Line | None = None
        self._token: ImportClaim | None = None
        self._appended = 0
        self._finished: dict[str, Any] = {}

    def importer(self, name: str) -> "Importer":
        """Return an importer made here by the settings."""
        return make_importer(name, self.settings.ingest)

    def importers(self) -> "list[Importer]":
        """Return all importers, made here by the settings."""
        return all_importers(self.settings.ingest)

    def marks(self, prefix: str) -> dict[str, str]:
        """Ask the daemon for the positions of importers."""
        marks: dict[str, str] = self._ask("import/marks", {"prefix": prefix})["marks"]
        return marks

    def run_import(self, name: str, source: "Source", progress: Tell | None, newest: int | None) -> "ImportReport":
        """Read and clean files in child processes; the daemon stores them.

        Cleaned events are handed over in order as files in the spool.
        """
        from memory_mcp.capture.gate import Gate
        from memory_mcp.capture.pipeline import finish_report, list_tasks, mark_prefix
        from memory_mcp.capture.reading_pool import ChildSetup, ReadingPool
        from memory_mcp.importers.base import ImportReport

        importer, report = self.importer(name), ImportReport()
        tasks = list_tasks(importer, source, self.marks(mark_prefix(importer)), newest, report)
        done, total = 0, sum(t.size for t in tasks)
        token = self._claim()
        with few_collections(), ReadingPool(ChildSetup(importer, token.folder, token.name, self.capture), tasks) as readers:
            for task, part in readers.iter_steps():
                if part.name:
                    self._store(part.name, report)
                if part.report is not None:
                    report.add_report(part.report)
                    done += task.size
                if progress is not None:
                    now = done if part.report is not None else done + part.done * task.size
                    progress(report, part.file, now / total if total else 1.0)
        finish_report(report, Gate(self.capture))
        return report

    def append(self, drafts: "Sequence[EventDraft]", source: str) -> Counts:
        """Hand drafts over as files in the spool."""
        from memory_mcp.capture.handover import SliceWriter
        from memory_mcp.importers.base import ImportReport

        report = ImportReport()
        token = self._claim()
        writer = SliceWriter(token.folder, token.name, self._appended, source)
        self._appended += 1
        writer.append(drafts, source)
        writer.flush()
        for name in writer.complete_files:
            self._store(name, report)
        return report.new, report.known

    def _claim(self) -> "ImportClaim":
        from memory_mcp.capture.handover import ImportClaim

        if self._token is None:
            self._token = ImportClaim(Path(paths.spool_dir(str(self.settings.storage.directory.absolute()))))
        return self._token

    def _store(self, name: str, report: "ImportReport") -> None:
        began = time.monotonic()
        answer = self._ask("import/store", {"name": name})
        if self._token is not None:
            self._token.remove_file(name)
        report.new += answer["new"]
        report.known += answer["known"]
        report.seconds["store"] += time.monotonic() - began

    def build(self, progress: Callable[[Upkeep], None]) -> dict[str, float]:
        """Have the daemon file everything and complete its indexes.

        The time until only indexing is left counts as filing. Keeps the result for `holdings`.
        """
        began, filed = time.monotonic(), 0.0

        def hear(message: dict[str, Any]) -> None:
            nonlocal filed
            now = Upkeep(int(message["left"]), int(message["indexed"]), int(message["to_index"]))
            if now.to_index and not filed:
                filed = time.monotonic()
            progress(now)

        self._finished = self._ask("import/finish", {}, hear)
        ended = time.monotonic()
        filed = filed or ended
        return {"segment+summarise": filed - began, "index": ended - filed}

    def holdings(self) -> dict[str, Any]:
        """Return what the last `build` reported; KeyError before the first."""
        holdings: dict[str, Any] = self._finished["holdings"]
        return holdings

    def carry(self, what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Have the daemon call a function of `requests`."""
        return self._ask(f"carry/{what}", dict(arguments))

    def close(self) -> None:
        """Close the connection; delete files that were not stored."""
        self._hang_up()
        if self._token is not None:
            self._token.release_files()
            self._token = None

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _ask(
        self, method: str, params: dict[str, Any], hear: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        """When a daemon ends, the next is called, until five calls in a row fail; one of over a second resets the count."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                if self._line is None:
                    self._line = link.reach_daemon(self._wanted, "rpc")
                return link.call_on_line(self._line, method, params, hear)
            except link.Refused as error:
                raise translate_refusal(error) from None
            except OSError as error:
                # The files stay: the next daemon stores those that were not acknowledged.
                self._hang_up()
                # A daemon that has worked for a while got somewhere, and so will the next.
                failures = 1 if time.monotonic() - began > _A_WHILE else failures + 1
                if failures >= _TRIES or isinstance(error, link.Unreachable):
                    hint = "What was acknowledged is stored; run the command again to go on."
                    raise LayerUnavailable(f"the daemon cannot be reached: {error}", hint) from None


@contextmanager
def there(settings: Settings, target: link.Wanted) -> Iterator[There]:
    """Yield the daemon's memory; this process gets low priority for good."""
    memory = There(settings, target)
    try:
        # Any question starts a daemon where none runs, which inherits the priority of its starter.
        memory.marks("import:")
        machine.lower(_NICE)
        yield memory
    finally:
        memory.close()
