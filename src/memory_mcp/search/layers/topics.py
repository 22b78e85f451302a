"""Layer 5: topics of a query, each with a statement that shows it; it returns no hits.

Importing it loads nothing of the graph: many memories have none.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_mcp.base import metrics
from memory_mcp.base.clock import Clock
from memory_mcp.base.errors import IndexNotReady, IndexUnreadable
from memory_mcp.base.metrics import span
from memory_mcp.indexes.topics.base import Link, Topic, TopicsStatus, View
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.model.topic import TopicLabel
from memory_mcp.question.understand import topic_subject
from memory_mcp.search.layers.base import NO_TOPIC, LayerAnswer, LayerName, LayerStatus, Query, Theme
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.layers.teleport import best_tool, unavailable
from memory_mcp.storage.base import Storage
from memory_mcp.tree.toc.tree import Tree

if TYPE_CHECKING:
    from memory_mcp.indexes.accelerators import Accelerators
    from memory_mcp.indexes.keeper import RebuildResult
    from memory_mcp.indexes.topics.graph import TopicGraph
    from memory_mcp.indexes.topics.keeper import TopicKeeper

#: Most themes of an answer, and segments of each that are searched for a statement: some have none.
_THEMES, _EXAMPLES = 10, 3
#: Literal beginning of the error message when the layer is off or empty.
NOT_ENABLED = "Topic graph not enabled"


class TopicsLayer:
    """Layer 5: answers with topics and never with hits; a `Layer`."""

    name = LayerName.TOPICS

    def __init__(self, indexes: "Accelerators", storage: Storage, tree: Tree, clock: Clock, *, has_hybrid: bool = False) -> None:
        """Create the layer; `has_hybrid`: there is a tool for both."""
        self._indexes = indexes
        self._storage = storage
        self._tree = tree
        self._clock = clock
        self._has_hybrid = has_hybrid

    def status(self) -> LayerStatus:
        """Return why there are no topics, or the graph's health and size."""
        keeper = self._indexes.find_topic_keeper()
        if keeper is None:
            enabled, reason, enable_with = self._indexes.explain_no_topics()
            return LayerStatus(self.name, enabled, healthy=False, reason=reason, enable_with=enable_with)
        status = keeper.status()
        return LayerStatus(self.name, enabled=True, healthy=status.healthy, count=status.topic_count, reason=status.message)

    def describe_status(self) -> TopicsStatus:
        """Return the status of the topic graph, or why it is off."""
        keeper = self._indexes.find_topic_keeper()
        if keeper is None:
            enabled, reason, _ = self._indexes.explain_no_topics()
            return TopicsStatus(enabled, healthy=False, message=reason)
        return keeper.status()

    @property
    def keeper(self) -> "TopicKeeper":
        """The maintainer of the graph. Raises LayerUnavailable without one."""
        keeper = self._indexes.find_topic_keeper()
        if keeper is None:
            raise unavailable(NOT_ENABLED, self.status(), self._best_tool())
        return keeper

    def _best_tool(self) -> str:
        return best_tool(self._indexes, self.name, has_hybrid=self._has_hybrid)

    def read_graph(self) -> "TopicGraph":
        """Return the current graph.

        Raises LayerUnavailable when the layer is off, and IndexNotReady with the reason and the tool to use instead when the
        graph cannot be read.
        """
        try:
            return self.keeper.get_graph()
        except IndexUnreadable as error:
            hint = f"{error.message[:1].upper()}{error.message[1:]}; use {self._best_tool()} meanwhile."
            raise IndexNotReady(f"{NOT_ENABLED} yet", hint, error.message) from error

    def read_view(self, project: str | None) -> View:
        """Return a view of one project, or of all for None."""
        return View(self._clock.now_ms(), project)

    def label_topic(self, topic_id: str, label: str, project: str | None, by: str) -> Topic:
        """Store a topic's label for viewers of a project; "" removes it.

        `by` is the author, as in `model.toc`. Raises NotFound for an unknown topic, LayerUnavailable, IndexNotReady for no graph.
        """
        topic = self.read_graph().get_topic(topic_id, self.read_view(project))
        self.keeper.store_labels([TopicLabel(topic.topic_id, project, label, by, self._clock.now_ms())])
        return self.read_graph().get_topic(topic.topic_id, self.read_view(project))

    def pin_topic(self, topic_id: str, on: bool, project: str | None, by: str) -> Topic:
        """Pin or unpin a topic, and return it.

        A pinned one is listed first and however old it is. `by` is the author, as in `model.toc`. Raises NotFound for an
        unknown topic, LayerUnavailable, IndexNotReady for no graph.
        """
        topic = self.read_graph().get_topic(topic_id, self.read_view(project))
        self._storage.toc.set_pin(topic.topic_id, on, by)
        self.keeper.reload_facts()
        return self.read_graph().get_topic(topic.topic_id, self.read_view(project))

    def rebuild_graph(self) -> "RebuildResult":
        """Rebuild the topic graph and wait for it.

        Raises LayerUnavailable when the layer is off, IndexNotReady while a rebuild is running; other errors of the rebuild
        are passed on.
        """
        return self.keeper.rebuild()

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """Return at most ten themes and no hits, for one call.

        Nothing for a query by role or speaker, which topics do not know. Raises LayerUnavailable when the layer is off,
        IndexNotReady when the graph cannot be read.
        """
        graph = self.read_graph()
        if query.role is not None or query.speaker is not None or not budget.count_call():
            return LayerAnswer((), window=query.window)
        with span("topics_search"), metrics.timed("topics_search_latency_seconds"):
            view = replace(self.read_view(query.project), agent=query.agent, window=query.window)
            topics = graph.best_topics(view, query.text, _THEMES, topic_subject(query.text))
            links = [graph.list_links(t.topic_id, view, _EXAMPLES, text=query.text)[0] for t in topics]
            node_ids = sorted({link.node_id for topic_links in links for link in topic_links})
            nodes = self._tree.nodes(node_ids[: budget.visit_named(node_ids)])
            themes = [_make_theme(topic, link, nodes, query.text) for topic, link in zip(topics, links, strict=True)]
        notices = (NO_TOPIC,) if query.text and not topics and graph.list_topics(view, 1)[1] else ()
        return LayerAnswer((), window=query.window, themes=tuple(themes), notices=notices)


def _make_theme(topic: Topic, links: Sequence[Link], nodes: dict[NodeId, TocNode], text: str) -> Theme:
    segments = (nodes[link.node_id] for link in links if link.node_id in nodes)
    bullet = next((statement for node in segments if (statement := find_telling(node, topic, text)) is not None), None)
    return Theme(
        topic_id=topic.topic_id,
        label=topic.label,
        about=(*topic.parts, *topic.keywords),
        segments=topic.mentions,
        first_ms=topic.first_ms,
        last_ms=topic.last_ms,
        quote=bullet.text if bullet else "",
        grip_id=bullet.grip_ids[0] if bullet else GripId(""),
    )


def find_telling(node: TocNode, topic: Topic, text: str = "") -> TocBullet | None:
    """Return the bullet that tells most about a topic and a text."""
    return next(iter(order_by_telling(node, topic, text)), None)


def order_by_telling(node: TocNode, topic: Topic, text: str = "") -> list[TocBullet]:
    """Return the bullets with a grip, the most telling first.

    Those first that share most terms with text (twice) and topic, by weight.
    """
    from memory_mcp.indexes.topics.documents import terms_of

    weights = {**terms_of(" ".join((topic.label, *topic.keywords))), **{t: 2 * w for t, w in terms_of(text).items()}}

    def worth(bullet: TocBullet) -> float:
        return sum(weights.get(term, 0.0) for term in terms_of(bullet.text))

    return sorted((b for b in node.bullets if b.grip_ids), key=worth, reverse=True)
