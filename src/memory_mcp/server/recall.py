"""Finds up to three earlier quotations that fit a prompt well, for a client's hook to pass on to its model."""

from typing import TYPE_CHECKING

from memory_mcp.model.event import ExcludedSession
from memory_mcp.model.fencing import fence_text
from memory_mcp.search.layers.base import Hit, Query

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.search.policy.engine import Answer

#: Memories told at most, and characters of each.
MOST, _WIDTH = 3, 400
#: Hits looked at: those that fit less well fall away.
_LOOKED_AT = 12
#: Longest part of a prompt that is searched for: pasted output says nothing about what is wanted.
_PROMPT = 1000
#: Of the best quotation's score, what another must have to be told beside it.
_BESIDE = 0.3
#: Fewer distinct words than this (yes, go on, fix it) fit anything.
_LEAST_TERMS = 2
#: Probability from which hits that fit are told: what is told is marked as old, and a miss costs a few lines.
_LIKELY = 0.5
_BEGIN = "From earlier sessions (quoted as they were said then; they may be out of date):"


def recall_text(app: "App", prompt: str, project: str, session_id: str = "", timeout_ms: int | None = None) -> str:
    """Return up to `MOST` fenced quotations that fit the prompt.

    "" if none fits well. Where acknowledged events are missing, that comes first, also where a search finds nothing.

    Args:
        app: The memory.
        prompt: What the user typed; its first 1,000 characters are searched for, with fewer than two terms nothing is.
        project: The project to search; with "" nothing is found, unless searches go everywhere by setting.
        session_id: The session of the prompt, whose own words are left out, as its model has them in sight.
        timeout_ms: How long the search may take, milliseconds; None: as long as the setting says.

    """
    from memory_mcp.base.text import query_terms
    from memory_mcp.model.orders import describe_flags
    from memory_mcp.question.intent import Intent
    from memory_mcp.search.policy.plan import How
    from memory_mcp.tree.toc.statements import clean_name, quote_text

    question = prompt[:_PROMPT].strip()
    project = app.storage.projects.names.resolve_alias(project)
    everywhere = app.settings.server.scope == "all" and not app.settings.server.scope_lock
    if not (project or everywhere) or len(query_terms(question)) < _LEAST_TERMS:
        return ""
    how = How(Intent.ANSWER, bounds={"timeout_ms": timeout_ms})
    excluded = frozenset({ExcludedSession(session_id, app.running.known_from(session_id))} if session_id else ())
    answer = app.ask(Query(question, _LOOKED_AT, None if everywhere else project, excluded=excluded), how)
    # That nothing fits may be due to what is missing.
    missing = [f"{loss.summary_line}."] if (loss := app.storage.loss) else []
    if not (hits := _select_hits(answer, question)):
        return fence_text("\n".join(missing)) if missing else ""
    least = hits[0].score * _BESIDE
    lines: dict[str, None] = {}
    for hit in (h for h in hits if h.score >= least and h.grip_ids):
        who, flag = clean_name(hit.speaker) or hit.role, describe_flags(hit.quote)
        when = f"{app.calendar.to_local(hit.timestamp):%Y-%m-%d %H:%M}"
        line = f"{when}, {who} said: {quote_text(hit.quote, _WIDTH)} [{hit.grip_ids[0]}]"
        lines[f"- {line} ({flag})" if flag else f"- {line}"] = None
    blocks = [*missing, *([_BEGIN, *list(lines)[:MOST]] if lines else [])]
    return fence_text("\n".join(blocks)) if blocks else ""


def _select_hits(answer: "Answer", question: str) -> list[Hit]:
    """Return the hits of an answer that are told, best first."""
    from memory_mcp.base.text import query_terms, term_set
    from memory_mcp.model.exchange import only_asks
    from memory_mcp.search.policy.relevance import Confidence, Fit

    if answer.confidence is not Confidence.NONE and answer.probability >= _LIKELY:
        return [hit for hit in answer.hits if hit.fit != Fit.LOOSE and not hit.asks]
    question_terms = set(query_terms(question))
    return [hit for hit in answer.hits if hit.asks and not only_asks(hit.quote) and question_terms < term_set(hit.quote)]
