"""Ask once and let the policy decide: intelligent_search."""

from dataclasses import replace
from typing import Annotated, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery
from memory_mcp.layers.base import Query
from memory_mcp.model.calendar import Calendar
from memory_mcp.policy.engine import Answer
from memory_mcp.policy.explain import Explanation
from memory_mcp.server import arguments, shapes, wire
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.cursors import offset_cursor, offset_of
from memory_mcp.server.times import since_ms, until_ms
from memory_mcp.server.tools.kit import Kit, Scoped, answer, tool

_LATER = "Not live yet: leave it out"
#: Accepted in the schema, refused in words, until the policy can honour them.
_HINTS = {
    "intent": "Leave it out: every question is taken as Answer for now.",
    "mode": "Leave it out: searches run sequentially for now.",
    "why_not": "Leave it out: detail='full' shows the path that was searched.",
}
_BOUND_NAMES = ("max_depth", "max_nodes_visited", "max_rpc_calls", "max_token_budget", "timeout_ms", "beam_width")
_KEYWORDS_OFF = "BM25 search is not enabled: used TOC navigation; enable with teleport.bm25.enabled = true"
_TOO_SMALL = "the next result does not fit the token budget; raise token_budget to see it"


class Intelligent:
    """The group of one."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.intelligent_search, "Search the memory")]

    async def intelligent_search(
        self,
        query: Annotated[str, Field(description="Question or keywords; time words (last week) filter", max_length=4000)],
        intent: Annotated[Literal["", "explore", "answer", "locate", "time_boxed"], Field(description=_LATER)] = "",
        mode: Annotated[Literal["", "sequential", "parallel", "hybrid"], Field(description=_LATER)] = "",
        limit: arguments.Limit = 10,
        token_budget: arguments.Tokens = None,
        timeout_ms: Annotated[int | None, Field(ge=0, le=600_000)] = None,
        since: arguments.Since = "",
        until: arguments.Until = "",
        as_of: Annotated[str, Field(description="Now, for time words", max_length=60, coerce_numbers_to_str=True)] = "",
        tz: Annotated[str, Field(description="Zone of times, e.g. Europe/Berlin", max_length=60)] = "",
        project: arguments.Project = "",
        agent: arguments.Agent = "",
        scope: arguments.Scope = "",
        detail: Annotated[arguments.Detail, Field(description="full: search path and score parts")] = "lean",
        cursor: arguments.Cursor = "",
        why_not: Annotated[str, Field(description=_LATER)] = "",
        bounds: Bounds | None = None,
    ) -> Annotated[CallToolResult, wire.SearchAnswer]:
        """Recall what was said, decided or done in earlier sessions, by this or other agents.

        Ask plainly; start here whenever the past may matter. Gives dated exact quotations with grip_ids, and how it searched.
        """
        _refuse(intent=intent, mode=mode, why_not=why_not)
        changes, min_confidence = _bounds(bounds, token_budget, timeout_ms)

        def work(app: App) -> wire.SearchAnswer:
            calendar, scoped = app.in_zone(tz), self._kit.scoped(app, project, scope)
            window = app.window(since_ms(since, calendar), until_ms(until, calendar))
            asked = Query(query, limit, scoped.project, agent or None, window)
            question = (query, since, until, as_of, tz, agent, scoped.words)
            offset = offset_of(cursor, *question)
            found = app.ask(asked, changes, min_confidence, offset, since_ms(as_of, calendar, "as_of"))
            shaped = _shaped(app, found, scoped, query, offset, calendar, changes["max_token_budget"], detail == "full")
            if shaped.results and (found.has_more or len(shaped.results) < len(found.hits)):
                shaped.next_cursor = offset_cursor(offset + len(shaped.results), *question)
            return shaped

        return answer(await self._kit.host.read(work))


def _shaped(
    app: App, found: Answer, scoped: Scoped, query: str, offset: int, calendar: Calendar, tokens: int | None, full: bool
) -> wire.SearchAnswer:
    """As many results as the budget holds, and the explanation."""
    retrieval = app.settings.retrieval
    results = (shapes.result(h, calendar, full) for h in found.hits)
    kept = shapes.fitting(results, tokens or retrieval.bounds.max_token_budget, retrieval.token_factor)
    told = _told(found, len(kept), scoped, offset, _keywords_off(app))
    return wire.SearchAnswer(results=kept, explanation=shapes.explanation(told, query, calendar, full))


def _refuse(**given: str) -> None:
    """InvalidQuery for the first argument that is not live yet."""
    for name, value in given.items():
        if value:
            raise InvalidQuery(f"{name} is not live in this version", _HINTS[name])


def _bounds(given: Bounds | None, token_budget: int | None, timeout_ms: int | None) -> tuple[dict[str, int | None], float]:
    """The six bounds as given (the smaller of a bound and its shorthand), and the least confidence."""
    asked = given or Bounds()
    changes: dict[str, int | None] = {name: getattr(asked, name) for name in _BOUND_NAMES}
    for name, short in (("max_token_budget", token_budget), ("timeout_ms", timeout_ms)):
        changes[name] = min((v for v in (changes[name], short or None) if v), default=None)
    return changes, asked.min_confidence or 0.0


def _keywords_off(app: App) -> bool:
    teleport = app.settings.teleport
    return not (teleport.enabled and teleport.bm25.enabled)


def _told(found: Answer, kept: int, scoped: Scoped, offset: int, keywords_off: bool) -> Explanation:
    """The explanation with what this door left out, and a way on when there is nothing."""
    why = found.why
    notices, hit = list(why.notices), list(why.bounds_hit)
    if kept < len(found.hits) and "max_token_budget" not in hit:
        hit.append("max_token_budget")
    if "timeout_ms" in hit:
        notices.append("Timeout exceeded: these are partial results")
    if keywords_off:
        notices.append(_KEYWORDS_OFF)
    if not kept and (found.hits or found.has_more):
        notices.append(_TOO_SMALL)
    elif not kept and not offset:
        notices += scoped.nothing()
    return replace(why, notices=tuple(notices), bounds_hit=tuple(hit))
