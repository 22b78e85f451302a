"""topics_by_query, get_top_topics and get_topic_map: topics that fit a query, those that matter most, and all with relations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.topics.base import RelationKind, Topic, View
from memory_mcp.question.understand import topic_subject
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import RESULTS, TOKENS, Argument, Flag, Range, check_query
from memory_mcp.requests.plain import find_fullest, fits_in
from memory_mcp.requests.response import Recalled, offset_of, take_fitting
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.times import times_of
from memory_mcp.requests.topic_shapes import (
    WEEKS,
    Passage,
    RelatedTopic,
    Segments,
    TopicInfo,
    info_of,
    list_renewal_notices,
    next_cursor,
    related_of,
)
from memory_mcp.search.layers.base import NO_TOPIC

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.indexes.topics.graph import TopicGraph

#: Topics for a query.
FITTING = Range(5)
#: Tokens of an answer per topic; so many topics have their share anyway.
_PER_TOPIC, _FEW = 180, 5
#: Nodes and related topics of each, and characters of a node's text: what fits first is shown.
_STEPS = ((2, 2, 300), (2, 2, 160), (2, 2, 100), (2, 1, 80), (1, 2, 120), (1, 1, 100), (1, 1, 60), (1, 0, 60))
#: Topics of one map.
MAPPED = Range(60)
#: Relations of each topic: its area, and those that are strongest.
_RELATED = 7


@dataclass(frozen=True, slots=True)
class TopicsByQuery:
    """Topics of the memory about a query: when they were talked about, in which nodes, and related topics.

    For overviews and recurring themes. Needs the topic graph; see get_retrieval_status.
    """

    query: arguments.Query
    limit: Annotated[int, arguments.most("topics", FITTING)] = FITTING.default
    token_budget: Annotated[int | None, arguments.most_tokens("the answer to WORDS")] = None
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True)
class TopTopics:
    """What the memory is about: areas by importance, with mentions week by week; with since or until, of that time."""

    fine: Annotated[
        bool,
        Argument(
            "Single topics instead of the areas they belong to",
            flag=Flag("", "single topics instead of the areas they belong to"),
        ),
    ] = False
    limit: Annotated[int, arguments.most("topics", RESULTS)] = RESULTS.default
    cursor: arguments.NextCursor = ""
    since: arguments.Since = ""
    until: arguments.Until = ""
    agent: arguments.Agent = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopics(Recalled):
    """Topics, best first; `total` is how many there are."""

    topics: Sequence[TopicInfo]
    total: int
    next_cursor: str = ""
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """A topic with what may be shown of it."""

    info: TopicInfo
    passages: Sequence[Passage]
    related: Sequence[RelatedTopic]

    def shape_topic(self, nodes: int, related: int, width: int) -> TopicInfo:
        """Return the topic with so many nodes, relations and characters."""
        excerpts = [replace(passage.bare, text=passage.excerpt.cut(width)) for passage in self.passages[:nodes]]
        return replace(self.info, nodes=excerpts, related=self.related[:related])


@answers("topics_by_query", TopicsByQuery, "Topics")
def topics_by_query(app: "App", request: TopicsByQuery, caller: Caller) -> FoundTopics:
    """Return the topics that fit a query, within a budget.

    Each has the segments and statements that fit it best. At most `limit`; where none fits, a notice says what there is
    instead. Raises InvalidQuery for an invalid argument, LayerUnavailable where there is no topic graph that could answer.
    """
    query, limit = check_query(request.query), FITTING.check(request.limit)
    tokens = TOKENS.check(request.token_budget or 0, "token_budget")
    scoped = scope_of(app, request.project, request.scope, caller)
    graph, view = app.topics.read_graph(), app.topics.read_view(scoped.project)
    topics, total = graph.find_fitting(view, query, limit, topic_subject(query))
    segments, (nodes, related_limit, _) = Segments(app, scoped, query), _STEPS[0]
    candidates = []
    for topic in topics:
        passages = segments.passages(topic, graph.list_links(topic.topic_id, view, nodes, text=query)[0])
        related = [related_of(relation) for relation in graph.find_related(topic.topic_id, view, related_limit)]
        info = replace(info_of(app, topic), score=round(topic.score, 2))
        candidates.append(_Found(info, passages, related))
    notices = scoped.notices(app, any_found=True) if total else _nothing(app, scoped)
    if not total and (count := graph.list_topics(view, 1, areas=False)[1]):
        hint = "intelligent_search finds what was said only once or twice"
        notices = [f"{NO_TOPIC} among the {count:,} in {scoped.words}; {hint}"]
    bare = FoundTopics(topics=(), total=total, scope=scoped.words, notices=[*notices, *list_renewal_notices(app)])
    usual = min(_PER_TOPIC * max(limit, _FEW), app.settings.retrieval.bounds.max_token_budget)
    return _within(bare, candidates, tokens or usual, app.settings.retrieval.token_factor)


@answers("get_top_topics", TopTopics, "Most important topics")
def top_topics(app: "App", request: TopTopics, caller: Caller) -> FoundTopics:
    """Return a page of areas by importance, with weekly mentions.

    With `fine` it has single topics. `since`, `until` and `agent` limit the mentions that count; the page is also cut to the
    default token budget. Raises InvalidQuery, LayerUnavailable; as `topics_by_query`.
    """
    limit = RESULTS.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    window = times_of(app).window(request.since, request.until)
    question = ("get_top_topics", str(request.fine), request.since, request.until, request.agent, scoped.words)
    offset = offset_of(request.cursor, *question)
    graph = app.topics.read_graph()
    view = replace(app.topics.read_view(scoped.project), agent=request.agent or None, window=window)
    topics, total = graph.list_topics(view, limit, offset, areas=not request.fine)
    infos = (replace(info_of(app, t), events=t.events, weeks=graph.weekly_mentions(t.topic_id, view, WEEKS)) for t in topics)
    page = take_fitting(app, infos, 0)
    return FoundTopics(
        topics=page,
        total=total,
        next_cursor=next_cursor(offset + len(page), total if page else 0, question),
        scope=scoped.words,
        notices=[*(scoped.notices(app, any_found=True) if total else _nothing(app, scoped)), *list_renewal_notices(app)],
    )


def _within(bare: FoundTopics, candidates: Sequence[_Found], tokens: int, factor: float) -> FoundTopics:
    """The last topics are left out where needed; one always remains."""

    def build_response(count: int, step: tuple[int, int, int]) -> FoundTopics:
        """Return the response with the first `count` topics, each cut as `step` says."""
        return replace(bare, topics=[candidate.shape_topic(*step) for candidate in candidates[:count]])

    def shortest(count: int) -> FoundTopics:
        """Return the response with the first `count` topics, each with as little as the last of `_STEPS`."""
        return build_response(count, _STEPS[-1])

    fits = fits_in(tokens, factor)
    for step in _STEPS:
        if fits(response := build_response(len(candidates), step)):
            return response
    return find_fullest(shortest, fits, 1, len(candidates)) or shortest(1)


def _nothing(app: "App", scoped: Scoped) -> list[str]:
    return scoped.notices(app, any_found=False) or ["no topics yet: nothing in that time came up more than once"]


@dataclass(frozen=True, slots=True)
class GetTopicMap:
    """A page of `limit` topics, the most important first."""

    limit: Annotated[int, arguments.most("topics", MAPPED)] = MAPPED.default
    cursor: arguments.NextCursor = ""
    project: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapArea:
    """An area, and those topics of the map that belong to it."""

    topic_id: str
    label: str
    topics: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRelation:
    """Two topics of the map that are similar, or that are mentioned on the same days; `strength` is 0 to 1."""

    topics: tuple[str, str]
    kind: str
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMap(Recalled):
    """Topics by importance, areas by their most important topic, relations by strength; `total` counts all topics."""

    topics: Sequence[TopicInfo]
    areas: Sequence[MapArea] = ()
    relations: Sequence[MapRelation] = ()
    total: int
    next_cursor: str = ""
    scope: str
    notices: Sequence[str] = ()


@answers("get_topic_map", GetTopicMap)
def get_topic_map(app: "App", request: GetTopicMap, caller: Caller) -> TopicMap:
    """Return a page of single topics, the most important first.

    At most `limit`, with their areas and their relations to each other. Raises InvalidQuery for an invalid argument,
    LayerUnavailable where there is no topic graph.
    """
    limit = MAPPED.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    question = ("get_topic_map", scoped.words)
    offset = offset_of(request.cursor, *question)
    graph, view = app.topics.read_graph(), app.topics.read_view(scoped.project)
    topics, total = graph.list_topics(view, limit, offset, areas=False)
    areas, relations = _list_relations(graph, view, topics)
    return TopicMap(
        topics=[replace(info_of(app, t), events=t.events, weeks=graph.weekly_mentions(t.topic_id, view, WEEKS)) for t in topics],
        areas=areas,
        relations=relations,
        total=total,
        next_cursor=next_cursor(offset + len(topics), total if topics else 0, question),
        scope=scoped.words,
        notices=[*scoped.notices(app, any_found=bool(total)), *list_renewal_notices(app)],
    )


def _list_relations(graph: "TopicGraph", view: View, topics: Sequence[Topic]) -> tuple[list[MapArea], list[MapRelation]]:
    """Return the topics' areas, and their relations, the strongest first.

    Of each topic the `_RELATED` strongest are looked at; of several between one pair the strongest remains.
    """
    topic_ids = {topic.topic_id for topic in topics}
    labels, members = dict[str, str](), dict[str, list[str]]()
    strongest: dict[tuple[str, str], MapRelation] = {}
    for topic in topics:
        for other in graph.find_related(topic.topic_id, view, _RELATED):
            if other.kind is RelationKind.PARENT:
                labels[other.topic_id] = other.label
                members.setdefault(other.topic_id, []).append(topic.topic_id)
            elif other.topic_id in topic_ids:
                pair = (min(topic.topic_id, other.topic_id), max(topic.topic_id, other.topic_id))
                relation = MapRelation(topics=pair, kind=other.kind, strength=round(other.strength, 2))
                if pair not in strongest or relation.strength > strongest[pair].strength:
                    strongest[pair] = relation
    areas = [MapArea(topic_id=area, label=labels[area], topics=several) for area, several in members.items()]
    return areas, sorted(strongest.values(), key=lambda relation_entry: (-relation_entry.strength, relation_entry.topics))
