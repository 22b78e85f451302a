"""Events in order of time: get_events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory_mcp.app import App
from memory_mcp.model.event import Event as Stored
from memory_mcp.requests import shapes
from memory_mcp.requests.cursors import event_behind, event_cursor
from memory_mcp.requests.limits import PAGE, TOKENS
from memory_mcp.requests.response import Recalled, budget_of, fitting
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.shapes import Event
from memory_mcp.requests.times import times_of
from memory_mcp.storage.values import Scope

#: What an event costs besides its text: ids, time, names.
_EVENT_TOKENS = 60


@dataclass(frozen=True, slots=True)
class GetEvents:
    """All of a session, or of a span of time."""

    since: str = ""
    until: str = ""
    #: Named alone, its events are read whatever project they belong to.
    session_id: str = ""
    limit: int = PAGE.default
    cursor: str = ""
    project: str = ""
    scope: str = ""
    token_budget: int = TOKENS.default


@dataclass(frozen=True, slots=True, kw_only=True)
class Events(Recalled):
    """A page of events; it holds at least one, whose text is shortened where it alone is too long for the budget."""

    events: Sequence[Event]
    next_cursor: str = ""
    scope: str
    truncated: bool | None = None


def get_events(app: App, request: GetEvents, caller: Caller) -> Events:
    """Return a page of events."""
    limit, own_budget = PAGE.check(request.limit), TOKENS.check(request.token_budget, "token_budget")
    window = times_of(app).window(request.since, request.until)
    is_session = bool(request.session_id) and not (request.project or request.scope or caller.locked)
    scoped = Scoped(None) if is_session else scope_of(app, request.project, request.scope, caller)
    question = ("get_events", scoped.words, request.since, request.until, request.session_id)
    after = event_behind(app, request.cursor, question)
    scope = Scope(scoped.project, None, window)
    found = app.storage.events.window(scope, request.session_id or None, limit + 1, after)
    shaped = [shapes.event(e, app.calendar) for e in found[:limit]]
    kept = fitting(app, shaped, own_budget)
    shortened = bool(shaped) and not kept
    if shortened:
        room = (budget_of(app, own_budget) - _EVENT_TOKENS) / app.settings.retrieval.token_factor
        kept = [replace(shaped[0], text=shaped[0].text.encode()[: max(int(room), 1) * 4].decode(errors="ignore"))]
    return Events(
        events=kept,
        next_cursor=event_cursor(found[len(kept) - 1].event_id, *question) if len(found) > len(kept) else "",
        scope=_whose(app, caller, found) or scoped.words if is_session else scoped.words,
        truncated=True if shortened else None,
    )


def _whose(app: App, caller: Caller, found: Sequence[Stored]) -> str:
    """Return the other projects that a session's events belong to; "" for the caller's own."""
    return ", ".join(sorted({caller.elsewhere(app, event.project) for event in found} - {""}))
