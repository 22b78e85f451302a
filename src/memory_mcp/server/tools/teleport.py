"""Jumping by an index: teleport_search and vector_teleport."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.limits import RESULTS
from memory_mcp.requests.teleport import TeleportSearch, VectorTeleport
from memory_mcp.server import arguments, wire_indexes
from memory_mcp.server.tools.kit import Kit, tool


class Teleport:
    """The two of the default profile."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

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
        request = TeleportSearch(
            query=query,
            doc_type=doc_type,
            level=level,
            limit=limit,
            since=since,
            until=until,
            project=project,
            scope=scope,
            agent=agent,
            speaker=speaker,
            role=role,
            kind=kind,
            detail=detail,
        )
        return await self._kit.ask(request)

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
        request = VectorTeleport(
            query=query,
            doc_type=doc_type,
            level=level,
            limit=limit,
            since=since,
            until=until,
            project=project,
            scope=scope,
            agent=agent,
            speaker=speaker,
            role=role,
            kind=kind,
            detail=detail,
            min_similarity=min_similarity,
        )
        return await self._kit.ask(request)
