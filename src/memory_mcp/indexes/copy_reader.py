"""Read copies in the keyword index without searching it, and segments that hold words.

Only what equals the store's current content is returned: not what changed since the index followed it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.base import DocType, Health, Searcher
from memory_mcp.indexes.keys import grip_doc, grip_of, message_name
from memory_mcp.indexes.messages import companion_of
from memory_mcp.indexes.snapshot import Snapshot, segment_of
from memory_mcp.model.exchange import LISTED_LAST, TurnKind
from memory_mcp.model.grip import Quotation
from memory_mcp.model.ids import EventId, GripId, NodeId, node_key
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.records import Outbox

if TYPE_CHECKING:  # its engine may be missing
    from memory_mcp.indexes.bm25.index import Bm25Index
    from memory_mcp.indexes.bm25.kind import Bm25Body


#: Most events not indexed yet that are searched one by one; during an import the oldest beyond these wait.
MOST_WAITING = 2000
#: Quotations of one message that are looked at.
_PIECES = 4


@dataclass(frozen=True, slots=True)
class SegmentMatches:
    """Keys of segments with some words, newest first, and the last indexed event."""

    segments: tuple[int, ...]
    events: int


class CopyReader:
    """Reads the copies in the keyword index."""

    def __init__(self, index: Callable[[], Searcher | None], outbox: Outbox, last_event: Callable[[], int]) -> None:
        """`index` returns the keyword index, None if off."""
        self._index = index
        self._outbox = outbox
        self._last_event = last_event

    def is_whole(self) -> bool:
        """Return whether the index is healthy and left nothing out by age."""
        searcher = self._index()
        return searcher is not None and searcher.keeper.index.health is Health.HEALTHY and not searcher.keeper.index.cutoffs

    def find_segments(self, terms: Sequence[str], project: str | None) -> SegmentMatches | None:
        """Return segments that hold every term, and the last indexed event.

        None if it cannot tell: no terms, no usable index, documents dropped by age, or more than 2000 events not
        indexed yet.
        """
        searcher = cast("Bm25Index | None", self._index())
        if searcher is None or not terms or not self.is_whole():
            return None
        reached = searcher.keeper.index.position.events
        if self._last_event() - reached > MOST_WAITING:
            return None
        try:
            return SegmentMatches(tuple(searcher.find_segments(terms, project)), reached)
        except IndexUnreadable:
            return None

    def read_nodes(self, ids: Iterable[NodeId], with_bullets: bool = True) -> dict[NodeId, TocNode]:
        """Return nodes as in the store by id, `pinned` not set.

        Left out are nodes that changed since they were indexed or are not indexed, all of them if no index can be read.
        """
        now = self._current_snapshot()
        if now is None:
            return {}
        snapshot, changed = now
        nodes = {i: _read_node(snapshot, i, with_bullets) for i in dict.fromkeys(ids) if i not in changed}
        return {i: node for i, node in nodes.items() if node is not None}

    def read_quotations(self, ids: Iterable[GripId]) -> dict[GripId, Quotation]:
        """Return quotations with facts about their events, by grip id.

        Left out are grips of segments that changed since, unknown ones, and copies with a wrong hash.
        """
        now, names = self._current_snapshot(), list(dict.fromkeys(ids))
        quotations: dict[GripId, Quotation] = {}
        if now is None or not names:
            return quotations
        snapshot, changed = now
        high, low = (np.array(half, dtype=np.uint64) for half in zip(*map(grip_doc, names), strict=True))
        for live in snapshot:
            rows = live.rows_of_grips(high, low)
            for index in np.flatnonzero(rows >= 0).tolist():
                row = int(rows[index])
                if changed and segment_of(live.shard, row) in changed:
                    continue
                quotation = live.shard.body.copies.read_quotation(row, int(live.shard.table(DocType.GRIP).start[row]))
                if quotation is not None:
                    quotations[names[index]] = quotation
        return quotations

    def read_companions(self, ids: Iterable[GripId]) -> dict[GripId, list[tuple[GripId, Quotation]]]:
        """Return by grip the quotations of its `companion_of`, at most four.

        Left out are grips without one, and those of segments that changed since they were indexed.
        """
        now, names = self._current_snapshot(), list(dict.fromkeys(ids))
        quotations: dict[GripId, list[tuple[GripId, Quotation]]] = {}
        if now is None or not names:
            return quotations
        snapshot, changed = now
        high, low = (np.array(half, dtype=np.uint64) for half in zip(*map(grip_doc, names), strict=True))
        for live in snapshot:
            rows, grips = live.rows_of_grips(high, low), live.shard.grips
            for index in np.flatnonzero(rows >= 0).tolist():
                row = int(rows[index])
                if not (grips.turn[row] & TurnKind.REPLY or live.shard.strings[int(grips.speakers[row])]):
                    continue
                other = companion_of(grips, live.messages, live.exchange_starts, row)
                if other < 0 or (changed and segment_of(live.shard, row) in changed):
                    continue
                first, count = (int(n[0]) for n in live.messages.rows_of(np.array([other])))
                pieces = range(first, first + min(count, _PIECES))
                rows_with_quotations = ((r, live.shard.body.copies.read_quotation(r, int(grips.start[r]))) for r in pieces)
                quotations[names[index]] = [
                    (grip_of(int(grips.hi[r]), int(grips.lo[r])), s) for r, s in rows_with_quotations if s is not None
                ]
        return quotations

    def find_requests(self, ids: Iterable[GripId]) -> set[GripId]:
        """Return grips whose messages only ask; unknown ones do not count."""
        searcher, names = self._index(), list(dict.fromkeys(ids))
        requests: set[GripId] = set()
        if searcher is None or not names:
            return requests
        try:
            snapshot: Snapshot[Any] = searcher.keeper.index.snapshot
        except IndexUnreadable:
            return requests
        high, low = (np.array(half, dtype=np.uint64) for half in zip(*map(grip_doc, names), strict=True))
        for live in snapshot:
            rows = live.rows_of_grips(high, low)
            if len(live.shard.grips):
                asks = (rows >= 0) & ((live.shard.grips.turn[np.maximum(rows, 0)] & LISTED_LAST) != 0)
                requests |= {names[index] for index in np.flatnonzero(asks).tolist()}
        return requests

    def find_turns(self, ids: Iterable[EventId]) -> dict[EventId, TurnKind]:
        """Return the turns of messages by event id.

        Left out are messages that are not indexed, and those of segments that changed since they were.
        """
        now, ids_by_name = self._current_snapshot(), {message_name(i): i for i in ids}
        turns: dict[EventId, TurnKind] = {}
        if now is None or not ids_by_name:
            return turns
        snapshot, changed = now
        names = np.array(list(ids_by_name), dtype=np.uint64)
        for live in snapshot:
            for message in live.messages_named(names).tolist():
                row = int(live.messages.first[message])
                if not (changed and segment_of(live.shard, row) in changed):
                    turns[ids_by_name[int(live.shard.grips.message[row])]] = TurnKind(int(live.shard.grips.turn[row]))
        return turns

    def _current_snapshot(self) -> "tuple[Snapshot[Bm25Body], frozenset[str]] | None":
        searcher = self._index()
        if searcher is None:
            return None
        try:
            snapshot: Snapshot[Any] = searcher.keeper.index.snapshot
        except IndexUnreadable:
            return None
        changed = self._outbox.nodes_changed_since(snapshot.position.outbox)
        return None if changed is None else (snapshot, changed)


def _read_node(snapshot: "Snapshot[Bm25Body]", node_id: NodeId, with_bullets: bool) -> TocNode | None:
    key = np.array([node_key(node_id)], dtype=np.uint64)
    for live in snapshot:
        for index in live.find_units(key).tolist():
            node = live.shard.body.copies.read_node(int(live.shard.units.node_first[index]), with_bullets)
            if node is not None and node.node_id == node_id:
                return node
    return None
