"""Select the topics a language model should label, and store its labels.

Invariants
1. A topic with a label is left alone, unless a language model gave it and the topic's own words have changed since.
2. A label for one project is made from that project's segments only.

Change here: which topics a language model names, or how long its labels hold.
"""

from collections.abc import Sequence

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
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
    """A topic to label in one or more scopes with the same segments."""

    topic_id: TopicId
    #: Its own name; see `source_of`.
    name: TopicName
    scopes: tuple[str | None, ...]

    @property
    def source(self) -> str:
        """Hashes of the words that its label is based on (`source_of`)."""
        return source_of(self.name)

    @property
    def request_basis(self) -> str:
        """Basis of a request: `source`, "-" and a hash of the scopes."""
        return f"{self.source}-{self._scopes}"

    @property
    def _scopes(self) -> str:
        return f"{hash_parts(*('all' if scope is None else f'in {scope}' for scope in self.scopes), bits=32):08x}"

    def was_requested(self, asked_from: str) -> bool:
        """Return whether a label was requested for it on mostly the same basis."""
        source, _, scopes = asked_from.partition("-")
        return scopes == self._scopes and holds_words(source, self.name)


class Labeller:
    """Gives topics the labels of a language model."""

    def __init__(self, keeper: TopicKeeper, storage: Storage, clock: Clock) -> None:
        self._keeper = keeper
        self._storage = storage
        self._clock = clock

    def topics_to_label(self, model: str) -> list[UnlabelledTopic]:
        """Return topics and areas without a label, pinned, then important ones.

        Left out are those with an unusable answer of `model` on the same basis.
        """
        graph = self._current_graph()
        if graph is None:
            return []
        unusable: dict[str, list[str]] = {}
        for topic_id, asked_from in self._storage.spending.list_unusable(model):
            unusable.setdefault(topic_id, []).append(asked_from)
        candidates = _unlabelled_topics(graph, self._clock.now_ms())
        return [
            candidate for candidate in candidates if not any(map(candidate.was_requested, unusable.get(candidate.topic_id, ())))
        ]

    def read_material(self, due: UnlabelledTopic) -> TopicMaterial | None:
        """Return what a label is made from; None if no longer wanted."""
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
        """Return whether another topic of one of the scopes has this label."""
        graph = self._current_graph()
        return graph is not None and any(graph.is_label_used(label, project, due.topic_id) for project in due.scopes)

    def publish_label(self, due: UnlabelledTopic, label: str, model: str) -> bool:
        """Store a topic's label; False if it has one or has changed."""
        author, now = make_llm_author(model, due.source), self._clock.now_ms()
        labels = [TopicLabel(due.topic_id, project, label, author, now) for project in due.scopes]
        try:
            return self._keeper.store_labels(labels, unless=lambda graph: not self._is_unchanged(graph, due))
        except IndexUnreadable:
            return False

    def _current_graph(self) -> TopicGraph | None:
        try:
            return self._keeper.get_graph()
        except IndexUnreadable:
            return None

    def _is_unchanged(self, graph: TopicGraph, due: UnlabelledTopic) -> bool:
        try:
            topics = [graph.get_topic(due.topic_id, View(self._clock.now_ms(), project)) for project in due.scopes]
        except NotFound:
            return False
        return all(t.topic_id == due.topic_id and not t.labelled_by and holds_words(due.source, _own_name(t)) for t in topics)


def _unlabelled_topics(graph: TopicGraph, now_ms: int) -> list[UnlabelledTopic]:
    overall_topics = {topic.topic_id: topic for topic in _of_scope(graph, now_ms, None)}
    ranked: list[tuple[Topic, tuple[str | None, ...]]] = []
    for project in graph.tables.projects:
        for topic in _of_scope(graph, now_ms, project):
            every = overall_topics.get(topic.topic_id)
            same = (
                every is not None
                and every.mentions == topic.mentions
                and holds_words(source_of(_own_name(topic)), _own_name(every))
            )
            ranked.append((topic, (None, project) if same else (project,)))
            if same:
                del overall_topics[topic.topic_id]
    ranked += [(topic, (None,)) for topic in overall_topics.values()]
    ranked.sort(
        key=lambda entry: (not entry[0].pinned, -entry[0].importance, entry[0].topic_id, entry[1][0] or "", len(entry[1]))
    )
    return [UnlabelledTopic(topic.topic_id, _own_name(topic), scopes) for topic, scopes in ranked]


def _of_scope(graph: TopicGraph, now_ms: int, project: str | None) -> Sequence[Topic]:
    areas, topics = (graph.list_topics(View(now_ms, project), len(graph.names), areas=wide)[0] for wide in (True, False))
    alone = {area.parts[0] for area in areas if len(area.parts) == 1}
    listed_topics = [*areas, *(topic for topic in topics if topic.label not in alone)]
    return [topic for topic in listed_topics if not topic.labelled_by and topic.mentions >= _LEAST]


def _own_name(topic: Topic) -> TopicName:
    return TopicName(topic.label, topic.keywords)
