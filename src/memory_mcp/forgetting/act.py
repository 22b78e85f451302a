"""Forgets something, from the first note to the last.

What was forgotten stays known by its tombstones, so that an act that was killed is done again, and finds what is left.

Invariants
1. Before anything is removed, tombstones and a note without a word of text are on disk; the note goes last.
2. Doing it twice changes nothing more.
3. Questions are answered meanwhile, by what is there; writes wait while the tables are cleaned.
"""

import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from memory_mcp.app import App
from memory_mcp.base import extensions, foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexNotReady
from memory_mcp.base.failpoints import failpoint
from memory_mcp.capture.tombstones import ForgetRequest, Tombstones
from memory_mcp.forgetting.copies import ArchiveFiles
from memory_mcp.forgetting.files import DataFiles
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.storage.values import ErasureResult
from memory_mcp.tree.derive.derivation import ExecutionMode
from memory_mcp.tree.derive.rebuild_toc import TocRebuild
from memory_mcp.tree.derive.terms import refit_all
from memory_mcp.upkeep.archive.outgoing import list_own_folders

log = logging.getLogger(__name__)

#: Says that something is being forgotten; on disk.
NOTE = "forgetting.json"
#: So often the store is looked through at most.
_MAX_LOOKS = 4
#: Events from which a child process derives them: it takes half a second to begin.
_ASIDE = 2000
#: How often a rebuild that is under way for another reason is asked for its end, and how long (seconds).
_LOOK, _PATIENCE = 0.2, 600.0
#: Acts that are counted at most.
_ACTS = 1_000_000
#: What is counted, in a reader's words; kinds that are not here are rows beside these, counted as one.
_KINDS = {
    **{kind: kind for kind in ("events", "events with a value", "duplicates", "texts by agents or models", "pins")},
    **{kind: kind for kind in ("topic labels", "briefings", "logs and settings", "pauses", "backups", "shared files")},
    **dict.fromkeys(("segments", "bullets", "term sets", "openings"), ""),
    "backups to look through": "backups to look through",
    "nodes": "titles, written again from what stays",
    "grips": "quotations",
    "superseded": "corrections",
    "payloads": "recordings that wait",
    "copies": "older copies of the memory",
}
_BESIDE = "notes beside them"


@dataclass(frozen=True, slots=True)
class ForgettingOutcome:
    """What a forgetting removed, or would remove."""

    counts: Mapping[str, int]
    #: (id, when it was said in UTC ms) of every event that went or changed, by time.
    samples: Sequence[tuple[str, int]] = field(default_factory=tuple)

    def in_words(self) -> dict[str, int]:
        """Return the counts by kind, in a reader's words.

        What only the program knows is left out or counted as one.
        """
        counts: Counter[str] = Counter()
        for kind, number in self.counts.items():
            if name := _KINDS.get(kind, _BESIDE):
                counts[name] += number
        return dict(counts)


class Forgetting:
    """Forgets in one open memory."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._directory: Path = app.settings.storage.directory
        self._note = self._directory / NOTE

    def preview(self, targets: ForgetRequest) -> ForgettingOutcome:
        """Return what would be removed; write nothing.

        "backups to look through" (their number) is among the counts.
        """
        tombstones = Tombstones.preview(targets)
        erased = self._app.storage.erase_forgotten(tombstones, dry=True)
        swept = _without_rest(erased, DataFiles(self._directory, tombstones).remove_forgotten(dry=True))
        return _make_outcome(erased, swept | {"backups to look through": self._backup_files(tombstones).count()})

    def carry_out(self, targets: ForgetRequest, author: str, subject: str) -> ForgettingOutcome:
        """Remove the targets from the store and all files.

        Tombstones and a note are on disk first, so that a killed run is finished by `resume`. `author` and `subject`
        are recorded in the audit. Raises what storage and files raise, after which it is to be resumed.
        """
        self._app.gate.tombstones.add(targets)
        note = {"author": author, "subject": subject}
        machine.put(self._note, json.dumps(note).encode("ascii"))
        _note_elsewhere(self._app)
        failpoint("forget.noted")
        return self._remove_all(note)

    def look_again(self, author: str, subject: str) -> int:
        """Remove forgotten events that are stored again; return the count."""
        leftovers = self._app.storage.erase_forgotten(self._app.gate.tombstones, dry=True)
        if leftovers.is_empty:
            return 0
        _note_elsewhere(self._app)
        self._remove_all({"author": author, "subject": subject})
        return len(leftovers.removed_events) + len(leftovers.changed_events)

    def resume(self) -> bool:
        """Finish a killed forgetting; return whether there was one."""
        try:
            note = json.loads(foreign_files.read_file(self._note))
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            note = {}
        log.info("something was being forgotten when the last process ended: it is finished now")
        self._remove_all(note if isinstance(note, dict) else {}, resumed=True)
        return True

    def _remove_all(self, note: Mapping[str, Any], resumed: bool = False) -> ForgettingOutcome:
        """Remove what tombstones name from everything; then remove the note.

        `resumed`: how far another process came is not known, so the whole tree is checked and the topic graph dropped.
        """
        app, erased = self._app, ErasureResult()
        with app.derivation.publishing:
            app.drain()
            # Once more for what was cleaned before the tombstones were there, and stored after the first look.
            for look in range(_MAX_LOOKS):
                now = app.storage.erase_forgotten(app.gate.tombstones, after=erased.last_seq)
                app.work_reader.drop_all()
                if look and now.is_empty:
                    break
                erased = _add_erased(erased, now)
                self._derive_again(now, whole_tree=resumed and not look)
        failpoint("forget.derived")
        app.engine.forget_pages()
        swept = _without_rest(erased, DataFiles(self._directory, app.gate.tombstones).remove_forgotten())
        # A backup that began before the erasure holds what was erased, and one under way lets nothing be compacted.
        with app.backups.suspend():
            swept["backups"] = self._backup_files(app.gate.tombstones).remove_forgotten()
            shared = list_own_folders(app.storage, self._directory.absolute())
            swept["shared files"] = sum(ArchiveFiles(folder, app.gate.tombstones).remove_forgotten() for folder in shared)
            failpoint("forget.swept")
            app.storage.compact_files()
        failpoint("forget.compacted")
        self._clean_indexes()
        clean = app.gate.tombstones.clean_text
        self._clean_topics((lambda _: True) if resumed else (lambda text: clean(text) != text), erased)
        app.scheduler.hasten("render_briefings")
        outcome = _make_outcome(erased, swept)
        who, what = str(note.get("author", "")), str(note.get("subject", ""))
        app.storage.audit.record_entry(AuditEntry("forget", app.clock.now_ms(), who, what, counts=outcome.in_words()))
        app.storage.write_checkpoint()
        self._note.unlink(missing_ok=True)
        return outcome

    def _backup_files(self, tombstones: Tombstones) -> ArchiveFiles:
        folder = self._app.backups.folder
        return ArchiveFiles(folder or self._directory / "backups", tombstones)

    def _derive_again(self, erased: ErasureResult, whole_tree: bool) -> None:
        app = self._app
        app.derivation.reread()
        app.derivation.run(mode=ExecutionMode.ASIDE if app.derivation.count_pending() > _ASIDE else ExecutionMode.HERE)
        if whole_tree:
            TocRebuild(app.storage, app.calendar, app.summarizer, app.settings.toc).run()
        else:
            refit_all(app.storage.toc, erased.days)
        app.derivation.reread()

    def _clean_indexes(self) -> None:
        """Wait for a busy index ten minutes, then raise IndexNotReady."""
        accelerators, folder = self._app.accelerators, self._directory / "indexes"
        for name in ("bm25", "vector"):
            if accelerators.find_searcher(name) is None:
                shutil.rmtree(folder / name, ignore_errors=True)
            else:
                _retry_until_ready(lambda name=name: accelerators.purge(name))

    def _clean_topics(self, tells: Callable[[str], bool], erased: ErasureResult) -> None:
        topics = self._app.accelerators.find_topic_keeper()
        if topics is None:
            shutil.rmtree(self._directory / "indexes" / "topics", ignore_errors=True)
            return
        gone: list[bool] = []
        _retry_until_ready(lambda: gone.append(topics.forget_if_affected(erased.segments, tells)))
        if any(gone):
            self._app.scheduler.hasten("group_topics")


def resume(app: App) -> None:
    """Finish what an earlier process was forgetting.

    Errors pass on, and the note stays.
    """
    lift_lines(app)
    if app.settings.storage.directory.joinpath(NOTE).exists():
        Forgetting(app).resume()


def lift_lines(app: App) -> None:
    """Remove values that earlier versions kept for lines."""
    if not app.gate.tombstones.is_empty:
        value_count = sum(act.action == "forget" and act.subject == "value" for act in app.storage.audit.list_entries(_ACTS))
        if count := app.gate.tombstones.lift_old_lines(value_count):
            log.info("%d lines of forgotten events are no longer taken out of other texts", count)


def _retry_until_ready(work: Any) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            work()
        except IndexNotReady:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK)
        else:
            return


def _without_rest(erased: ErasureResult, swept: Counter[str]) -> Counter[str]:
    return swept if not erased.is_empty else Counter({kind: count for kind, count in swept.items() if kind != "briefings"})


def _make_outcome(erased: ErasureResult, files: Mapping[str, int]) -> ForgettingOutcome:
    counts = {kind: count for kind, count in (*erased.counts.items(), *files.items()) if count}
    samples = sorted({*erased.removed_events, *erased.changed_events}, key=lambda sample: sample[1])
    return ForgettingOutcome(counts, samples)


def _add_erased(first: ErasureResult, second: ErasureResult) -> ErasureResult:
    counts = {kind: first.counts.get(kind, 0) + second.counts.get(kind, 0) for kind in {**first.counts, **second.counts}}
    return ErasureResult(
        removed_events=[*first.removed_events, *second.removed_events],
        changed_events=[*first.changed_events, *second.changed_events],
        segments=first.segments | second.segments,
        days=first.days | second.days,
        last_seq=second.last_seq,
        counts=counts,
    )


def _note_elsewhere(app: App) -> None:
    """Have other packages, of which a section is set, note the tombstones; raises what they raise: nothing is removed then."""
    for name in app.settings.extensions:
        note = extensions.find(extensions.FORGOTTEN, name)
        if note is not None:
            note(app)
