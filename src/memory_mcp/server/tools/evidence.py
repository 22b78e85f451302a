"""From a claim to the words that prove it: expand_grip."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.expand import ExpandRequest
from memory_mcp.requests.limits import AROUND
from memory_mcp.server import arguments, wire
from memory_mcp.server.apps import EVIDENCE
from memory_mcp.server.tools.kit import Group, tool


class Evidence(Group):
    """Expand a grip to its conversation."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.expand_grip, "Expand a grip", page=EVIDENCE)]

    async def expand_grip(
        self,
        grip_id: arguments.GripId,
        before: Annotated[arguments.Few, Field(description="Events before")] = AROUND.default,
        after: arguments.Few = AROUND.default,
        token_budget: arguments.Tokens = None,
    ) -> Annotated[CallToolResult, wire.GripAnswer]:
        """The exact words behind a grip, checked against the stored event, with what was said before and after.

        Use it before relying on a quotation. Long texts come shortened; `more` shows everything.
        """
        return await self._kit.ask(ExpandRequest(grip_id=grip_id, before=before, after=after, token_budget=token_budget))
