"""The indexes themselves: hybrid_search, their status, rebuild_index and prune_index (full profile)."""

from typing import Annotated, Literal

from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.indexes import (
    AGE,
    GetTeleportStatus,
    GetVectorStatus,
    PrunedIndex,
    PruneIndex,
    RebuildIndex,
    RebuiltIndex,
    TeleportStatus,
    VectorStatus,
)
from memory_mcp.requests.limits import RESULTS
from memory_mcp.requests.teleport import HybridSearch, TeleportResponse
from memory_mcp.server import arguments
from memory_mcp.server.tools.kit import SETS, Group, offered

_Index = Annotated[Literal["bm25", "vector"], Field(description="Which index")]
_Rebuilt = Annotated[Literal["bm25", "vector", "topics"], Field(description="Which index")]


class Indexes(Group):
    """Search, inspect and maintain the indexes (full profile)."""

    @offered("Keyword and semantic teleport")
    async def hybrid_search(
        self,
        query: arguments.Query,
        doc_type: arguments.DocType = "",
        level: arguments.Level = "",
        limit: arguments.Limit = RESULTS.default,
        since: arguments.Since = "",
        until: arguments.Until = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        agent: arguments.Agent = "",
        speaker: arguments.Speaker = "",
        role: arguments.Role = "",
        kind: arguments.Kind = "",
        detail: arguments.Detail = "lean",
        include_current: arguments.Current = False,
        keywords: arguments.MoreWords = None,
    ) -> Annotated[CallToolResult, TeleportResponse]:
        """Jump by keywords and by meaning at once; with one of the two indexes missing the answer is marked partial."""
        what = (query, doc_type, level, limit, since, until, project, scope, agent, speaker, role, kind, detail)
        more = tuple(keywords or ())
        return await self._kit.ask(HybridSearch(*what, include_current=include_current, keywords=more))

    @offered("Teleport status")
    async def get_teleport_status(self) -> Annotated[CallToolResult, TeleportStatus]:
        """Whether the keyword and vector indexes are switched on and healthy, what they hold, and when they were kept."""
        return await self._kit.ask(GetTeleportStatus())

    @offered("Vector index status")
    async def get_vector_index_status(self) -> Annotated[CallToolResult, VectorStatus]:
        """Whether the vector index can be used, and how many vectors it holds."""
        return await self._kit.ask(GetVectorStatus())

    @offered("Rebuild an index", SETS)
    async def rebuild_index(self, index_type: _Rebuilt) -> Annotated[CallToolResult, RebuiltIndex]:
        """Build an index anew from the memory; the old one serves until the new one takes its place. Nothing is lost."""
        return await self._kit.write(RebuildIndex(index_type))

    @offered("Prune an index", SETS)
    async def prune_index(
        self,
        index_type: _Index,
        age_days: Annotated[int, Field(description="Leave out what ended longer ago", ge=AGE.least, le=AGE.most)],
        level: Annotated[Literal["segment", "day", "week", "all"], Field(description="Of nodes; grips go with segments")] = "all",
    ) -> Annotated[CallToolResult, PrunedIndex]:
        """Leave old documents out of an index. The memory keeps them; rebuild_index brings them back."""
        return await self._kit.write(PruneIndex(index_type, age_days, level))
