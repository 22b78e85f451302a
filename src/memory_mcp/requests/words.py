"""search_children and search_node: words searched in the time tree."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import LEVELS, TocLevel
from memory_mcp.model.ids import ROOT
from memory_mcp.requests import arguments, limits
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import RESULTS, TOKENS, Argument, Flag, parse_choice
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.response import Recalled, offset_cursor, offset_of, take_fitting
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.requests.times import times_of
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import Budget

if TYPE_CHECKING:
    from memory_mcp.app import App


@dataclass(frozen=True, slots=True)
class SearchChildren:
    """Which nodes below a node hold the words, best first.

    To descend step by step from a year to the segment, or to search a whole level. Needs no index, always works.
    """

    query: arguments.Words
    parent_id: Annotated[
        str,
        Argument(
            "Node to look below; empty: root", longest=300, flag=Flag("ID", "search the children of this node", name="--parent")
        ),
    ] = ""
    child_level: Annotated[
        str,
        Argument(
            "Default: direct children; finer: all below",
            values=arguments.LEVELS,
            flag=Flag("LEVEL", "year, month, week, day or segment", name="--level"),
        ),
    ] = ""
    fields: Annotated[
        tuple[arguments.Field, ...],
        Argument(
            "Default: all, and the events below",
            flag=Flag("F,F", "only these: title, summary, bullets, keywords", has_commas=True),
        ),
    ] = ()
    limit: Annotated[int, arguments.most("results", RESULTS)] = RESULTS.default
    token_budget: Annotated[int | None, arguments.most_tokens("all results together")] = None
    cursor: arguments.Cursor = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""
    #: Other words or phrases that the answer is likely to hold.
    keywords: arguments.FlagKeywords = ()


@dataclass(frozen=True, slots=True)
class SearchNode:
    """Which title, summary, bullets and keywords of one node hold the words, best first."""

    node_id: arguments.NodeId
    query: arguments.Words
    fields: Annotated[tuple[arguments.Field, ...], Argument()] = ()
    limit: Annotated[int, arguments.most("results", RESULTS)] = RESULTS.default
    token_budget: Annotated[int | None, arguments.most_tokens("all results together")] = None
    project: arguments.Project = ""
    scope: arguments.Scope = ""
    keywords: arguments.FlagKeywords = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One field of a node that holds words of the query."""

    field: str
    text: str
    grip_ids: Sequence[str] = ()
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMatch:
    """A node that matched."""

    node_id: str
    title: str
    level: str
    matches: Sequence[Match]
    relevance_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMatch:
    """An event that is not filed in the tree yet and holds words of the query."""

    event_id: str
    text: str
    grip_id: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChildren(Recalled):
    """Nodes that hold the words, best first."""

    results: Sequence[NodeMatch]
    #: Events without a node, on the first page of a search through the whole tree.
    pending: Sequence[PendingMatch] = ()
    has_more: bool
    next_cursor: str = ""
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInNode(Recalled):
    """Fields of one node that hold the words, best first."""

    matched: bool
    matches: Sequence[Match]
    node_id: str
    level: str


@answers("search_children", SearchChildren, "Search below a node")
def search_children(app: "App", request: SearchChildren, caller: Caller) -> FoundChildren:
    """Return the nodes below one that hold the words.

    Best first, cut to the token budget. Without `fields` events below are searched too. Where not even the first result fits,
    there is a notice and no cursor. Raises NotFound for an unknown parent, InvalidQuery for an invalid argument.
    """
    query, limit = limits.check_query(request.query), RESULTS.check(request.limit)
    budget = TOKENS.check(request.token_budget or 0, "token_budget")
    scoped = scope_of(app, request.project, request.scope, caller)
    parent, fields = times_of(app).node_id(request.parent_id), _parse_fields(request.fields)
    level = parse_choice(LEVELS, "child_level", request.child_level)
    keywords = limits.keyword_list(request.keywords)
    question = ("search_children", query, parent, request.child_level, *fields, scoped.words, *keywords)
    offset = offset_of(request.cursor, *question)
    match_page = app.agentic.nodes.search_children(parent, query, level, fields, limit, scoped.project, offset, keywords)
    matches = (
        NodeMatch(
            node_id=match.node.node_id,
            title=match.node.title,
            level=match.node.level,
            matches=[copy_fields(Match, m) for m in match.matches],
            relevance_score=match.relevance,
        )
        for match in match_page.results
    )
    fitting_matches = take_fitting(app, matches, budget)
    more = match_page.next_offset is not None or len(fitting_matches) < len(match_page.results)
    whole_tree = parent in ("", ROOT) and level in (None, TocLevel.SEGMENT)
    pending = _find_pending(app, query, limit, scoped.project) if whole_tree and not offset else []
    notices = [] if offset else scoped.notices(app, bool(match_page.results or pending))
    if match_page.results and not fitting_matches:
        notices.append("the next result does not fit the token budget; raise token_budget to see it")
    return FoundChildren(
        results=fitting_matches,
        pending=pending,
        has_more=more,
        next_cursor=offset_cursor(offset + len(fitting_matches), *question) if more and fitting_matches else "",
        scope=scoped.words,
        notices=notices,
    )


def _find_pending(app: "App", query: str, limit: int, project: str | None) -> list[PendingMatch]:
    """Find events not filed yet; in a read-only directory they stay so."""
    bounds = app.settings.retrieval.bounds
    budget = Budget(bounds, app.clock, app.settings.retrieval.token_factor)
    hits = app.agentic.find_pending(Query(query, limit, project), budget)
    return [
        PendingMatch(event_id=hit.event_id, text=hit.quote, grip_id=hit.grip_id or hit.grip_ids[0], score=round(hit.score, 3))
        for hit in hits
    ]


@answers("search_node", SearchNode, "Search within a node")
def search_node(app: "App", request: SearchNode, caller: Caller) -> FoundInNode:
    """Return the fields of a node that hold the words.

    Best first, cut to the token budget. `matched` also counts matches that were cut. Raises NotFound for an unknown node,
    InvalidQuery for an invalid argument.
    """
    query, limit = limits.check_query(request.query), RESULTS.check(request.limit)
    budget = TOKENS.check(request.token_budget or 0, "token_budget")
    scoped = scope_of(app, request.project, request.scope, caller)
    node_id = times_of(app).node_id(request.node_id)
    keywords, fields = limits.keyword_list(request.keywords), _parse_fields(request.fields)
    node, matches = app.agentic.nodes.search_node(node_id, query, fields, limit, scoped.project, keywords)
    fitting_matches = take_fitting(app, (copy_fields(Match, match) for match in matches), budget)
    return FoundInNode(matched=bool(matches), matches=fitting_matches, node_id=node.node_id, level=node.level)


def _parse_fields(names: Sequence[str]) -> list[str]:
    """Return the fields to search, [] for all; InvalidQuery if unknown."""
    from memory_mcp.search.layers.agentic.match import FIELDS  # numpy, behind it, would double the time to the handshake

    members = [parse_choice(FIELDS, f"fields.{index}", name) for index, name in enumerate(names)]
    return [name for name in members if name is not None]
