"""Read what was asked and done in segments and what their sessions leave open, each segment once per build."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from memory_mcp.model.event import Event
from memory_mcp.model.exchange import TurnKind, classify_turns, is_prompt
from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.storage.base import Storage
from memory_mcp.tree.toc.doings import QuotedSpan, WorkDone, read_work
from memory_mcp.tree.toc.open_ends import OpenEnd, open_ends

_T = TypeVar("_T")

#: Last segments of a session that are read for what it leaves open.
TAIL = 4
#: Segments, and sessions, that are kept: overviews of two years by month are of a thousand. Each is kept with the events that it
#: quotes if those have so many characters at most; and characters of all.
_MOST, _MOST_CHARACTERS, _ALL_CHARACTERS = 1000, 20_000, 4_000_000

#: Segments as they were read, each with the number of its node's build.
_Stamp = tuple[tuple[Segment, int], ...]


class _Kept(Generic[_T]):
    """Values by key, each valid for one stamp."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, tuple[_Stamp, _T, int]] = OrderedDict()
        self._characters = 0

    def find(self, key: int, stamp: _Stamp | None) -> _T | None:
        entry = self._entries.get(key)
        if entry is None or stamp is None or entry[0] != stamp:
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def keep(self, key: int, stamp: _Stamp | None, value: _T, quoted: Sequence[QuotedSpan | None]) -> None:
        size = sum(len(span.event.text) for span in quoted if span is not None)
        if stamp is None or size > _MOST_CHARACTERS:
            return
        if (old := self._entries.pop(key, None)) is not None:
            self._characters -= old[2]
        self._entries[key] = stamp, value, size
        self._characters += size
        while len(self._entries) > _MOST or self._characters > _ALL_CHARACTERS:
            _, (_, _, oldest_size) = self._entries.popitem(last=False)
            self._characters -= oldest_size

    def clear(self) -> None:
        self._entries.clear()
        self._characters = 0


class WorkReader:
    """Reads the work of segments; thread-safe."""

    def __init__(self, storage: Storage, is_settled: Callable[[], bool] = lambda: False) -> None:
        """`is_settled` tells whether every stored event is in the segments: only then is what was read kept and used again."""
        self._storage = storage
        self._is_settled = is_settled
        self._lock = threading.Lock()
        self._work, self._ends = _Kept[WorkDone](), _Kept[tuple[OpenEnd, ...]]()
        self._drops = 0

    def drop_all(self) -> None:
        """Drop what is kept, and keep nothing of a reading under way: events were forgotten."""
        with self._lock:
            self._drops += 1
            self._work.clear()
            self._ends.clear()

    def read(
        self, cuts: Sequence[Segment], all_cuts: Sequence[Segment], builds: Mapping[NodeId, int]
    ) -> tuple[dict[int, WorkDone], dict[int, tuple[OpenEnd, ...]]]:
        """Return the work of `cuts` by key, and what their streams leave open as far as `all_cuts` hold their ends.

        `builds` are the builds of the segments' nodes.
        """
        tails = {stream: _tail_of(stream, all_cuts) for stream in dict.fromkeys(cut.stream for cut in cuts)}
        segments_by_key = {cut.key: [cut] for cut in cuts}
        is_settled, drops = self._is_settled(), self._drops

        def stamp_of(segments: Sequence[Segment]) -> _Stamp | None:
            has_builds = is_settled and all(s.node_id in builds for s in segments)
            return tuple((s, builds[s.node_id]) for s in segments) if has_builds else None

        with self._lock:
            kept_work = {key: self._work.find(key, stamp_of(segments)) for key, segments in segments_by_key.items()}
            kept_ends = {stream: self._ends.find(stream, stamp_of(tail)) for stream, tail in tails.items()}
        doings = {key: work for key, work in kept_work.items() if work is not None}
        ends = {stream: stream_ends for stream, stream_ends in kept_ends.items() if stream_ends is not None}
        missing = [segments for key, segments in segments_by_key.items() if key not in doings]
        missing += [tail for stream, tail in tails.items() if stream not in ends]
        events = self._read_events({cut.key: cut for segments in missing for cut in segments})
        new_doings = {key: read_work(events.get(key, [])) for key in segments_by_key if key not in doings}
        new_ends = {
            stream: open_ends([event for cut in tail for event in events.get(cut.key, [])])
            for stream, tail in tails.items()
            if stream not in ends
        }
        with self._lock:
            if drops != self._drops:
                return doings | new_doings, ends | new_ends
            for key, work in new_doings.items():
                self._work.keep(key, stamp_of(segments_by_key[key]), work, [work.first_request, work.closing_words])
            for stream, stream_ends in new_ends.items():
                self._ends.keep(stream, stamp_of(tails[stream]), stream_ends, [end.words for end in stream_ends])
        return doings | new_doings, ends | new_ends

    def _read_events(self, segments: Mapping[int, Segment]) -> dict[int, list[Event]]:
        stored = self._storage.events.events_by_segment(list(segments.values())) if segments else {}
        return {key: drop_memory_exchanges(events) for key, events in stored.items()}


def drop_memory_exchanges(events: Sequence[Event]) -> list[Event]:
    """Return events without the questions to this memory and what followed each."""
    turns = classify_turns(events)
    work_events: list[Event] = []
    is_question = False
    for event in events:
        if is_prompt(event):
            is_question = bool(turns.get(event.event_id, TurnKind.PLAIN) & TurnKind.TO_MEMORY)
        if not is_question:
            work_events.append(event)
    return work_events


def _tail_of(stream: int, cuts: Sequence[Segment]) -> list[Segment]:
    return sorted((cut for cut in cuts if cut.stream == stream), key=lambda cut: cut.start)[-TAIL:]
