"""Events of one stream in, stretches out: where one ends and the next begins. Pure.

A stretch is made of exchanges: what was asked, what was answered, and the tool calls between. Tools belong to whoever asked
for them: a pause or the size of what they print opens no stretch of tool events alone. A recap, in which the client's model
told what had been said when it made room for more, ends the stretch that it tells of.

Invariants
1. Every event belongs to exactly one segment of its stream; cuts of a stream never overlap in time order.
2. Cut points are only added; an end may grow, a start never moves.
3. Handing in events again changes nothing.

Change here: when a segment closes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import count

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import Event, EventType, is_recap
from memory_mcp.model.ids import EventId
from memory_mcp.model.segment import Segment
from memory_mcp.model.tokens import estimate_tokens

#: Version of the rules; stored with each cut.
CUTTER_VERSION = 3
#: Most tokens that a tool's call or output counts as, however long it is (DESIGN section 2).
_TOOL_TOKENS = 200
#: Tool events join a stretch that is so many times too large, and one that ended so long ago: a build may run overnight, and
#: an agent may work for hours without a word, but no stretch grows without end.
_TOOL_TIMES, _TOOL_GAP_MS = 4, 12 * 3_600_000
_TOOLS = (EventType.TOOL_CALL, EventType.TOOL_RESULT)
#: Context before a segment reaches back this far at most, and is at most this large.
_OVERLAP_MS, _OVERLAP_TOKENS = 5 * 60_000, 500


@dataclass(frozen=True, slots=True)
class SegmentSettings:
    """When a new segment starts."""

    gap_minutes: int = field(default=30, metadata={"help": "A pause longer than this starts a new segment."})
    max_tokens: int = field(default=4000, metadata={"help": "A segment ends before an event that would pass this size."})

    def __post_init__(self) -> None:
        if self.gap_minutes < 1 or self.max_tokens < 200:
            raise ConfigError("[toc] needs gap_minutes >= 1 and max_tokens >= 200")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What some events changed: cuts new or grown, and which cut each event belongs to (by segment key)."""

    changed: tuple[Segment, ...]
    members: dict[EventId, int]


def assign_events(cuts: Sequence[Segment], events: Sequence[Event], calendar: Calendar, settings: SegmentSettings) -> Assignment:
    """Place a stream's events among its cuts; return changes.

    A late event joins the segment whose time it falls into, even past the size limit; one that falls before
    the first cut, into a pause longer than the gap, or after a full segment, opens a cut of its own. Events
    must be new ones: those placed before would be counted twice.
    """
    placing = _EventPlacer(list(cuts), calendar, settings)
    for event in sorted(events, key=lambda e: e.order):
        placing.place_event(event)
    changed = [c for c in placing.cuts if c.key in placing.touched]
    return Assignment(tuple(changed), placing.members)


def size_of(event: Event) -> int:
    """Return an event's tokens, at most 200 for tools."""
    tokens = estimate_tokens(event.text)
    return min(tokens, _TOOL_TOKENS) if _joins_former(event) else tokens


def _joins_former(event: Event) -> bool:
    return event.type in _TOOLS or is_recap(event)


def _closes_stretch(event: Event) -> bool:
    return event.type is EventType.SESSION_END or is_recap(event)


class _EventPlacer:
    """One run of `assign`: the cuts so far, ordered by start."""

    def __init__(self, cuts: list[Segment], calendar: Calendar, settings: SegmentSettings) -> None:
        self.cuts = cuts
        self.touched: set[int] = set()
        self.members: dict[EventId, int] = {}
        self._calendar = calendar
        self._gap_ms = settings.gap_minutes * 60_000
        self._max_tokens = settings.max_tokens
        self._next_no = max((c.cut_no for c in cuts), default=-1) + 1

    def place_event(self, event: Event) -> None:
        at = bisect_right(self.cuts, event.order, key=lambda c: c.start) - 1
        tokens = size_of(event)
        if at >= 0 and self._belongs_to(at, event, tokens):
            cut = self.cuts[at]
            is_open = cut.open and not (_closes_stretch(event) and at == len(self.cuts) - 1)
            end = max(cut.end, event.order)
            self.cuts[at] = replace(cut, end=end, events=cut.events + 1, tokens=cut.tokens + tokens, open=is_open)
        else:
            cut = self._open_cut(at + 1, event, tokens)
        self.touched.add(cut.key)
        self.members[event.event_id] = cut.key

    def _belongs_to(self, at: int, event: Event, tokens: int) -> bool:
        """Tools and recaps join up to 12 hours later."""
        cut = self.cuts[at]
        if event.order <= cut.end:
            return True
        follows = _joins_former(event)
        gap, most = (_TOOL_GAP_MS, _TOOL_TIMES * self._max_tokens) if follows else (self._gap_ms, self._max_tokens)
        # A cut that holds nothing has lost its words to a longer telling of them, and takes that in whatever its size.
        if event.order[0] - cut.end[0] > max(gap, self._gap_ms) or (cut.events and cut.tokens + tokens > most):
            return False
        return follows or cut.open or at < len(self.cuts) - 1

    def _open_cut(self, at: int, event: Event, tokens: int) -> Segment:
        newest = at == len(self.cuts)
        if newest and self.cuts and self.cuts[-1].open:
            self.cuts[-1] = replace(self.cuts[-1], open=False)
            self.touched.add(self.cuts[-1].key)
        cut = Segment(
            stream=event.stream,
            cut_no=self._next_no,
            session_id=event.session_id,
            project=event.project,
            thread=event.thread,
            agent=event.agent,
            day=self._calendar.day_of(event.timestamp),
            start=event.order,
            end=event.order,
            events=1,
            tokens=tokens,
            open=newest and not _closes_stretch(event),
            cutter=CUTTER_VERSION,
        )
        self._next_no += 1
        self.cuts.insert(at, cut)
        return cut


def recap_of(cut: Segment, recaps: Sequence[Event]) -> Event | None:
    """Return the first recap not older than the segment."""
    return next((recap for recap in recaps if recap.stream == cut.stream and recap.order >= cut.start), None)


def overlap_before(previous: Sequence[Event], start_ms: int) -> list[Event]:
    """Return the previous segment's end as context: 5 minutes, 500 tokens at most."""
    chosen: list[Event] = []
    tokens = 0
    for event in reversed(previous):
        tokens += estimate_tokens(event.text)
        if start_ms - event.timestamp > _OVERLAP_MS or tokens > _OVERLAP_TOKENS:
            break
        chosen.append(event)
    return chosen[::-1]


def recut_stream(
    cuts: Sequence[Segment], events: Sequence[Event], calendar: Calendar, settings: SegmentSettings
) -> list[Segment]:
    """Return the cuts that today's rules make of a stream.

    One that begins where an old one does keeps its number, hence its id, and its day; others get numbers not used before.
    """
    new_cuts = assign_events([], events, calendar, settings).changed
    old_cut_of_start = {cut.start: cut for cut in cuts}
    free = count(max((cut.cut_no for cut in cuts), default=-1) + 1)
    numbered = []
    for cut in new_cuts:
        same = old_cut_of_start.get(cut.start)
        numbered.append(replace(cut, cut_no=same.cut_no, day=same.day) if same else replace(cut, cut_no=next(free)))
    return numbered
