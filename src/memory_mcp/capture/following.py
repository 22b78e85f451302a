"""Store what followed clients wrote into their session files since the last look.

Invariants
1. Nothing is followed that its owner did not agree to; the agreement is in the store until it is taken back.
2. A look costs what listing the files costs: a file is opened when its stamp changed since it was last read.
3. What an import stores and what following stores is the same, by the same marks, so either goes on where the other ended.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from memory_mcp.capture import handover
from memory_mcp.capture.exclusions import CaptureRules
from memory_mcp.capture.pipeline import MarkStore, Task, list_tasks, mark_prefix
from memory_mcp.capture.reading_pool import ChildSetup, ReadingPool
from memory_mcp.importers.base import Growth, Importer, ImportReport
from memory_mcp.importers.marks import Mark
from memory_mcp.model.event import EventDraft
from memory_mcp.storage.values import AppendResult

log = logging.getLogger(__name__)

#: Under which names agreements are among the store's marks. On disk: do not change it.
FOLLOW_PREFIX = "follow:"
#: A look may take this share of the time: one that takes long is followed by a long rest.
_SHARE = 0.005
#: A rewritten file is read once it has not changed for this long (seconds).
_SETTLED = 20.0

StoreDrafts = Callable[[Sequence[EventDraft], str], AppendResult]


def followed_names(marks: MarkStore) -> set[str]:
    """Return the importers whose clients are followed."""
    return {name.removeprefix(FOLLOW_PREFIX) for name, value in marks.get_positions(FOLLOW_PREFIX).items() if value == "on"}


def set_followed(marks: MarkStore, names: Iterable[str], on: bool) -> None:
    """Store, in one transaction, whether these clients are followed."""
    marks.set_positions({f"{FOLLOW_PREFIX}{name}": "on" if on else "off" for name in names})


class Follower:
    """Reads what followed clients wrote."""

    def __init__(
        self,
        importers: Callable[[], Sequence[Importer]],
        marks: MarkStore,
        spool: Path,
        store: StoreDrafts,
        capture: Callable[[], CaptureRules],
    ) -> None:
        """Follow clients of `importers`, which is called once, when needed.

        Parts are handed over in `spool`, and `capture` says what is never recorded.
        """
        self._importers = cache(importers)
        self._marks = marks
        self._spool = spool
        self._store = store
        self._capture = capture
        #: Stamps of files that were read to their end or failed, by mark name.
        self._read_stamps: dict[str, int] = {}
        self._rest_until = 0.0

    def run_round(self, should_stop: Callable[[], bool]) -> int:
        """Store what followed clients wrote; return the number of new events.

        Ends early, between two parts, if it should stop. Does nothing, and returns 0, while it rests from a round that found
        nothing new, 200 times as long as that took. Raises what reading and storing raise.
        """
        began = time.monotonic()
        if began < self._rest_until:
            return 0
        names, new = followed_names(self._marks), 0
        # Loading every importer takes 40 ms, and most memories follow no client.
        for importer in (i for i in self._importers() if i.name in names) if names else ():
            for path in importer.default_paths():
                if path.exists() and not should_stop():
                    new += self._read_tasks(importer, self._find_changed(importer, path), should_stop)
        self._rest_until = time.monotonic() + (time.monotonic() - began) / _SHARE if not new else 0.0
        return new

    def _find_changed(self, importer: Importer, path: Path) -> list[Task]:
        """Return the changed files below a path as tasks.

        A file that is rewritten as a whole waits until it has not changed for 20 s.
        """
        stored_marks = self._marks.get_positions(mark_prefix(importer))
        tasks = []
        for task in list_tasks(importer, path, stored_marks, None, ImportReport()):
            files = []
            for file in task.files:
                if file.name not in self._read_stamps:
                    mark = Mark.from_text(stored_marks.get(file.name, ""))
                    self._read_stamps[file.name] = mark.size if mark else -1
                if file.stamp != self._read_stamps[file.name] and (
                    importer.growth is not Growth.REWRITTEN or time.time() - file.mtime_ns / 1e9 >= _SETTLED
                ):
                    files.append(file)
            if files:
                tasks.append(replace(task, files=tuple(files)))
        return tasks

    def _read_tasks(self, importer: Importer, tasks: list[Task], should_stop: Callable[[], bool]) -> int:
        if not tasks:
            return 0
        new = 0
        with (
            handover.claim_files(self._spool) as token,
            ReadingPool(ChildSetup(importer, token.folder, token.name, self._capture()), tasks) as readers,
        ):
            for task, part in readers.iter_steps():
                if part.name:
                    new += self._store_part(part.name)
                    token.remove_file(part.name)
                if part.report is not None:
                    self._read_stamps |= {file.name: file.stamp for file in task.files}
                if should_stop():
                    break
        return new

    def _store_part(self, name: str) -> int:
        source, pieces = handover.read_slices(self._spool, name)
        new = 0
        for piece in pieces:
            if piece.drafts:
                new += len(self._store(piece.drafts, source).new_ids)
            if piece.marks:
                self._marks.set_positions(piece.marks)
        return new
