"""Which events were acknowledged, kept beside the store, so that a store that does not hold them is noticed.

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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files
from memory_mcp.base.clock import Clock
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
    """Events up to a number of arrival: how many, their XOR, and by source how many and the newest time (UTC ms)."""

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
    """Add `count` events to a source in `counted`, and keep the newer time; a source beyond the 32 first counts as "others"."""
    name = source if source in counted or len(counted) < _SOURCES else OTHER
    before, latest = counted.get(name, (0, newest))
    counted[name] = (before + count, max(latest, newest))


class HighWater:
    """Keeps the mark of one data directory, and the loss that a comparison with the store made known."""

    def __init__(self, directory: Path | None, clock: Clock, looking: bool) -> None:
        """`directory` None: the store is in memory, nothing is kept; `looking`: it is only read, nothing is written."""
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
        """Compare the mark on disk with what the store holds up to it, note a loss, and begin the mark anew.

        `read` returns the mark of the store's events up to a number of arrival, or of all for None. `set_aside` is
        the folder where damaged files were put, `besides` how much else was lost with them, by what. A loss is logged
        as an error, kept in `loss` and written to `loss.json`, added to one that was known. A known loss is dropped
        when its events are back, unless more than events was lost. Events that a forgetting was removing when the
        last process ended are no loss.
        """
        known, had = load_mark(self._directory) if self._directory else None, self._load_loss()
        now = read(None)
        if known is not None and self._directory and not _holds_mark(now, known, read):
            # What was being taken away by right when the last process ended is no loss; all else is.
            known = load_mark(self._directory, _COMING) or known
        # What else was lost with a damaged block does not come back with the events.
        if had and not had[0].other_losses and had[1].chain is not None and had[1].events and _holds_mark(now, had[1], read):
            log.info("the %d events that were missing are back", had[0].events)
            self.drop_loss()
            had = None
        found = (
            None
            if known is None or _holds_mark(now, known, read)
            else _measure_loss(known, _mark_up_to(now, known, read), self._clock.now_ms())
        )
        if found is None and ((set_aside and known is None) or besides):
            found = Loss(self._clock.now_ms(), 0, exact=known is not None, sources={})
        if found is not None:
            found = replace(found, damaged_folder=set_aside, other_losses=besides or {})
            log.error("acknowledged events are missing: %s", found.description)
            self._store_loss(_merge_losses(had[0], found) if had else found, had[1] if had else known or now)
        else:
            self.loss = had[0] if had else None
        self._mark = now
        if self._writes:
            self.write_mark(sync=found is not None)

    def reset_mark(self, now: ContentMark) -> None:
        """Begin the mark anew with `now`, what the store holds, and write it with a sync; a loss that is known stays known."""
        self._mark = now
        self.write_mark(sync=True)

    def add_events(
        self, last_seq: int, keys: Sequence[int], contents: Sequence[int], sources: Sequence[str], times: Sequence[int]
    ) -> None:
        """Take committed events, given as columns of one length, into the mark in memory; `write` then stores it.

        `last_seq` is the number of the last one; `keys` and `contents` are 128-bit keys and 60-bit content hashes, `times`
        UTC milliseconds. One transaction after the other; does nothing before `check` has run.
        """
        if (mark := self._mark) is not None:
            chain, counted = mark.chain or 0, dict(mark.sources)
            for key, content, source, ms in zip(keys, contents, sources, times, strict=True):
                chain ^= (key ^ content) & _LOW
                _add_count(counted, source, 1, ms)
            self._mark = replace(mark, last_seq=last_seq, events=mark.events + len(keys), chain=chain, sources=counted)

    def write_mark(self, sync: bool = False, coming: ContentMark | None = None) -> None:
        """Store the mark and beside it `coming`, if given; an OSError is only logged.

        `coming` holds once the running transaction, which removes events, is committed; then `reseal` has to follow. If
        the process ends in between, `check` takes either as right. Does nothing for a store in memory, one that is only
        read, or before `check`. After each append it is called without `sync` (fsync), so a power loss may lose the last mark.
        """
        if not self._writes or self._directory is None or self._mark is None:
            return
        # Writers come here after their transaction, side by side; the mark must not fall behind an earlier one.
        with self._writing:
            mark = self._mark
            said = _mark_as_json(mark) | ({_COMING: _mark_as_json(coming)} if coming else {})
            said["check"] = _mark_checksum(said)
            try:
                _overwrite_file(self._directory / MARK_FILE, json.dumps(said, separators=(",", ":")).encode("ascii"), sync)
            except OSError as error:
                # What it counts is committed already: a full disk must not make that look like a failure.
                log.warning("the high-water mark could not be written: %s", error)

    def _load_loss(self) -> tuple[Loss, ContentMark] | None:
        """Return the loss in `loss.json` with the mark that it was measured by; None where there is no such file.

        A file that cannot be read gives a loss of unknown size (`is_unread`), since something was missing.
        """
        path = self._directory / LOSS_FILE if self._directory else None
        if path is None or not path.exists():
            return None
        try:
            said = json.loads(foreign_files.read_file(path))
            gaps = {str(k): MissingEvents(*v) for k, v in said["sources"].items()}
            loss = Loss(int(said["noticed_ms"]), int(said["events"]), bool(said["exact"]), gaps, str(said["set_aside"]))
            loss = replace(loss, other_losses={str(k): int(v) for k, v in said.get("besides", {}).items()})
        except (OSError, KeyError, TypeError, ValueError, AttributeError):
            # Something was missing, whatever this said of it.
            return Loss(self._clock.now_ms(), 0, exact=False, sources={}, is_unread=True), ContentMark(chain=None)
        return loss, _parse_mark(said.get("mark")) or ContentMark(chain=None)

    def _store_loss(self, loss: Loss, known: ContentMark) -> None:
        """Set `loss` and, where this process writes, store it with its mark in `loss.json`; an OSError is only logged."""
        self.loss = loss
        if not self._writes or self._directory is None:
            return
        said: dict[str, Any] = {"noticed_ms": loss.noticed_ms, "events": loss.events, "exact": loss.exact}
        said |= {
            "sources": {k: [g.events, g.after_ms, g.to_ms] for k, g in loss.sources.items()},
            "set_aside": loss.damaged_folder,
        }
        said["besides"] = dict(loss.other_losses)
        said["mark"] = asdict(known) | {"chain": None if known.chain is None else f"{known.chain:016x}"}
        # For hooks, which know no more of this file than `paths.loss_told`.
        said["told"] = loss.summary_line
        try:
            _overwrite_file(self._directory / LOSS_FILE, json.dumps(said).encode("ascii"), sync=True)
        except OSError as error:
            log.warning("what is missing could not be written down: %s", error)

    def drop_loss(self) -> None:
        """Forget the loss and, where this process writes, remove `loss.json`."""
        self.loss = None
        if self._writes and self._directory is not None:
            (self._directory / LOSS_FILE).unlink(missing_ok=True)


def is_damage_noted(directory: Path) -> bool:
    """Return whether `salvage.json` exists: damage was met that is not dealt with yet; the next start does that."""
    return (directory / DAMAGE_FILE).exists()


def load_mark(directory: Path, part: str = "") -> ContentMark | None:
    """Return the mark in `high-water.json`, or the one under its key `part`; None where it is missing or damaged (logged)."""
    try:
        said = json.loads(foreign_files.read_file(directory / MARK_FILE))
        # Earlier versions wrote no check.
        if said.pop("check", None) in (None, _mark_checksum(said)):
            return _parse_mark(said.get(part) if part else said)
    except OSError:
        return None
    except (ValueError, TypeError, AttributeError):
        pass
    log.error("%s is damaged: whether acknowledged events are missing cannot be told; it is begun anew", directory / MARK_FILE)
    return None


def _mark_checksum(said: Mapping[str, Any]) -> int:
    """Return the CRC-32 of a mark as stored, without its own `check`: a damaged mark must not pass for a damaged store."""
    return zlib.crc32(json.dumps(said, sort_keys=True).encode("ascii"))


def _mark_as_json(mark: ContentMark) -> dict[str, Any]:
    """Return a mark as a dict for JSON: its fields by name, the XOR (`chain`) as 16 hexadecimal digits, 0 for None."""
    return asdict(mark) | {"chain": f"{mark.chain or 0:016x}"}


def _parse_mark(said: Any) -> ContentMark | None:
    """Return the mark of a dict read from JSON; None where a value is missing or of a wrong form.

    In a mark of an earlier version, without `chain`, the number of events is taken to be `last_seq`.
    """
    try:
        last = int(said["last_seq"])
        if "chain" not in said or said["chain"] is None:
            return ContentMark(last_seq=last, events=last, chain=None)
        sources = {str(k): (int(v[0]), int(v[1])) for k, v in said["sources"].items()}
        return ContentMark(str(said["store_id"]), last, int(said["events"]), int(said["chain"], 16), sources)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None


def _holds_mark(now: ContentMark, known: ContentMark, read: Callable[[int | None], ContentMark]) -> bool:
    """Return whether the store, whose whole mark is `now`, still holds what `known` says was acknowledged.

    That is, as many events up to `known.last_seq` with the same XOR; for a mark of an earlier version only that the
    numbers reach so far. `read` is called only where the store has later events.
    """
    if known.chain is None:
        return now.last_seq >= known.last_seq
    within = _mark_up_to(now, known, read)
    return (within.events, within.chain) == (known.events, known.chain)


def _mark_up_to(now: ContentMark, known: ContentMark, read: Callable[[int | None], ContentMark]) -> ContentMark:
    """Return the mark of the store's events up to number `known.last_seq`: `now` where there are no later ones, else read."""
    return now if now.last_seq <= known.last_seq else read(known.last_seq)


def _measure_loss(known: ContentMark, within: ContentMark, now_ms: int) -> Loss:
    """Return what of `known` the store does not hold; at least one event. Exact where only events are missing and none is new.

    `within` is the mark of what the store holds up to the same number. Counted by source; nothing that the store
    holds counts where the ids of the two stores differ.
    """
    if known.chain is None:
        return Loss(now_ms, known.last_seq - within.last_seq, exact=True, sources={})
    if known.store_id != within.store_id:
        within = ContentMark()
    gaps: dict[str, MissingEvents] = {}
    for source, (count, newest) in known.sources.items():
        kept, latest = within.sources.get(source, (0, None))
        if count > kept:
            gaps[source] = MissingEvents(count - kept, latest if latest is not None and latest < newest else None, newest)
    # So many more are in the store whose source was damaged: they are taken to be of the largest gaps.
    more = within.sources.get("", (0, 0))[0] - known.sources.get("", (0, 0))[0]
    for source, gap in sorted(gaps.items(), key=lambda item: -item[1].events):
        there = min(max(more, 0), gap.events)
        more -= there
        gaps[source] = replace(gap, events=gap.events - there)
    gaps = {source: gap for source, gap in gaps.items() if gap.events}
    missing = sum(gap.events for gap in gaps.values())
    return Loss(now_ms, max(missing, 1), missing == known.events - within.events, gaps)


def _merge_losses(one: Loss, other: Loss) -> Loss:
    """Return two losses, found one after the other, as one: the sum of events, by source, and of what else was lost.

    The first time of noticing and the later folder are kept; it is exact only if both are.
    """
    gaps = dict(one.sources)
    for source, gap in other.sources.items():
        before = gaps.get(source)
        gaps[source] = MissingEvents(before.events + gap.events, before.after_ms, max(before.to_ms, gap.to_ms)) if before else gap
    places = other.damaged_folder or one.damaged_folder
    besides = {
        what: one.other_losses.get(what, 0) + other.other_losses.get(what, 0) for what in (*one.other_losses, *other.other_losses)
    }
    # Where one says only what else was lost, the other's number is no less exact for it.
    exact = all(loss.exact for loss in (one, other) if loss.events or not loss.other_losses)
    return Loss(one.noticed_ms, one.events + other.events, exact, gaps, places, besides, one.is_unread or other.is_unread)


def _overwrite_file(path: Path, content: bytes, sync: bool) -> None:
    """Overwrite a small file in place, made with mode 0600 where it is missing, and cut to length; with `sync` followed by fsync.

    A file made anew for every event would be a block written for every event. A crash may leave it half written.
    Links are not followed; OSErrors pass on.
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
