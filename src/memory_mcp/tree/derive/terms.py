"""The terms below each node: sorted uint32 sets, stored for segments and united upwards.

A node with one child has no rows of its own: its child's set is its set. The writer adds only what is new to a node,
so that one event never rewrites a year's set.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from memory_mcp.model.calendar import PERIODS, TocLevel, level_of, rollup_targets, span_of
from memory_mcp.model.ids import NodeId, day_id
from memory_mcp.storage.base import TocStore
from memory_mcp.storage.values import Build, DocumentFrequency, TermDelta

Hashes = npt.NDArray[np.uint32]
#: Document frequencies of a project: its name, sorted hashes (uint32) and counts (int32) as bytes.
FrequencyRow = tuple[str, bytes, bytes]
EMPTY: Hashes = np.empty(0, dtype="<u4")
#: Sets of periods the writer keeps in memory, bytes; a year of 200,000 terms is 0.8 MB.
_KEPT_BYTES = 48 * 1024 * 1024
#: Segments published last whose sets are kept beside them, some 5 KB each: most of what comes belongs to one of these.
_LIVE = 64
#: Rows of document frequencies that are kept apart: joining them takes a tenth of a second where the vocabulary is large.
_MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class Filed:
    """A derived segment as the term sets see it: where it is filed, all its hashes, and whether it is new to the tree."""

    node_id: NodeId
    day: str
    project: str
    hashes: bytes
    new: bool


def from_bytes(raw: bytes) -> Hashes:
    """Return the set of one stored row, a read-only view: `(n,) uint32`, sorted."""
    return np.frombuffer(raw, dtype="<u4")


def union(parts: Iterable[Hashes]) -> Hashes:
    """Return the sorted union of some sets: `(n,) uint32`; of a single one that itself, EMPTY for none."""
    several = [p for p in parts if len(p)]
    if len(several) <= 1:
        return several[0] if several else EMPTY
    # Sorting is three times faster here than np.unique, which hashes (measured on 500 sets of 5,000).
    whole = np.sort(np.concatenate(several))
    first = np.empty(len(whole), dtype=bool)
    first[0] = True
    np.not_equal(whole[1:], whole[:-1], out=first[1:])
    distinct: Hashes = whole[first]
    return distinct


def merge(known: Hashes, fresh: Hashes) -> Hashes:
    """Return the union of two sorted disjoint sets: `(n,) uint32`, sorted; the one itself where the other is empty."""
    if not len(known) or not len(fresh):
        return known if len(known) else fresh
    return np.insert(known, np.searchsorted(known, fresh), fresh)


def without(some: Hashes, known: Hashes) -> Hashes:
    """Return the hashes of `some` not in `known`, both sorted: `(n,) uint32`, sorted; `some` itself if `known` is empty."""
    if not len(known):
        return some
    place = np.minimum(np.searchsorted(known, some), len(known) - 1)
    fresh: Hashes = some[known[place] != some]
    return fresh


def children_of(store: TocStore, node_id: NodeId) -> list[NodeId]:
    """Return a period's parts in time order: segments of a day, days of a week or month, months of a year.

    Read from the cuts, so it is right before any roll-up has run.
    """
    first, after = (d.isoformat() for d in span_of(node_id))
    level = level_of(node_id)
    if level is TocLevel.DAY:
        return [s.node_id for s in store.list_day_segments(first, after, None)]
    days = store.list_days(None, first, after)
    if level is TocLevel.YEAR:
        return list(dict.fromkeys(NodeId(f"toc:month:{day[:7]}") for day in days))
    return [day_id(day) for day in days]


def read_sets(store: TocStore, ids: Sequence[NodeId]) -> dict[NodeId, Hashes]:
    """Return the whole set of each node, from its own rows or, without any, from all that is below; EMPTY for nothing."""
    rows = store.get_term_sets(ids)
    found = {node_id: union(map(from_bytes, parts)) for node_id, parts in rows.items()}
    for node_id in ids:
        if node_id not in found:
            below = children_of(store, node_id) if level_of(node_id) is not TocLevel.SEGMENT else []
            found[node_id] = union(read_sets(store, below).values()) if below else EMPTY
    return found


def refit(store: TocStore, ids: Sequence[NodeId]) -> list[NodeId]:
    """Rewrite term rows that differ from what is below; takes periods of one level, returns the changed ones.

    In one transaction. A period with fewer than two children has no rows.
    """
    stored = store.get_term_sets(ids)
    rows: list[TermDelta] = []
    wrong: list[NodeId] = []
    for node_id in ids:
        below = children_of(store, node_id)
        whole = union(read_sets(store, below).values()).tobytes() if len(below) > 1 else b""
        if whole != union(map(from_bytes, stored.get(node_id, []))).tobytes():
            wrong.append(node_id)
            rows += [TermDelta(node_id, whole)] if whole else []
    if wrong:
        store.publish_build(Build(terms=tuple(rows), reset_terms=tuple(wrong)))
    return wrong


def refit_all(store: TocStore, days: Iterable[str]) -> None:
    """Rewrite the differing term rows of all periods above days whose segments lost terms, finest level first.

    Each level is a transaction of its own, as in `refit`; a level where nothing differs writes nothing.
    """
    targets = {period for day in days for period in rollup_targets(day)}
    for level in PERIODS:
        refit(store, sorted(t for t in targets if level_of(t) is level))


@dataclass(slots=True)
class Added:
    """Rows that a build adds to the term sets and frequencies, and the nodes whose rows it replaces."""

    rows: list[TermDelta]
    frequencies: list[DocumentFrequency]
    reset: list[NodeId]


class TermBook:
    """The writer's view: turns newly derived segments into rows to add."""

    def __init__(self, store: TocStore) -> None:
        """Begin with empty caches; the store is read when it is needed."""
        self._store = store
        self._sets: OrderedDict[NodeId, Hashes] = OrderedDict()
        self._bytes = 0
        self._live: OrderedDict[NodeId, Hashes] = OrderedDict()
        #: Segments by day as of the last build; None until they are read.
        self._days: dict[str, int] | None = None
        self._counts: Counter[NodeId] = Counter()
        self._stored: set[NodeId] = set()
        #: Document frequencies; None until they are read.
        self._frequencies: list[FrequencyRow] | None = None

    def forget(self) -> None:
        """Drop everything cached, after a build that was not published or changes by others; the store is read again."""
        self._sets.clear()
        self._live.clear()
        self._bytes = 0
        self._days = self._frequencies = None
        self._stored.clear()

    def count(self, hashes: Iterable[int]) -> dict[int, int]:
        """Return in how many segments each of some hashes is, in all that was stored or added."""
        if self._frequencies is None:
            self._frequencies = join_frequencies(self._store.list_frequencies())
        return count_hashes(hashes, self._frequencies)

    def expect(self, segments: Sequence[tuple[NodeId, bool, Collection[int]]]) -> tuple[dict[int, int], dict[int, int]]:
        """Return in how many segments each of some hashes is, and will be once these segments have theirs.

        A segment is its id, whether it is new, and some of its hashes, distinct.
        """
        self._load([node_id for node_id, is_new, _ in segments if not is_new])
        before = self.count(hashed for _, _, hashes in segments for hashed in hashes)
        after = dict(before)
        for node_id, is_new, hashes in segments:
            some = np.array(sorted(hashes), dtype="<u4")
            for fresh in without(some, EMPTY if is_new else self._live[node_id]).tolist():
                after[fresh] += 1
        return before, after

    def add(self, segments: Sequence[Filed]) -> Added:
        """Return the term rows to write for segments: the new terms of each, and of its periods; and of frequencies by project.

        Writes nothing. A segment that lost terms gets all its rows anew; its periods keep them until
        `refit_all`. After a build that was not published call `forget`.
        """
        targets = dict.fromkeys(t for s in segments for t in rollup_targets(s.day))
        self._prefetch(list(targets))
        deltas: list[TermDelta] = []
        by_day: dict[str, list[Hashes]] = {}
        by_project: dict[str, list[Hashes]] = {}
        reset: list[NodeId] = []
        frequencies: list[DocumentFrequency] = []
        self._load([s.node_id for s in segments if not s.new])
        for one in segments:
            now = from_bytes(one.hashes)
            known = EMPTY if one.new else self._live[one.node_id]
            fresh, gone = without(now, known), without(known, now)
            if one.new:
                self._count(one.day)
            if len(gone):
                reset.append(one.node_id)
                frequencies.append(frequency(one.project, [gone], -1))
            if len(fresh) or len(gone):
                deltas.append(TermDelta(one.node_id, one.hashes if len(gone) else fresh.tobytes()))
            self._live[one.node_id] = now
            self._live.move_to_end(one.node_id)
            if len(fresh):
                by_day.setdefault(one.day, []).append(fresh)
                by_project.setdefault(one.project, []).append(fresh)
        deltas += self._upwards({day: union(parts) for day, parts in by_day.items()})
        frequencies += [frequency(project, parts) for project, parts in by_project.items()]
        if self._frequencies is not None:
            self._frequencies += [(row.project, row.hashes, row.counts) for row in frequencies]
            if len(self._frequencies) > _MOST_ROWS:
                self._frequencies = join_frequencies(self._frequencies)
        return Added(deltas, frequencies, reset)

    def _load(self, ids: Sequence[NodeId]) -> None:
        """Cache the sets of segments that are not cached."""
        missing = [node_id for node_id in ids if node_id not in self._live]
        rows = self._store.get_term_sets(missing)
        self._live |= {node_id: union(map(from_bytes, rows.get(node_id, ()))) for node_id in missing}

    def _prefetch(self, targets: Sequence[NodeId]) -> None:
        """Read and cache the sets of periods that have segments and are not cached; at first count the segments of every day."""
        if self._days is None:
            self._days = {}
            self._counts.clear()
            for day, count in self._store.count_segments_by_day():
                self._days[day] = count
                self._note_day(day)
                self._counts[day_id(day)] = count
        missing = [t for t in targets if t not in self._sets and self._counts[t]]
        rows = self._store.get_term_sets(missing)
        self._stored.update(rows)
        alone = [t for t in missing if t not in rows]
        for node_id, hashes in ({t: union(map(from_bytes, r)) for t, r in rows.items()} | read_sets(self._store, alone)).items():
            self._keep(node_id, hashes)

    def _count(self, day: str) -> None:
        """Count a new segment for its day, and the day for its periods if it is the day's first."""
        assert self._days is not None
        if day not in self._days:
            self._note_day(day)
        self._days[day] = self._days.get(day, 0) + 1
        self._counts[day_id(day)] = self._days[day]

    def _note_day(self, day: str) -> None:
        """Count a day with its first segment: a child more for week and month, and for the year if it is the month's first."""
        _, week, month, year = rollup_targets(day)
        if self._counts[month] == 0:
            self._counts[year] += 1
        self._counts[week] += 1
        self._counts[month] += 1

    def _upwards(self, by_day: dict[str, Hashes]) -> list[TermDelta]:
        """Return the rows that new terms by day add to all periods above; then drop the oldest sets above the memory limit.

        A period gets its first row, with its whole set, when it has two children.
        """
        gathered: dict[NodeId, list[Hashes]] = {}
        for day, fresh in by_day.items():
            for target in rollup_targets(day):
                gathered.setdefault(target, []).append(fresh)
        rows = []
        for target, parts in gathered.items():
            before = self._sets.get(target, EMPTY)
            fresh = without(union(parts), before)
            whole = merge(before, fresh)
            self._keep(target, whole)
            if self._counts[target] < 2:
                continue  # its child's set is its set
            if target not in self._stored:
                self._stored.add(target)
                rows.append(TermDelta(target, whole.tobytes()))
            elif len(fresh):
                rows.append(TermDelta(target, fresh.tobytes()))
        # Evict only after a build: what it prefetched must stay until it is done.
        while len(self._live) > _LIVE:
            self._live.popitem(last=False)
        while self._bytes > _KEPT_BYTES and self._sets:
            node_id, hashes = self._sets.popitem(last=False)
            self._stored.discard(node_id)
            self._bytes -= hashes.nbytes
        return rows

    def _keep(self, node_id: NodeId, hashes: Hashes) -> None:
        """Cache the set of a period as the latest used."""
        self._bytes += hashes.nbytes - self._sets.get(node_id, EMPTY).nbytes
        self._sets[node_id] = hashes
        self._sets.move_to_end(node_id)


def frequency(project: str, parts: Sequence[Hashes], sign: int = 1) -> DocumentFrequency:
    """Return the row of frequencies of segments' term sets, one at least, each `(n,)` uint32; `sign` -1 subtracts lost terms."""
    hashes, counts = np.unique(np.concatenate(parts), return_counts=True)
    return DocumentFrequency(project, hashes.astype("<u4").tobytes(), (sign * counts).astype("<i4").tobytes())


def count_hashes(hashes: Iterable[int], rows: Iterable[FrequencyRow]) -> dict[int, int]:
    """Return in how many segments each hash is, by rows of document frequencies; a hash that is in none has 0."""
    wanted = np.unique(np.fromiter(hashes, dtype="<u4"))
    counts = np.zeros(len(wanted), dtype=np.int64)
    for _, row, numbers in rows if len(wanted) else ():
        held = from_bytes(row)
        if len(held):
            place = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
            counts += np.where(held[place] == wanted, np.frombuffer(numbers, dtype="<i4")[place], 0)
    return dict(zip(wanted.tolist(), counts.tolist(), strict=True))


def join_frequencies(rows: Iterable[FrequencyRow]) -> list[FrequencyRow]:
    """Return document frequencies as one row, of no project in particular."""
    parts = [(from_bytes(hashes), np.frombuffer(numbers, dtype="<i4")) for _, hashes, numbers in rows]
    distinct, places = np.unique(np.concatenate([EMPTY, *(h for h, _ in parts)]), return_inverse=True)
    counts = np.zeros(len(distinct), dtype="<i4")
    np.add.at(counts, places, np.concatenate([np.empty(0, dtype="<i4"), *(n for _, n in parts)]))
    return [("", distinct.tobytes(), counts.tobytes())]


#: Counts of terms that are remembered, some 150 bytes each: one question asks for each of its terms three times.
_REMEMBERED = 5_000


class Frequencies:
    """Document frequencies by project: the number of segments with a term."""

    def __init__(self, rows: Iterable[tuple[str, bytes, bytes]]) -> None:
        """Count by rows of the store: project, sorted hashes (uint32), and a count for each (int32); the latter two are bytes."""
        parts: dict[str, list[tuple[Hashes, npt.NDArray[np.int32]]]] = {}
        for project, hashes, counts in rows:
            parts.setdefault(project, []).append((from_bytes(hashes), np.frombuffer(counts, dtype="<i4")))
        self._by_project = parts
        self._known: dict[tuple[int, str | None], int] = {}

    def of(self, term_hash: int, project: str | None) -> int:
        """Return the number of segments with the term, in one project or (None) in all; recent answers are cached."""
        known = self._known.get((term_hash, project))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            wanted, known = np.uint32(term_hash), 0
            every = self._by_project
            for hashes, counts in chain(*every.values()) if project is None else every.get(project, ()):
                place = int(np.searchsorted(hashes, wanted))
                if place < len(hashes) and hashes[place] == wanted:
                    known += int(counts[place])
            self._known[term_hash, project] = known
        return known

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects that hold any term, sorted."""
        return tuple(sorted(self._by_project))
