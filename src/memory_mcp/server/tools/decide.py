"""What would be done with a query: plan_query and classify_query (full profile)."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests import limits
from memory_mcp.requests.plans import ClassifyQuery, PlanQuery
from memory_mcp.server import arguments, wire_policy
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.tools.intelligent import AskedAsOf, AskedIntent, AskedMode, AskedTimeout, AskedZone
from memory_mcp.server.tools.kit import Group, tool

Without = Annotated[list[str] | None, Field(description="Layers to plan without: bm25, vector, topics, hybrid")]


class Decide(Group):
    """Plan and classify a query (full profile)."""

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
        given = bounds.value() if bounds else limits.Bounds()
        return await self._kit.ask(PlanQuery(query, without or (), intent, mode, timeout_ms or 0, as_of, tz, given))

    async def classify_query(
        self, query: arguments.Query, timeout_ms: AskedTimeout = None, as_of: AskedAsOf = "", tz: AskedZone = ""
    ) -> Annotated[CallToolResult, wire_policy.Classified]:
        """What a query is after (explore, answer, locate, time_boxed), the signals seen, and the time and deadline it names."""
        return await self._kit.ask(ClassifyQuery(query, timeout_ms or 0, as_of, tz))
