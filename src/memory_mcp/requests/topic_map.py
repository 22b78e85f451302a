"""get_topic_map: the most important topics, the areas they belong to, and how they are related."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.topics.base import RelationKind, Topic, View
from memory_mcp.requests import arguments
from memory_mcp.requests.cursors import offset_of
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import Range
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.requests.topic_shapes import WEEKS, TopicInfo, info_of, list_renewal_notices, next_cursor

if TYPE_CHECKING:  # numpy, behind it, would double the time to the handshake
    from memory_mcp.app import App
    from memory_mcp.indexes.topics.graph import TopicGraph

#: Topics of one map.
MAPPED = Range(60)
#: Relations of each topic: its area, and those that are strongest.
_RELATED = 7


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
