"""Single reading steps of the full profile: get_toc_root, get_node, get_events, search_node."""

from typing import Annotated, Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.events import GetEvents
from memory_mcp.requests.limits import CHARACTERS, NEIGHBOURS, PAGE, RESULTS, TEXT
from memory_mcp.requests.nodes import GetNode
from memory_mcp.requests.words import SearchNode
from memory_mcp.server import arguments, wire
from memory_mcp.server.tools.kit import Group, tool
from memory_mcp.server.wire_events import EventsAnswer


class Full(Group):
    """Read nodes and events one by one (full profile)."""

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
        self,
        node_id: arguments.NodeId,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        limit: arguments.Page = PAGE.default,
        cursor: arguments.Cursor = "",
        detail: Annotated[arguments.Detail, Field(description="full: also kind, projects, agents of each child")] = "lean",
    ) -> Annotated[CallToolResult, wire.WholeNode]:
        """One node with all its bullets and children.

        For a segment also its context: what came just before in its session, and the day, week, month and year above it.
        """
        return await self._kit.ask(GetNode(node_id, project, scope, limit, cursor, detail))

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
        node_id: Annotated[str, Field(description="Events of this segment", max_length=300)] = "",
        event_id: Annotated[str, Field(description="This event alone, with neighbours", max_length=300)] = "",
        before: arguments.Neighbours = NEIGHBOURS.default,
        after: arguments.Neighbours = NEIGHBOURS.default,
        offset: Annotated[int, Field(description="Characters of event_id to leave out", ge=0, le=CHARACTERS.most)] = 0,
        text_limit: Annotated[int, Field(description="Characters of each text", ge=0, le=TEXT.most)] = 0,
        detail: Annotated[arguments.Detail, Field(description="full: origin, length, quoted spans")] = "lean",
    ) -> Annotated[CallToolResult, EventsAnswer]:
        """Raw events in time order: of a session, a segment, a time span, or around one event."""
        page: dict[str, Any] = {"limit": limit, "cursor": cursor, "token_budget": token_budget or 0}
        around: dict[str, Any] = {"event_id": event_id, "before": before, "after": after, "offset": offset}
        shape: dict[str, Any] = {"text_limit": text_limit, "detail": detail, "node_id": node_id}
        scoped: dict[str, Any] = {"project": project, "scope": scope}
        return await self._kit.ask(GetEvents(since, until, session_id, **page, **around, **shape, **scoped))

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
