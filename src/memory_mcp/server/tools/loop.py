"""The whole walk through the tree with its reasons: navigate (full profile)."""

from dataclasses import fields as fields_of
from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.layers.base import Query
from memory_mcp.layers.budget import Budget, StopConditions
from memory_mcp.model.ids import parse_node_id
from memory_mcp.server import arguments, shapes, wire
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.times import since_ms
from memory_mcp.server.tools.kit import Kit, answer, tool


class Loop:
    """The group of one."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.navigate, "Navigate the time tree")]

    async def navigate(
        self,
        query: arguments.Query,
        node_id: Annotated[str, Field(description="Where to start; empty: root", max_length=300)] = "",
        limit: arguments.Limit = 5,
        as_of: Annotated[str, Field(description="Now, for time words", max_length=60)] = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        bounds: Bounds | None = None,
    ) -> Annotated[CallToolResult, wire.NavigateAnswer]:
        """Walk the time tree to the evidence for a question, and show every step with its reason."""

        def work(app: App) -> wire.NavigateAnswer:
            scoped = self._kit.scoped(app, project, scope)
            given = (bounds or Bounds()).model_dump(exclude={"min_confidence"})
            retrieval = app.settings.retrieval
            budget = Budget(retrieval.bounds.with_(**given), app.clock, retrieval.token_factor)
            now_ms = since_ms(as_of, app.calendar, "as_of")
            asked = Query(query, limit, scoped.project)
            now_ms = app.clock.now_ms() if now_ms is None else now_ms
            found = app.agentic.navigate(asked, budget, now_ms, parse_node_id(node_id))
            results = [shapes.result(h, app.calendar, full=True) for h in found.hits]
            kept = shapes.fitting(results, budget.bounds.max_token_budget, retrieval.token_factor)
            if len(kept) < len(results):
                budget.hit.append("max_token_budget")
            budget.spent.tokens = sum(shapes.tokens_of(r, retrieval.token_factor) for r in kept)
            return wire.NavigateAnswer(
                query=query,
                path=[shapes.step(s) for s in found.path],
                results=kept,
                bounds=_used(budget),
                bounds_hit=budget.hit,
                scope=scoped.words,
                window=shapes.window(found.window, found.window_words, app.calendar),
                notices=[*found.notices, *([] if results else scoped.nothing())],
                next=_offer(kept),
            )

        return answer(await self._kit.host.read(work))


def _used(budget: Budget) -> dict[str, wire.BoundUse]:
    used = {
        "max_depth": budget.depth,
        "max_nodes_visited": budget.nodes_visited,
        "max_rpc_calls": budget.rpc_calls,
        "max_token_budget": budget.tokens,
        "timeout_ms": budget.elapsed_ms(),
    }
    names = [f.name for f in fields_of(StopConditions)]
    return {n: wire.BoundUse(limit=getattr(budget.bounds, n), used=used.get(n)) for n in names}


def _offer(results: list[wire.Result]) -> str:
    grips = [g for r in results for g in r.grip_ids]
    return f"expand_grip {grips[0]} shows the conversation around the best match" if grips else ""
