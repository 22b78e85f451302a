"""The tools that a team's server offers besides those of a memory: the caller's spaces, and a search of several."""

from collections.abc import Sequence
from typing import Annotated, Any

from mcp.server.mcpserver.tools import Tool

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import Entry
from memory_mcp.requests.limits import SEARCHED, Argument
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.search import SearchRequest, search
from memory_mcp.server.calls import Answer, Kit, make_answer
from memory_mcp.server.tools import bind_tool
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


@dataclass(frozen=True, slots=True)
class ListSpaces:
    """Spaces (team, project, private) that you may use, your role in each, and the one this connection works in.

    Another one: the header Memory-Space, or the address /spaces/NAME/mcp.
    """


@dataclass(frozen=True, slots=True)
class SearchSpaces:
    """Ask several spaces of the team at once.

    The best results of all of them, by their scores. To open one (expand_grip), no space needs to be named.
    """

    query: Annotated[str, Argument("Question or keywords", longest=4000)]
    spaces: Annotated[tuple[str, ...], Argument("Names; default: all that you may use", longest=_MAX_SPACES)] = ()
    limit: Annotated[int, arguments.most("results", SEARCHED)] = SEARCHED.default
    since: arguments.Since = ""
    until: arguments.Until = ""


def make_space_tools(kit: Kit) -> list[Tool]:
    """Return the tools list_spaces and search_spaces."""
    listing = Entry("list_spaces", ListSpaces, list_spaces, "Spaces of the team")
    searching = Entry("search_spaces", SearchSpaces, search_spaces, "Search several spaces")

    async def run_listing(request: ListSpaces) -> Answer:
        return make_answer(list_spaces(request))

    async def run_search(request: SearchSpaces) -> Answer:
        return make_answer(await search_spaces(kit, request))

    return [bind_tool(listing, run_listing), bind_tool(searching, run_search)]


def list_spaces(_: ListSpaces) -> SpacesShown:
    """Return the caller's spaces, with the current one."""
    caller = get_call()
    roles = ((grant, caller.principal.find_role(grant.space)) for grant in caller.principal.grants)
    spaces = [SpaceShown(name=grant.name, kind=grant.kind, role=role.value) for grant, role in roles if role is not None]
    return SpacesShown(current=caller.grant.name if caller.grant else "", spaces=spaces)


async def search_spaces(kit: Kit, request: SearchSpaces) -> SpacesSearched:
    """Ask the named spaces one after the other; raises InvalidQuery for an unknown one."""
    caller = get_call()
    visible = [grant for grant in caller.principal.grants if caller.principal.find_role(grant.space) is not None]
    if unknown := sorted(set(request.spaces) - {grant.name for grant in visible}):
        raise InvalidQuery(f"there is no space {unknown[0]!r}", "list_spaces tells which there are.")
    selected = [grant for grant in visible if not request.spaces or grant.name in request.spaces][:_MAX_SPACES]
    question = SearchRequest(query=request.query, limit=request.limit, since=request.since, until=request.until, scope="all")
    results: list[dict[str, Any]] = []
    notices: list[str] = []
    if len(selected) < len(visible) and not request.spaces:
        notices.append(f"only {_MAX_SPACES} of {len(visible)} spaces were searched; name others")

    def work(app: App) -> dict[str, Any]:
        return kit.host.with_notices(app, as_json(search(app, question, kit.caller)))

    for grant in selected:
        other = CALL.set(CallContext(caller.principal, grant))
        try:
            response = await kit.host.read(work)
        finally:
            CALL.reset(other)
        results += [{"space": grant.name, **result} for result in response["results"]]
        notices += [f"{grant.name}: {notice}" for notice in response.get("notices", ())]
    results.sort(key=lambda result: -float(result.get("score", 0)))
    names = [grant.name for grant in selected]
    return SpacesSearched(searched=names, results=results[: request.limit], notices=notices)
