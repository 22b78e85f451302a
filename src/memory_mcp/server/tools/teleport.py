"""Jumping by an index: teleport_search, vector_teleport, topics_by_query. In this version each says what to use instead."""

from typing import Annotated, Literal, NoReturn

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import NOT_ENABLED, App
from memory_mcp.config import value_of
from memory_mcp.errors import InvalidQuery, LayerUnavailable
from memory_mcp.layers.base import LayerName
from memory_mcp.server import arguments, wire
from memory_mcp.server.tools.kit import Kit, tool

_WHAT = {LayerName.BM25: "keyword index", LayerName.VECTOR: "vector index", LayerName.TOPICS: "topic graph"}
_DocType = Literal["", "toc_node", "grip"]


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
        doc_type: _DocType = "",
        level: arguments.Level = "",
        limit: arguments.Limit = 10,
        since: arguments.Since = "",
        until: arguments.Until = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        detail: arguments.Detail = "lean",
    ) -> Annotated[CallToolResult, wire.TeleportAnswer]:
        """Jump by exact keywords (BM25) to nodes and grips. Needs the keyword index; see get_retrieval_status."""
        del doc_type, level, limit, since, until, project, scope, detail
        await self._kit.host.read(lambda app: _refuse(app, LayerName.BM25, query))
        raise AssertionError

    async def vector_teleport(
        self,
        query: arguments.Query,
        doc_type: _DocType = "",
        level: arguments.Level = "",
        limit: arguments.Limit = 10,
        since: arguments.Since = "",
        until: arguments.Until = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        detail: arguments.Detail = "lean",
        min_similarity: Annotated[float, Field(ge=0, le=1)] = 0.0,
    ) -> Annotated[CallToolResult, wire.SimilarAnswer]:
        """Jump by meaning to nodes and grips. Needs the vector index; see get_retrieval_status."""
        del doc_type, level, limit, since, until, project, scope, detail, min_similarity
        await self._kit.host.read(lambda app: _refuse(app, LayerName.VECTOR, query))
        raise AssertionError

    async def topics_by_query(
        self,
        query: arguments.Query,
        limit: arguments.Limit = 5,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.TopicsAnswer]:
        """Themes about a query, with the nodes they run through. Needs the topic graph; see get_retrieval_status."""
        del limit, project, scope
        await self._kit.host.read(lambda app: _refuse(app, LayerName.TOPICS, query))
        raise AssertionError


def _refuse(app: App, layer: LayerName, query: str) -> NoReturn:
    """The specification's own words, and how to go on."""
    if not query.strip():
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    message, key = NOT_ENABLED[layer]
    status = next(s for s in app.engine.statuses() if s.name is layer)
    if status.enabled:
        hint = f"This version has no {_WHAT[layer]} yet ({key} is already true); use search_children meanwhile."
        raise LayerUnavailable(message, hint)
    off = [k for k in (key, *_masters(key)) if not value_of(app.settings, k)]
    raise LayerUnavailable(message, f"Enable with {' and '.join(f'{k} = true' for k in off)}; use search_children meanwhile.")


def _masters(key: str) -> tuple[str, ...]:
    """Switches above a switch."""
    return ("teleport.enabled",) if key.startswith("teleport.") else ()
