"""Which terms lie below which node: sorted uint32 sets, kept for segments and united upwards.

A node with one child has no rows of its own: its child's set is its set. The writer adds only what is new to a node,
so that one event never rewrites a year's set.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from memory_mcp.model.calendar import TocLevel, level_of, rollup_targets
from memory_mcp.model.ids import NodeId
from memory_mcp.storage.base import DocumentFrequency, TermDelta, TocStore

Hashes = npt.NDArray[np.uint32]
EMPTY: Hashes = np.empty(0, dtype="<u4")
#: Sets of periods kept in memory by the writer: a year of 200,000 terms is 0.8 MB.
_KEPT = 64


def from_bytes(raw: bytes) -> Hashes:
    """The set behind one stored row."""
    return np.frombuffer(raw, dtype="<u4")


def union(parts: Iterable[Hashes]) -> Hashes:
    """All hashes of some sets, sorted."""
    several = [p for p in parts if len(p)]
    if len(several) <= 1:
        return several[0] if several else EMPTY
    return np.unique(np.concatenate(several))


def without(some: Hashes, known: Hashes) -> Hashes:
    """Those of `some` that are not in `known`; both sorted."""
    if not len(known):
        return some
    place = np.minimum(np.searchsorted(known, some), len(known) - 1)
    fresh: Hashes = some[known[place] != some]
    return fresh


def children_of(store: TocStore, node_id: NodeId) -> list[NodeId]:
    """The nodes whose sets unite to this one's: a month's are the days inside it, every other node's its tree children."""
    if level_of(node_id) is TocLevel.MONTH:
        prefix = "toc:day:" + node_id.removeprefix("toc:month:") + "-"
        days = [d for week in store.child_ids(node_id) for d in store.child_ids(week)]
        return [d for d in dict.fromkeys(days) if d.startswith(prefix)]
    return store.child_ids(node_id)


def read_sets(store: TocStore, ids: Sequence[NodeId]) -> dict[NodeId, Hashes]:
    """The whole set of each node, from its own rows or from its only child's."""
    rows = store.term_sets(ids)
    found = {node_id: union(map(from_bytes, parts)) for node_id, parts in rows.items()}
    for node_id in ids:
        if node_id not in found:
            below = children_of(store, node_id) if level_of(node_id) is not TocLevel.SEGMENT else []
            found[node_id] = union(read_sets(store, below).values()) if below else EMPTY
    return found


class TermBook:
    """The writer's view: turns newly derived segments into rows to add."""

    def __init__(self, store: TocStore) -> None:
        self._store = store
        self._sets: OrderedDict[NodeId, Hashes] = OrderedDict()
        self._children: dict[NodeId, set[NodeId]] = {}
        self._stored: set[NodeId] = set()

    def forget(self) -> None:
        """Drop what is remembered, after a build that was not published or a change of zone."""
        self._sets.clear()
        self._children.clear()
        self._stored.clear()

    def add(self, segments: Sequence[tuple[NodeId, str, str, bytes]]) -> tuple[list[TermDelta], list[DocumentFrequency]]:
        """Rows for segments given as (node id, day, project, all hashes): new terms of each, of its periods, of the root."""
        deltas: list[TermDelta] = []
        fresh_by_day: dict[str, list[Hashes]] = {}
        fresh_by_project: dict[str, list[Hashes]] = {}
        stored = self._store.term_sets([s[0] for s in segments])
        for node_id, day, project, raw in segments:
            fresh = without(from_bytes(raw), union(map(from_bytes, stored.get(node_id, []))))
            self._note_child(node_id, day)
            if len(fresh):
                deltas.append(TermDelta(node_id, fresh.tobytes()))
                fresh_by_day.setdefault(day, []).append(fresh)
                fresh_by_project.setdefault(project, []).append(fresh)
        deltas += self._upwards({day: union(parts) for day, parts in fresh_by_day.items()})
        return deltas, [_frequency(project, parts) for project, parts in fresh_by_project.items()]

    def _note_child(self, node_id: NodeId, day: str) -> None:
        targets = rollup_targets(day)
        day_id, week_id, month_id, year_id = targets
        for parent, child in ((day_id, node_id), (week_id, day_id), (month_id, day_id), (year_id, month_id)):
            self._known_children(parent).add(child)

    def _known_children(self, node_id: NodeId) -> set[NodeId]:
        if node_id not in self._children:
            self._children[node_id] = set(children_of(self._store, node_id))
        return self._children[node_id]

    def _upwards(self, by_day: dict[str, Hashes]) -> list[TermDelta]:
        gathered: dict[NodeId, list[Hashes]] = {}
        for day, fresh in by_day.items():
            for target in rollup_targets(day):
                gathered.setdefault(target, []).append(fresh)
        rows = []
        for target, parts in gathered.items():
            rows += self._grow(target, union(parts))
        return rows

    def _grow(self, node_id: NodeId, added: Hashes) -> list[TermDelta]:
        before = self._set(node_id)
        fresh = without(added, before)
        whole = union((before, fresh))
        self._keep(node_id, whole)
        if len(self._children[node_id]) < 2:
            return []
        if node_id in self._stored:
            return [TermDelta(node_id, fresh.tobytes())] if len(fresh) else []
        self._stored.add(node_id)
        return [TermDelta(node_id, whole.tobytes())]

    def _set(self, node_id: NodeId) -> Hashes:
        if node_id not in self._sets:
            if self._store.term_sets([node_id]):
                self._stored.add(node_id)
            self._keep(node_id, read_sets(self._store, [node_id])[node_id])
        return self._sets[node_id]

    def _keep(self, node_id: NodeId, hashes: Hashes) -> None:
        self._sets[node_id] = hashes
        self._sets.move_to_end(node_id)
        while len(self._sets) > _KEPT:
            self._sets.popitem(last=False)


def _frequency(project: str, parts: Sequence[Hashes]) -> DocumentFrequency:
    hashes, counts = np.unique(np.concatenate(parts), return_counts=True)
    return DocumentFrequency(project, hashes.astype("<u4").tobytes(), counts.astype("<i4").tobytes())


class Frequencies:
    """Document frequencies by project, from the root's rows: in how many segments a term occurs."""

    def __init__(self, rows: Iterable[tuple[str, bytes, bytes]]) -> None:
        parts: dict[str, list[tuple[Hashes, npt.NDArray[np.int32]]]] = {}
        for project, hashes, counts in rows:
            parts.setdefault(project, []).append((from_bytes(hashes), np.frombuffer(counts, dtype="<i4")))
        self._by_project = parts

    def of(self, term_hash: int, project: str | None) -> int:
        """Segments that hold the term, in one project or (None) in all."""
        projects = self._by_project if project is None else {project: self._by_project.get(project, [])}
        total = 0
        for rows in projects.values():
            for hashes, counts in rows:
                place = int(np.searchsorted(hashes, term_hash))
                if place < len(hashes) and hashes[place] == term_hash:
                    total += int(counts[place])
        return total


