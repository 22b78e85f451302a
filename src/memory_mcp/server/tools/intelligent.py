"""Ask once and let the policy decide: intelligent_search."""

from typing import Annotated, Any, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.limits import SEARCHED
from memory_mcp.requests.search import SearchRequest
from memory_mcp.server import arguments, wire_policy
from memory_mcp.server.apps import EVIDENCE
from memory_mcp.server.arguments import Bounds
from memory_mcp.server.tools.kit import Group, tool

AskedIntent = Annotated[
    Literal["", "explore", "answer", "locate", "time_boxed"], Field(description="Default: read from the query")
]
AskedMode = Annotated[Literal["", "sequential", "parallel", "hybrid"], Field(description="How layers run; default sequential")]
AskedTimeout = Annotated[int | None, Field(description="Hard limit; makes it time_boxed", ge=0, le=600_000)]
AskedAsOf = Annotated[str, Field(description="Now, for time words", max_length=60, coerce_numbers_to_str=True)]
AskedZone = Annotated[str, Field(description="Zone of times, e.g. Europe/Berlin", max_length=60)]


class Intelligent(Group):
    """Search the memory."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.intelligent_search, "Search the memory", page=EVIDENCE)]

    async def intelligent_search(
        self,
        query: Annotated[
            str, Field(description="Question or keywords; a time it names (last week) comes first", max_length=4000)
        ],
        intent: AskedIntent = "",
        mode: AskedMode = "",
        limit: arguments.Limit = SEARCHED.default,
        token_budget: arguments.Tokens = None,
        timeout_ms: AskedTimeout = None,
        since: arguments.Since = "",
        until: arguments.Until = "",
        as_of: AskedAsOf = "",
        tz: AskedZone = "",
        project: arguments.Project = "",
        agent: arguments.Agent = "",
        role: arguments.Role = "",
        speaker: arguments.Speaker = "",
        scope: arguments.Scope = "",
        detail: Annotated[arguments.Detail, Field(description="full: the whole explanation, score parts")] = "lean",
        cursor: arguments.Cursor = "",
        why_not: Annotated[str, Field(description="Id that is missing: tells a change that shows it", max_length=300)] = "",
        bounds: Bounds | None = None,
    ) -> Annotated[CallToolResult, wire_policy.SearchAnswer]:
        """Recall what was said, decided or done in earlier sessions, by this or other agents.

        Ask plainly; start here whenever the past may matter. Gives dated exact quotations, each with its grip.
        """
        how: dict[str, Any] = {"intent": intent, "mode": mode, "limit": limit, "timeout_ms": timeout_ms, "why_not": why_not}
        when: dict[str, Any] = {"since": since, "until": until, "as_of": as_of, "tz": tz}
        whose: dict[str, Any] = {"project": project, "agent": agent, "scope": scope, "role": role, "speaker": speaker}
        shape: dict[str, Any] = {"token_budget": token_budget, "detail": detail, "cursor": cursor}
        stops = bounds.value() if bounds else None
        request = SearchRequest(query=query, **how, **when, **whose, **shape, bounds=stops)
        return await self._kit.ask(request)
