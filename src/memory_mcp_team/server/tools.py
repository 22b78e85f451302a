"""The tools that a team's server offers besides those of a memory: the caller's spaces, and a search of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.limits import SEARCHED
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.search import SearchRequest, search
from memory_mcp.server import arguments
from memory_mcp.server.tools.kit import Kit, answer, tool
from memory_mcp_team.server.host import CALL, CallContext, get_call

#: Spaces that one search looks in at most.
_MAX_SPACES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceShown:
    """A space that the caller may use."""

    name: str
    kind: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacesShown:
    """list_spaces."""

    current: str
    spaces: list[SpaceShown]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacesSearched(Recalled):
    """search_spaces."""

    searched: list[str]
    results: Annotated[list[dict[str, Any]], "As intelligent_search gives them, each with its space"]
    notices: Sequence[str] = ()


class SpaceTools:
    """The two tools about spaces."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def make_tools(self) -> list[Tool]:
        """Return new tools list_spaces and search_spaces."""
        return [tool(self.list_spaces, "Spaces of the team"), tool(self.search_spaces, "Search several spaces")]

    async def list_spaces(self) -> Annotated[CallToolResult, SpacesShown]:
        """Spaces (team, project, private) that you may use, your role in each, and the one this connection works in.

        Another one: the header Memory-Space, or the address /spaces/NAME/mcp.
        """
        caller = get_call()
        roles = ((grant, caller.principal.find_role(grant.space)) for grant in caller.principal.grants)
        spaces = [SpaceShown(name=grant.name, kind=grant.kind, role=role.value) for grant, role in roles if role is not None]
        return answer(SpacesShown(current=caller.grant.name if caller.grant else "", spaces=spaces))

    async def search_spaces(
        self,
        query: Annotated[str, Field(description="Question or keywords", max_length=4000)],
        spaces: Annotated[list[str], Field(description="Names; default: all that you may use", max_length=_MAX_SPACES)] = [],  # noqa: B006
        limit: arguments.Limit = SEARCHED.default,
        since: arguments.Since = "",
        until: arguments.Until = "",
    ) -> Annotated[CallToolResult, SpacesSearched]:
        """Ask several spaces of the team at once.

        The best results of all of them, by their scores. To open one (expand_grip), no space needs to be named.
        """
        caller = get_call()
        visible = [grant for grant in caller.principal.grants if caller.principal.find_role(grant.space) is not None]
        if unknown := sorted(set(spaces) - {grant.name for grant in visible}):
            raise InvalidQuery(f"there is no space {unknown[0]!r}", "list_spaces tells which there are.")
        selected = [grant for grant in visible if not spaces or grant.name in spaces][:_MAX_SPACES]
        request = SearchRequest(query=query, limit=limit, since=since, until=until, scope="all")
        results: list[dict[str, Any]] = []
        notices: list[str] = []
        if len(selected) < len(visible) and not spaces:
            notices.append(f"only {_MAX_SPACES} of {len(visible)} spaces were searched; name others")

        def work(app: App) -> dict[str, Any]:
            return self._kit.host.with_notices(app, as_json(search(app, request, self._kit.caller)))

        for grant in selected:
            other = CALL.set(CallContext(caller.principal, grant))
            try:
                response = await self._kit.host.read(work)
            finally:
                CALL.reset(other)
            results += [{"space": grant.name, **result} for result in response["results"]]
            notices += [f"{grant.name}: {notice}" for notice in response.get("notices", ())]
        results.sort(key=lambda result: -float(result.get("score", 0)))
        names = [grant.name for grant in selected]
        return answer(SpacesSearched(searched=names, results=results[: limit or SEARCHED.default], notices=notices))
