"""What an agent adds: remember. Every write passes the gate, which redacts secrets, and is marked as the agent's."""

import uuid
from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery, NotFound
from memory_mcp.model.event import TOOL, EventDraft, EventType, Role, Trust
from memory_mcp.model.ids import EventId, event_id, span_grip_id
from memory_mcp.requests.scope import project_to_store
from memory_mcp.server import arguments, wire
from memory_mcp.server.caller import agent_of, request_key
from memory_mcp.server.tools.kit import ADDS, Kit, answer, tool
from memory_mcp.storage.values import Request

#: Characters of a note that its grip quotes.
_QUOTED = 600


class Write:
    """The group of one."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

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
            stored = _note(app, text, kind, where, agent, key)
            found = app.storage.events.find(stored)
            if found is None:
                raise NotFound(f"the note {stored} was forgotten since", "Remember it again with another idempotency_key.")
            grip = span_grip_id(stored, 0, _cut(found.text))
            if pin:
                app.storage.toc.set_pin(grip, True, agent)
            return wire.Remembered(event_id=stored, grip_id=grip)

        return answer(await self._kit.host.write(work))


def _note(app: App, text: str, kind: str, project: str, agent: str, key: str) -> EventId:
    """Store the note once per key; its event id, known before it is written so that it can be the key's answer."""
    now = app.clock.now_ms()
    source_id = f"note:{uuid.uuid4().hex}"
    made = event_id(now, TOOL, source_id)
    draft = EventDraft(
        session_id=f"notes:{agent}:{app.calendar.day_of(now)}",
        role=Role.ASSISTANT,
        type=EventType.NOTE,
        text=text,
        timestamp=now,
        source_id=source_id,
        agent=agent,
        project=project,
        metadata={"kind": kind} if kind else {},
    )
    outcome = app.write([draft], TOOL, Trust.AGENT_NOTE, Request(f"remember:{key}", made) if key else None)
    return EventId(outcome.replay) if outcome.replay is not None else outcome.new[0]


def _cut(text: str) -> int:
    """Where the quotation ends: whole, or after the last word that fits."""
    if len(text) <= _QUOTED:
        return len(text)
    space = text.rfind(" ", _QUOTED // 2, _QUOTED)
    return space if space > 0 else _QUOTED
