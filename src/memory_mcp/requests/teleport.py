"""teleport_search, vector_teleport and hybrid_search: a jump by an index to nodes and grips."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.indexes.base import DocType, Filters, IndexQuery
from memory_mcp.indexes.keys import name_excluded
from memory_mcp.model.calendar import LEVELS
from memory_mcp.model.toc import MemoryKind
from memory_mcp.model.tokens import max_bytes
from memory_mcp.requests import arguments
from memory_mcp.requests.asking import role_of, speaker_of
from memory_mcp.requests.entry import answers
from memory_mcp.requests.excerpts import term_weights, words_typed
from memory_mcp.requests.later_changes import add_later_changes
from memory_mcp.requests.lean import LeanHits, Selection
from memory_mcp.requests.limits import RESULTS, SHARE, Argument, Detail, Flag, check_query, keyword_list, parse_choice
from memory_mcp.requests.plain import size_of
from memory_mcp.requests.response import Recalled, take_fitting
from memory_mcp.requests.results import FullResult, Result, Style, full_result
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.times import times_of
from memory_mcp.search.layers.base import Hit, LayerName

if TYPE_CHECKING:  # numpy, behind it, would double the time to the handshake
    from memory_mcp.app import App
    from memory_mcp.search.layers.teleport import FoundHits

#: Tokens of a lean result, with its share of everything else.
_PER_RESULT = 180
#: Results whose share a response has anyway.
_FEW = 5
#: Keywords of a node that was found.
_KEYWORDS = 8


_KIND_HELP = "procedure, decision, constraint, definition, preference or observation"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Jump:
    query: arguments.Query
    doc_type: Annotated[
        str,
        Argument("Only nodes or only grips", values=("toc_node", "grip"), flag=Flag("TYPE", "toc_node or grip", name="--type")),
    ] = ""
    level: Annotated[
        str, Argument(values=arguments.LEVELS, flag=Flag("LEVEL", "only nodes of it: year, month, week, day or segment"))
    ] = ""
    limit: Annotated[int, arguments.most("results", RESULTS)] = RESULTS.default
    since: arguments.Since = ""
    until: arguments.Until = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""
    agent: arguments.Agent = ""
    speaker: arguments.Speaker = ""
    role: arguments.Role = ""
    kind: Annotated[str, Argument(values=arguments.KINDS, flag=Flag("KIND", _KIND_HELP))] = ""
    detail: Annotated[str, arguments.detail("", "lean or full; JSON is lean, text full")] = Detail.LEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleportSearch(_Jump):
    """Jump by exact keywords (BM25) to nodes and grips. Needs the keyword index; see get_retrieval_status."""

    include_current: arguments.Current = False
    keywords: arguments.Keywords = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTeleport(_Jump):
    """Jump by meaning to nodes and grips. Needs the vector index; see get_retrieval_status."""

    min_similarity: Annotated[float, Argument(range=SHARE, flag=Flag("X", "leave out what is less similar"))] = 0.0
    include_current: arguments.Current = False
    keywords: arguments.FlagKeywords = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridSearch(_Jump):
    """Jump by keywords and by meaning at once; with one of the two indexes missing the answer is marked partial."""

    include_current: arguments.Current = False
    keywords: arguments.Keywords = ()


Jump = TeleportSearch | VectorTeleport | HybridSearch
#: Fields that show the score of an index; a jump by both has none.
_SCORES: Mapping[type[_Jump], str] = {TeleportSearch: "bm25_score", VectorTeleport: "similarity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleportResponse(Recalled):
    """What was found."""

    results: tuple[Result, ...] | tuple[FullResult, ...]
    #: Of a jump by both indexes.
    partial: Annotated[bool | None, "One of the two indexes could not answer"] = None
    search_time_ms: float
    #: Documents that match; a jump by meaning has no such number.
    total_hits: int | None = None
    notices: tuple[str, ...] = ()


@answers("teleport_search", TeleportSearch, "Keyword teleport")
@answers("vector_teleport", VectorTeleport, "Semantic teleport")
@answers("hybrid_search", HybridSearch, "Keyword and semantic teleport")
def teleport(app: "App", request: Jump, caller: Caller) -> TeleportResponse:
    """Return what an index finds, best first, within the tokens.

    Raises InvalidQuery for an invalid argument, LayerUnavailable for an index that cannot be used.
    """
    scoped = scope_of(app, request.project, request.scope, caller)
    detail = parse_choice(Detail, "detail", request.detail)
    filters = Filters(
        doc_type=parse_choice(DocType, "doc_type", request.doc_type),
        level=parse_choice(LEVELS, "level", request.level),
        window=times_of(app).window(request.since, request.until),
        project=scoped.project,
        agent=request.agent or None,
        speaker=speaker_of(app, request.speaker, scoped),
        role=role_of(request.role),
        kind=parse_choice(MemoryKind, "kind", request.kind),
        excluded_sessions=name_excluded(caller.excluded(app, request.include_current)),
    )
    answer = _search_index(app, request, filters)
    hits = add_later_changes(app, answer.hits, caller)
    response = TeleportResponse(
        results=(),
        partial=answer.partial if isinstance(request, HybridSearch) else None,
        search_time_ms=round(answer.took_ms, 3),
        total_hits=None if isinstance(request, VectorTeleport) else answer.total,
        notices=(*answer.notices, *scoped.notices(app, bool(hits))),
    )
    if detail is Detail.FULL:
        full_results = (replace(full_result(h, app.calendar), keywords=() if h.grip_id else h.keywords[:_KEYWORDS]) for h in hits)
        scored = (_add_score(result, hit.raw, request) for result, hit in zip(full_results, hits, strict=True))
        return replace(response, results=tuple(take_fitting(app, scored, 0)))
    return replace(response, results=_shape_lean(app, request, scoped, response, hits))


def _search_index(app: "App", request: Jump, filters: Filters) -> "FoundHits":
    """Raises InvalidQuery for an invalid argument, LayerUnavailable for an unusable index."""
    limit = RESULTS.check(request.limit)
    query = IndexQuery(check_query(request.query), filters, limit, keywords=keyword_list(request.keywords))
    if isinstance(request, HybridSearch):
        return app.hybrid.teleport(query)
    if isinstance(request, VectorTeleport):
        least = request.min_similarity
        if not 0 <= least <= 1:
            raise InvalidQuery(f"min_similarity must be at {'least 0.0' if least < 0 else 'most 1.0'}")
        return app.teleports[LayerName.VECTOR].teleport(replace(query, min_score=least))
    return app.teleports[LayerName.BM25].teleport(query)


def _shape_lean(app: "App", request: Jump, scoped: Scoped, bare: TeleportResponse, hits: Sequence[Hit]) -> tuple[Result, ...]:
    retrieval = app.settings.retrieval
    budget = min(_PER_RESULT * max(request.limit, _FEW), retrieval.bounds.max_token_budget)
    segments = app.tree.tally(scoped.project).segments
    weights = term_weights(request.query, app.tree.frequencies(), segments, scoped.project, request.keywords)
    names = app.tree.short_names()
    words, score = words_typed(request.query, request.keywords), _SCORES.get(type(request), "")
    style = Style(app.calendar, scoped.project, names, words, quoted=None, with_nodes=True, raw_score=score)
    room = max_bytes(budget, retrieval.token_factor) - size_of(bare)
    return LeanHits(Selection(tuple(hits), (), len(hits)), weights, style).fit_page(room, room).results


def _add_score(result: FullResult, raw: float | None, request: Jump) -> FullResult:
    name = _SCORES.get(type(request))
    if raw is None or name is None:
        return result
    score: dict[str, Any] = {name: round(raw, 4)}
    return replace(result, **score)
