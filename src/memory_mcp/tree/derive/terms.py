"""The terms below each node: sorted uint32 sets, stored for segments and united upwards.

A node with one child has no rows of its own: its child's set is its set. The writer adds only what is new to a node,
so that one event never rewrites a year's set.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import PERIODS, TocLevel, level_of, rollup_targets, span_of
from memory_mcp.model.ids import NodeId, day_id
from memory_mcp.storage.base import TocStore
from memory_mcp.storage.values import Build, DocumentFrequency, TermDelta
from memory_mcp.tree.derive.pending import PeriodSource

Hashes = npt.NDArray[np.uint32]
#: Document frequencies of a project: its name, sorted hashes (uint32) and counts (int32) as bytes.
FrequencyRow = tuple[str, bytes, bytes]
EMPTY: Hashes = np.empty(0, dtype="<u4")
#: Sets of periods the writer keeps in memory, bytes; a year of 200,000 terms is 0.8 MB.
_MAX_BYTES = 48 * 1024 * 1024
#: Segments published last whose sets are kept as well, some 5 KB each: most of what comes belongs to one of these.
_LIVE = 64
#: Up to this many days are read one by one: a live write touches one, and others may be years apart.
_DAYS_ALONE = 4
#: Periods whose sets are compared with those below them at once.
_REFIT_TOGETHER = 8
#: Rows of document frequencies that are kept separate: joining them takes a tenth of a second where the vocabulary is large.
_MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class FiledSegment:
    """A derived segment as the term sets see it: where it is filed, all its hashes, and whether it is new to the tree."""

    node_id: NodeId
    day: str
    project: str
    hashes: bytes
    new: bool


def from_bytes(raw: bytes) -> Hashes:
    """Return a stored row's set, read-only: `(n,) uint32`, sorted."""
    return np.frombuffer(raw, dtype="<u4")


def union_sets(parts: Iterable[Hashes]) -> Hashes:
    """Return the sorted union of sets: `(n,) uint32`."""
    several = [p for p in parts if len(p)]
    if len(several) <= 1:
        return several[0] if several else EMPTY
    # Sorting is three times faster here than np.unique, which hashes (measured on 500 sets of 5,000).
    hashes = np.sort(np.concatenate(several))
    first = np.empty(len(hashes), dtype=bool)
    first[0] = True
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:])
    distinct: Hashes = hashes[first]
    return distinct


def merge_disjoint(stored: Hashes, fresh: Hashes) -> Hashes:
    """Return the union of two sorted disjoint sets."""
    if not len(stored) or not len(fresh):
        return stored if len(stored) else fresh
    return np.insert(stored, np.searchsorted(stored, fresh), fresh)


def subtract_set(hashes: Hashes, excluded: Hashes) -> Hashes:
    """Return the sorted hashes that are not in `excluded`; both are sorted."""
    if not len(excluded):
        return hashes
    positions = np.minimum(np.searchsorted(excluded, hashes), len(excluded) - 1)
    fresh: Hashes = hashes[excluded[positions] != hashes]
    return fresh


def children_of(store: PeriodSource, node_id: NodeId) -> list[NodeId]:
    """Return a period's parts by time, from the cuts: right before any roll-up."""
    first, after = (d.isoformat() for d in span_of(node_id))
    level = level_of(node_id)
    if level is TocLevel.DAY:
        return [s.node_id for s in store.list_day_segments(first, after, None)]
    days = store.list_days(None, first, after)
    if level is TocLevel.YEAR:
        return list(dict.fromkeys(NodeId(f"toc:month:{day[:7]}") for day in days))
    return [day_id(day) for day in days]


def children_of_each(store: PeriodSource, ids: Sequence[NodeId]) -> dict[NodeId, list[NodeId]]:
    """Return the parts of each period by time; many days are read at once."""
    days = {i for i in ids if level_of(i) is TocLevel.DAY}
    if len(days) <= _DAYS_ALONE:
        return {i: children_of(store, i) for i in ids}
    parts: dict[NodeId, list[NodeId]] = {i: [] if i in days else children_of(store, i) for i in ids}
    first, after = min(span_of(i)[0] for i in days), max(span_of(i)[1] for i in days)
    for cut in store.list_day_segments(first.isoformat(), after.isoformat(), None):
        if (day := day_id(cut.day)) in days:
            parts[day].append(cut.node_id)
    return parts


def read_sets(store: TocStore, ids: Sequence[NodeId]) -> dict[NodeId, Hashes]:
    """Return the whole set of each node."""
    rows = store.get_term_sets(ids)
    sets = {node_id: union_sets(map(from_bytes, parts)) for node_id, parts in rows.items()}
    below = children_of_each(store, [i for i in ids if i not in sets and level_of(i) is not TocLevel.SEGMENT])
    child_sets = read_sets(store, list(dict.fromkeys(chain(*below.values())))) if any(below.values()) else {}
    for node_id in ids:
        if node_id not in sets:
            sets[node_id] = union_sets(child_sets[child] for child in below.get(node_id, ()))
    return sets


def refit_terms(store: TocStore, ids: Sequence[NodeId]) -> list[NodeId]:
    """Rewrite wrong term rows of periods; return their ids.

    In one transaction. A period with fewer than two children has no rows.
    """
    stored = store.get_term_sets(ids)
    rows: list[TermDelta] = []
    wrong: list[NodeId] = []
    for node_id in ids:
        child_ids = children_of(store, node_id)
        expected_row = union_sets(read_sets(store, child_ids).values()).tobytes() if len(child_ids) > 1 else b""
        if expected_row != union_sets(map(from_bytes, stored.get(node_id, []))).tobytes():
            wrong.append(node_id)
            rows += [TermDelta(node_id, expected_row)] if expected_row else []
    if wrong:
        store.publish_build(Build(terms=tuple(rows), reset_terms=tuple(wrong)))
    return wrong


def refit_all(store: TocStore, days: Iterable[str], give_way: Callable[[], object] = lambda: None) -> None:
    """Rewrite wrong term rows of all periods above days.

    A few of one level are a transaction, as in `refit_terms`; where nothing differs nothing is written. `give_way` is called
    before each.
    """
    targets = {period for day in days for period in rollup_targets(day)}
    for level in PERIODS:
        ids = sorted(target for target in targets if level_of(target) is level)
        for start in range(0, len(ids), _REFIT_TOGETHER):
            give_way()
            refit_terms(store, ids[start : start + _REFIT_TOGETHER])


@dataclass(slots=True)
class AddedRows:
    """Rows that a build adds to the term sets and frequencies, and the nodes whose rows it replaces."""

    rows: list[TermDelta]
    frequencies: list[DocumentFrequency]
    reset: list[NodeId]


class TermRowBuilder:
    """The writer's view: turns newly derived segments into rows to add."""

    def __init__(self, store: TocStore) -> None:
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
        """Drop caches after an unpublished build or others' changes."""
        self._sets.clear()
        self._live.clear()
        self._bytes = 0
        self._days = self._frequencies = None
        self._stored.clear()

    def count_segments(self, hashes: Iterable[int]) -> dict[int, int]:
        """Return in how many segments each hash is."""
        if self._frequencies is None:
            self._frequencies = join_frequencies(self._store.list_frequencies())
        return count_hashes(hashes, self._frequencies)

    def expected_counts(self, segments: Sequence[tuple[NodeId, bool, Collection[int]]]) -> tuple[dict[int, int], dict[int, int]]:
        """Return counts of hashes before and after these segments.

        A segment is its id, whether it is new, and some of its hashes, distinct.
        """
        self._load_segments([node_id for node_id, is_new, _ in segments if not is_new])
        counts_before = self.count_segments(hashed for _, _, hashes in segments for hashed in hashes)
        counts_after = dict(counts_before)
        for node_id, is_new, hashes in segments:
            some = np.array(sorted(hashes), dtype="<u4")
            for fresh in subtract_set(some, EMPTY if is_new else self._live[node_id]).tolist():
                counts_after[fresh] += 1
        return counts_before, counts_after

    def add_segments(self, segments: Sequence[FiledSegment]) -> AddedRows:
        """Return the term and frequency rows to write for segments.

        Writes nothing. A segment that lost terms gets all its rows again; its periods keep them until
        `refit_all`. After a build that was not published call `forget`.
        """
        targets = dict.fromkeys(t for s in segments for t in rollup_targets(s.day))
        self._load_periods(list(targets))
        deltas: list[TermDelta] = []
        by_day: dict[str, list[Hashes]] = {}
        by_project: dict[str, list[Hashes]] = {}
        reset: list[NodeId] = []
        frequencies: list[DocumentFrequency] = []
        self._load_segments([s.node_id for s in segments if not s.new])
        for segment in segments:
            now = from_bytes(segment.hashes)
            stored = EMPTY if segment.new else self._live[segment.node_id]
            fresh, gone = subtract_set(now, stored), subtract_set(stored, now)
            if segment.new:
                self._count_segment(segment.day)
            if len(gone):
                reset.append(segment.node_id)
                frequencies.append(frequency_row(segment.project, [gone], -1))
            if len(fresh) or len(gone):
                deltas.append(TermDelta(segment.node_id, segment.hashes if len(gone) else fresh.tobytes()))
            self._live[segment.node_id] = now
            self._live.move_to_end(segment.node_id)
            if len(fresh):
                by_day.setdefault(segment.day, []).append(fresh)
                by_project.setdefault(segment.project, []).append(fresh)
        deltas += self._period_rows({day: union_sets(parts) for day, parts in by_day.items()})
        frequencies += [frequency_row(project, parts) for project, parts in by_project.items()]
        if self._frequencies is not None:
            self._frequencies += [(row.project, row.hashes, row.counts) for row in frequencies]
            if len(self._frequencies) > _MOST_ROWS:
                self._frequencies = join_frequencies(self._frequencies)
        return AddedRows(deltas, frequencies, reset)

    def _load_segments(self, ids: Sequence[NodeId]) -> None:
        missing = [node_id for node_id in ids if node_id not in self._live]
        rows = self._store.get_term_sets(missing)
        self._live |= {node_id: union_sets(map(from_bytes, rows.get(node_id, ()))) for node_id in missing}

    def _load_periods(self, targets: Sequence[NodeId]) -> None:
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
        for node_id, hashes in (
            {t: union_sets(map(from_bytes, r)) for t, r in rows.items()} | read_sets(self._store, alone)
        ).items():
            self._cache_set(node_id, hashes)

    def _count_segment(self, day: str) -> None:
        assert self._days is not None
        if day not in self._days:
            self._note_day(day)
        self._days[day] = self._days.get(day, 0) + 1
        self._counts[day_id(day)] = self._days[day]

    def _note_day(self, day: str) -> None:
        _, week, month, year = rollup_targets(day)
        if self._counts[month] == 0:
            self._counts[year] += 1
        self._counts[week] += 1
        self._counts[month] += 1

    def _period_rows(self, by_day: dict[str, Hashes]) -> list[TermDelta]:
        """A period gets its first row with two children."""
        gathered: dict[NodeId, list[Hashes]] = {}
        for day, fresh in by_day.items():
            for target in rollup_targets(day):
                gathered.setdefault(target, []).append(fresh)
        rows = []
        for target, parts in gathered.items():
            stored = self._sets.get(target, EMPTY)
            fresh = subtract_set(union_sets(parts), stored)
            hashes = merge_disjoint(stored, fresh)
            self._cache_set(target, hashes)
            if self._counts[target] < 2:
                continue  # its child's set is its set
            if target not in self._stored:
                self._stored.add(target)
                rows.append(TermDelta(target, hashes.tobytes()))
            elif len(fresh):
                rows.append(TermDelta(target, fresh.tobytes()))
        # Evict only after a build: what it prefetched must stay until it is done.
        while len(self._live) > _LIVE:
            self._live.popitem(last=False)
        while self._bytes > _MAX_BYTES and self._sets:
            node_id, hashes = self._sets.popitem(last=False)
            self._stored.discard(node_id)
            self._bytes -= hashes.nbytes
        return rows

    def _cache_set(self, node_id: NodeId, hashes: Hashes) -> None:
        self._bytes += hashes.nbytes - self._sets.get(node_id, EMPTY).nbytes
        self._sets[node_id] = hashes
        self._sets.move_to_end(node_id)


def frequency_row(project: str, parts: Sequence[Hashes], sign: int = 1) -> DocumentFrequency:
    """Return a frequency row; `sign` -1 subtracts."""
    hashes, counts = np.unique(np.concatenate(parts), return_counts=True)
    return DocumentFrequency(project, hashes.astype("<u4").tobytes(), (sign * counts).astype("<i4").tobytes())


def count_hashes(hashes: Iterable[int], rows: Iterable[FrequencyRow]) -> dict[int, int]:
    """Return in how many segments each hash is."""
    distinct = np.unique(np.fromiter(hashes, dtype="<u4"))
    counts = np.zeros(len(distinct), dtype=np.int64)
    for _, row, numbers in rows if len(distinct) else ():
        row_hashes = from_bytes(row)
        if len(row_hashes):
            positions = np.minimum(np.searchsorted(row_hashes, distinct), len(row_hashes) - 1)
            counts += np.where(row_hashes[positions] == distinct, np.frombuffer(numbers, dtype="<i4")[positions], 0)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


def join_frequencies(rows: Iterable[FrequencyRow]) -> list[FrequencyRow]:
    """Return document frequencies as one row, without project."""
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
        parts: dict[str, list[tuple[Hashes, npt.NDArray[np.int32]]]] = {}
        for project, hashes, counts in rows:
            parts.setdefault(project, []).append((from_bytes(hashes), np.frombuffer(counts, dtype="<i4")))
        self._by_project = parts
        self._cached: dict[tuple[int, str | None], int] = {}

    def segment_count(self, term_hash: int, project: str | None) -> int:
        """Return a term's number of segments, in one project or all (None)."""
        total = self._cached.get((term_hash, project))
        if total is None:
            if len(self._cached) >= _REMEMBERED:
                self._cached.clear()
            hashed, total = np.uint32(term_hash), 0
            parts_of_project = self._by_project
            for hashes, counts in chain(*parts_of_project.values()) if project is None else parts_of_project.get(project, ()):
                position = int(hashes.searchsorted(hashed))
                if position < len(hashes) and hashes[position] == hashed:
                    total += int(counts[position])
            self._cached[term_hash, project] = total
        return total

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects that hold any term, sorted."""
        return tuple(sorted(self._by_project))
