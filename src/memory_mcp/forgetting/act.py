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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp.app import App
from memory_mcp.archive.outgoing import own_folders
from memory_mcp.base import extensions, foreign_files, machine
from memory_mcp.base.errors import IndexNotReady
from memory_mcp.base.failpoints import failpoint
from memory_mcp.forgetting.copies import Copies
from memory_mcp.forgetting.files import Files
from memory_mcp.ingest.tombstones import ForgetRequest, Tombstones
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.storage.values import ErasureResult
from memory_mcp.tree.derive.derivation import Place
from memory_mcp.tree.derive.rebuild_toc import RebuildToc
from memory_mcp.tree.derive.terms import refit_all

log = logging.getLogger(__name__)

#: Says that something is being forgotten; on disk.
NOTE = "forgetting.json"
#: So often the store is looked through at most.
_LOOKS = 4
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
class Outcome:
    """What a forgetting removed, or would remove."""

    counts: Mapping[str, int]
    #: (id, when it was said in UTC ms) of every event that went or changed, by time.
    samples: Sequence[tuple[str, int]] = field(default_factory=tuple)

    def in_words(self) -> dict[str, int]:
        """Return the counts by kind as a reader knows these; what only the program knows is left out or counted as one."""
        counts: Counter[str] = Counter()
        for kind, number in self.counts.items():
            if name := _KINDS.get(kind, _BESIDE):
                counts[name] += number
        return dict(counts)


class Forgetting:
    """Forgets in one open memory."""

    def __init__(self, app: App) -> None:
        """Use the data directory that the settings of `app` name; nothing is read yet."""
        self._app = app
        self._directory: Path = app.settings.storage.directory
        self._note = self._directory / NOTE

    def tried(self, wanted: ForgetRequest) -> Outcome:
        """Return what would be removed, "backups to look through" (their number) among the counts; nothing is written."""
        tombstones = Tombstones.preview(wanted)
        erased = self._app.storage.erase_forgotten(tombstones, dry=True)
        swept = _without_rest(erased, Files(self._directory, tombstones).sweep(dry=True))
        return _outcome(erased, swept | {"backups to look through": self._copies(tombstones).count()})

    def carry_out(self, wanted: ForgetRequest, author: str, subject: str) -> Outcome:
        """Forget what is wanted: all of it is gone from store, indexes, backups and other files when this returns.

        Tombstones and a note are on disk first, so that a killed run is finished by `resume`. `author` and `subject`
        are recorded in the audit. Raises what storage and files raise, after which it is to be resumed.
        """
        self._app.gate.tombstones.add(wanted)
        note = {"author": author, "subject": subject}
        machine.put(self._note, json.dumps(note).encode("ascii"))
        _note_elsewhere(self._app)
        failpoint("forget.noted")
        return self._work(note)

    def look_again(self, author: str, subject: str) -> int:
        """Remove what tombstones name and is stored all the same; return how many events went or changed. Writes nothing if 0."""
        leftovers = self._app.storage.erase_forgotten(self._app.gate.tombstones, dry=True)
        if leftovers.is_empty:
            return 0
        _note_elsewhere(self._app)
        self._work({"author": author, "subject": subject})
        return len(leftovers.removed_events) + len(leftovers.changed_events)

    def resume(self) -> bool:
        """Finish a forgetting that was killed; return whether there was a note. A damaged one names nobody in the audit."""
        try:
            note = json.loads(foreign_files.read_file(self._note))
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            note = {}
        log.info("something was being forgotten when the last process ended: it is finished now")
        self._work(note if isinstance(note, dict) else {}, resumed=True)
        return True

    def _work(self, note: Mapping[str, Any], resumed: bool = False) -> Outcome:
        """Remove what tombstones name from store, files, backups, shared files and indexes; then record it and remove the note.

        What depends on it is derived anew at once, while nothing else is published; the store is compacted. Returns what
        was removed. `resumed`: how far another process came is not known, so the whole tree is checked and the topic
        graph dropped.
        """
        app, erased = self._app, ErasureResult()
        with app.derivation.publishing:
            app.drain()
            # Once more for what was cleaned before the tombstones were there, and stored after the first look.
            for look in range(_LOOKS):
                now = app.storage.erase_forgotten(app.gate.tombstones, after=erased.last_seq)
                if look and now.is_empty:
                    break
                erased = _both(erased, now)
                self._derive_again(now, whole_tree=resumed and not look)
        failpoint("forget.derived")
        app.engine.forget_pages()
        swept = _without_rest(erased, Files(self._directory, app.gate.tombstones).sweep())
        # A backup that began before the erasure holds what was erased, and one under way lets nothing be compacted.
        with app.backups.suspend():
            swept["backups"] = self._copies(app.gate.tombstones).sweep()
            shared = own_folders(app.storage, self._directory.absolute())
            swept["shared files"] = sum(Copies(folder, app.gate.tombstones).sweep() for folder in shared)
            failpoint("forget.swept")
            app.storage.compact_files()
        failpoint("forget.compacted")
        self._indexes()
        clean = app.gate.tombstones.clean_text
        self._topics((lambda _: True) if resumed else (lambda text: clean(text) != text), erased)
        app.scheduler.hasten("render_briefings")
        outcome = _outcome(erased, swept)
        who, what = str(note.get("author", "")), str(note.get("subject", ""))
        app.storage.audit.record_entry(AuditEntry("forget", app.clock.now_ms(), who, what, counts=outcome.in_words()))
        app.storage.write_checkpoint()
        self._note.unlink(missing_ok=True)
        return outcome

    def _copies(self, tombstones: Tombstones) -> Copies:
        """Return the archive files of the backup folder (`backups` in the data directory by default), to be cleaned."""
        folder = self._app.backups.folder
        return Copies(folder or self._directory / "backups", tombstones)

    def _derive_again(self, erased: ErasureResult, whole_tree: bool) -> None:
        """Derive arrived sessions again, over 2000 events in a child process, and refit periods or rebuild the tree."""
        app = self._app
        app.derivation.reread()
        app.derivation.run(place=Place.ASIDE if app.derivation.pending() > _ASIDE else Place.HERE)
        if whole_tree:
            RebuildToc(app.storage, app.calendar, app.summarizer, app.settings.toc).run()
        else:
            refit_all(app.storage.toc, erased.days)
        app.derivation.reread()

    def _indexes(self) -> None:
        """Clean the keyword and the vector index of what was forgotten; remove the files of one that cannot be opened.

        Waits up to ten minutes for an index that is busy, then raises IndexNotReady.
        """
        accelerators, folder = self._app.accelerators, self._directory / "indexes"
        for name in ("bm25", "vector"):
            if accelerators.find_searcher(name) is None:
                shutil.rmtree(folder / name, ignore_errors=True)
            else:
                _patiently(lambda name=name: accelerators.purge(name))

    def _topics(self, tells: Callable[[str], bool], erased: ErasureResult) -> None:
        """Drop the topic graph if it holds a segment of `erased` or a text for which `tells` is true; a job groups it anew.

        The files of one that cannot be opened are removed. Waits as `_indexes` does.
        """
        topics = self._app.accelerators.find_topic_keeper()
        if topics is None:
            shutil.rmtree(self._directory / "indexes" / "topics", ignore_errors=True)
            return
        gone: list[bool] = []
        _patiently(lambda: gone.append(topics.forget_if_affected(erased.segments, tells)))
        if any(gone):
            self._app.scheduler.hasten("group_topics")


def resume(app: App) -> None:
    """Finish what an earlier process was forgetting, and take back the lines that earlier versions took for values.

    Errors pass on, and the note stays.
    """
    lift_lines(app)
    if app.settings.storage.directory.joinpath(NOTE).exists():
        Forgetting(app).resume()


def lift_lines(app: App) -> None:
    """Remove the values that earlier versions kept for lines of forgotten events, if they can be told apart."""
    if not app.gate.tombstones.is_empty:
        value_count = sum(act.action == "forget" and act.subject == "value" for act in app.storage.audit.list_entries(_ACTS))
        if count := app.gate.tombstones.lift_old_lines(value_count):
            log.info("%d lines of forgotten events are no longer taken out of other texts", count)


def _patiently(work: Any) -> None:
    """Run `work`, again every 0.2 s while it raises IndexNotReady; after ten minutes that error passes on."""
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
    """Return the counts of removed files, without briefings where nothing was stored: they are written again anyway."""
    return swept if not erased.is_empty else Counter({kind: count for kind, count in swept.items() if kind != "briefings"})


def _outcome(erased: ErasureResult, files: Mapping[str, int]) -> Outcome:
    """Return the counts above 0 of rows and files by kind, and (id, UTC ms) of each event concerned, once, by time."""
    counts = {kind: count for kind, count in (*erased.counts.items(), *files.items()) if count}
    samples = sorted({*erased.removed_events, *erased.changed_events}, key=lambda sample: sample[1])
    return Outcome(counts, samples)


def _both(first: ErasureResult, second: ErasureResult) -> ErasureResult:
    """Return the outcomes of two erasings as one: lists joined, counts added, `last_seq` that of the later one (`second`)."""
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
