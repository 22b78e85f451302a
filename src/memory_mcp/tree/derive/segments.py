"""Events of one stream in, stretches out: where one ends and the next begins. Pure.

A stretch is made of exchanges: what was asked, what was answered, and the tool calls between. Tools belong to whoever asked
for them: a pause or the size of what they print opens no stretch of tool events alone. A recap, in which the client's model
told what had been said when it made room for more, ends the stretch that it tells of.

Invariants
1. Every event belongs to exactly one segment of its stream; cuts of a stream never overlap in time order.
2. Cut points are only added; an end may grow, a start never moves.
3. Handing in events again changes nothing.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

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
        """Raise ConfigError for a gap below a minute or segments below 200 tokens."""
        if self.gap_minutes < 1 or self.max_tokens < 200:
            raise ConfigError("[toc] needs gap_minutes >= 1 and max_tokens >= 200")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What some events changed: cuts new or grown, and which cut each event belongs to (by segment key)."""

    changed: tuple[Segment, ...]
    members: dict[EventId, int]


def assign(cuts: Sequence[Segment], events: Sequence[Event], calendar: Calendar, settings: SegmentSettings) -> Assignment:
    """Place `events` (one stream, any order) among its stored `cuts` (ordered by start); return what changed.

    A late event joins the segment whose time it falls into, even past the size limit; one that falls before
    the first cut, into a pause longer than the gap, or behind a full segment, opens a cut of its own. Events
    must be new ones: those placed before would be counted twice.
    """
    placing = _Placing(list(cuts), calendar, settings)
    for event in sorted(events, key=lambda e: e.order):
        placing.place(event)
    changed = [c for c in placing.cuts if c.key in placing.touched]
    return Assignment(tuple(changed), placing.members)


def size_of(event: Event) -> int:
    """Return the tokens that an event counts towards the size of its stretch: at most 200 for tools and recaps."""
    tokens = estimate_tokens(event.text)
    return min(tokens, _TOOL_TOKENS) if _follows(event) else tokens


def _follows(event: Event) -> bool:
    """Return whether an event belongs to what came before it although it is large or late: a tool's or a recap."""
    return event.type in _TOOLS or is_recap(event)


def _ends(event: Event) -> bool:
    """Return whether an event closes its stretch: the end of a session, or a recap."""
    return event.type is EventType.SESSION_END or is_recap(event)


class _Placing:
    """One run of `assign`: the cuts so far, ordered by start."""

    def __init__(self, cuts: list[Segment], calendar: Calendar, settings: SegmentSettings) -> None:
        """Begin with `cuts`, a list that is changed in place; new cuts get numbers above all of theirs."""
        self.cuts = cuts
        self.touched: set[int] = set()
        self.members: dict[EventId, int] = {}
        self._calendar = calendar
        self._gap_ms = settings.gap_minutes * 60_000
        self._max_tokens = settings.max_tokens
        self._next_no = max((c.cut_no for c in cuts), default=-1) + 1

    def place(self, event: Event) -> None:
        """Add an event to the last cut that begins before it, if it belongs there, else open one; an end closes the newest."""
        at = bisect_right(self.cuts, event.order, key=lambda c: c.start) - 1
        tokens = size_of(event)
        if at >= 0 and self._belongs(at, event, tokens):
            cut = self.cuts[at]
            is_open = cut.open and not (_ends(event) and at == len(self.cuts) - 1)
            end = max(cut.end, event.order)
            self.cuts[at] = replace(cut, end=end, events=cut.events + 1, tokens=cut.tokens + tokens, open=is_open)
        else:
            cut = self._open(at + 1, event, tokens)
        self.touched.add(cut.key)
        self.members[event.event_id] = cut.key

    def _belongs(self, at: int, event: Event, tokens: int) -> bool:
        """Return whether an event belongs to the cut at an index: within its time, or soon after it and within its size.

        Tool events and recaps may come up to 12 hours later and make it four times as large. The newest cut
        must be open for others.
        """
        cut = self.cuts[at]
        if event.order <= cut.end:
            return True
        follows = _follows(event)
        gap, most = (_TOOL_GAP_MS, _TOOL_TIMES * self._max_tokens) if follows else (self._gap_ms, self._max_tokens)
        # A cut that holds nothing has lost its words to a longer telling of them, and takes that in whatever its size.
        if event.order[0] - cut.end[0] > max(gap, self._gap_ms) or (cut.events and cut.tokens + tokens > most):
            return False
        return follows or cut.open or at < len(self.cuts) - 1

    def _open(self, at: int, event: Event, tokens: int) -> Segment:
        """Insert and return a cut of one event, with the next number, at an index; as the newest it closes the one before."""
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
            open=newest and not _ends(event),
            cutter=CUTTER_VERSION,
        )
        self._next_no += 1
        self.cuts.insert(at, cut)
        return cut


def recap_of(cut: Segment, recaps: Sequence[Event]) -> Event | None:
    """Return the first of `recaps` (in order of time) of the segment's stream that is not older than its start; None for none."""
    return next((recap for recap in recaps if recap.stream == cut.stream and recap.order >= cut.start), None)


def overlap(previous: Sequence[Event], start_ms: int) -> list[Event]:
    """Return the end of the previous segment, 5 minutes and 500 tokens at most, as context of one that starts at `start_ms`."""
    chosen: list[Event] = []
    tokens = 0
    for event in reversed(previous):
        tokens += estimate_tokens(event.text)
        if start_ms - event.timestamp > _OVERLAP_MS or tokens > _OVERLAP_TOKENS:
            break
        chosen.append(event)
    return chosen[::-1]


def recut(cuts: Sequence[Segment], events: Sequence[Event], calendar: Calendar, settings: SegmentSettings) -> list[Segment]:
    """Return the cuts that today's rules make of a stream whose `cuts` older rules made, ordered by start.

    One that begins where an old one does keeps its number, hence its id, and its day; others get numbers not used before.
    """
    made = assign([], events, calendar, settings).changed
    before = {cut.start: cut for cut in cuts}
    free = count(max((cut.cut_no for cut in cuts), default=-1) + 1)
    named = []
    for cut in made:
        same = before.get(cut.start)
        named.append(replace(cut, cut_no=same.cut_no, day=same.day) if same else replace(cut, cut_no=next(free)))
    return named
