"""Tell what the keyword index holds of messages without a search, and which segments hold words.

Only what equals the store's current content is returned: not what changed since the index followed it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.base import ArrivedMatches, Health
from memory_mcp.indexes.columns import is_turn
from memory_mcp.indexes.keys import grip_doc, grip_of, message_name
from memory_mcp.indexes.messages import companions_of
from memory_mcp.indexes.snapshot import Snapshot, segment_of
from memory_mcp.model.event import Event
from memory_mcp.model.exchange import LISTED_LAST, TurnKind
from memory_mcp.model.ids import EventId, GripId
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


class IndexReader:
    """Reads the keyword index without searching it."""

    def __init__(self, index: "Callable[[], Bm25Index | None]", outbox: Outbox, last_event: Callable[[], int]) -> None:
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
        searcher = self._index()
        if searcher is None or not terms or not self.is_whole():
            return None
        reached = searcher.keeper.index.position.events
        if self._last_event() - reached > MOST_WAITING:
            return None
        try:
            return SegmentMatches(tuple(searcher.find_segments(terms, project)), reached)
        except IndexUnreadable:
            return None

    def search_arrived(
        self, text: str, keywords: Sequence[str], after: int, is_wanted: Callable[[Event], bool], limit: int
    ) -> ArrivedMatches | None:
        """Return the best counted events behind number `after` by their words, best first.

        None if it cannot tell: no usable index, or the first behind that number is not counted.
        """
        searcher = self._index()
        try:
            return None if searcher is None else searcher.search_arrived(text, keywords, after, is_wanted, limit)
        except IndexUnreadable:
            return None

    @property
    def is_counting(self) -> bool:
        """Whether events that are not counted yet will be within a second."""
        searcher = self._index()
        return searcher is not None and searcher.is_counting

    def counted_to(self, after: int) -> int:
        """Return up to which number all events behind `after` can be searched by `search_arrived`."""
        searcher = self._index()
        return after if searcher is None else searcher.counted_to(after)

    def find_companions(self, ids: Iterable[GripId]) -> dict[GripId, list[GripId]]:
        """Return by grip the grips of its companion (`companions_of`), at most four.

        Left out are grips without one, and those of segments that changed since they were indexed.
        """
        now, names = self._current_snapshot(), list(dict.fromkeys(ids))
        companions: dict[GripId, list[GripId]] = {}
        if now is None or not names:
            return companions
        snapshot, changed = now
        high, low = (np.array(half, dtype=np.uint64) for half in zip(*map(grip_doc, names), strict=True))
        for live in snapshot:
            rows, grips = live.rows_of_grips(high, low), live.shard.grips
            indices = np.flatnonzero(rows >= 0)
            rows = rows[indices]
            speaking = np.array([bool(live.shard.strings[code]) for code in grips.speakers[rows].tolist()], dtype=bool)
            others = companions_of(grips, live.messages, live.exchange_starts, rows)
            chosen = np.flatnonzero((others >= 0) & (speaking | is_turn(grips.turn[rows], TurnKind.REPLY)))
            pieces_of = (column.tolist() for column in (indices[chosen], rows[chosen], *live.messages.rows_of(others[chosen])))
            for index, row, first, count in zip(*pieces_of, strict=True):
                if changed and segment_of(live.shard, row) in changed:
                    continue
                pieces = range(first, first + min(count, _PIECES))
                companions[names[index]] = [grip_of(int(grips.hi[r]), int(grips.lo[r])) for r in pieces]
        return companions

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
                asks = (rows >= 0) & is_turn(live.shard.grips.turn[np.maximum(rows, 0)], LISTED_LAST)
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
