"""What would be done with a query: plan_query and classify_query (full profile)."""

from dataclasses import replace
from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.layers.base import Query
from memory_mcp.policy.plan import layers_named
from memory_mcp.server import arguments, shapes, wire_policy
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.tools.asking import how_of
from memory_mcp.server.tools.intelligent import AskedAsOf, AskedIntent, AskedMode, AskedTimeout, AskedZone
from memory_mcp.server.tools.kit import Kit, answer, tool

Without = Annotated[list[str] | None, Field(description="Layers to plan without: bm25, vector, topics, hybrid")]


class Decide:
    """The two."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.plan_query, "Plan a query"), tool(self.classify_query, "Classify a query")]

    async def plan_query(
        self,
        query: arguments.Query,
        without: Without = None,
        intent: AskedIntent = "",
        mode: AskedMode = "",
        timeout_ms: AskedTimeout = None,
        as_of: AskedAsOf = "",
        tz: AskedZone = "",
        bounds: Bounds | None = None,
    ) -> Annotated[CallToolResult, wire_policy.PlanAnswer]:
        """What intelligent_search would do with a query, and why, with some layers taken away; nothing is searched."""

        def work(app: App) -> wire_policy.PlanAnswer:
            calendar = app.in_zone(tz)
            how = how_of(intent, mode, bounds, None, timeout_ms, as_of, calendar)
            plan = app.plan(Query(query), replace(how, without=layers_named(without or [])))
            return shapes.plan(plan, query, calendar)

        return answer(await self._kit.host.read(work))

    async def classify_query(
        self, query: arguments.Query, timeout_ms: AskedTimeout = None, as_of: AskedAsOf = "", tz: AskedZone = ""
    ) -> Annotated[CallToolResult, wire_policy.Classified]:
        """What a query is after (explore, answer, locate, time_boxed), the signals seen, and the time and deadline it names."""

        def work(app: App) -> wire_policy.Classified:
            calendar = app.in_zone(tz)
            how = how_of("", "", None, None, timeout_ms, as_of, calendar)
            return shapes.classified(app.plan(Query(query), how), query, calendar)

        return answer(await self._kit.host.read(work))
