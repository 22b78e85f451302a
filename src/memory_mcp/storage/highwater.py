"""Which events were acknowledged, kept next to the store to notice a loss.

`high-water.json` says for the events up to a number of arrival how many they are, the XOR of all their ids and contents (the
ids are hashes, so any other set of events has another one), and by source how many and how new. `loss.json` says what was
found missing when the store was opened, until a person acknowledges it or the missing events are back.
"""

import json
import logging
import os
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files
from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.storage.values import Loss, MissingEvents

log = logging.getLogger(__name__)

MARK_FILE, LOSS_FILE = "high-water.json", "loss.json"
#: File that exists from the moment damage was met until everything undamaged is saved.
DAMAGE_FILE = "salvage.json"
#: Most sources that are counted apart, since the mark is written with every write; and the name for all others.
_SOURCES, OTHER = 32, "others"
#: Key of a second mark: that of the store once the running transaction has removed events on purpose.
_COMING = "coming"
_LOW = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class ContentMark:
    """Count and XOR of the events up to a number.

    By source also the newest time (UTC ms).
    """

    store_id: str = ""
    last_seq: int = 0
    events: int = 0
    #: The XOR of keys and contents; None in a mark of an earlier version, which only has `last_seq`.
    chain: int | None = 0
    sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def make_mark(store_id: str, rows: Sequence[tuple[str, int, int, int, int, int]]) -> ContentMark:
    """Return the mark of a store from one row for each source.

    A row has the source's name, its number of events, the XOR of their keys, the XOR of their content hashes, the
    newest time (UTC ms) and the highest number of arrival.
    """
    chain = last = events = 0
    counted: dict[str, tuple[int, int]] = {}
    for source, count, keys, contents, newest, seq in sorted(rows, key=lambda row: -row[1]):
        chain ^= (keys ^ contents) & _LOW
        events += count
        last = max(last, seq)
        _add_count(counted, source, count, newest)
    return ContentMark(store_id, last, events, chain, counted)


def _add_count(counted: dict[str, tuple[int, int]], source: str, count: int, newest: int) -> None:
    """Add events to a source; beyond 32 sources they count as "others"."""
    name = source if source in counted or len(counted) < _SOURCES else OTHER
    previous_count, latest = counted.get(name, (0, newest))
    counted[name] = (previous_count + count, max(latest, newest))


class HighWater:
    """Keeps the mark and the loss of one data directory."""

    def __init__(self, directory: Path | None, clock: Clock, looking: bool) -> None:
        """Keep nothing for None (in memory); write nothing if `looking`."""
        self._directory = directory
        self._clock = clock
        self._writes = directory is not None and not looking
        self._writing = threading.Lock()
        self._mark: ContentMark | None = None
        #: What is missing, until it is acknowledged.
        self.loss: Loss | None = None

    def check_mark(
        self, read: Callable[[int | None], ContentMark], set_aside: str = "", besides: Mapping[str, int] | None = None
    ) -> None:
        """Compare the mark with the store, note a loss, begin a new mark.

        `read` returns the mark of the store's events up to a number of arrival, or of all for None. `set_aside` is
        the folder where damaged files were put, `besides` how much else was lost with them, by what. A loss is logged
        as an error, kept in `loss` and written to `loss.json`, added to one that was known. A known loss is dropped
        when its events are back, unless more than events was lost. Events that a forgetting was removing when the
        last process ended are no loss.
        """
        acknowledged, old_loss = load_mark(self._directory) if self._directory else None, self._load_loss()
        present = read(None)
        if acknowledged is not None and self._directory and not _holds_mark(present, acknowledged, read):
            # What was being taken away by right when the last process ended is no loss; all else is.
            acknowledged = load_mark(self._directory, _COMING) or acknowledged
        if old_loss and _is_recovered(*old_loss, present, read):
            log.info("the %d events that were missing are back", old_loss[0].events)
            self.drop_loss()
            old_loss = None
        new_loss = None
        if acknowledged is not None and not _holds_mark(present, acknowledged, read):
            new_loss = _measure_loss(acknowledged, _mark_up_to(present, acknowledged, read), self._clock.now_ms())
        elif besides or (set_aside and acknowledged is None):
            new_loss = Loss(self._clock.now_ms(), 0, exact=acknowledged is not None, sources={})
        if new_loss is not None:
            new_loss = replace(new_loss, damaged_folder=set_aside, other_losses=besides or {})
            log.error("acknowledged events are missing: %s", new_loss.description)
            if old_loss:
                self._store_loss(_merge_losses(old_loss[0], new_loss), old_loss[1])
            else:
                self._store_loss(new_loss, acknowledged or present)
        else:
            self.loss = old_loss[0] if old_loss else None
        self._mark = present
        if self._writes:
            self.write_mark(sync=new_loss is not None)

    def reset_mark(self, present: ContentMark) -> None:
        """Begin the mark again with `present` and sync it; a loss stays known."""
        self._mark = present
        self.write_mark(sync=True)

    def add_events(
        self, last_seq: int, keys: Sequence[int], contents: Sequence[int], sources: Sequence[str], times: Sequence[int]
    ) -> None:
        """Add committed events to the mark in memory; does not write.

        Columns of one length; `last_seq` is the number of the last one; `keys` and `contents` are 128-bit keys and 60-bit content
        hashes, `times` UTC milliseconds. One transaction after the other; does nothing before `check_mark` has run.
        """
        if (mark := self._mark) is not None:
            chain, counted = mark.chain or 0, dict(mark.sources)
            for key, content, source, ms in zip(keys, contents, sources, times, strict=True):
                chain ^= (key ^ content) & _LOW
                _add_count(counted, source, 1, ms)
            self._mark = replace(mark, last_seq=last_seq, events=mark.events + len(keys), chain=chain, sources=counted)

    def write_mark(self, sync: bool = False, next_mark: ContentMark | None = None) -> None:
        """Store the mark, and with it `next_mark`; log an OSError only.

        `next_mark` holds once the running transaction, which removes events, is committed; then `reset_mark` has to follow.
        If the process ends in between, `check_mark` takes either as right. Does nothing for a store in memory, one that is
        only read, or before `check_mark`. After each append it is called without `sync` (fsync), so a power loss may lose
        the last mark.
        """
        if not self._writes or self._directory is None or self._mark is None:
            return
        # Writers come here after their transaction, side by side; the mark must not fall behind an earlier one.
        with self._writing:
            mark = self._mark
            document = _mark_as_json(mark) | ({_COMING: _mark_as_json(next_mark)} if next_mark else {})
            content = json.dumps(document, sort_keys=True).encode("ascii")
            # Not made again with its check: this is written with every write.
            content = b'%b, "check": %d}' % (content[:-1], zlib.crc32(content))
            try:
                _overwrite_file(self._directory / MARK_FILE, content, sync)
            except OSError as error:
                # What it counts is committed already: a full disk must not make that look like a failure.
                log.warning("the high-water mark could not be written: %s", error)

    def _load_loss(self) -> tuple[Loss, ContentMark] | None:
        """Return the loss in `loss.json` and its mark; None without the file.

        A file that cannot be read gives a loss of unknown size (`is_unread`), since something was missing.
        """
        path = self._directory / LOSS_FILE if self._directory else None
        if path is None or not path.exists():
            return None
        try:
            document = json.loads(foreign_files.read_file(path))
            gaps = {str(k): MissingEvents(*v) for k, v in document["sources"].items()}
            loss = Loss(
                int(document["noticed_ms"]), int(document["events"]), bool(document["exact"]), gaps, str(document["set_aside"])
            )
            loss = replace(loss, other_losses={str(k): int(v) for k, v in document.get("besides", {}).items()})
        except (OSError, KeyError, TypeError, ValueError, AttributeError):
            # Something was missing, whatever this said of it.
            return Loss(self._clock.now_ms(), 0, exact=False, sources={}, is_unread=True), ContentMark(chain=None)
        return loss, _parse_mark(document.get("mark")) or ContentMark(chain=None)

    def _store_loss(self, loss: Loss, mark: ContentMark) -> None:
        self.loss = loss
        if not self._writes or self._directory is None:
            return
        document: dict[str, Any] = {"noticed_ms": loss.noticed_ms, "events": loss.events, "exact": loss.exact}
        document |= {
            "sources": {k: [g.events, g.after_ms, g.to_ms] for k, g in loss.sources.items()},
            "set_aside": loss.damaged_folder,
        }
        document["besides"] = dict(loss.other_losses)
        document["mark"] = asdict(mark) | {"chain": None if mark.chain is None else f"{mark.chain:016x}"}
        # For hooks, which know no more of this file than `paths.loss_told`.
        document["told"] = loss.summary_line
        try:
            _overwrite_file(self._directory / LOSS_FILE, json.dumps(document).encode("ascii"), sync=True)
        except OSError as error:
            log.warning("what is missing could not be written down: %s", error)

    def drop_loss(self) -> None:
        """Forget the loss and remove `loss.json`."""
        self.loss = None
        if self._writes and self._directory is not None:
            (self._directory / LOSS_FILE).unlink(missing_ok=True)


def is_damage_noted(directory: Path) -> bool:
    """Return whether damage was met that the next start deals with."""
    return (directory / DAMAGE_FILE).exists()


def load_mark(directory: Path, key: str = "") -> ContentMark | None:
    """Return the mark in `high-water.json`, or the one under `key`.

    None if it is missing or damaged, which is logged.
    """
    try:
        document = json.loads(foreign_files.read_file(directory / MARK_FILE))
        # Earlier versions wrote no check.
        if document.pop("check", None) in (None, _mark_checksum(document)):
            return _parse_mark(document.get(key) if key else document)
    except OSError:
        return None
    except (ValueError, TypeError, AttributeError):
        pass
    log.error("%s is damaged: whether acknowledged events are missing cannot be told; it is begun anew", directory / MARK_FILE)
    return None


def _mark_checksum(document: Mapping[str, Any]) -> int:
    """Return the CRC-32 of a stored mark without its own `check`.

    A damaged mark must not pass for a damaged store.
    """
    return zlib.crc32(json.dumps(document, sort_keys=True).encode("ascii"))


def _mark_as_json(mark: ContentMark) -> dict[str, Any]:
    # Not by `asdict`, which copies deeply and takes as long as the rest of a write.
    return {field.name: getattr(mark, field.name) for field in fields(mark)} | {"chain": f"{mark.chain or 0:016x}"}


def _parse_mark(document: Any) -> ContentMark | None:
    """Return the mark of a JSON document, or None.

    In a mark of an earlier version, without `chain`, the number of events is taken to be `last_seq`.
    """
    try:
        last = int(document["last_seq"])
        if "chain" not in document or document["chain"] is None:
            return ContentMark(last_seq=last, events=last, chain=None)
        sources = {str(k): (int(v[0]), int(v[1])) for k, v in document["sources"].items()}
        return ContentMark(str(document["store_id"]), last, int(document["events"]), int(document["chain"], 16), sources)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None


def _holds_mark(present: ContentMark, acknowledged: ContentMark, read: Callable[[int | None], ContentMark]) -> bool:
    """Return whether the store still holds what was acknowledged.

    That is, as many events up to its `last_seq` with the same XOR; for a mark of an earlier version only that the
    numbers reach so far. `read` is called only where the store has later events.
    """
    if acknowledged.chain is None:
        return present.last_seq >= acknowledged.last_seq
    within = _mark_up_to(present, acknowledged, read)
    return (within.events, within.chain) == (acknowledged.events, acknowledged.chain)


def _is_recovered(loss: Loss, mark: ContentMark, present: ContentMark, read: Callable[[int | None], ContentMark]) -> bool:
    # What else was lost with a damaged block does not come back with the events.
    return not loss.other_losses and mark.chain is not None and mark.events > 0 and _holds_mark(present, mark, read)


def _mark_up_to(present: ContentMark, acknowledged: ContentMark, read: Callable[[int | None], ContentMark]) -> ContentMark:
    return present if present.last_seq <= acknowledged.last_seq else read(acknowledged.last_seq)


def _measure_loss(acknowledged: ContentMark, present: ContentMark, now_ms: int) -> Loss:
    """Return what the store does not hold; at least one event.

    It is exact if only events are missing and none is new. Counted by source; nothing that the store holds counts if the ids of
    the two stores differ.
    """
    if acknowledged.chain is None:
        return Loss(now_ms, acknowledged.last_seq - present.last_seq, exact=True, sources={})
    if acknowledged.store_id != present.store_id:
        present = ContentMark()
    gaps: dict[str, MissingEvents] = {}
    for source, (count, newest) in acknowledged.sources.items():
        present_count, latest = present.sources.get(source, (0, None))
        if count > present_count:
            gaps[source] = MissingEvents(
                count - present_count, latest if latest is not None and latest < newest else None, newest
            )
    # So many more are in the store whose source was damaged: they are taken to be of the largest gaps.
    surplus = present.sources.get("", (0, 0))[0] - acknowledged.sources.get("", (0, 0))[0]
    for source, gap in sorted(gaps.items(), key=lambda item: -item[1].events):
        recovered = min(max(surplus, 0), gap.events)
        surplus -= recovered
        gaps[source] = replace(gap, events=gap.events - recovered)
    gaps = {source: gap for source, gap in gaps.items() if gap.events}
    missing = sum(gap.events for gap in gaps.values())
    return Loss(now_ms, max(missing, 1), missing == acknowledged.events - present.events, gaps)


def _merge_losses(first: Loss, second: Loss) -> Loss:
    """Return two losses, found one after the other, as one.

    The first time and the later folder are kept; it is exact only if both are.
    """
    gaps = dict(first.sources)
    for source, gap in second.sources.items():
        earlier_gap = gaps.get(source)
        gaps[source] = (
            MissingEvents(earlier_gap.events + gap.events, earlier_gap.after_ms, max(earlier_gap.to_ms, gap.to_ms))
            if earlier_gap
            else gap
        )
    places = second.damaged_folder or first.damaged_folder
    besides = {
        what: first.other_losses.get(what, 0) + second.other_losses.get(what, 0)
        for what in (*first.other_losses, *second.other_losses)
    }
    # Where one says only what else was lost, the other's number is no less exact for it.
    exact = all(loss.exact for loss in (first, second) if loss.events or not loss.other_losses)
    return Loss(first.noticed_ms, first.events + second.events, exact, gaps, places, besides, first.is_unread or second.is_unread)


def _overwrite_file(path: Path, content: bytes, sync: bool) -> None:
    """Overwrite a small file in place; with `sync` followed by fsync.

    A new file for every event would be a block written for every event. A crash may leave it half written.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        os.write(descriptor, content)
        if os.fstat(descriptor).st_size > len(content):
            os.ftruncate(descriptor, len(content))
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
