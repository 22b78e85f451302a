"""Ask once and let the policy decide: intelligent_search."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.layers.budget import SINCE
from memory_mcp.policy.engine import Answer
from memory_mcp.server import arguments, shapes, wire, wire_policy
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.cursors import offset_cursor
from memory_mcp.server.tools.asking import Asked, Trying, asked_of
from memory_mcp.server.tools.kit import Kit, Scoped, answer, tool

AskedIntent = Annotated[
    Literal["", "explore", "answer", "locate", "time_boxed"], Field(description="Default: read from the query")
]
AskedMode = Annotated[Literal["", "sequential", "parallel", "hybrid"], Field(description="How layers run; default sequential")]
AskedTimeout = Annotated[int | None, Field(description="Hard limit; makes it time_boxed", ge=0, le=600_000)]
AskedAsOf = Annotated[str, Field(description="Now, for time words", max_length=60, coerce_numbers_to_str=True)]
AskedZone = Annotated[str, Field(description="Zone of times, e.g. Europe/Berlin", max_length=60)]
_KEYWORDS_OFF = "BM25 search is not enabled: used {}; enable with {}"
#: What is used instead of it, where it is not the layer's own name.
_INSTEAD = {"agentic": "TOC navigation", "scan": "a scan"}
#: Further quotations of the first results are read only where so much of the time is left (milliseconds).
_TO_QUOTE = 15
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
        intent: AskedIntent = "",
        mode: AskedMode = "",
        limit: arguments.Limit = 10,
        token_budget: arguments.Tokens = None,
        timeout_ms: AskedTimeout = None,
        since: arguments.Since = "",
        until: arguments.Until = "",
        as_of: AskedAsOf = "",
        tz: AskedZone = "",
        project: arguments.Project = "",
        agent: arguments.Agent = "",
        scope: arguments.Scope = "",
        detail: Annotated[arguments.Detail, Field(description="full: the whole explanation, score parts")] = "lean",
        cursor: arguments.Cursor = "",
        why_not: Annotated[str, Field(description="Id that is missing: tells a change that shows it", max_length=300)] = "",
        bounds: Bounds | None = None,
    ) -> Annotated[CallToolResult, wire_policy.SearchAnswer]:
        """Recall what was said, decided or done in earlier sessions, by this or other agents.

        Ask plainly; start here whenever the past may matter. Gives dated exact quotations with grip_ids, and how it searched.
        """
        how = {"query": query, "intent": intent, "mode": mode, "limit": limit, "timeout_ms": timeout_ms, "detail": detail}
        when = {"since": since, "until": until, "as_of": as_of, "tz": tz, "cursor": cursor, "token_budget": token_budget}
        whose = {"project": project, "agent": agent, "scope": scope}
        given = how | when | whose | {"bounds": bounds.model_dump(exclude_none=True) if bounds else None}
        told = {name: value for name, value in given.items() if value or name == "query"}
        return answer(await self._kit.host.read(lambda app: self._answered(app, told, why_not)))

    def _answered(self, app: App, given: Mapping[str, Any], missing: str) -> wire_policy.SearchAnswer:
        """The answer to a call with these arguments, and why something is missing from it."""
        began = time.monotonic()

        def scope_of(project: str, scope: str) -> Scoped:
            return self._kit.scoped(app, project, scope)

        asked = asked_of(app, scope_of, given)
        found = app.ask(asked.query, asked.how)
        shaped = _Shaping(app, found, asked).answer()
        if missing:
            SINCE.set(None)  # what is tried out now are calls of their own
            door = Trying(app, scope_of, lambda other: _shown(app, other), began)
            shaped.explanation.why_not = shapes.why_not(app.why_not(missing, given, door))
        return shaped


def _shown(app: App, asked: Asked) -> list[set[str]]:
    """What each result of a call names, and the event that it quotes."""
    found = app.ask(asked.query, asked.how)
    results = _Shaping(app, found, asked).answer().results
    return [
        {r.id, h.event_id, h.node_id, *r.grip_ids, *(q.grip_id for q in r.also)}
        for r, h in zip(results, found.hits, strict=False)
    ]


class _Shaping:
    """An answer brought into the shape and size that was asked for."""

    def __init__(self, app: App, found: Answer, asked: Asked) -> None:
        self._app = app
        self._found = found
        self._asked = asked
        self._factor = app.settings.retrieval.token_factor
        self._budget = found.why.limits["max_token_budget"]

    def answer(self) -> wire_policy.SearchAnswer:
        """As many results as the budget holds beside the explanation; the whole of a lean answer stays within it."""
        hurried = self._found.why.limits["timeout_ms"] - self._found.why.elapsed_ms < _TO_QUOTE
        quotes = {} if hurried else shapes.further_quotes(self._app, self._found.hits)
        results = [shapes.result(h, self._asked.calendar, self._asked.full) for h in self._found.hits]
        left = self._budget - shapes.tokens_of(self._whole([]), self._factor) if not self._asked.full else self._budget
        kept = shapes.fitting(results, left, self._factor)
        if not kept and results:
            kept = shapes.shortened(results[0], left, self._factor)
        made = self._whole(kept)
        while kept and not self._asked.full and shapes.tokens_of(made, self._factor) > self._budget:
            kept = kept[:-1]
            made = self._whole(kept)
        made = self._quoted(made, quotes)
        return self._handled(made)

    def _quoted(
        self, made: wire_policy.SearchAnswer, quotes: Mapping[str, Sequence[tuple[str, str]]]
    ) -> wire_policy.SearchAnswer:
        """With further quotations, the best result's first, as far as the budget has room for them beside every result."""
        results = list(made.results)
        for place, (result, hit) in enumerate(zip(made.results, self._found.hits, strict=False)):
            further = shapes.also(quotes.get(hit.node_id, ()))
            told = [*results[:place], result.model_copy(update={"also": further}), *results[place + 1 :]]
            if further and shapes.tokens_of(made.model_copy(update={"results": told}), self._factor) <= self._budget:
                results = told
        return made.model_copy(update={"results": results})

    def _handled(self, made: wire_policy.SearchAnswer) -> wire_policy.SearchAnswer:
        """With where to go on from the best result, if there is room for it."""
        handles = shapes.handles(made.results)
        if handles:
            more = made.model_copy(update={"next": handles})
            if self._asked.full or shapes.tokens_of(more, self._factor) <= self._budget:
                return more
        return made

    def _whole(self, kept: list[wire.Result]) -> wire_policy.SearchAnswer:
        """The answer with what this door left out, and a way on when there is nothing."""
        why = self._found.why
        notices, hit = list(why.notices), list(why.bounds_hit)
        if len(kept) < len(self._found.hits) and "max_token_budget" not in hit:
            hit.append("max_token_budget")
        if "timeout_ms" in hit:
            notices.append("Timeout exceeded: these are partial results")
        teleport = self._app.settings.teleport
        off = {"teleport.enabled": not teleport.enabled, "teleport.bm25.enabled": not teleport.bm25.enabled}
        if any(off.values()):
            enabling = ", ".join(f"{name} = true" for name, is_off in off.items() if is_off)
            notices.append(_KEYWORDS_OFF.format(_INSTEAD.get(why.method, why.method), enabling))
        if not kept and (self._found.hits or self._found.has_more):
            notices.append(_TOO_SMALL)
        elif not kept and not self._asked.how.offset:
            notices += self._asked.scoped.nothing()
        told = replace(why, notices=tuple(notices), bounds_hit=tuple(hit))
        shown = shapes.explanation(told, self._asked.query.text, self._asked.calendar, self._asked.full)
        more = bool(kept) and (self._found.has_more or len(kept) < len(self._found.hits))
        cursor = offset_cursor(self._asked.how.offset + len(kept), *self._asked.question) if more else ""
        return wire_policy.SearchAnswer(results=kept, next_cursor=cursor, explanation=shown)
