"""Which topics a language model is to name, what they are named from, and its labels given.

Invariants
1. A topic that somebody named is left alone, and so is one that a language model named, while it says what it said then.
2. A label for one project is made from that project's segments alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_mcp.clock import Clock
from memory_mcp.errors import IndexUnreadable, NotFound
from memory_mcp.indexes.document import subject
from memory_mcp.indexes.topics.base import Name, Topic, View
from memory_mcp.indexes.topics.graph import TopicGraph
from memory_mcp.indexes.topics.keeper import TopicKeeper
from memory_mcp.indexes.topics.labels import holds, source_of
from memory_mcp.llm.material import TopicMaterial
from memory_mcp.model.ids import TopicId, digest
from memory_mcp.model.toc import llm_author
from memory_mcp.model.topic import TopicLabel
from memory_mcp.storage.base import Storage

#: A topic with fewer segments is called by the title of its one.
_LEAST = 2
#: Titles that a model is shown.
_TITLES = 8


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A topic that calls itself something in some scopes that see the same of it: in one, or in a project and in all."""

    topic_id: TopicId
    #: What it calls itself; see `source_of`.
    name: Name
    scopes: tuple[str | None, ...]

    @property
    def source(self) -> str:
        """What its label will rest on."""
        return source_of(self.name)

    @property
    def asked_from(self) -> str:
        """The same, for these scopes: an answer that could not be used in one says nothing of another."""
        return f"{self.source}-{self._scopes}"

    @property
    def _scopes(self) -> str:
        return f"{digest(*('all' if scope is None else f'in {scope}' for scope in self.scopes), bits=32):08x}"

    def was_asked(self, asked_from: str) -> bool:
        """Whether a label was asked for that would have been good for it."""
        source, _, scopes = asked_from.partition("-")
        return scopes == self._scopes and holds(source, self.name)


class Labeller:
    """Reads what topics are named from, and gives them what a language model made of it."""

    def __init__(self, keeper: TopicKeeper, storage: Storage, clock: Clock) -> None:
        self._keeper = keeper
        self._storage = storage
        self._clock = clock

    def due(self, model: str) -> list[Unnamed]:
        """Topics that nobody named, the most important first; without those of which this model said nothing usable.

        None where there is no graph yet.
        """
        graph = self._graph()
        if graph is None:
            return []
        unusable: dict[str, list[str]] = {}
        for topic_id, asked_from in self._storage.spending.unusable(model):
            unusable.setdefault(topic_id, []).append(asked_from)
        found = _unnamed(graph, self._clock.now_ms())
        return [one for one in found if not any(map(one.was_asked, unusable.get(one.topic_id, ())))]

    def material(self, due: Unnamed) -> TopicMaterial | None:
        """What a topic is named from; None when it is named or calls itself something else by now."""
        graph, project = self._graph(), due.scopes[-1]
        if graph is None or not self._still(graph, due):
            return None
        view = View(self._clock.now_ms(), project)
        topic = graph.topic(due.topic_id, view)
        links, _ = graph.links(due.topic_id, view, _TITLES)
        nodes = self._storage.toc.nodes([link.node_id for link in links])
        titles = tuple(subject(nodes[link.node_id]) for link in links if link.node_id in nodes)
        return TopicMaterial(project, topic.label, topic.keywords, titles)

    def is_taken(self, due: Unnamed, label: str) -> bool:
        """Whether another topic of one of the scopes is called so."""
        graph = self._graph()
        return graph is not None and any(graph.taken(label, project, due.topic_id) for project in due.scopes)

    def publish(self, due: Unnamed, label: str, model: str) -> bool:
        """Give a topic its label; False when it is named, calls itself something else or cannot be read by now."""
        author, now = llm_author(model, due.source), self._clock.now_ms()
        given = [TopicLabel(due.topic_id, project, label, author, now) for project in due.scopes]
        try:
            return self._keeper.label(given, unless=lambda graph: not self._still(graph, due))
        except IndexUnreadable:
            return False

    def _graph(self) -> TopicGraph | None:
        """The graph as of now; None where there is none: it may be lost at any moment, and is made again."""
        try:
            return self._keeper.graph()
        except IndexUnreadable:
            return None

    def _still(self, graph: TopicGraph, due: Unnamed) -> bool:
        """Whether a topic is in all of the scopes as it was."""
        try:
            found = [graph.topic(due.topic_id, View(self._clock.now_ms(), project)) for project in due.scopes]
        except NotFound:
            return False
        return all(t.topic_id == due.topic_id and not t.labelled_by and holds(due.source, _name(t)) for t in found)


def _unnamed(graph: TopicGraph, now_ms: int) -> list[Unnamed]:
    """Topics that nobody named, by scope; a topic within one project once where it calls itself the same to those who see all."""
    found = {topic.topic_id: topic for topic in _of_scope(graph, now_ms, None)}
    ranked: list[tuple[Topic, tuple[str | None, ...]]] = []
    for project in graph.tables.projects:
        for topic in _of_scope(graph, now_ms, project):
            every = found.get(topic.topic_id)
            same = every is not None and every.mentions == topic.mentions and holds(source_of(_name(topic)), _name(every))
            ranked.append((topic, (None, project) if same else (project,)))
            if same:
                del found[topic.topic_id]
    ranked += [(topic, (None,)) for topic in found.values()]
    ranked.sort(key=lambda one: (not one[0].pinned, -one[0].importance, one[0].topic_id, one[1][0] or "", len(one[1])))
    return [Unnamed(topic.topic_id, _name(topic), scopes) for topic, scopes in ranked]


def _of_scope(graph: TopicGraph, now_ms: int, project: str | None) -> Sequence[Topic]:
    """Areas, which an overview tells of, and topics; not one that is all there is of its area: no two have one label."""
    areas, topics = (graph.top(View(now_ms, project), len(graph.names), areas=wide)[0] for wide in (True, False))
    alone = {area.parts[0] for area in areas if len(area.parts) == 1}
    found = [*areas, *(topic for topic in topics if topic.label not in alone)]
    return [topic for topic in found if not topic.labelled_by and topic.mentions >= _LEAST]


def _name(topic: Topic) -> Name:
    """What a topic that nobody named calls itself."""
    return Name(topic.label, topic.keywords)
