"""Recording paused and resumed, for the full profile."""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.capturing import PauseCapture, ResumeCapture
from memory_mcp.server import wire_projects
from memory_mcp.server.caller import agent_of
from memory_mcp.server.tools.kit import SETS, Group, tool

_Which = Annotated[str, Field(description="Default: the caller's; * for all", max_length=500)]


class CaptureTools(Group):
    """Pause and resume recording (full profile)."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.pause_capture, "Pause recording", SETS), tool(self.resume_capture, "Resume recording", SETS)]

    async def pause_capture(
        self,
        ctx: Context,
        project: _Which = "",
        duration: Annotated[str, Field(description="As 30m, 2h or 1d; default: until resumed", max_length=20)] = "",
    ) -> Annotated[CallToolResult, wire_projects.Capturing]:
        """Record nothing of a project from now on, at the user's wish. What is said meanwhile is never recorded."""
        return await self._kit.write(PauseCapture(project, duration, agent_of(ctx)))

    async def resume_capture(self, ctx: Context, project: _Which = "") -> Annotated[CallToolResult, wire_projects.Capturing]:
        """Record a paused project again, at the user's wish; what was said meanwhile stays unrecorded."""
        return await self._kit.write(ResumeCapture(project, agent_of(ctx)))
