"""The tools that every client is offered: search, status, the time tree, the indexes, topics, evidence, and remembering.

Every write passes the gate, which redacts secrets, and is marked as the agent's.

Change here: add an MCP tool.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.answers import SearchResponse
from memory_mcp.requests.expand import ExpandRequest, ExpandResponse
from memory_mcp.requests.limits import PAGE, RESULTS, SEARCHED
from memory_mcp.requests.nodes import Browse, Browsed
from memory_mcp.requests.notes import Note, keep
from memory_mcp.requests.pins import set_pin
from memory_mcp.requests.scope import project_to_store
from memory_mcp.requests.search import SearchRequest
from memory_mcp.requests.status import GetStatus, Status
from memory_mcp.requests.teleport import TeleportResponse, TeleportSearch, VectorTeleport
from memory_mcp.requests.topics import FITTING, FoundTopics, TopicsByQuery
from memory_mcp.requests.words import FoundChildren, SearchChildren
from memory_mcp.server import arguments
from memory_mcp.server.apps import EVIDENCE, TIMELINE
from memory_mcp.server.caller import agent_of, request_key
from memory_mcp.server.tools.kit import ADDS, Group, offered


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The event that was stored, and the grip that quotes it."""

    event_id: str
    grip_id: str


class Default(Group):
    """The tools of the default profile, in the order in which they are offered."""

    @offered("Search the memory", page=EVIDENCE)
    async def intelligent_search(
        self,
        query: Annotated[
            str, Field(description="Question or keywords; a time it names (last week) comes first", max_length=4000)
        ],
        keywords: arguments.Keywords = None,
        intent: arguments.Intent = "",
        mode: arguments.Mode = "",
        limit: arguments.Limit = SEARCHED.default,
        token_budget: arguments.Tokens = None,
        timeout_ms: arguments.Timeout = None,
        since: arguments.Since = "",
        until: arguments.Until = "",
        as_of: arguments.AsOf = "",
        tz: arguments.Zone = "",
        project: arguments.Project = "",
        agent: arguments.Agent = "",
        role: arguments.Role = "",
        speaker: arguments.Speaker = "",
        scope: arguments.Scope = "",
        detail: Annotated[arguments.Detail, Field(description="full: the whole explanation, score parts")] = "lean",
        cursor: arguments.Cursor = "",
        why_not: Annotated[str, Field(description="Id that is missing: tells a change that shows it", max_length=300)] = "",
        include_current: arguments.Current = False,
        bounds: arguments.Bounds | None = None,
    ) -> Annotated[CallToolResult, SearchResponse]:
        """Recall what was said, decided or done in earlier sessions, by this or other agents.

        Ask plainly; start here whenever the past may matter. Gives dated exact quotations, each with its grip.
        """
        how: dict[str, Any] = {"intent": intent, "mode": mode, "limit": limit, "timeout_ms": timeout_ms, "why_not": why_not}
        when: dict[str, Any] = {"since": since, "until": until, "as_of": as_of, "tz": tz}
        whose: dict[str, Any] = {"project": project, "agent": agent, "scope": scope, "role": role, "speaker": speaker}
        shape: dict[str, Any] = {"token_budget": token_budget, "detail": detail, "cursor": cursor}
        shape["include_current"] = include_current
        stops = bounds.value() if bounds else None
        request = SearchRequest(query=query, keywords=tuple(keywords or ()), **how, **when, **whose, **shape, bounds=stops)
        return await self._kit.ask(request)

    @offered("Retrieval status")
    async def get_retrieval_status(
        self,
        detail: Annotated[arguments.Detail, Field(description="full: what each layer can and cannot do")] = "lean",
    ) -> Annotated[CallToolResult, Status]:
        """What the memory can do now: tier (1 Full to 5 Agentic, which always works), layers, lag and store.

        Every layer with its health, why it cannot be used, and what enables it.
        """
        return await self._kit.ask(GetStatus(detail))

    @offered("Browse the time tree", page=TIMELINE)
    async def browse_toc(
        self,
        node_id: arguments.NodeId = "",
        limit: arguments.Page = PAGE.default,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, Browsed]:
        """Open one page of the time tree (year > month > week > day > segment).

        Gives its title, summary, bullets with grip_ids, neighbours and children. Without node_id: the years.
        """
        return await self._kit.ask(Browse(node_id, limit, cursor, project, scope))

    @offered("Search below a node")
    async def search_children(
        self,
        query: arguments.Words,
        parent_id: arguments.ParentId = "",
        child_level: Annotated[arguments.Level, Field(description="Default: direct children; finer: all below")] = "",
        fields: Annotated[list[arguments.FieldName] | None, Field(description="Default: all, and the events below")] = None,
        limit: arguments.Limit = RESULTS.default,
        token_budget: arguments.Tokens = None,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, FoundChildren]:
        """Which nodes below a node hold the words, best first.

        To descend step by step from a year to the segment, or to search a whole level. Needs no index, always works.
        """
        return await self._kit.ask(
            SearchChildren(query, parent_id, child_level, fields, limit, token_budget or 0, cursor, project, scope)
        )

    @offered("Keyword teleport")
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
        include_current: arguments.Current = False,
        keywords: arguments.MoreWords = None,
    ) -> Annotated[CallToolResult, TeleportResponse]:
        """Jump by exact keywords (BM25) to nodes and grips. Needs the keyword index; see get_retrieval_status."""
        what = (query, doc_type, level, limit, since, until, project, scope, agent, speaker, role, kind, detail)
        more = tuple(keywords or ())
        return await self._kit.ask(TeleportSearch(*what, include_current=include_current, keywords=more))

    @offered("Semantic teleport")
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
        include_current: arguments.Current = False,
    ) -> Annotated[CallToolResult, TeleportResponse]:
        """Jump by meaning to nodes and grips. Needs the vector index; see get_retrieval_status."""
        what = (query, doc_type, level, limit, since, until, project, scope, agent, speaker, role, kind, detail)
        return await self._kit.ask(VectorTeleport(*what, min_similarity=min_similarity, include_current=include_current))

    @offered("Topics")
    async def topics_by_query(
        self,
        query: arguments.Query,
        limit: arguments.Limit = FITTING.default,
        token_budget: arguments.Tokens = None,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, FoundTopics]:
        """Topics of the memory about a query: when they were talked about, in which nodes, and related topics.

        For overviews and recurring themes. Needs the topic graph; see get_retrieval_status.
        """
        return await self._kit.ask(TopicsByQuery(query, limit, token_budget or 0, project, scope))

    @offered("Expand a grip", page=EVIDENCE)
    async def expand_grip(
        self,
        grip_id: arguments.GripId,
        before: Annotated[arguments.Few | None, Field(description="Events before, with their texts")] = None,
        after: arguments.Few | None = None,
        token_budget: arguments.Tokens = None,
    ) -> Annotated[CallToolResult, ExpandResponse]:
        """The exact words behind a grip, checked against the stored event, with what was said before and after.

        Use it before relying on a quotation. Neighbours come in a line each; `more` shows everything.
        """
        return await self._kit.ask(ExpandRequest(grip_id=grip_id, before=before, after=after, token_budget=token_budget))

    @offered("Remember", ADDS)
    async def remember(
        self,
        ctx: Context,
        text: Annotated[str, Field(description="One self-contained statement", max_length=100_000)],
        kind: arguments.Kind = "",
        project: Annotated[str, Field(description="Default: the caller's", max_length=500)] = "",
        pin: bool = False,
        idempotency_key: Annotated[str, Field(description="Same key: stored once", max_length=200)] = "",
    ) -> Annotated[CallToolResult, Remembered]:
        """Keep a decision, preference, constraint or fact worth having in later sessions.

        Conversations are recorded elsewhere; secrets are redacted.
        """
        if not text.strip():
            raise InvalidQuery("the text is empty", "Say in one sentence what is to be remembered.")
        agent, key = agent_of(ctx), request_key(ctx, idempotency_key)

        def work(app: App) -> Remembered:
            """Store the note, pin its grip if asked for, and return the ids of both."""
            where = project_to_store(app, project, self._kit.caller)
            stored, grip = keep(app, Note(text=text, agent=agent, project=where, kind=kind, key=key))
            if pin:
                set_pin(app, grip, True, agent)
            return Remembered(event_id=stored, grip_id=grip)

        return await self._kit.carry_out(work)
