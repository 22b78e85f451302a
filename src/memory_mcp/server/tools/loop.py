"""The whole walk through the tree with its reasons: navigate (full profile)."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests import limits, walk
from memory_mcp.requests.limits import EVIDENCE
from memory_mcp.server import arguments, wire
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.tools.kit import Group, tool


class Loop(Group):
    """Navigate the time tree with every step shown (full profile)."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.navigate, "Navigate the time tree")]

    async def navigate(
        self,
        query: arguments.Query,
        node_id: Annotated[str, Field(description="Where to start; empty: root", max_length=300)] = "",
        limit: arguments.Limit = EVIDENCE.default,
        as_of: Annotated[str, Field(description="Now, for time words", max_length=60)] = "",
        since: arguments.Since = "",
        until: arguments.Until = "",
        project: arguments.Project = "",
        role: arguments.Role = "",
        speaker: arguments.Speaker = "",
        scope: arguments.Scope = "",
        bounds: Bounds | None = None,
    ) -> Annotated[CallToolResult, wire.NavigateAnswer]:
        """Walk the time tree to the evidence for a question, and show every step with its reason."""
        given = bounds.value() if bounds else limits.Bounds()
        request = walk.Navigate(query, node_id, limit, as_of, since, until, project, role, speaker, scope, given)
        return await self._kit.ask(request)
