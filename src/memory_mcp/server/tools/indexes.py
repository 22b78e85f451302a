"""The indexes themselves: hybrid_search, their status, rebuild_index and prune_index (full profile)."""

from typing import Annotated, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.indexes.base import IndexStatus
from memory_mcp.layers.base import LayerName
from memory_mcp.server import arguments, shapes, wire_indexes
from memory_mcp.server.tools.kit import SETS, Kit, answer, tool
from memory_mcp.server.tools.teleport import filters, fitting

_Index = Annotated[Literal["bm25", "vector"], Field(description="Which index")]


class Indexes:
    """The five."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [
            tool(self.hybrid_search, "Keyword and semantic teleport"),
            tool(self.get_teleport_status, "Teleport status"),
            tool(self.get_vector_index_status, "Vector index status"),
            tool(self.rebuild_index, "Rebuild an index", SETS),
            tool(self.prune_index, "Prune an index", SETS),
        ]

    async def hybrid_search(
        self,
        query: arguments.Query,
        doc_type: arguments.DocType = "",
        level: arguments.Level = "",
        limit: arguments.Limit = 10,
        since: arguments.Since = "",
        until: arguments.Until = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        agent: arguments.Agent = "",
        speaker: arguments.Speaker = "",
        kind: arguments.Kind = "",
        detail: arguments.Detail = "lean",
    ) -> Annotated[CallToolResult, wire_indexes.HybridAnswer]:
        """Jump by keywords and by meaning at once; with one of the two indexes missing the answer is marked partial."""

        def work(app: App) -> wire_indexes.HybridAnswer:
            scoped = self._kit.scoped(app, project, scope)
            chosen = filters(app, scoped, doc_type, level, since, until, agent, speaker, kind)
            found = app.hybrid().teleport(query, chosen, limit)
            results = [shapes.result(h, app.calendar, detail == "full") for h in found.hits]
            return wire_indexes.HybridAnswer(
                results=fitting(app, results),
                partial=found.partial,
                search_time_ms=round(found.took_ms, 3),
                total_hits=found.total,
                notices=[*found.notices, *([] if results else scoped.nothing())],
            )

        return answer(await self._kit.host.read(work))

    async def get_teleport_status(self) -> Annotated[CallToolResult, wire_indexes.TeleportStatus]:
        """Whether the keyword and vector indexes are switched on and healthy, what they hold, and when they were kept."""
        return answer(await self._kit.host.read(teleport_status))

    async def get_vector_index_status(self) -> Annotated[CallToolResult, wire_indexes.VectorStatus]:
        """Whether the vector index can be used, and how many vectors it holds."""
        return answer(await self._kit.host.read(vector_status))

    async def rebuild_index(self, index_type: _Index) -> Annotated[CallToolResult, wire_indexes.Rebuilt]:
        """Build an index anew from the memory; the old one serves until the new one takes its place. Nothing is lost."""

        def work(app: App) -> wire_indexes.Rebuilt:
            made = app.accelerators.rebuild(index_type)
            message = f"the {index_type} index holds {made.documents:,} documents"
            return wire_indexes.Rebuilt(
                success=True, documents_indexed=made.documents, duration_ms=made.duration_ms, message=message
            )

        return answer(await self._kit.host.write(work))

    async def prune_index(
        self,
        index_type: _Index,
        age_days: Annotated[int, Field(description="Leave out what ended longer ago", ge=1, le=100_000)],
        level: Annotated[Literal["segment", "day", "week", "all"], Field(description="Of nodes; grips go with segments")] = "all",
    ) -> Annotated[CallToolResult, wire_indexes.Pruned]:
        """Leave old documents out of an index. The memory keeps them; rebuild_index brings them back."""

        def work(app: App) -> wire_indexes.Pruned:
            gone = dict(app.accelerators.prune(index_type, age_days, level))
            return wire_indexes.Pruned(success=True, pruned=gone, message=f"{sum(gone.values()):,} documents left out")

        return answer(await self._kit.host.write(work))


def teleport_status(app: App) -> wire_indexes.TeleportStatus:
    """Both indexes by the specification's names."""
    bm25, vector = app.teleport(LayerName.BM25).status(), app.teleport(LayerName.VECTOR).status()
    details = app.accelerators.statuses()
    said = [
        f"BM25: {'healthy' if bm25.usable else bm25.reason or 'not healthy'}",
        f"vector: {_healthy(app) if vector.usable else vector.reason or 'not healthy'}",
    ]
    return wire_indexes.TeleportStatus(
        bm25_enabled=bm25.enabled,
        bm25_healthy=bm25.usable,
        bm25_doc_count=bm25.count,
        vector_enabled=vector.enabled,
        vector_healthy=vector.usable,
        vector_doc_count=vector.count,
        message="; ".join(said),
        indexes={name: _detail(app, status) for name, status in details.items()},
    )


def vector_status(app: App) -> wire_indexes.VectorStatus:
    """The vector index by the specification's names."""
    status = app.teleport(LayerName.VECTOR).status()
    found = app.accelerators.statuses().get("vector")
    detail = _detail(app, found) if found else wire_indexes.IndexDetail()
    return wire_indexes.VectorStatus(
        enabled=status.enabled,
        ready=status.usable,
        vector_count=status.count,
        message=_healthy(app) if status.usable else status.reason,
        **detail.model_dump(),
    )


def _healthy(app: App) -> str:
    """Of the vector index, with what its model leaves to others."""
    found = app.accelerators.embedding()
    return f"healthy ({found.remark})" if found and found.remark else "healthy"


def _detail(app: App, status: IndexStatus) -> wire_indexes.IndexDetail:
    def when(ms: int) -> str:
        return app.calendar.iso(ms) if ms else ""

    return wire_indexes.IndexDetail(
        size_bytes=status.size_bytes,
        last_commit_at=when(status.last_commit_ms),
        last_prune_at=when(status.last_prune_ms),
        pruned=dict(status.pruned),
        documents=dict(status.counts),
        behind=status.behind,
        building=status.building,
        generation=status.generation,
        parts=status.parts,
        error=status.last_error,
    )
