"""Single reading steps of the full profile: get_toc_root, get_node, get_events, search_node."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.events import GetEvents
from memory_mcp.requests.limits import PAGE, RESULTS
from memory_mcp.requests.nodes import GetNode
from memory_mcp.requests.words import SearchNode
from memory_mcp.server import arguments, wire
from memory_mcp.server.tools.kit import Kit, tool


class Full:
    """The four."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [
            tool(self.get_toc_root, "Years of the memory"),
            tool(self.get_node, "Whole node"),
            tool(self.get_events, "Events of a time"),
            tool(self.search_node, "Search within a node"),
        ]

    async def get_toc_root(self, scope: arguments.Scope = "") -> Annotated[CallToolResult, wire.WholeNode]:
        """The root of the time tree and its years: what time there is to look at."""
        return await self._kit.ask(GetNode(scope=scope))

    async def get_node(
        self, node_id: arguments.NodeId, project: arguments.Project = "", scope: arguments.Scope = ""
    ) -> Annotated[CallToolResult, wire.WholeNode]:
        """One node with all its bullets and children.

        For a segment also its context: what came just before in its session, and the day, week, month and year above it.
        """
        return await self._kit.ask(GetNode(node_id, project, scope))

    async def get_events(
        self,
        since: arguments.Since = "",
        until: arguments.Until = "",
        session_id: Annotated[str, Field(max_length=300)] = "",
        limit: arguments.Page = PAGE.default,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        token_budget: arguments.Tokens = None,
    ) -> Annotated[CallToolResult, wire.EventsAnswer]:
        """Raw events in time order: all of a session, or of a time span."""
        return await self._kit.ask(GetEvents(since, until, session_id, limit, cursor, project, scope, token_budget or 0))

    async def search_node(
        self,
        node_id: arguments.NodeId,
        query: arguments.Words,
        fields: list[arguments.FieldName] | None = None,
        limit: arguments.Limit = RESULTS.default,
        token_budget: arguments.Tokens = None,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.NodeAnswer]:
        """Which title, summary, bullets and keywords of one node hold the words, best first."""
        return await self._kit.ask(SearchNode(node_id, query, fields, limit, token_budget or 0, project, scope))
