"""Ask once and let the policy decide: intelligent_search."""

from dataclasses import replace
from typing import Annotated, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.layers.base import Query
from memory_mcp.model.calendar import Calendar
from memory_mcp.policy.engine import Answer
from memory_mcp.policy.explain import WhyNot
from memory_mcp.policy.intent import Intent
from memory_mcp.policy.plan import How, Mode
from memory_mcp.server import arguments, shapes, wire, wire_policy
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.cursors import offset_cursor, offset_of
from memory_mcp.server.times import since_ms, until_ms
from memory_mcp.server.tools.kit import Kit, Scoped, answer, tool

AskedIntent = Annotated[
    Literal["", "explore", "answer", "locate", "time_boxed"], Field(description="Default: read from the query")
]
AskedMode = Annotated[Literal["", "sequential", "parallel", "hybrid"], Field(description="How layers run; default sequential")]
AskedTimeout = Annotated[int | None, Field(description="Hard limit; makes it time_boxed", ge=0, le=600_000)]
AskedAsOf = Annotated[str, Field(description="Now, for time words", max_length=60, coerce_numbers_to_str=True)]
AskedZone = Annotated[str, Field(description="Zone of times, e.g. Europe/Berlin", max_length=60)]
_BOUND_NAMES = ("max_depth", "max_nodes_visited", "max_rpc_calls", "max_token_budget", "timeout_ms", "beam_width")
_KEYWORDS_OFF = "BM25 search is not enabled: used {}; enable with teleport.bm25.enabled = true"
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

        def work(app: App) -> wire_policy.SearchAnswer:
            calendar, scoped = app.in_zone(tz), self._kit.scoped(app, project, scope)
            window = app.window(since_ms(since, calendar), until_ms(until, calendar))
            asked = Query(query, limit, scoped.project, agent or None, window)
            question = (query, since, until, as_of, tz, agent, scoped.words, intent, mode)
            how = how_of(intent, mode, bounds, token_budget, timeout_ms, as_of, calendar, offset_of(cursor, *question))
            found = app.ask(asked, how)
            shaping = _Shaping(app, found, scoped, asked, how, calendar, question, detail == "full")
            shaped = shaping.answer()
            if why_not:
                shaped.explanation.why_not = shaping.missing(app.why_not(why_not, asked, how), len(shaped.results))
            return shaped

        return answer(await self._kit.host.read(work))


def how_of(
    intent: str,
    mode: str,
    bounds: Bounds | None,
    token_budget: int | None,
    timeout_ms: int | None,
    as_of: str,
    calendar: Calendar,
    offset: int = 0,
) -> How:
    """What the caller said: the six bounds (the smaller of a bound and its shorthand), and the rest."""
    asked = bounds or Bounds()
    changes: dict[str, int | None] = {name: getattr(asked, name) for name in _BOUND_NAMES}
    for name, short in (("max_token_budget", token_budget), ("timeout_ms", timeout_ms)):
        changes[name] = min((v for v in (changes[name], short or None) if v), default=None)
    return How(
        intent=Intent(intent) if intent else None,
        mode=Mode(mode) if mode else None,
        bounds=changes,
        min_confidence=asked.min_confidence,
        offset=offset,
        as_of=since_ms(as_of, calendar, "as_of"),
        calendar=calendar,
    )


class _Shaping:
    """An answer brought into the shape and size that was asked for."""

    def __init__(
        self,
        app: App,
        found: Answer,
        scoped: Scoped,
        asked: Query,
        how: How,
        calendar: Calendar,
        question: tuple[str, ...],
        full: bool,
    ) -> None:
        self._app = app
        self._found = found
        self._scoped = scoped
        self._asked = asked
        self._how = how
        self._calendar = calendar
        #: What a cursor of this answer belongs to.
        self._question = question
        self._full = full
        self._factor = app.settings.retrieval.token_factor
        self._budget = found.why.limits["max_token_budget"]

    def answer(self) -> wire_policy.SearchAnswer:
        """As many results as the budget holds beside the explanation; the whole of a lean answer stays within it."""
        hurried = self._found.why.limits["timeout_ms"] - self._found.why.elapsed_ms < _TO_QUOTE
        quotes = {} if hurried else shapes.further_quotes(self._app, self._found.hits)
        results = [shapes.result(h, self._calendar, self._full, quotes.get(h.node_id, ())) for h in self._found.hits]
        left = self._budget - shapes.tokens_of(self._whole([]), self._factor) if not self._full else self._budget
        kept = shapes.fitting(results, left, self._factor)
        if not kept and results:
            kept = shapes.shortened(results[0], left, self._factor)
        made = self._whole(kept)
        while kept and not self._full and shapes.tokens_of(made, self._factor) > self._budget:
            kept = kept[:-1]
            made = self._whole(kept)
        return self._handled(made)

    def missing(self, why: WhyNot, shown: int) -> wire_policy.WhyNot:
        """Why something is missing; of a result that only the token budget left out, the budget that shows it."""
        if why.place is None or why.place < shown:
            return shapes.why_not(why)
        results = [shapes.result(h, self._calendar, self._full) for h in self._found.hits[: why.place + 1]]
        needed = shapes.tokens_of(self._whole(results), self._factor) * 2
        reason = f"{why.reason}, and the token budget of {self._budget} has room for {shown}"
        return wire_policy.WhyNot(id=why.id, reason=reason, change={"token_budget": needed})

    def _handled(self, made: wire_policy.SearchAnswer) -> wire_policy.SearchAnswer:
        """With where to go on from the best result, if there is room for it."""
        handles = shapes.handles(made.results)
        if handles:
            more = made.model_copy(update={"next": handles})
            if self._full or shapes.tokens_of(more, self._factor) <= self._budget:
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
        if not (teleport.enabled and teleport.bm25.enabled):
            notices.append(_KEYWORDS_OFF.format(_INSTEAD.get(why.method, why.method)))
        if not kept and (self._found.hits or self._found.has_more):
            notices.append(_TOO_SMALL)
        elif not kept and not self._how.offset:
            notices += self._scoped.nothing()
        told = replace(why, notices=tuple(notices), bounds_hit=tuple(hit))
        shown = shapes.explanation(told, self._asked.text, self._calendar, self._full)
        more = bool(kept) and (self._found.has_more or len(kept) < len(self._found.hits))
        cursor = offset_cursor(self._how.offset + len(kept), *self._question) if more else ""
        return wire_policy.SearchAnswer(results=kept, next_cursor=cursor, explanation=shown)
