"""What works right now: get_retrieval_status."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.status import GetStatus
from memory_mcp.server import arguments, wire
from memory_mcp.server.tools.kit import Group, tool


class Status(Group):
    """Report what the memory can do."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.get_retrieval_status, "Retrieval status")]

    async def get_retrieval_status(
        self,
        detail: Annotated[arguments.Detail, Field(description="full: what each layer can and cannot do")] = "lean",
    ) -> Annotated[CallToolResult, wire.StatusAnswer]:
        """What the memory can do now: tier (1 Full to 5 Agentic, which always works), layers, lag and store.

        Every layer with its health, why it cannot be used, and what enables it.
        """
        return await self._kit.ask(GetStatus(detail))
