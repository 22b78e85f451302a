"""Correct and retract recorded statements (full profile)."""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.correct import MAX_REASON, Correct, Retract
from memory_mcp.server import arguments, wire
from memory_mcp.server.caller import agent_of, request_key
from memory_mcp.server.tools.kit import ADDS, SETS, Group, tool

_Grip = Annotated[str, Field(description="As results cite it", max_length=300)]
_Reason = Annotated[str, Field(max_length=MAX_REASON)]


class Correcting(Group):
    """Correct and retract statements (full profile)."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.correct, "Correct", ADDS), tool(self.retract, "Retract", SETS)]

    async def correct(
        self,
        ctx: Context,
        grip_id: _Grip,
        text: Annotated[str, Field(description="What holds instead, self-contained", max_length=100_000)],
        reason: _Reason = "",
        kind: arguments.Kind = "",
        idempotency_key: Annotated[str, Field(description="Same key: stored once", max_length=200)] = "",
    ) -> Annotated[CallToolResult, wire.Corrected]:
        """Put another statement in the place of a recorded one, which is shown as superseded from now on."""
        key = request_key(ctx, idempotency_key)
        return await self._kit.write(Correct(grip_id, text, reason, kind, agent_of(ctx), key=key))

    async def retract(self, ctx: Context, grip_id: _Grip, reason: _Reason = "") -> Annotated[CallToolResult, wire.Corrected]:
        """Mark a recorded statement as holding no more, with nothing in its place."""
        return await self._kit.write(Retract(grip_id, reason, agent_of(ctx)))
