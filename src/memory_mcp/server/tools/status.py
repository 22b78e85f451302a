"""What works right now: get_retrieval_status."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.layers.base import LayerName, LayerStatus
from memory_mcp.policy.tier import detect
from memory_mcp.server import arguments, shapes, wire
from memory_mcp.server.tools.kit import Kit, answer, tool
from memory_mcp.storage.values import StoreStats


class Status:
    """The group of one."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.get_retrieval_status, "Retrieval status")]

    async def get_retrieval_status(
        self, detail: Annotated[arguments.Detail, Field(description="full: what each layer can and cannot do")] = "lean"
    ) -> Annotated[CallToolResult, wire.StatusAnswer]:
        """What the memory can do now: tier (1 Full to 5 Agentic, which always works), layers, lag and store.

        Every layer with its health, why it cannot be used, and what enables it.
        """
        return answer(await self._kit.host.read(lambda app: self.status(app, detail == "full")))

    def status(self, app: App, full: bool = False) -> wire.StatusAnswer:
        """The answer itself."""
        statuses = app.engine.statuses()
        tier = detect(statuses)
        if full:
            statuses.insert(0, LayerStatus(LayerName.TOC, enabled=True, healthy=True, count=app.tree.tally().segments))
        stats = app.storage.stats(text=False)
        lost = stats.extra.get("lost_events", "")
        notices = [f"{lost} acknowledged events are missing; run: memory-mcp doctor"] if lost else []
        return wire.StatusAnswer(
            tier=int(tier),
            name=tier.label,
            layers=[shapes.layer(s, full) for s in statuses],
            embedder=app.accelerators.embedder,
            lag=_lag(app, stats, self._kit.host.deriver_error()),
            store=_store(app, stats, full),
            project=self._kit.project,
            notices=notices,
        )


def _lag(app: App, stats: StoreStats, error: str) -> wire.Lag:
    behind = max((s.behind for s in app.accelerators.statuses().values()), default=0)
    return wire.Lag(events=stats.last_seq - stats.derived_to, index_changes=behind or None, error=error)


def _store(app: App, stats: StoreStats, full: bool) -> wire.Store:
    tally = app.tree.tally()
    return wire.Store(
        events=stats.rows["event"],
        sessions=tally.sessions,
        segments=tally.segments,
        nodes=stats.rows["node"],
        grips=stats.rows["grip"],
        first="" if stats.first_ms is None else app.calendar.iso(stats.first_ms),
        last="" if stats.last_ms is None else app.calendar.iso(stats.last_ms),
        timezone=stats.timezone,
        size_bytes=stats.size_bytes,
        projects=list(tally.projects[: shapes.NAMES_SHOWN]) if full else [],
        agents=list(tally.agents[: shapes.NAMES_SHOWN]) if full else [],
    )
