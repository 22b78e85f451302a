"""Forgetting, for the full profile: trying out what it would take; doing it is a person's, unless the settings say otherwise."""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.forget import Forget
from memory_mcp.server import arguments, wire_forget
from memory_mcp.server.caller import agent_of
from memory_mcp.server.tools.kit import SETS, Group, tool


class Forgets(Group):
    """Forget stored events (full profile)."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.forget, "Forget", SETS)]

    async def forget(
        self,
        ctx: Context,
        event: Annotated[str, Field(description="An event's id", max_length=300)] = "",
        session: Annotated[str, Field(max_length=300)] = "",
        project: arguments.Project = "",
        since: arguments.Since = "",
        until: arguments.Until = "",
        topic: Annotated[str, Field(description="A topic's id", max_length=300)] = "",
        value: Annotated[str, Field(description="A text to take out wherever it stands", max_length=2000)] = "",
        dry_run: Annotated[bool, Field(description="Only say what would go")] = True,
    ) -> Annotated[CallToolResult, wire_forget.Forgotten]:
        """Say how much would be forgotten with one of these; a person confirms it with `memory-mcp forget ... --yes`."""
        # Whatever a client calls itself, it is no person at a terminal.
        by = f"agent {agent_of(ctx)}".strip()
        return await self._kit.write(Forget(event, session, project, since, until, topic, value, dry_run, by))
