"""From a claim to the words that prove it: expand_grip."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.server import arguments, shapes, wire
from memory_mcp.server.tools.kit import Kit, answer, tool

#: Attempts to bring an answer within its budget; each takes off what the one before was over.
_ATTEMPTS = 6


class Evidence:
    """The group of one."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.expand_grip, "Expand a grip")]

    async def expand_grip(
        self,
        grip_id: arguments.GripId,
        before: Annotated[arguments.Few, Field(description="Events before")] = 3,
        after: arguments.Few = 3,
        token_budget: arguments.Tokens = None,
    ) -> Annotated[CallToolResult, wire.GripAnswer]:
        """The exact words behind a grip_id, checked against the stored event, with what was said before and after.

        Use it before relying on a quotation.
        """
        return answer(await self._kit.host.read(lambda app: expand(app, grip_id, before, after, token_budget)))


def expand(app: App, grip_id: str, before: int = 3, after: int = 3, token_budget: int | None = None) -> wire.GripAnswer:
    """The quotation, and as much around it as the budget holds; the quotation itself stays whole."""
    budget = token_budget or app.settings.retrieval.bounds.max_token_budget
    factor = app.settings.retrieval.token_factor
    found = app.evidence.expand(grip_id, before, after)
    app.count_opening(found.grip_id)
    proof = (found.excerpt[0].event_id, found.excerpt[-1].event_id)
    node_id = node_of(app, found.node_segment)
    shaped = shapes.grip(found, proof, node_id, app.calendar)
    allowed = budget
    for _ in range(_ATTEMPTS):
        over = shapes.tokens_of(shaped, factor) - budget
        if over <= 0 or allowed <= 0:
            break
        allowed = max(allowed - over, 0)
        shaped = shapes.grip(app.evidence.expand(grip_id, before, after, allowed), proof, node_id, app.calendar)
    return shaped


def node_of(app: App, segment: int | None) -> str:
    """The node of a segment; "" for none."""
    found = app.storage.toc.segments([segment]) if segment is not None else {}
    return next((s.node_id for s in found.values()), "")
