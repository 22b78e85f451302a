"""What was stored last, kept in memory: a live write is followed by many small reads, each of which would cost a statement.

Invariants
1. What is here is what the file holds; only whole transactions come in, and nothing that is stored ever changes.
2. Sizes are bounded; a method returns None when more is asked for than is here, and the caller reads the file.
"""

import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

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

#: An event of a tail: its order, its number, and itself.
_Placed = tuple[Position, int, Event]


class Changes:
    """The last entries of the outbox, without gaps."""

    def __init__(self) -> None:
        """Begin without any change."""
        self._lock = threading.Lock()
        self._kept: deque[Change] = deque(maxlen=_CHANGES)

    def add(self, changes: Iterable[Change]) -> None:
        """Take in what a transaction has written; its numbers follow those kept. The oldest are dropped over 20,000."""
        with self._lock:
            self._kept.extend(changes)

    def forget(self) -> None:
        """Drop every entry; `after` then returns None until others are added."""
        with self._lock:
            self._kept.clear()

    def after(self, seq: int, limit: int = _CHANGES) -> list[Change] | None:
        """Return up to `limit` changes whose number is above `seq`; [] when there are none, None when some are not here."""
        with self._lock:
            kept = self._kept
            if not kept or kept[0].seq > seq + 1:
                return None
            # From the end, where a queue is fast and readers ask.
            behind = kept[-1].seq - seq
            return [kept[-place] for place in range(behind, max(behind - limit, 0), -1)]


@dataclass(slots=True)
class _Tail:
    """Every event of one stream from a place on."""

    floor: Position
    events: list[_Placed]
    ids: set[EventId]
    chars: int


class RecentEvents:
    """The latest events by id and by number of arrival, and the ends of the streams that are being written."""

    def __init__(self) -> None:
        """Begin without any event."""
        self._lock = threading.Lock()
        self._arrived: deque[StoredEvent] = deque()
        self._by_id: dict[EventId, Event] = {}
        self._chars = 0
        self._tails: OrderedDict[int, _Tail] = OrderedDict()
        self._tail_chars = 0

    def add(self, first_seq: int, events: Sequence[Event]) -> None:
        """Take in what a transaction has stored, numbered from `first_seq`; transactions may come in any order.

        Where the numbers do not follow those kept, these are dropped first. Events enter the kept end of their stream
        if they lie behind its floor. The oldest are dropped over 2,000,000 characters.
        """
        with self._lock:
            if self._arrived and self._arrived[-1].seq != first_seq - 1:
                self._forget_arrived()
            for seq, event in enumerate(events, first_seq):
                self._arrived.append(StoredEvent(seq, event))
                self._by_id[event.event_id] = event
                self._chars += _size(event)
                tail = self._tails.get(event.stream) if self._tails else None
                if tail is not None and event.order >= tail.floor and event.event_id not in tail.ids:
                    self._put(tail, seq, event)
            while self._chars > _ARRIVED_CHARS:
                old = self._arrived.popleft().event
                del self._by_id[old.event_id]
                self._chars -= _size(old)
            self._trim()

    def forget(self) -> None:
        """Drop all events: those kept by arrival, by id and by stream."""
        with self._lock:
            self._forget_arrived()
            self._tails.clear()
            self._tail_chars = 0

    def _forget_arrived(self) -> None:
        """Drop the events by arrival and by id; the ends of streams stay. The caller holds the lock."""
        self._arrived.clear()
        self._by_id.clear()
        self._chars = 0

    def _put(self, tail: _Tail, seq: int, event: Event) -> None:
        """Put an event into a tail in its order, and count its size. The caller holds the lock."""
        insort(tail.events, (event.order, seq, event), key=lambda placed: placed[0])
        tail.ids.add(event.event_id)
        tail.chars += _size(event)
        self._tail_chars += _size(event)

    def _trim(self) -> None:
        """Drop the tails that were used longest ago while all together exceed 4,000,000 characters."""
        while self._tail_chars > _TAILS_CHARS:
            _, tail = self._tails.popitem(last=False)
            self._tail_chars -= tail.chars

    def get(self, event_id: EventId) -> Event | None:
        """Return one of the last events to arrive, which are kept here; None for any other, which may be stored all the same."""
        with self._lock:
            return self._by_id.get(event_id)

    def after(self, seq: int, limit: int) -> list[StoredEvent] | None:
        """Return up to `limit` events numbered above `seq`, by arrival, [] for none; None when some of them are not here."""
        with self._lock:
            if not self._arrived or self._arrived[0].seq > seq + 1:
                return None
            first = seq + 1 - self._arrived[0].seq
            return list(islice(self._arrived, first, first + limit))

    def inside(self, segment: Segment, last_seq: int | None) -> list[Event] | None:
        """Return the events of a segment in order, those numbered up to `last_seq`; None when they are not all here.

        With `last_seq` None all of them. The stream counts as used last.
        """
        with self._lock:
            tail = self._tails.get(segment.stream)
            if tail is None or segment.start < tail.floor:
                return None
            self._tails.move_to_end(segment.stream)
            first = bisect_left(tail.events, segment.start, key=lambda placed: placed[0])
            behind = bisect_right(tail.events, segment.end, key=lambda placed: placed[0])
            return [event for _, seq, event in tail.events[first:behind] if last_seq is None or seq <= last_seq]

    def keep(self, stream: int, floor: Position, events: Iterable[StoredEvent], seen: int) -> None:
        """Keep the end of a stream: every event of it from `floor` on, as read when `seen` was the number of the last event.

        It replaces the end that was kept. Events that arrived since are added from those kept by arrival; where some
        of them are not here, nothing is changed. The ends that were used longest ago are dropped over the bound.
        """
        with self._lock:
            if self._arrived and self._arrived[-1].seq > seen and self._arrived[0].seq > seen + 1:
                # More came meanwhile than is here.
                return
            old = self._tails.pop(stream, None)
            self._tail_chars -= old.chars if old else 0
            self._tails[stream] = tail = _Tail(floor, [], set(), 0)
            arrived = [s for s in self._arrived if s.event.stream == stream and s.event.order >= floor]
            for stored in (*events, *arrived):
                if stored.event.event_id not in tail.ids:
                    self._put(tail, stored.seq, stored.event)
            self._trim()


class RecentGrips:
    """All grips of events that were quoted or read lately."""

    def __init__(self) -> None:
        """Begin without any grip."""
        self._lock = threading.Lock()
        self._of: OrderedDict[EventId, dict[GripId, Grip]] = OrderedDict()
        self._by_id: dict[GripId, Grip] = {}
        #: Transactions taken in so far.
        self.writes = 0

    def of(self, event_id: EventId) -> list[Grip] | None:
        """Return all grips of an event in order of place, [] where nothing quotes it; None when they are not known here."""
        with self._lock:
            found = self._of.get(event_id)
            return None if found is None else sorted(found.values(), key=lambda g: (g.event_id_start, g.span_start, g.span_end))

    def get(self, grip_id: GripId) -> Grip | None:
        """Return a grip of an event whose grips are kept; None for any other, which may be stored all the same."""
        with self._lock:
            return self._by_id.get(grip_id)

    def known(self, grip: Grip) -> bool | None:
        """Return whether a grip is stored; None when that is not known, as the grips of its first event are not kept."""
        with self._lock:
            found = self._of.get(grip.event_id_start)
            return None if found is None else grip.grip_id in found

    def keep(self, grips: Mapping[EventId, Sequence[Grip]], seen: int) -> None:
        """Keep the grips of events (of 4096 at most), as read when `writes` was `seen`; nothing if there was a write since."""
        with self._lock:
            if seen != self.writes:
                return
            for event_id, own in grips.items():
                self._of[event_id] = {g.grip_id: g for g in own}
                self._of.move_to_end(event_id)
                self._by_id.update((g.grip_id, g) for g in own)
            while len(self._of) > _QUOTED:
                _, old = self._of.popitem(last=False)
                for grip_id in old:
                    self._by_id.pop(grip_id, None)

    def add(self, grips: Iterable[Grip]) -> None:
        """Take in grips that a transaction has stored; only events whose grips are kept get them. Counts as a write."""
        with self._lock:
            self.writes += 1
            for grip in grips:
                for event_id in (grip.event_id_start, grip.event_id_end):
                    if event_id in self._of:
                        self._of[event_id][grip.grip_id] = grip
                        self._by_id[grip.grip_id] = grip

    def forget(self) -> None:
        """Drop all grips, after a transaction failed; counts as a write, so that what is being read now is not kept."""
        with self._lock:
            self.writes += 1
            self._of.clear()
            self._by_id.clear()


def _size(event: Event) -> int:
    """Return what an event counts for: the characters of its text and 600 more."""
    return len(event.text) + _EACH
