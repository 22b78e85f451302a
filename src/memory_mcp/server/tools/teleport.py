"""Jumping by an index: teleport_search, vector_teleport, and topics_by_query, which says what to use instead."""

from typing import Annotated, NoReturn

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery, LayerUnavailable
from memory_mcp.indexes.base import DocType, Filters
from memory_mcp.layers.base import LayerName
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.toc import MemoryKind
from memory_mcp.server import arguments, shapes, wire, wire_indexes
from memory_mcp.server.times import since_ms, until_ms
from memory_mcp.server.tools.kit import Kit, Scoped, answer, tool


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
        limit: arguments.Limit = 10,
        since: arguments.Since = "",
        until: arguments.Until = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        agent: arguments.Agent = "",
        speaker: arguments.Speaker = "",
        kind: arguments.Kind = "",
        detail: arguments.Detail = "lean",
    ) -> Annotated[CallToolResult, wire_indexes.TeleportAnswer]:
        """Jump by exact keywords (BM25) to nodes and grips. Needs the keyword index; see get_retrieval_status."""

        def work(app: App) -> wire_indexes.TeleportAnswer:
            scoped = self._kit.scoped(app, project, scope)
            chosen = filters(app, scoped, doc_type, level, since, until, agent, speaker, kind)
            found = app.teleport(LayerName.BM25).teleport(query, chosen, limit)
            results = [shapes.keyword_result(h, app.calendar, detail == "full") for h in found.hits]
            return wire_indexes.TeleportAnswer(
                results=fitting(app, results),
                search_time_ms=round(found.took_ms, 3),
                total_hits=found.total,
                notices=[*found.notices, *([] if results else scoped.nothing())],
            )

        return answer(await self._kit.host.read(work))

    async def vector_teleport(
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
        min_similarity: Annotated[float, Field(ge=0, le=1)] = 0.0,
    ) -> Annotated[CallToolResult, wire_indexes.SimilarAnswer]:
        """Jump by meaning to nodes and grips. Needs the vector index; see get_retrieval_status."""

        def work(app: App) -> wire_indexes.SimilarAnswer:
            scoped = self._kit.scoped(app, project, scope)
            chosen = filters(app, scoped, doc_type, level, since, until, agent, speaker, kind)
            found = app.teleport(LayerName.VECTOR).teleport(query, chosen, limit, min_similarity)
            results = [shapes.similar_result(h, app.calendar, detail == "full") for h in found.hits]
            return wire_indexes.SimilarAnswer(
                results=fitting(app, results),
                search_time_ms=round(found.took_ms, 3),
                notices=[*found.notices, *([] if results else scoped.nothing())],
            )

        return answer(await self._kit.host.read(work))

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


def filters(
    app: App, scoped: Scoped, doc_type: str, level: str, since: str, until: str, agent: str, speaker: str, kind: str
) -> Filters:
    """What a document must be, from the arguments of a tool; InvalidQuery for a time that is none."""
    return Filters(
        doc_type=DocType(doc_type) if doc_type else None,
        level=TocLevel(level) if level else None,
        window=app.window(since_ms(since, app.calendar), until_ms(until, app.calendar)),
        project=scoped.project,
        agent=agent or None,
        speaker=speaker or None,
        kind=MemoryKind(kind) if kind else None,
    )


def fitting(app: App, results: list[shapes.W]) -> list[shapes.W]:
    """As many results as the settings' token budget holds."""
    retrieval = app.settings.retrieval
    return shapes.fitting(results, retrieval.bounds.max_token_budget, retrieval.token_factor)


def _no_topics(app: App, query: str) -> NoReturn:
    """The specification's own words, and how to go on."""
    if not query.strip():
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    message, key = "Topic graph not enabled", "topics.enabled"
    if app.settings.topics.enabled:
        hint = f"This version has no topic graph yet ({key} is already true); use search_children meanwhile."
        raise LayerUnavailable(message, hint)
    raise LayerUnavailable(message, f"Enable with {key} = true; use search_children meanwhile.")
