"""expand_grip: the exact words behind a citation, checked, with what was said around them, within a budget of tokens.

The quoted words stay whole as long as they fit at all. A request that names nothing but the citation gets the quoted event and
its neighbours in a line each: the nearest that tell something or, of a citation that an answer showed, those that bear most on
that answer's question. One that names a budget or a number of neighbours gets as much of their texts as fits, the nearest
first; long texts are shortened, tool output more than words.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import find_beginning, lower_plain, term_set
from memory_mcp.capture.evidence import ExpandedGrip
from memory_mcp.model.event import Event
from memory_mcp.model.exchange import find_announcements
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import EVIDENCE_PAGE, answers
from memory_mcp.requests.later_changes import find_later_change
from memory_mcp.requests.limits import AROUND, TOKENS, Argument, Flag
from memory_mcp.requests.scope import Caller, visible_evidence
from memory_mcp.requests.surroundings import (
    BEARING_LINES,
    EXPAND_TOKENS,
    LINED_AFTER,
    LINED_BEFORE,
    LINED_TOKENS,
    ExpandResponse,
    Surroundings,
)
from memory_mcp.search.policy.recent import NO_TERMS, QuestionTerms
from memory_mcp.tree.summarize.text_kind import read_kind

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Characters of a message that are looked at: of a longer one, such as a tool's output, the beginning.
_READ = 2000
#: Messages looked at on each side for lines that bear on a question; without one so many are read first, and mostly suffice.
_REACH, _NEAR = 40, 16


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


@answers("expand_grip", ExpandRequest, "Expand a grip", page=EVIDENCE_PAGE)
def expand_grip(app: "App", request: ExpandRequest, caller: Caller) -> ExpandResponse:
    """Return a citation's words with what was said around them.

    The response stays within a token budget; the opening is counted. `before` and `after` events of the same session surround
    it. Without these and a budget they are lines within `LINED_TOKENS`, those that bear on the caller's question for which the
    citation was shown, if it was for one; without a budget alone it is `EXPAND_TOKENS`. Raises InvalidQuery for an invalid
    argument, NotFound for an unknown citation or one that the caller may not see.
    """
    is_lined = request.before is None and request.after is None and not request.token_budget
    usual_before, usual_after = (LINED_BEFORE, LINED_AFTER) if is_lined else (AROUND.default, AROUND.default)
    before_count = AROUND.check(usual_before if request.before is None else request.before, "before")
    after_count = AROUND.check(usual_after if request.after is None else request.after, "after")
    budget = TOKENS.check(request.token_budget or 0, "token_budget") or EXPAND_TOKENS
    citation = visible_evidence(app, caller, request.grip_id, *((0, 0) if is_lined else (before_count, after_count)))
    question, lines = NO_TERMS, list[Event]()
    if is_lined:
        question = app.engine.questions.find(caller.connection, citation.excerpt[0].event_id)
        evidence, lines = _read_lines(app, citation, question, before_count, after_count)
        citation = replace(evidence, before=evidence.before[-before_count:], after=evidence.after[:after_count])
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
    since = find_later_change(app, citation.grip_id, citation.quote, read_kind(citation.quote), caller)
    factor = app.settings.retrieval.token_factor
    surroundings = Surroundings(citation, node_id, elsewhere, app.calendar, factor, over, is_pinned, since)
    return surroundings.in_lines(LINED_TOKENS, lines, question) if is_lined else surroundings.within(budget)


def _read_lines(
    app: "App", citation: ExpandedGrip, question: QuestionTerms, most_before: int, most_after: int
) -> tuple[ExpandedGrip, list[Event]]:
    """Return the citation with neighbours, and those of them that become lines."""
    if not question.weights:
        evidence = app.evidence.add_neighbours(citation, _NEAR, _NEAR)
        lines = choose_neighbours(evidence, question, most_before, most_after)
        if _are_final(evidence, lines, most_before, most_after):
            return evidence, lines
    evidence = app.evidence.add_neighbours(citation, _REACH, _REACH)
    return evidence, choose_neighbours(evidence, question, most_before, most_after)


def _are_final(evidence: ExpandedGrip, lines: Sequence[Event], most_before: int, most_after: int) -> bool:
    """Return whether no event farther than `_NEAR` could change the lines.

    Only what follows an event tells whether it announces that, and a speaker's name in a prompt whether a reply can.
    """
    before_count = sum(event.order < evidence.excerpt[0].order for event in lines)
    after_count = len(lines) - before_count
    if (before_count < most_before and len(evidence.before) == _NEAR) or (
        len(evidence.after) == _NEAR and after_count < most_after
    ):
        return False
    is_last_known = len(evidence.after) < _NEAR or evidence.after[-1] not in lines
    return is_last_known and not any(event.speaker for event in (*evidence.before, *evidence.excerpt, *evidence.after))


def choose_neighbours(quotation: ExpandedGrip, question: QuestionTerms, most_before: int, most_after: int) -> list[Event]:
    """Return the neighbours that bear most on a question, as many as become lines, nearest first.

    Announcements of what comes next are none. Without a question they are the nearest `most_before` and `most_after` ones.
    """
    announcements = find_announcements((*quotation.before, *quotation.excerpt, *quotation.after))
    earlier, later = (
        [event for event in side if event.event_id not in announcements] for side in (quotation.before[::-1], quotation.after)
    )
    if question.weights:
        return _choose_bearing([pair for side in (earlier, later) for pair in enumerate(side)], question.weights)
    by_distance = [pair for side in (earlier[:most_before], later[:most_after]) for pair in enumerate(side)]
    return [event for _, event in sorted(by_distance, key=itemgetter(0))]


def _choose_bearing(by_distance: Sequence[tuple[int, Event]], weights: Mapping[str, float]) -> list[Event]:
    """Return the `BEARING_LINES` events, of pairs with their distance, that hold most of the terms; the nearest of equals.

    Splitting a text into terms takes five times as long as looking for their beginnings, which tells the most it can weigh.
    """
    beginnings = [(find_beginning(term), weight) for term, weight in weights.items()]
    most = sum(weights.values())
    possible = []
    for index, (distance, event) in enumerate(by_distance):
        text = lower_plain(event.text[:_READ])
        weight = most if text is None else sum([weight for beginning, weight in beginnings if beginning in text])
        possible.append((-weight, distance, index))
    chosen = list[tuple[float, int, int]]()
    for rank in sorted(possible):
        if len(chosen) == BEARING_LINES and chosen[-1] < rank:
            break
        _, distance, index = rank
        terms = term_set(by_distance[index][1].text[:_READ])
        insort(chosen, (-sum([weight for term, weight in weights.items() if term in terms]), distance, index))
        del chosen[BEARING_LINES:]
    return [by_distance[index][1] for _, _, index in chosen]
