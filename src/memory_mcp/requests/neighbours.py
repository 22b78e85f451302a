"""Chooses which messages around a quotation are worth a line each. Pure."""

from memory_mcp.base.text import term_set
from memory_mcp.capture.evidence import ExpandedGrip
from memory_mcp.model.event import Event
from memory_mcp.model.exchange import TurnKind, classify_turns
from memory_mcp.search.policy.recent import QuestionTerms

#: Characters of a message that are looked at: of a longer one, such as a tool's output, the beginning.
_READ = 2000


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
