"""Walking the time tree: browse_toc and search_children; with the full profile its single steps and the whole loop."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.limits import PAGE, RESULTS
from memory_mcp.requests.nodes import Browse
from memory_mcp.requests.words import SearchChildren
from memory_mcp.server import arguments, wire
from memory_mcp.server.apps import TIMELINE
from memory_mcp.server.tools.kit import Group, tool


class Navigate(Group):
    """Browse the time tree and search in it."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.browse_toc, "Browse the time tree", page=TIMELINE), tool(self.search_children, "Search below a node")]

    async def browse_toc(
        self,
        node_id: arguments.NodeId = "",
        limit: arguments.Page = PAGE.default,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.BrowseAnswer]:
        """Open one page of the time tree (year > month > week > day > segment).

        Gives its title, summary, bullets with grip_ids, neighbours and children. Without node_id: the years.
        """
        return await self._kit.ask(Browse(node_id, limit, cursor, project, scope))

    async def search_children(
        self,
        query: arguments.Words,
        parent_id: arguments.ParentId = "",
        child_level: Annotated[arguments.Level, Field(description="Default: direct children; finer: all below")] = "",
        fields: Annotated[list[arguments.FieldName] | None, Field(description="Default: all, and the events below")] = None,
        limit: arguments.Limit = RESULTS.default,
        token_budget: arguments.Tokens = None,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.ChildrenAnswer]:
        """Which nodes below a node hold the words, best first.

        To descend step by step from a year to the segment, or to search a whole level. Needs no index, always works.
        """
        return await self._kit.ask(
            SearchChildren(query, parent_id, child_level, fields, limit, token_budget or 0, cursor, project, scope)
        )
