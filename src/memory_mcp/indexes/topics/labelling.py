"""Select the topics a language model should label, give it their material, and store its labels.

Invariants
1. A topic with a label is left alone, unless a language model gave it and the topic's own words have changed since.
2. A label for one project is made from that project's segments only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_mcp.base.clock import Clock
from memory_mcp.base.errors import IndexUnreadable, NotFound
from memory_mcp.indexes.document import subject_of
from memory_mcp.indexes.topics.base import Topic, TopicName, View
from memory_mcp.indexes.topics.graph import TopicGraph
from memory_mcp.indexes.topics.keeper import TopicKeeper
from memory_mcp.indexes.topics.labels import holds_words, source_of
from memory_mcp.model.ids import TopicId, hash_parts
from memory_mcp.model.toc import make_llm_author
from memory_mcp.model.topic import TopicLabel
from memory_mcp.storage.base import Storage
from memory_mcp.tree.llm.material import TopicMaterial

#: Least segments of a topic to label; with one it has the title of that.
_LEAST = 2
#: Most titles given to a model.
_TITLES = 8


@dataclass(frozen=True, slots=True)
class UnlabelledTopic:
    """A topic to label in one or more scopes with the same segments: one project, all, or both."""

    topic_id: TopicId
    #: Its own name; see `source_of`.
    name: TopicName
    scopes: tuple[str | None, ...]

    @property
    def source(self) -> str:
        """Hashes of the topic's own words that its label will be based on (see `source_of`)."""
        return source_of(self.name)

    @property
    def request_basis(self) -> str:
        """The basis of a request: `source`, "-" and a hash of the scopes, as an unusable answer tells nothing of other scopes."""
        return f"{self.source}-{self._scopes}"

    @property
    def _scopes(self) -> str:
        """Hash of the scopes, 8 hexadecimal digits."""
        return f"{hash_parts(*('all' if scope is None else f'in {scope}' for scope in self.scopes), bits=32):08x}"

    def was_requested(self, asked_from: str) -> bool:
        """Return whether a label was requested for the same scopes, from words of which the topic has at least half now."""
        source, _, scopes = asked_from.partition("-")
        return scopes == self._scopes and holds_words(source, self.name)


class Labeller:
    """Gives topics the labels of a language model."""

    def __init__(self, keeper: TopicKeeper, storage: Storage, clock: Clock) -> None:
        self._keeper = keeper
        self._storage = storage
        self._clock = clock

    def topics_to_label(self, model: str) -> list[UnlabelledTopic]:
        """Return topics and areas without a label, pinned ones first, then the most important.

        Left out are those with an unusable answer of `model` on the same basis; all without a graph.
        """
        graph = self._current_graph()
        if graph is None:
            return []
        unusable: dict[str, list[str]] = {}
        for topic_id, asked_from in self._storage.spending.list_unusable(model):
            unusable.setdefault(topic_id, []).append(asked_from)
        found = _unlabelled_topics(graph, self._clock.now_ms())
        return [one for one in found if not any(map(one.was_requested, unusable.get(one.topic_id, ())))]

    def read_material(self, due: UnlabelledTopic) -> TopicMaterial | None:
        """Return what a label is made from, with up to 8 titles; None if the topic has one or has changed, or without a graph."""
        graph, project = self._current_graph(), due.scopes[-1]
        if graph is None or not self._is_unchanged(graph, due):
            return None
        view = View(self._clock.now_ms(), project)
        topic = graph.get_topic(due.topic_id, view)
        links, _ = graph.list_links(due.topic_id, view, _TITLES)
        nodes = self._storage.toc.get_nodes([link.node_id for link in links])
        titles = tuple(subject_of(nodes[link.node_id]) for link in links if link.node_id in nodes)
        return TopicMaterial(project, topic.label, topic.keywords, titles)

    def is_taken(self, due: UnlabelledTopic, label: str) -> bool:
        """Return whether another topic of one of the scopes has this label; False without a graph."""
        graph = self._current_graph()
        return graph is not None and any(graph.is_label_used(label, project, due.topic_id) for project in due.scopes)

    def publish_label(self, due: UnlabelledTopic, label: str, model: str) -> bool:
        """Store a topic's label in all its scopes; return False, storing none, if it has one, has changed or cannot be read."""
        author, now = make_llm_author(model, due.source), self._clock.now_ms()
        given = [TopicLabel(due.topic_id, project, label, author, now) for project in due.scopes]
        try:
            return self._keeper.store_labels(given, unless=lambda graph: not self._is_unchanged(graph, due))
        except IndexUnreadable:
            return False

    def _current_graph(self) -> TopicGraph | None:
        """Return the current graph; None if there is none: it may be lost at any time and is rebuilt."""
        try:
            return self._keeper.get_graph()
        except IndexUnreadable:
            return None

    def _is_unchanged(self, graph: TopicGraph, due: UnlabelledTopic) -> bool:
        """Return whether a topic still has its id, most of its words and no label in each of the scopes."""
        try:
            found = [graph.get_topic(due.topic_id, View(self._clock.now_ms(), project)) for project in due.scopes]
        except NotFound:
            return False
        return all(t.topic_id == due.topic_id and not t.labelled_by and holds_words(due.source, _own_name(t)) for t in found)


def _unlabelled_topics(graph: TopicGraph, now_ms: int) -> list[UnlabelledTopic]:
    """Return topics and areas without a label by scope; once for a project and all if both have the same segments.

    Pinned ones first, then by importance.
    """
    found = {topic.topic_id: topic for topic in _of_scope(graph, now_ms, None)}
    ranked: list[tuple[Topic, tuple[str | None, ...]]] = []
    for project in graph.tables.projects:
        for topic in _of_scope(graph, now_ms, project):
            every = found.get(topic.topic_id)
            same = (
                every is not None
                and every.mentions == topic.mentions
                and holds_words(source_of(_own_name(topic)), _own_name(every))
            )
            ranked.append((topic, (None, project) if same else (project,)))
            if same:
                del found[topic.topic_id]
    ranked += [(topic, (None,)) for topic in found.values()]
    ranked.sort(key=lambda one: (not one[0].pinned, -one[0].importance, one[0].topic_id, one[1][0] or "", len(one[1])))
    return [UnlabelledTopic(topic.topic_id, _own_name(topic), scopes) for topic, scopes in ranked]


def _of_scope(graph: TopicGraph, now_ms: int, project: str | None) -> Sequence[Topic]:
    """Return areas, then topics of a scope without a label and with two segments or more; no topic that is its whole area."""
    areas, topics = (graph.list_topics(View(now_ms, project), len(graph.names), areas=wide)[0] for wide in (True, False))
    alone = {area.parts[0] for area in areas if len(area.parts) == 1}
    found = [*areas, *(topic for topic in topics if topic.label not in alone)]
    return [topic for topic in found if not topic.labelled_by and topic.mentions >= _LEAST]


def _own_name(topic: Topic) -> TopicName:
    """Return a topic's label and keywords as a `Name`; the label is the topic's own, as none was given."""
    return TopicName(topic.label, topic.keywords)
