"""What an agent adds: remember. Every write passes the gate, which redacts secrets, and is marked as the agent's."""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery
from memory_mcp.requests.notes import Note, keep
from memory_mcp.requests.pins import set_pin
from memory_mcp.requests.scope import project_to_store
from memory_mcp.server import arguments, wire
from memory_mcp.server.caller import agent_of, request_key
from memory_mcp.server.tools.kit import ADDS, Group, tool


class Write(Group):
    """Store a statement."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.remember, "Remember", ADDS)]

    async def remember(
        self,
        ctx: Context,
        text: Annotated[str, Field(description="One self-contained statement", max_length=100_000)],
        kind: arguments.Kind = "",
        project: Annotated[str, Field(description="Default: the caller's", max_length=500)] = "",
        pin: bool = False,
        idempotency_key: Annotated[str, Field(description="Same key: stored once", max_length=200)] = "",
    ) -> Annotated[CallToolResult, wire.Remembered]:
        """Keep a decision, preference, constraint or fact worth having in later sessions.

        Conversations are recorded elsewhere; secrets are redacted.
        """
        if not text.strip():
            raise InvalidQuery("the text is empty", "Say in one sentence what is to be remembered.")
        agent, key = agent_of(ctx), request_key(ctx, idempotency_key)

        def work(app: App) -> wire.Remembered:
            where = project_to_store(app, project, self._kit.caller)
            stored, grip = keep(app, Note(text=text, agent=agent, project=where, kind=kind, key=key))
            if pin:
                set_pin(app, grip, True, agent)
            return wire.Remembered(event_id=stored, grip_id=grip)

        return await self._kit.carry_out(work)
