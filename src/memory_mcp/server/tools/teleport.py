"""Jumping by an index: teleport_search, vector_teleport, and topics_by_query, which says what to use instead."""

from typing import Annotated, NoReturn

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery, LayerUnavailable
from memory_mcp.layers.base import LayerName
from memory_mcp.layers.teleport import best_tool
from memory_mcp.requests.limits import RESULTS
from memory_mcp.requests.teleport import TeleportSearch, VectorTeleport
from memory_mcp.server import arguments, wire, wire_indexes
from memory_mcp.server.tools.kit import Kit, tool


class Teleport:
    """The three accelerators."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [
            tool(self.teleport_search, "Keyword teleport"),
            tool(self.vector_teleport, "Semantic teleport"),
            tool(self.topics_by_query, "Topics"),
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

    async def topics_by_query(
        self,
        query: arguments.Query,
        limit: arguments.Limit = 5,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.TopicsAnswer]:
        """Themes about a query, with the nodes they run through. Needs the topic graph; see get_retrieval_status."""
        del limit, project, scope
        await self._kit.host.read(lambda app: _no_topics(app, query))
        raise AssertionError


def _no_topics(app: App, query: str) -> NoReturn:
    """The specification's own words, and how to go on."""
    if not query.strip():
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    message, key = "Topic graph not enabled", "topics.enabled"
    names = [LayerName.BM25, LayerName.VECTOR]
    statuses = [app.teleport(name).status() for name in names]
    if app.settings.server.profile == "full":
        statuses.append(app.hybrid().status())
    instead = f"use {best_tool(statuses)} meanwhile"
    if app.settings.topics.enabled:
        raise LayerUnavailable(message, f"This version has no topic graph yet ({key} is already true); {instead}.")
    raise LayerUnavailable(message, f"Enable with {key} = true; {instead}.")
