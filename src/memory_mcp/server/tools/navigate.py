"""Walking the time tree: browse_toc and search_children; with the full profile its single steps and the whole loop."""

from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.model.calendar import parse_level
from memory_mcp.model.ids import ROOT, NodeId, parse_node_id
from memory_mcp.model.toc import TocNode
from memory_mcp.server import arguments, shapes, wire
from memory_mcp.server.cursors import offset_cursor, offset_of
from memory_mcp.server.tools.kit import Kit, Scoped, answer, tool

if TYPE_CHECKING:
    from memory_mcp.layers.agentic.search import ChildrenResult


class Navigate:
    """The two of the default profile."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.browse_toc, "Browse the time tree"), tool(self.search_children, "Search below a node")]

    async def browse_toc(
        self,
        node_id: arguments.NodeId = "",
        limit: arguments.Limit = 20,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.BrowseAnswer]:
        """Open one page of the time tree (year > month > week > day > segment).

        Gives its title, summary, bullets with grip_ids, neighbours and children. Without node_id: the years.
        """

        def work(app: App) -> wire.BrowseAnswer:
            scoped = self._kit.scoped(app, project, scope)
            opened = app.tree.node(parse_node_id(node_id), scoped.project)
            ids = app.tree.children(opened.node_id, scoped.project)
            question = ("browse_toc", opened.node_id, scoped.words)
            offset = offset_of(cursor, *question)
            end = offset + limit
            return wire.BrowseAnswer(
                node=shapes.node(opened, app.calendar, neighbours(app, opened.node_id, scoped)),
                children=children(app, ids[offset:end], scoped),
                next_cursor=offset_cursor(end, *question) if end < len(ids) else "",
                scope=scoped.words,
                notices=[] if opened.event_count else scoped.nothing("events"),
            )

        return answer(await self._kit.host.read(work))

    async def search_children(
        self,
        query: arguments.Words,
        parent_id: arguments.ParentId = "",
        child_level: Annotated[arguments.Level, Field(description="Default: direct children; finer: all below")] = "",
        fields: Annotated[list[arguments.FieldName] | None, Field(description="Default: all, and the events below")] = None,
        limit: arguments.Limit = 10,
        token_budget: arguments.Tokens = None,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.ChildrenAnswer]:
        """Which nodes below a node hold the words, best first.

        To descend step by step from a year to the segment, or to search a whole level. Needs no index, always works.
        """

        def work(app: App) -> wire.ChildrenAnswer:
            scoped = self._kit.scoped(app, project, scope)
            parent = parse_node_id(parent_id)
            question = ("search_children", query, parent, child_level, *(fields or ()), scoped.words)
            offset = offset_of(cursor, *question)
            level = parse_level(child_level) if child_level else None
            found = app.agentic.nodes.search_children(parent, query, level, fields, limit, scoped.project, offset)
            budget = token_budget or app.settings.retrieval.bounds.max_token_budget
            kept = shapes.fitting(map(shapes.node_match, found.results), budget, app.settings.retrieval.token_factor)
            more = found.next_offset is not None or len(kept) < len(found.results)
            return wire.ChildrenAnswer(
                results=kept,
                has_more=more,
                next_cursor=offset_cursor(offset + len(kept), *question) if more and kept else "",
                scope=scoped.words,
                notices=_notices(found, len(kept), scoped, offset),
            )

        return answer(await self._kit.host.read(work))


def _notices(found: "ChildrenResult", kept: int, scoped: Scoped, offset: int) -> list[str]:
    if not found.results:
        return [] if offset else scoped.nothing()
    if not kept:
        return ["the next result does not fit the token budget; raise token_budget to see it"]
    return []


def children(app: App, ids: list[NodeId], scoped: Scoped) -> list[wire.Child]:
    """Children as a node lists them, in the order given."""
    found = app.tree.nodes(ids, scoped.project)
    return [shapes.child(found[i]) for i in ids if i in found]


def neighbours(app: App, node_id: NodeId, scoped: Scoped) -> tuple[str, str]:
    """The nodes just before and after one under the same parents; "" where there is none."""
    ids = [] if node_id == ROOT else app.tree.siblings(node_id, scoped.project)
    if not ids:
        return "", ""
    times: dict[NodeId, TocNode] = app.storage.toc.nodes([*ids, node_id])
    if node_id not in times:
        return "", ""
    own = (times[node_id].start_ms, node_id)
    order = sorted((n.start_ms, i) for i, n in times.items() if i != node_id)
    return next((i for s, i in reversed(order) if (s, i) < own), ""), next((i for s, i in order if (s, i) > own), "")
