"""Reading in single steps, the whole walk through the tree, and the plan for a question (full profile)."""

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests import limits
from memory_mcp.requests.events import Events, GetEvents
from memory_mcp.requests.limits import CHARACTERS, EVIDENCE, NEIGHBOURS, PAGE, RESULTS, TEXT
from memory_mcp.requests.nodes import GetNode, WholeNode
from memory_mcp.requests.plans import Classified, ClassifyQuery, Planned, PlanQuery
from memory_mcp.requests.walk import Navigate, Navigated
from memory_mcp.requests.words import FoundInNode, SearchNode
from memory_mcp.server import arguments
from memory_mcp.server.tools.kit import Group, offered


class Full(Group):
    """Read nodes and events one by one, navigate the tree, and plan a query (full profile)."""

    @offered("Years of the memory")
    async def get_toc_root(self, scope: arguments.Scope = "") -> Annotated[CallToolResult, WholeNode]:
        """The root of the time tree and its years: what time there is to look at."""
        return await self._kit.ask(GetNode(scope=scope))

    @offered("Whole node")
    async def get_node(
        self,
        node_id: arguments.NodeId,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        limit: arguments.Page = PAGE.default,
        cursor: arguments.Cursor = "",
        detail: Annotated[arguments.Detail, Field(description="full: also kind, projects, agents of each child")] = "lean",
    ) -> Annotated[CallToolResult, WholeNode]:
        """One node with all its bullets and children.

        For a segment also its context: what came just before in its session, and the day, week, month and year above it.
        """
        return await self._kit.ask(GetNode(node_id, project, scope, limit, cursor, detail))

    @offered("Events of a time")
    async def get_events(
        self,
        since: arguments.Since = "",
        until: arguments.Until = "",
        session_id: Annotated[str, Field(max_length=300)] = "",
        limit: arguments.Page = PAGE.default,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
        token_budget: arguments.Tokens = None,
        node_id: Annotated[str, Field(description="Events of this segment", max_length=300)] = "",
        event_id: Annotated[str, Field(description="This event alone, with neighbours", max_length=300)] = "",
        before: arguments.Neighbours = NEIGHBOURS.default,
        after: arguments.Neighbours = NEIGHBOURS.default,
        offset: Annotated[int, Field(description="Characters of event_id to leave out", ge=0, le=CHARACTERS.most)] = 0,
        text_limit: Annotated[int, Field(description="Characters of each text", ge=0, le=TEXT.most)] = 0,
        detail: Annotated[arguments.Detail, Field(description="full: origin, length, quoted spans")] = "lean",
    ) -> Annotated[CallToolResult, Events]:
        """Raw events in time order: of a session, a segment, a time span, or around one event."""
        page: dict[str, Any] = {"limit": limit, "cursor": cursor, "token_budget": token_budget or 0}
        around: dict[str, Any] = {"event_id": event_id, "before": before, "after": after, "offset": offset}
        shape: dict[str, Any] = {"text_limit": text_limit, "detail": detail, "node_id": node_id}
        scoped: dict[str, Any] = {"project": project, "scope": scope}
        return await self._kit.ask(GetEvents(since, until, session_id, **page, **around, **shape, **scoped))

    @offered("Search within a node")
    async def search_node(
        self,
        node_id: arguments.NodeId,
        query: arguments.Words,
        fields: list[arguments.FieldName] | None = None,
        limit: arguments.Limit = RESULTS.default,
        token_budget: arguments.Tokens = None,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, FoundInNode]:
        """Which title, summary, bullets and keywords of one node hold the words, best first."""
        return await self._kit.ask(SearchNode(node_id, query, fields, limit, token_budget or 0, project, scope))

    @offered("Navigate the time tree")
    async def navigate(
        self,
        query: arguments.Query,
        node_id: Annotated[str, Field(description="Where to start; empty: root", max_length=300)] = "",
        limit: arguments.Limit = EVIDENCE.default,
        as_of: Annotated[str, Field(description="Now, for time words", max_length=60)] = "",
        since: arguments.Since = "",
        until: arguments.Until = "",
        project: arguments.Project = "",
        role: arguments.Role = "",
        speaker: arguments.Speaker = "",
        scope: arguments.Scope = "",
        bounds: arguments.Bounds | None = None,
        include_current: arguments.Current = False,
    ) -> Annotated[CallToolResult, Navigated]:
        """Walk the time tree to the evidence for a question, and show every step with its reason."""
        given = bounds.value() if bounds else limits.Bounds()
        request = Navigate(query, node_id, limit, as_of, since, until, project, role, speaker, scope, given, include_current)
        return await self._kit.ask(request)

    @offered("Plan a query")
    async def plan_query(
        self,
        query: arguments.Query,
        without: Annotated[list[str] | None, Field(description="Layers to plan without: bm25, vector, topics, hybrid")] = None,
        intent: arguments.Intent = "",
        mode: arguments.Mode = "",
        timeout_ms: arguments.Timeout = None,
        as_of: arguments.AsOf = "",
        tz: arguments.Zone = "",
        bounds: arguments.Bounds | None = None,
    ) -> Annotated[CallToolResult, Planned]:
        """What intelligent_search would do with a query, and why, with some layers taken away; nothing is searched."""
        given = bounds.value() if bounds else limits.Bounds()
        return await self._kit.ask(PlanQuery(query, without or (), intent, mode, timeout_ms or 0, as_of, tz, given))

    @offered("Classify a query")
    async def classify_query(
        self, query: arguments.Query, timeout_ms: arguments.Timeout = None, as_of: arguments.AsOf = "", tz: arguments.Zone = ""
    ) -> Annotated[CallToolResult, Classified]:
        """What a query is after (explore, answer, locate, time_boxed), the signals seen, and the time and deadline it names."""
        return await self._kit.ask(ClassifyQuery(query, timeout_ms or 0, as_of, tz))
