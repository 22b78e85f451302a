"""What was stored last, kept in memory for the small reads after a live write.

Invariants
1. What is here is what the file holds; only whole transactions come in, and nothing that is stored ever changes.
2. Sizes are bounded; a method returns None when more is asked for than is here, and the caller reads the file.
"""

import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.change import Change
from memory_mcp.model.event import Event
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, GripId
from memory_mcp.model.segment import Position, Segment
from memory_mcp.storage.values import StoredEvent

#: Bounds: events in order of arrival, and of streams that are being written; characters, with `_EACH` for every event.
_ARRIVED_CHARS, _TAILS_CHARS = 2_000_000, 4_000_000
_EACH = 600
#: Changes, some 250 bytes each: readers of an index ask what it does not hold yet. And events whose grips are known, some
#: 500 bytes with them.
_CHANGES, _QUOTED = 20_000, 4096
#: Streams of events in order of arrival, until those whose events have gone are dropped.
_STREAMS = 4096
#: Events that are known by id and text, some 300 bytes each.
_ARRIVALS = 4000
#: Characters of events, with `_EACH` for every one, and grips of some 300 bytes that were read by id: questions in a row find
#: many of the same. Of a reading of more than the last number none is kept: it is bulk work.
_READ_CHARS, _READ_GRIPS, _READ_AT_ONCE = 1_500_000, 2000, 200

#: An event of a tail: its order, its number, and itself.
_Placed = tuple[Position, int, Event]


class RecentChanges:
    """The last entries of the outbox, without gaps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Change] = deque(maxlen=_CHANGES)

    def add_changes(self, changes: Iterable[Change]) -> None:
        """Add what a transaction has written; over 20,000 the oldest go."""
        with self._lock:
            self._kept.extend(changes)

    def drop_all(self) -> None:
        """Drop every entry."""
        with self._lock:
            self._kept.clear()

    def read_after(self, seq: int, limit: int = _CHANGES) -> list[Change] | None:
        """Return changes above `seq`; None when some are not here."""
        with self._lock:
            changes = self._kept
            if not changes or changes[0].seq > seq + 1:
                return None
            # From the end, where a queue is fast and readers ask.
            count = changes[-1].seq - seq
            return [changes[-index] for index in range(count, max(count - limit, 0), -1)]


@dataclass(slots=True)
class _StreamEnd:
    """Every event of one stream from a position on."""

    floor: Position
    events: list[_Placed]
    ids: set[EventId]
    chars: int


class RecentEvents:
    """The latest events by id and number, the ends of written streams, and events that were read by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived: deque[StoredEvent] = deque()
        self._by_id: dict[EventId, Event] = {}
        #: The last number of each stream, of those in `_arrived` at least.
        self._last_of_stream: dict[int, int] = {}
        self._chars = 0
        self._tails: OrderedDict[int, _StreamEnd] = OrderedDict()
        self._tail_chars = 0
        self._read: OrderedDict[EventId, Event] = OrderedDict()
        self._read_chars = 0
        #: How often all events were dropped.
        self.drops = 0

    def add_events(self, first_seq: int, events: Sequence[Event]) -> None:
        """Add events numbered from `first_seq`; drop the oldest.

        Transactions may come in any order: where the numbers do not follow those kept, these are dropped first.
        """
        with self._lock:
            if self._arrived and self._arrived[-1].seq != first_seq - 1:
                self._forget_arrived()
            for seq, event in enumerate(events, first_seq):
                self._arrived.append(StoredEvent(seq, event))
                self._by_id[event.event_id] = event
                self._last_of_stream[event.stream] = seq
                self._chars += _measure_event(event)
                tail = self._tails.get(event.stream) if self._tails else None
                if tail is not None and event.order >= tail.floor and event.event_id not in tail.ids:
                    self._insert_event(tail, seq, event)
            while self._chars > _ARRIVED_CHARS:
                old = self._arrived.popleft().event
                del self._by_id[old.event_id]
                self._chars -= _measure_event(old)
            if len(self._last_of_stream) > _STREAMS:
                self._last_of_stream = {stored.event.stream: stored.seq for stored in self._arrived}
            self._drop_oldest()

    def drop_all(self) -> None:
        """Drop all events."""
        with self._lock:
            self._forget_arrived()
            self._tails.clear()
            self._read.clear()
            self._tail_chars = self._read_chars = 0
            self.drops += 1

    def _forget_arrived(self) -> None:
        self._arrived.clear()
        self._by_id.clear()
        self._last_of_stream.clear()
        self._chars = 0

    def _insert_event(self, tail: _StreamEnd, seq: int, event: Event) -> None:
        insort(tail.events, (event.order, seq, event), key=lambda placed: placed[0])
        tail.ids.add(event.event_id)
        tail.chars += _measure_event(event)
        self._tail_chars += _measure_event(event)

    def _drop_oldest(self) -> None:
        """Drop the least recently used tails beyond the bound."""
        while self._tail_chars > _TAILS_CHARS:
            _, tail = self._tails.popitem(last=False)
            self._tail_chars -= tail.chars

    def find_events(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        """Return those of some events that are kept here."""
        events: dict[EventId, Event] = {}
        with self._lock:
            for event_id in ids:
                if (event := self._by_id.get(event_id)) is not None:
                    events[event_id] = event
                elif (event := self._read.get(event_id)) is not None:
                    events[event_id] = event
                    self._read.move_to_end(event_id)
        return events

    def keep_read(self, events: Mapping[EventId, Event], drop_count: int) -> None:
        """Keep events as read when `drops` was `drop_count`; nothing if all were dropped since."""
        with self._lock:
            if drop_count != self.drops or len(events) > _READ_AT_ONCE:
                return
            self._read_chars += sum(_measure_event(event) for event_id, event in events.items() if event_id not in self._read)
            self._read.update(events)
            while self._read_chars > _READ_CHARS:
                self._read_chars -= _measure_event(self._read.popitem(last=False)[1])

    def read_after(self, seq: int, limit: int) -> list[StoredEvent] | None:
        """Return events above `seq`; None when some are not here."""
        with self._lock:
            if not self._arrived or self._arrived[0].seq > seq + 1:
                return None
            first = seq + 1 - self._arrived[0].seq
            return list(islice(self._arrived, first, first + limit))

    def list_arrived(self, after: int, to: int) -> list[StoredEvent]:
        """Return the last of the events above `after` up to `to`: those that are here."""
        with self._lock:
            if not self._arrived or self._arrived[-1].seq < to:
                return []
            first = self._arrived[0].seq
            return list(islice(self._arrived, max(after + 1 - first, 0), max(to + 1 - first, 0)))

    def are_quiet(self, streams: Iterable[int], after: int, to: int) -> bool:
        """Return whether none of the events above `after` up to `to` is in some streams; False if some are not here."""
        with self._lock:
            if not self._arrived or self._arrived[0].seq > after + 1 or self._arrived[-1].seq < to:
                return False
            return all(self._last_of_stream.get(stream, 0) <= after for stream in streams)

    def segment_events(self, segment: Segment, last_seq: int | None) -> list[Event] | None:
        """Return a segment's events in order; None when some are not here."""
        with self._lock:
            tail = self._tails.get(segment.stream)
            if tail is None or segment.start < tail.floor:
                return None
            self._tails.move_to_end(segment.stream)
            first = bisect_left(tail.events, segment.start, key=lambda placed: placed[0])
            end = bisect_right(tail.events, segment.end, key=lambda placed: placed[0])
            return [event for _, seq, event in tail.events[first:end] if last_seq is None or seq <= last_seq]

    def list_later(self, stream: int, position: Position, limit: int) -> list[Event] | None:
        """Return a stream's first events after a position; None when some are not here."""
        with self._lock:
            tail = self._tails.get(stream)
            if tail is None or position < tail.floor:
                return None
            first = bisect_right(tail.events, position, key=lambda placed: placed[0])
            return [event for _, _, event in tail.events[first : first + limit]]

    def keep_stream_end(self, stream: int, floor: Position, events: Iterable[StoredEvent], last_seen: int) -> None:
        """Keep a stream's events from `floor` on, as read at `last_seen`.

        Events that arrived since are added from those kept by arrival; where some of them are not here, nothing is changed.
        """
        with self._lock:
            if self._arrived and self._arrived[-1].seq > last_seen and self._arrived[0].seq > last_seen + 1:
                # More came meanwhile than is here.
                return
            old = self._tails.pop(stream, None)
            self._tail_chars -= old.chars if old else 0
            self._tails[stream] = tail = _StreamEnd(floor, [], set(), 0)
            arrivals = [s for s in self._arrived if s.event.stream == stream and s.event.order >= floor]
            for stored in (*events, *arrivals):
                if stored.event.event_id not in tail.ids:
                    self._insert_event(tail, stored.seq, stored.event)
            self._drop_oldest()


class RecentArrivals:
    """Ids and texts of all events that are stored behind a time, to know without reading that another one is new."""

    def __init__(self) -> None:
        #: No event that is not here is stored at a later time (UTC ms); None if that is not known.
        self._floor_ms: int | None = None
        self._keys: set[int] = set()
        #: Times of ids, with hashes of texts.
        self._moments: set[tuple[int, int]] = set()

    def begin(self, newest: int) -> None:
        """Begin again where `newest` is the highest key that is stored."""
        self._floor_ms = newest >> 80
        self._keys.clear()
        self._moments.clear()

    def add_events(self, keys: Sequence[int], contents: Sequence[int]) -> None:
        """Add stored events; over 4,000 the earlier half goes."""
        if self._floor_ms is None:
            return
        later = [(key, content) for key, content in zip(keys, contents, strict=True) if key >> 80 > self._floor_ms]
        self._keys.update(key for key, _ in later)
        self._moments.update((key >> 80, content) for key, content in later)
        if len(self._keys) > _ARRIVALS:
            self._floor_ms = sorted(self._keys)[_ARRIVALS // 2] >> 80
            self._keys = {key for key in self._keys if key >> 80 > self._floor_ms}
            self._moments = {moment for moment in self._moments if moment[0] > self._floor_ms}

    def are_new(self, keys: Sequence[int], contents: Sequence[int]) -> bool:
        """Return whether no event is stored with one of these ids, or with the time and text of one, and their times differ."""
        if self._floor_ms is None or min(keys) >> 80 <= self._floor_ms:
            return False
        moments = [(key >> 80, content) for key, content in zip(keys, contents, strict=True)]
        is_apart = len({time_ms for time_ms, _ in moments}) == len(keys)
        return is_apart and self._keys.isdisjoint(keys) and self._moments.isdisjoint(moments)


class RecentGrips:
    """All grips of events that were quoted or read lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: OrderedDict[EventId, dict[GripId, Grip]] = OrderedDict()
        self._by_id: dict[GripId, Grip] = {}
        #: Grips that were read by id.
        self._read: OrderedDict[GripId, Grip] = OrderedDict()
        #: Transactions taken in so far.
        self.writes = 0

    def event_grips(self, event_id: EventId) -> list[Grip] | None:
        """Return an event's grips in order; None when unknown here."""
        with self._lock:
            grips = self._of.get(event_id)
            return None if grips is None else sorted(grips.values(), key=lambda g: (g.event_id_start, g.span_start, g.span_end))

    def find_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        """Return those of some grips that are kept here."""
        with self._lock:
            return {i: grip for i in ids if (grip := self._by_id.get(i) or self._read.get(i)) is not None}

    def is_stored(self, grip: Grip) -> bool | None:
        """Return whether a grip is stored; None when unknown here."""
        with self._lock:
            grips = self._of.get(grip.event_id_start)
            return None if grips is None else grip.grip_id in grips

    def keep_grips(self, grips: Mapping[EventId, Sequence[Grip]], write_count: int) -> None:
        """Keep the grips of events (of 4096 at most).

        As read when `writes` was `write_count`; nothing if there was a write since.
        """
        with self._lock:
            if write_count != self.writes:
                return
            for event_id, event_grips in grips.items():
                self._of[event_id] = {g.grip_id: g for g in event_grips}
                self._of.move_to_end(event_id)
                self._by_id.update((g.grip_id, g) for g in event_grips)
            while len(self._of) > _QUOTED:
                _, old = self._of.popitem(last=False)
                for grip_id in old:
                    self._by_id.pop(grip_id, None)

    def keep_read(self, grips: Mapping[GripId, Grip], write_count: int) -> None:
        """Keep grips that were read by id, as `keep_grips` does."""
        with self._lock:
            if write_count == self.writes and len(grips) <= _READ_AT_ONCE:
                self._read.update(grips)
                while len(self._read) > _READ_GRIPS:
                    self._read.popitem(last=False)

    def add_grips(self, grips: Iterable[Grip]) -> None:
        """Add grips that a transaction has stored; counts as a write."""
        with self._lock:
            self.writes += 1
            for grip in grips:
                for event_id in (grip.event_id_start, grip.event_id_end):
                    if event_id in self._of:
                        self._of[event_id][grip.grip_id] = grip
                        self._by_id[grip.grip_id] = grip

    def drop_all(self) -> None:
        """Drop all grips after a failed transaction; counts as a write."""
        with self._lock:
            self.writes += 1
            self._of.clear()
            self._by_id.clear()
            self._read.clear()


def _measure_event(event: Event) -> int:
    return len(event.text) + _EACH
