"""Fits a citation with what was said around it into a budget of tokens. Pure.

Each text is cut and measured once for each width that is tried, and the response is made once.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.evidence import ExpandedGrip
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import DEFAULT_TYPES, Event, Role
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.grip import JOINT, RETRACTED, Supersession
from memory_mcp.model.orders import describe_flags
from memory_mcp.model.tokens import tokens_in
from memory_mcp.requests.excerpts import ELLIPSIS, Excerpt, SizedCuts, cut_out, head_and_tail, width_in
from memory_mcp.requests.limits import TOKENS
from memory_mcp.requests.plain import find_fullest, find_largest, fits_in, size_of, tokens_of
from memory_mcp.requests.response import Recalled
from memory_mcp.search.policy.recent import QuestionTerms

#: Tokens of a response where the caller names neither budget nor neighbours, and where neighbours alone are named.
LINED_TOKENS, EXPAND_TOKENS = 400, 600
#: Neighbours in a line each before and after the quoted event: what follows tells what came of it.
LINED_BEFORE, LINED_AFTER = 3, 4
#: Most lines, the fewest characters of one that are worth showing, and the most (30 words).
_NEAREST = (LINED_BEFORE + LINED_AFTER, 60, 180)
#: The same where it is known which question the quotation was shown for: of 16 questions about coding sessions that the answer
#: left open, four long lines answer 3, seven short ones 2, the nearest messages none.
BEARING_LINES = 4
_BEARING = (BEARING_LINES, 120, 280)
#: Share of the room that the quoted event may take before there are lines.
_OWN_SHARE = 0.5
#: Fewest characters of a neighbour worth showing, and of a quotation too long for the budget.
_LEAST, _LEAST_QUOTE = 60, 80
#: Below this width a text's beginning is shown alone.
_NARROW = 120
#: The token budget that would show everything is rounded up to a multiple of this.
_STEP = 50
#: Characters of a text from which the beginning of a line is taken, and how many of them the longest line needs at most.
_HEAD, _LEAST_HEAD = 2000, 600
#: Stands for the quoted words in the shortened text of their event.
QUOTATION = "[the quotation]"
_BEFORE, _AFTER = "before", "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grip:
    """A citation and its exact words."""

    grip_id: str
    quote: str
    when: str
    node_id: str = ""
    #: Where it is not the caller's.
    project: str = ""
    event_id_start: str
    #: Where the words reach into another event.
    event_id_end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An event: the quoted one as events are shown everywhere; a neighbour, of the same session, by its time and words."""

    event_id: str = ""
    source_id: str = ""
    session_id: str = ""
    #: Of an event in a line where it is not that of the citation.
    when: str = ""
    role: str
    #: Of a neighbour where it is not the usual one of its role.
    type: str = ""
    speaker: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandResponse(Recalled):
    """The words, whether the stored event still holds exactly these, and their surroundings."""

    grip: Grip
    verified: Annotated[bool, "Stored word for word"]
    events_before: tuple[Said, ...]
    excerpt_events: tuple[Said, ...]
    events_after: tuple[Said, ...]
    #: Something was shortened or left out.
    truncated: bool = False
    more: Annotated[Mapping[str, int] | None, "Arguments that show everything"] = None
    #: The grip of the statement that supersedes it, or `RETRACTED`; and the reason.
    superseded_by: str = ""
    why_superseded: str = ""
    #: Set if the quoted words read as instructions to the reader (`model/orders.py`).
    flag: str = ""
    pinned: bool = False
    #: What the repository says since of the code that it is about.
    since: str = ""


class _CutEvent:
    """An event, whose text is cut to several widths before one of them is shown."""

    def __init__(self, said: Said, cut: Callable[[int], str]) -> None:
        """Take the event without text, and what cuts that to a width."""
        self.said = said
        self._size = size_of(said)
        self._cuts = SizedCuts(cut, "text")

    def measure(self, width: int) -> int:
        """Return its bytes in a response."""
        return self._size + self._cuts.at(width)[1]

    def show(self, width: int) -> Said:
        """Return it with its text."""
        return copy_with(self.said, text=self._cuts.at(width)[0])


@dataclass(frozen=True, slots=True)
class _Layout:
    """A response without events, its bytes, the quoted events in it, and the neighbours before and after them."""

    base: ExpandResponse
    size: int
    factor: float
    quoted: Sequence[_CutEvent]
    earlier: Sequence[_CutEvent] = ()
    later: Sequence[_CutEvent] = ()

    def fits(self, budget: float, width: int, own_width: int) -> bool:
        """Return whether it fits with texts of `width`, the quoted events' of `own_width`."""
        size = self.size + _measure_list(self.quoted, own_width)
        size += _measure_list(self.earlier, width) + _measure_list(self.later, width)
        return tokens_in(size, self.factor) <= budget

    def fits_evenly(self, budget: float, width: int) -> bool:
        """Return whether it fits with all texts of one width."""
        return self.fits(budget, width, width)

    def show(self, width: int, own_width: int) -> ExpandResponse:
        """Return the response."""
        return copy_with(
            self.base,
            events_before=tuple(event.show(width) for event in self.earlier),
            excerpt_events=tuple(event.show(own_width) for event in self.quoted),
            events_after=tuple(event.show(width) for event in self.later),
        )


def _measure_list(events: Sequence[_CutEvent], width: int) -> int:
    """Return the bytes that events add to an empty list."""
    return sum([event.measure(width) for event in events]) + max(len(events) - 1, 0)


class Surroundings:
    """One citation with its surroundings, to be cut to a token budget."""

    def __init__(
        self,
        citation: ExpandedGrip,
        node_id: str,
        project: str,
        calendar: Calendar,
        factor: float,
        over: Supersession | None,
        is_pinned: bool,
        since: str = "",
    ) -> None:
        self._found = citation
        self._calendar = calendar
        self._factor = factor
        first, last = citation.excerpt[0].event_id, citation.excerpt[-1].event_id
        cited = Grip(
            grip_id=citation.grip_id,
            quote=citation.quote,
            when=self._calendar.format_iso(citation.timestamp)[:16],
            node_id=node_id,
            project=project,
            event_id_start=first,
            event_id_end="" if last == first else last,
        )
        excerpt_events = tuple(self._shape_event(e, e.text, is_quoted=True) for e in citation.excerpt)
        self._bare = ExpandResponse(
            grip=cited,
            verified=citation.verified,
            events_before=(),
            excerpt_events=excerpt_events,
            events_after=(),
            superseded_by=(over.new or RETRACTED) if over else "",
            why_superseded=over.reason if over else "",
            flag=describe_flags(citation.quote),
            pinned=is_pinned,
            since=since,
        )
        #: The side of each neighbour, nearest first.
        sides = itertools.zip_longest([_BEFORE] * len(citation.before), [_AFTER] * len(citation.after))
        self._nearest = [side for pair in sides for side in pair if side is not None]

    def within(self, budget: int) -> ExpandResponse:
        """Return everything, or as much as the budget holds.

        What is cut is marked as truncated, with the budget that would show everything. First texts are shortened, then the
        farthest neighbours dropped. If that is not enough, the event's other words are left out and the neighbours tried anew;
        at last the quotation itself is shortened, to no less than `_LEAST_QUOTE` characters.
        """
        complete = self._show_everything()
        cost = tokens_of(complete, self._factor)
        if cost <= budget:
            return complete
        base = copy_with(self._bare, excerpt_events=(), truncated=True, more={"token_budget": self._round_budget(cost)})
        layout = _Layout(base, size_of(base), self._factor, self._cut_quoted(self._bare.excerpt_events))
        silent = tuple(_CutEvent(event.said, _cut_to_nothing) for event in layout.quoted)
        earlier, later = self._cut_neighbours(self._found.before), self._cut_neighbours(self._found.after)
        longest = 2 * max(len(e.text) for e in (*self._found.before, *self._found.excerpt, *self._found.after))
        for quoted, count in itertools.product((layout.quoted, silent), range(len(self._nearest), -1, -1)):
            before_count = self._nearest[:count].count(_BEFORE)
            layout = copy_with(
                layout, quoted=quoted, earlier=earlier[len(earlier) - before_count :], later=later[: count - before_count]
            )
            width = find_largest(functools.partial(layout.fits_evenly, budget), _LEAST, longest)
            if width is not None:
                return layout.show(width, width)

        def cut_quotation(width: int) -> ExpandResponse:
            """Return the response with the quotation alone, cut to `width` characters."""
            alone = copy_with(base, excerpt_events=tuple(event.said for event in silent))
            return copy_with(alone, grip=copy_with(base.grip, quote=_cut_middle(self._found.quote, width)))

        fits = fits_in(budget, self._factor)
        return find_fullest(cut_quotation, fits, _LEAST_QUOTE, len(self._found.quote)) or cut_quotation(_LEAST_QUOTE)

    def in_lines(self, budget: int, neighbours: Sequence[Event], question: QuestionTerms) -> ExpandResponse:
        """Return everything, or the quoted event and neighbours in lines.

        The event has half of the room before there are lines, and what they leave then; the first neighbours stay longest.
        """
        complete = self._show_everything()
        cost = tokens_of(complete, self._factor)
        if cost <= budget:
            return complete
        more = {"before": LINED_BEFORE, "after": LINED_AFTER, "token_budget": self._round_budget(cost)}
        base = copy_with(self._bare, excerpt_events=(), truncated=True, more=more)
        lean = [copy_with(event, source_id="", when=self._else(event.when), type="") for event in self._bare.excerpt_events]
        layout = _Layout(base, size_of(base), self._factor, self._cut_quoted(lean))
        longest = max(len(event.text) for event in self._found.excerpt)
        alone = tokens_of(copy_with(base, excerpt_events=tuple(event.said for event in layout.quoted)), self._factor)
        own_budget = alone + _OWN_SHARE * (budget - alone)
        own_width = find_largest(functools.partial(layout.fits, own_budget, 0), 0, longest)
        if own_width is None:  # The quoted words alone take more.
            return self.within(EXPAND_TOKENS)
        most, least, line = _BEARING if question.weights else _NEAREST
        lines = [(e.order, self._cut_to_line(e, question)) for e in neighbours[:most]]
        quoted_order, width = self._found.excerpt[0].order, 0
        for count in range(len(lines), 0, -1):
            in_order = sorted(lines[:count], key=itemgetter(0))
            before_count = sum(order < quoted_order for order, _ in in_order)
            events = [event for _, event in in_order]
            lined = copy_with(layout, earlier=events[:before_count], later=events[before_count:])
            line_width = find_largest(functools.partial(lined.fits, budget, own_width=own_width), least, line)
            if line_width is not None:
                layout, width = lined, line_width
                break
        wider = find_largest(functools.partial(layout.fits, budget, width), 0, longest)
        return layout.show(width, own_width if wider is None else wider)

    def _else(self, when: str) -> str:
        """Return a time to the minute; "" for the citation's own."""
        return "" if when[:16] == self._bare.grip.when else when[:16]

    def _round_budget(self, cost: int) -> int:
        return min(-(-cost // _STEP) * _STEP, TOKENS.most)

    def _show_everything(self) -> ExpandResponse:
        earlier, later = ([self._shape_event(e, e.text) for e in side] for side in (self._found.before, self._found.after))
        return copy_with(self._bare, events_before=tuple(earlier), events_after=tuple(later))

    def _cut_quoted(self, quoted: Iterable[Said]) -> list[_CutEvent]:
        """Return the quoted events, to be cut to so many characters each side of the quotation."""
        triples = zip(quoted, self._found.excerpt, _spans(self._found), strict=True)
        return [_CutEvent(copy_with(s, text=""), functools.partial(_window, e.text, span)) for s, e, span in triples]

    def _cut_neighbours(self, events: Sequence[Event]) -> list[_CutEvent]:
        return [_CutEvent(self._shape_event(e, ""), functools.partial(_cut_neighbour, e)) for e in events]

    def _cut_to_line(self, event: Event, question: QuestionTerms) -> _CutEvent:
        neighbour = self._shape_event(event, "")
        # Without a question a line is the beginning.
        head = "" if question.weights or question.words else " ".join(event.text[:_HEAD].split())
        text = Excerpt(head if len(head) > _LEAST_HEAD else " ".join(event.text.split()), question.weights, question.words)
        return _CutEvent(
            copy_with(neighbour, when=self._else(neighbour.when)), functools.partial(_cut_line, text, event.role is Role.TOOL)
        )

    def _shape_event(self, event: Event, text: str, is_quoted: bool = False) -> Said:
        """Only the quoted one has its ids and the seconds of its time."""
        return Said(
            event_id=event.event_id if is_quoted else "",
            source_id=event.source_id if is_quoted else "",
            session_id=event.session_id if is_quoted else "",
            when=self._calendar.format_iso(event.timestamp)[: None if is_quoted else 16],
            role=event.role.value,
            type="" if event.type is DEFAULT_TYPES[event.role] and not is_quoted else event.type.value,
            speaker=event.speaker,
            text=text,
        )


def _spans(citation: ExpandedGrip) -> list[tuple[int, int]]:
    """Of two events, the first text's end and the second's beginning are quoted."""
    texts = [e.text for e in citation.excerpt]
    if len(texts) == 1:
        start = max(texts[0].find(citation.quote), 0)
        return [(start, min(start + len(citation.quote), len(texts[0])))]
    head, _, tail = citation.quote.partition(JOINT)
    return [(max(len(texts[0]) - len(head), 0), len(texts[0])), (0, min(len(tail), len(texts[1])))]


def _window(text: str, span: tuple[int, int], width: int) -> str:
    start, end = span
    text_before = cut_out(text, max(start - width, 0), start, (start, start)).removesuffix(ELLIPSIS)
    text_after = cut_out(text, end, min(end + width, len(text)), (end, end)).removeprefix(ELLIPSIS)
    return " ".join(part for part in (text_before, QUOTATION, text_after) if part)


def _cut_line(text: Excerpt, is_tool: bool, width: int) -> str:
    return text.cut(width_in(text.text, width // 2 if is_tool else width))


def _cut_to_nothing(_: int) -> str:
    return ""


def _cut_neighbour(event: Event, width: int) -> str:
    """Return a neighbour's text in about `width` characters (tools: half)."""
    return _cut_middle(event.text, width // 2 if event.role is Role.TOOL else width)


def _cut_middle(text: str, width: int) -> str:
    """Return a text's beginning and end; up to `_NARROW` its beginning."""
    if len(text) <= width:
        return text
    return head_and_tail(text, width) if width > _NARROW else cut_out(text, 0, width - len(ELLIPSIS))
