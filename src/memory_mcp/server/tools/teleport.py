"""Jumping by an index: teleport_search and vector_teleport."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.limits import RESULTS
from memory_mcp.requests.teleport import TeleportSearch, VectorTeleport
from memory_mcp.server import arguments, wire_indexes
from memory_mcp.server.tools.kit import Group, tool


class Teleport(Group):
    """Search by an index."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [
            tool(self.teleport_search, "Keyword teleport"),
            tool(self.vector_teleport, "Semantic teleport"),
        ]

    async def teleport_search(
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
    ) -> Annotated[CallToolResult, wire_indexes.TeleportAnswer]:
        """Jump by exact keywords (BM25) to nodes and grips. Needs the keyword index; see get_retrieval_status."""
        what = (query, doc_type, level, limit, since, until, project, scope, agent, speaker, role, kind, detail)
        return await self._kit.ask(TeleportSearch(*what))

    async def vector_teleport(
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
        min_similarity: Annotated[float, Field(ge=0, le=1)] = 0.0,
    ) -> Annotated[CallToolResult, wire_indexes.SimilarAnswer]:
        """Jump by meaning to nodes and grips. Needs the vector index; see get_retrieval_status."""
        what = (query, doc_type, level, limit, since, until, project, scope, agent, speaker, role, kind, detail)
        return await self._kit.ask(VectorTeleport(*what, min_similarity=min_similarity))
