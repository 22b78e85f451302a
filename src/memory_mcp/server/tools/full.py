"""Single reading steps of the full profile: get_toc_root, get_node, get_events, search_node."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.ids import ROOT, parse_node_id, segment_key_of
from memory_mcp.server import arguments, shapes, wire
from memory_mcp.server.cursors import event_cursor, event_of
from memory_mcp.server.times import since_ms, until_ms
from memory_mcp.server.tools.kit import Kit, Scoped, answer, tool
from memory_mcp.server.tools.navigate import children, neighbours
from memory_mcp.storage.values import Scope

#: What an event costs besides its text: ids, time, names.
_EVENT_TOKENS = 60


class Full:
    """The four."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [
            tool(self.get_toc_root, "Years of the memory"),
            tool(self.get_node, "Whole node"),
            tool(self.get_events, "Events of a time"),
            tool(self.search_node, "Search within a node"),
        ]

    async def get_toc_root(self, scope: arguments.Scope = "") -> Annotated[CallToolResult, wire.WholeNode]:
        """The root of the time tree and its years: what time there is to look at."""
        return answer(await self._kit.host.read(lambda app: whole_node(app, ROOT, self._kit.scoped(app, scope=scope))))

    async def get_node(
        self, node_id: arguments.NodeId, project: arguments.Project = "", scope: arguments.Scope = ""
    ) -> Annotated[CallToolResult, wire.WholeNode]:
        """One node with all its bullets and children.

        For a segment also its context: what came just before in its session, and the day, week, month and year above it.
        """
        return answer(await self._kit.host.read(lambda app: whole_node(app, node_id, self._kit.scoped(app, project, scope))))

    async def get_events(
        self,
        since: arguments.Since = "",
        until: arguments.Until = "",
        session_id: Annotated[str, Field(max_length=300)] = "",
        limit: arguments.Limit = 20,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        token_budget: arguments.Tokens = None,
    ) -> Annotated[CallToolResult, wire.EventsAnswer]:
        """Raw events in time order: all of a session, or of a time span."""

        def work(app: App) -> wire.EventsAnswer:
            scoped = Scoped(None) if session_id and not (project or scope) else self._kit.scoped(app, project, scope)
            window = app.window(since_ms(since, app.calendar), until_ms(until, app.calendar))
            return read_events(app, scoped.project, window, session_id, limit, cursor, token_budget)

        return answer(await self._kit.host.read(work))

    async def search_node(
        self,
        node_id: arguments.NodeId,
        query: arguments.Words,
        fields: list[arguments.FieldName] | None = None,
        limit: arguments.Limit = 10,
        token_budget: arguments.Tokens = None,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire.NodeAnswer]:
        """Which title, summary, bullets and keywords of one node hold the words, best first."""

        def work(app: App) -> wire.NodeAnswer:
            scoped = self._kit.scoped(app, project, scope)
            found, matches = app.agentic.nodes.search_node(parse_node_id(node_id), query, fields, limit, scoped.project)
            retrieval = app.settings.retrieval
            budget = token_budget or retrieval.bounds.max_token_budget
            kept = shapes.fitting(map(shapes.match, matches), budget, retrieval.token_factor)
            return wire.NodeAnswer(matched=bool(matches), matches=kept, node_id=found.node_id, level=found.level)

        return answer(await self._kit.host.read(work))


def whole_node(app: App, node_id: str, scoped: Scoped) -> wire.WholeNode:
    """A node, its children by id, and where it stands."""
    opened = app.tree.node(parse_node_id(node_id), scoped.project)
    return wire.WholeNode(
        node=shapes.node(opened, app.calendar, neighbours(app, opened.node_id, scoped)),
        children=children(app, app.tree.children(opened.node_id, scoped.project), scoped),
        context=_context(app, opened.node_id, scoped) if opened.level is TocLevel.SEGMENT else None,
        scope=scoped.words,
    )


def _context(app: App, node_id: str, scoped: Scoped) -> wire.Context | None:
    key = segment_key_of(node_id)
    segment = app.storage.toc.segments([key]).get(key) if key is not None else None
    if segment is None:
        return None
    found = app.tree.context(segment, scoped.project)
    return wire.Context(
        before=shapes.events(found.before, app.calendar), parents=[shapes.child(node) for node in reversed(found.parents)]
    )


def read_events(
    app: App,
    project: str | None,
    window: TimeWindow | None,
    session_id: str,
    limit: int,
    cursor: str = "",
    token_budget: int | None = None,
) -> wire.EventsAnswer:
    """A page of events. A page holds at least one event; a text too long for the budget is shortened, and that is said."""
    question = ("get_events", str(project), str(window), session_id)
    after = _position(app, cursor, question)
    found = app.storage.events.window(Scope(project, None, window), session_id or None, limit + 1, after)
    retrieval = app.settings.retrieval
    budget = token_budget or retrieval.bounds.max_token_budget
    shaped = shapes.events(found[:limit], app.calendar)
    kept = shapes.fitting(shaped, budget, retrieval.token_factor)
    shortened = bool(shaped) and not kept
    if shortened:
        room = max(int((budget - _EVENT_TOKENS) / retrieval.token_factor), 1) * 4
        kept = [shaped[0].model_copy(update={"text": shaped[0].text.encode()[:room].decode(errors="ignore")})]
    more = len(found) > len(kept)
    return wire.EventsAnswer(
        events=kept,
        next_cursor=event_cursor(found[len(kept) - 1].event_id, *question) if more else "",
        scope=Scoped(project).words,
        truncated=True if shortened else None,
    )


def _position(app: App, cursor: str, question: tuple[str, ...]) -> tuple[int, str] | None:
    if not cursor:
        return None
    last: Event | None = app.storage.events.find(event_of(cursor, *question))
    if last is None:
        raise InvalidQuery("the cursor's event is gone", "Start again without the cursor.")
    return last.order
