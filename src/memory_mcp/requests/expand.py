"""expand_grip: the exact words behind a citation, checked, with what was said around them, within a budget of tokens.

The quoted words stay whole as long as they fit at all. A request that names nothing but the citation gets the quoted event and
its neighbours in a line each: the nearest that tell something or, of a citation that an answer showed, those that bear most on
that answer's question. One that names a budget or a number of neighbours gets as much of their texts as fits, the nearest
first; long texts are shortened, tool output more than words.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.text import term_set
from memory_mcp.capture.evidence import ExpandedGrip
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import DEFAULT_TYPES, Event, Role
from memory_mcp.model.exchange import TurnKind, classify_turns
from memory_mcp.model.grip import JOINT, RETRACTED, Supersession
from memory_mcp.model.orders import describe_flags
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import EVIDENCE_PAGE, answers
from memory_mcp.requests.excerpts import ELLIPSIS, Excerpt, cut_out, head_and_tail, width_in
from memory_mcp.requests.limits import AROUND, TOKENS, Argument, Flag
from memory_mcp.requests.plain import find_fullest, fits_in, tokens_of
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, visible_evidence
from memory_mcp.search.policy.recent import QuestionTerms

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Characters of a message that are looked at: of a longer one, such as a tool's output, the beginning.
_READ = 2000
#: Tokens of a response where the caller names neither budget nor neighbours, and where neighbours alone are named.
LINED_TOKENS, EXPAND_TOKENS = 400, 600
#: Neighbours in a line each before and after the quoted event: what follows tells what came of it.
_LINED_BEFORE, _LINED_AFTER = 3, 4
#: Most lines, the fewest characters of one that are worth showing, and the most (30 words).
_NEAREST = (_LINED_BEFORE + _LINED_AFTER, 60, 180)
#: The same where it is known which question the quotation was shown for: of 16 questions about coding sessions that the answer
#: left open, four long lines answer 3, seven short ones 2, the nearest messages none.
_BEARING = (4, 120, 280)
#: Messages looked at on each side for such lines.
_REACH = 40
#: Share of the room that the quoted event may take before there are lines.
_OWN_SHARE = 0.5
#: Fewest characters of a neighbour worth showing, and of a quotation too long for the budget.
_LEAST, _LEAST_QUOTE = 60, 80
#: Below this width a text's beginning is shown alone.
_NARROW = 120
#: The token budget that would show everything is rounded up to a multiple of this.
_STEP = 50
#: Stands for the quoted words in the shortened text of their event.
QUOTATION = "[the quotation]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandRequest:
    """The exact words behind a grip, checked against the stored event, with what was said before and after.

    Use it before relying on a quotation. Neighbours come in a line each; `more` shows everything.
    """

    grip_id: arguments.GripId
    before: Annotated[
        int | None,
        Argument("Events before, with their texts", range=AROUND, flag=Flag("N", "events before it (3, in a line each)")),
    ] = None
    after: Annotated[int | None, Argument(range=AROUND, flag=Flag("N", "events after it (4, in a line each)"))] = None
    token_budget: Annotated[int | None, arguments.most_tokens("all texts together")] = None


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


@answers("expand_grip", ExpandRequest, "Expand a grip", page=EVIDENCE_PAGE)
def expand_grip(app: "App", request: ExpandRequest, caller: Caller) -> ExpandResponse:
    """Return a citation's words with what was said around them.

    The response stays within a token budget; the opening is counted. `before` and `after` events of the same session surround
    it. Without these and a budget they are lines within `LINED_TOKENS`, those that bear on the caller's question for which the
    citation was shown, if it was for one; without a budget alone it is `EXPAND_TOKENS`. Raises InvalidQuery for an invalid
    argument, NotFound for an unknown citation or one that the caller may not see.
    """
    is_lined = request.before is None and request.after is None and not request.token_budget
    usual_before, usual_after = (_LINED_BEFORE, _LINED_AFTER) if is_lined else (AROUND.default, AROUND.default)
    before_count = AROUND.check(usual_before if request.before is None else request.before, "before")
    after_count = AROUND.check(usual_after if request.after is None else request.after, "after")
    budget = TOKENS.check(request.token_budget or 0, "token_budget") or EXPAND_TOKENS
    surroundings = visible_evidence(
        app, caller, request.grip_id, *((_REACH, _REACH) if is_lined else (before_count, after_count))
    )
    citation = surroundings
    if is_lined:
        citation = replace(surroundings, before=surroundings.before[-before_count:], after=surroundings.after[:after_count])
    project = citation.excerpt[0].project
    app.count_opening(citation.grip_id)
    segments = app.storage.toc.get_segments([citation.node_segment]) if citation.node_segment else {}
    node_id, first = next((s.node_id for s in segments.values()), ""), citation.excerpt[0]
    if not node_id:
        # A citation of a whole event does not say itself under which segment it is filed.
        cuts = app.storage.toc.get_cuts([first.stream]).get(first.stream, [])
        node_id = next((cut.node_id for cut in cuts if cut.start <= first.order <= cut.end), "")
    elsewhere = caller.elsewhere(app, project)
    over = app.storage.superseded.get_successors([citation.grip_id]).get(citation.grip_id)
    is_pinned = citation.grip_id in app.storage.toc.list_pins()
    fitting = _Fitting(citation, node_id, elsewhere, app.calendar, app.settings.retrieval.token_factor, over, is_pinned)
    if not is_lined:
        return fitting.within(budget)
    question = app.engine.questions.find(caller.connection, first.event_id)
    return fitting.in_lines(LINED_TOKENS, choose_neighbours(surroundings, question, before_count, after_count), question)


class _Fitting:
    """Cuts one citation and its surroundings to a token budget."""

    def __init__(
        self,
        citation: ExpandedGrip,
        node_id: str,
        project: str,
        calendar: Calendar,
        factor: float,
        over: Supersession | None,
        is_pinned: bool,
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
        )
        #: Neighbours, nearest first: (side: 0 before, 1 after; counted from the quotation).
        sides = itertools.zip_longest(
            ((0, nth) for nth in range(len(citation.before))), ((1, nth) for nth in range(len(citation.after)))
        )
        self._nearest = [position for pair in sides for position in pair if position is not None]

    def within(self, budget: int) -> ExpandResponse:
        """Return everything, or as much as the budget holds.

        What is cut is marked as truncated, with the budget that would show everything. First texts are shortened, then the
        farthest neighbours dropped. If that is not enough, the event's other words are left out and the neighbours tried anew;
        at last the quotation itself is shortened, to no less than `_LEAST_QUOTE` characters.
        """
        complete = self._around(self._bare, len(self._nearest), None)
        cost = tokens_of(complete, self._factor)
        if cost <= budget:
            return complete
        base = replace(self._bare, truncated=True, more={"token_budget": self._round_budget(cost)})
        silent = replace(base, excerpt_events=tuple(replace(e, text="") for e in base.excerpt_events))
        fits = fits_in(budget, self._factor)
        longest = 2 * max(len(e.text) for e in (*self._found.before, *self._found.excerpt, *self._found.after))

        def cut_quotation(width: int) -> ExpandResponse:
            """Return the response with the quotation alone, cut to `width` characters."""
            return replace(silent, grip=replace(silent.grip, quote=_cut_middle(self._found.quote, width)))

        for base_response, count in itertools.product((base, silent), range(len(self._nearest), -1, -1)):
            fitted = find_fullest(functools.partial(self._around, base_response, count), fits, _LEAST, longest)
            if fitted is not None:
                return fitted
        return find_fullest(cut_quotation, fits, _LEAST_QUOTE, len(self._found.quote)) or cut_quotation(_LEAST_QUOTE)

    def in_lines(self, budget: int, neighbours: Sequence[Event], question: QuestionTerms) -> ExpandResponse:
        """Return everything, or the quoted event and neighbours in lines.

        The event has half of the room before there are lines, and what they leave then; the first neighbours stay longest.
        """
        complete = self._around(self._bare, len(self._nearest), None)
        cost = tokens_of(complete, self._factor)
        if cost <= budget:
            return complete
        more = {"before": _LINED_BEFORE, "after": _LINED_AFTER, "token_budget": self._round_budget(cost)}
        lean = tuple(replace(event, source_id="", when=self._else(event.when), type="") for event in self._bare.excerpt_events)
        base = replace(self._bare, excerpt_events=lean, truncated=True, more=more)
        fits, longest = fits_in(budget, self._factor), max(len(event.text) for event in self._found.excerpt)
        alone = tokens_of(self._shorten_event(base, None), self._factor)
        own_fits = fits_in(alone + _OWN_SHARE * (budget - alone), self._factor)
        with_event = find_fullest(functools.partial(self._shorten_event, base), own_fits, 0, longest)
        if with_event is None:  # The quoted words alone take more.
            return self.within(EXPAND_TOKENS)
        response = with_event
        most, least, line = _BEARING if question.weights else _NEAREST
        texts = [(e, Excerpt(" ".join(e.text.split()), question.weights, question.words)) for e in neighbours[:most]]
        for count in range(len(texts), 0, -1):
            lined = find_fullest(functools.partial(self._add_lines, with_event, texts[:count]), fits, least, line)
            if lined is not None:
                response = lined
                break

        def widen_event(width: int) -> ExpandResponse:
            """Return what is shown, with so many characters of the event on each side of the quotation."""
            return replace(response, excerpt_events=self._shorten_event(base, width).excerpt_events)

        return find_fullest(widen_event, fits, 0, longest) or response

    def _else(self, when: str) -> str:
        """Return a time to the minute; "" for the citation's own."""
        return "" if when[:16] == self._bare.grip.when else when[:16]

    def _round_budget(self, cost: int) -> int:
        return min(-(-cost // _STEP) * _STEP, TOKENS.most)

    def _shorten_event(self, response: ExpandResponse, width: int | None) -> ExpandResponse:
        """Return a response with `width` characters each side of the quotation.

        None for none of the event's text.
        """
        triples = zip(response.excerpt_events, self._found.excerpt, _spans(self._found), strict=True)
        events = tuple(replace(s, text="" if width is None else _window(e.text, span, width)) for s, e, span in triples)
        return replace(response, excerpt_events=events)

    def _add_lines(self, response: ExpandResponse, neighbours: Sequence[tuple[Event, Excerpt]], width: int) -> ExpandResponse:
        """Return a response with neighbours in lines of `width` letters."""
        lines = [self._in_line(event, text, width) for event, text in sorted(neighbours, key=lambda pair: pair[0].order)]
        before_count = sum(event.order < self._found.excerpt[0].order for event, _ in neighbours)
        return replace(response, events_before=tuple(lines[:before_count]), events_after=tuple(lines[before_count:]))

    def _in_line(self, event: Event, text: Excerpt, width: int) -> Said:
        neighbour, letters = self._shape_event(event, ""), width // 2 if event.role is Role.TOOL else width
        return replace(neighbour, when=self._else(neighbour.when), text=text.cut(width_in(text.text, letters)))

    def _neighbours(self, count: int) -> tuple[list[Event], list[Event]]:
        near = set(self._nearest[:count])
        earlier = [e for distance, e in enumerate(reversed(self._found.before)) if (0, distance) in near]
        return earlier[::-1], [e for distance, e in enumerate(self._found.after) if (1, distance) in near]

    def _around(self, response: ExpandResponse, count: int, width: int | None) -> ExpandResponse:
        """Return a response with its `count` nearest neighbours.

        `width` is how many characters a message's text and each side of the quoted words have; None for whole
        texts. An excerpt event whose text was left out stays without.
        """
        earlier, later = self._neighbours(count)
        excerpt = response.excerpt_events
        if width is not None:
            pairs = zip(excerpt, self._found.excerpt, _spans(self._found), strict=True)
            excerpt = tuple(replace(s, text=_window(e.text, span, width)) if s.text else s for s, e, span in pairs)
        return replace(
            response,
            events_before=tuple(self._shape_event(e, _neighbour(e, width)) for e in earlier),
            excerpt_events=excerpt,
            events_after=tuple(self._shape_event(e, _neighbour(e, width)) for e in later),
        )

    def _shape_event(self, event: Event, text: str, is_quoted: bool = False) -> Said:
        """Return an event with this text.

        Only the quoted one (`is_quoted`) has its ids and the seconds of its time.
        """
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
    """Return (start, end) of the quoted words in each event's text.

    Of two, the words are the end of the first text and the beginning of the second.
    """
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


def _neighbour(event: Event, width: int | None) -> str:
    """Return a neighbour's text in about `width` characters (tools: half).

    The whole text where `width` is None, or where it fits.
    """
    if width is None:
        return event.text
    return _cut_middle(event.text, width // 2 if event.role is Role.TOOL else width)


def _cut_middle(text: str, width: int) -> str:
    """Return a text's beginning and end; up to `_NARROW` its beginning."""
    if len(text) <= width:
        return text
    return head_and_tail(text, width) if width > _NARROW else cut_out(text, 0, width - len(ELLIPSIS))


def choose_neighbours(quotation: ExpandedGrip, question: QuestionTerms, most_before: int, most_after: int) -> list[Event]:
    """Return the neighbours that bear most on a question, nearest first.

    Announcements of what comes next are none. Without a question they are the nearest `most_before` and `most_after` ones.
    """
    turns = classify_turns((*quotation.before, *quotation.excerpt, *quotation.after))
    earlier, later = (
        [event for event in side if not turns.get(event.event_id, TurnKind.PLAIN) & TurnKind.ANNOUNCES]
        for side in (quotation.before[::-1], quotation.after)
    )
    if not question.weights:
        earlier, later = earlier[:most_before], later[:most_after]
    by_distance = [pair for side in (earlier, later) for pair in enumerate(side)]

    def sort_key(pair: tuple[int, Event]) -> tuple[float, int]:
        distance, event = pair
        weights = [question.weights.get(term, 0.0) for term in term_set(event.text[:_READ])] if question.weights else []
        return -sum(weights), distance

    return [event for _, event in sorted(by_distance, key=sort_key)]
