"""What the memory may keep (full profile): try out forgetting, pause and resume recording.

Forgetting is done by a person, unless the settings allow it to agents.
"""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.capturing import Capturing, PauseCapture, ResumeCapture
from memory_mcp.requests.forget import Forget, Forgotten
from memory_mcp.server import arguments
from memory_mcp.server.caller import agent_of
from memory_mcp.server.tools.kit import SETS, Group, offered

_Which = Annotated[str, Field(description="Default: the caller's; * for all", max_length=500)]


class Keeping(Group):
    """Forget stored events, and pause recording (full profile)."""

    @offered("Forget", SETS)
    async def forget(
        self,
        ctx: Context,
        event: Annotated[str, Field(description="An event's id or a grip", max_length=300)] = "",
        session: Annotated[str, Field(max_length=300)] = "",
        project: arguments.Project = "",
        since: arguments.Since = "",
        until: arguments.Until = "",
        topic: Annotated[str, Field(description="A topic's id", max_length=300)] = "",
        value: Annotated[str, Field(description="A text to take out of every event", max_length=2000)] = "",
        dry_run: Annotated[bool, Field(description="Only say what would go")] = True,
    ) -> Annotated[CallToolResult, Forgotten]:
        """Say how much would be forgotten with one of these; a person confirms it with `memory-mcp forget ... --yes`."""
        # Whatever a client calls itself, it is no person at a terminal.
        by = f"agent {agent_of(ctx)}".strip()
        return await self._kit.write(Forget(event, session, project, since, until, topic, value, dry_run, by))

    @offered("Pause recording", SETS)
    async def pause_capture(
        self,
        ctx: Context,
        project: _Which = "",
        duration: Annotated[str, Field(description="As 30m, 2h or 1d; default: until resumed", max_length=20)] = "",
    ) -> Annotated[CallToolResult, Capturing]:
        """Record nothing of a project from now on, at the user's wish. What is said meanwhile is never recorded."""
        return await self._kit.write(PauseCapture(project, duration, agent_of(ctx)))

    @offered("Resume recording", SETS)
    async def resume_capture(self, ctx: Context, project: _Which = "") -> Annotated[CallToolResult, Capturing]:
        """Record a paused project again, at the user's wish; what was said meanwhile stays unrecorded."""
        return await self._kit.write(ResumeCapture(project, agent_of(ctx)))
