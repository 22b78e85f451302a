"""Turns topics and their links into the parts of responses: names, dates, segments and statements with their grips.

Change here: what is said of a topic, and which statement is cited for it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import query_terms
from memory_mcp.indexes.topics.base import Link, Related, State, Topic
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.requests.excerpts import Excerpt
from memory_mcp.requests.response import offset_cursor
from memory_mcp.requests.scope import Scoped
from memory_mcp.requests.shapes import Bullet, shape_bullet
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.summarize.titles import SEPARATOR, without_date
from memory_mcp.tree.summarize.vocabulary import keys_of

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Weeks whose mentions are counted: as long as a topic may be silent before it is left out.
WEEKS = 26
#: Keywords of a topic in a list.
_KEYWORDS = 5
#: Characters of a title.
_TITLE = 60
#: A word of the question counts as much as so many words of the topic.
_ASKED = 3.0
#: Of a segment's statements, so many say about as much of a topic.
_NEAR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNode:
    """A segment that is about a topic, and the statement of it that says most about that."""

    node_id: str
    when: str
    title: str
    #: 0..1: how much it is about the topic.
    relevance: float
    text: str = ""
    #: The citation of `text`.
    grip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSegment:
    """A segment that is about a topic, with the statements of it that say most about that, in their order."""

    node_id: str
    when: str
    title: str
    relevance: float
    project: str = ""
    bullets: Sequence[Bullet] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedTopic:
    """Another topic, what it is to the one it is named with, and how strongly (0..1)."""

    topic_id: str
    label: str
    kind: Annotated[str, "similar, co_occurring, parent or child"]
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic; what a list does not tell of it is left out."""

    topic_id: str
    label: str
    #: 0..1: how well it fits the query.
    score: float | None = None
    importance: float
    keywords: Sequence[str] = ()
    #: The labels of the largest.
    parts: Annotated[Sequence[str], "Of an area: topics in it"] = ()
    #: Segments that are about it, and the events in them.
    mentions: int
    events: int = 0
    #: Local days.
    first_mentioned: str
    last_mentioned: str
    state: str
    #: The local day since when it is dormant or revived.
    since: str = ""
    pinned: bool = False
    #: Who gave the label; "" for the topic's own words.
    labelled_by: str = ""
    weeks: Annotated[Sequence[int], "Mentions week by week, this week last"] = ()
    nodes: Sequence[TopicNode] = ()
    related: Sequence[RelatedTopic] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A segment that is about a topic; its text can be cut to any width."""

    bare: TopicNode
    excerpt: Excerpt


class Segments:
    """Reads the segments behind links as a scope may see them, with what they say of a query and a topic."""

    def __init__(self, app: "App", scoped: Scoped, query: str = "") -> None:
        """Words of `query` count more than the topic's when statements are chosen."""
        self._app, self._scoped, self._query = app, scoped, query

    def passages(self, topic: Topic, links: Sequence[Link]) -> list[Passage]:
        """Return a passage for each link whose segment is stored.

        A statement that an earlier passage shows is cited but not repeated; one that the title does not
        already say is preferred.
        """
        nodes = self._app.tree.nodes([entry.node_id for entry in links], self._scoped.project)
        passages, shown_texts = list[Passage](), set[str]()
        words = query_terms(" ".join((topic.label, *topic.keywords)))
        weights = {**dict.fromkeys(words, 1.0), **dict.fromkeys(query_terms(self._query), _ASKED)}
        for link in links:
            if (node := nodes.get(link.node_id)) is None:
                continue
            # The statement that says most of the topic and is neither said by the title nor shown before.
            ranked, title = self._rank_bullets(node, topic), keys_of(node.title.partition(SEPARATOR)[0])
            fresh = [entry for entry in ranked[:_NEAR] if entry.text not in shown_texts]
            best = next((entry for entry in fresh if not _is_told(entry.text, title)), next(iter(fresh or ranked), None))
            grip = best.grip_ids[0] if best else ""
            text = "" if best is None or best.text in shown_texts else best.text
            shown_texts.add(text)
            bare = TopicNode(
                node_id=node.node_id,
                when=self._app.calendar.format_iso(link.start_ms)[:16],
                title=_title(node),
                relevance=round(link.relevance, 2),
                grip=grip,
            )
            passages.append(Passage(bare, Excerpt(text, weights)))
        return passages

    def segments(self, topic: Topic, links: Sequence[Link], most: int) -> list[TopicSegment]:
        """Return each link's stored segment with at most `most` statements."""
        nodes, segments = self._app.tree.nodes([entry.node_id for entry in links], self._scoped.project), []
        for link in links:
            if (node := nodes.get(link.node_id)) is not None:
                chosen = self._rank_bullets(node, topic)[:most]
                segments.append(
                    TopicSegment(
                        node_id=node.node_id,
                        when=self._app.calendar.format_iso(link.start_ms)[:16],
                        title=_title(node),
                        relevance=round(link.relevance, 2),
                        project="" if link.project == self._scoped.project else link.project,
                        bullets=[shape_bullet(entry) for entry in node.bullets if entry in chosen],
                    )
                )
        return segments

    def _rank_bullets(self, node: TocNode, topic: Topic) -> list[TocBullet]:
        from memory_mcp.search.layers.topics import order_by_telling  # numpy, behind it, would double the time to the handshake

        return order_by_telling(node, topic, self._query)


def info_of(app: "App", topic: Topic, keywords: int = _KEYWORDS) -> TopicInfo:
    """Return a topic as lists show it.

    Parts only for an area of several topics. Importance is rounded to three significant digits; events,
    weeks, score, nodes and related stay at their defaults.
    """
    return TopicInfo(
        topic_id=topic.topic_id,
        label=topic.label,
        importance=float(f"{topic.importance:.3g}"),
        keywords=topic.keywords[:keywords],
        parts=topic.parts if len(topic.parts) > 1 else (),
        mentions=topic.mentions,
        first_mentioned=app.calendar.day_of(topic.first_ms),
        last_mentioned=app.calendar.day_of(topic.last_ms),
        state=topic.state,
        since="" if topic.state is State.ACTIVE else app.calendar.day_of(topic.since_ms),
        pinned=topic.pinned,
        labelled_by=topic.labelled_by,
    )


def related_of(relation: Related) -> RelatedTopic:
    """Return a related topic as shown, its strength rounded."""
    return RelatedTopic(
        topic_id=relation.topic_id, label=relation.label, kind=relation.kind, strength=round(relation.strength, 2)
    )


def list_renewal_notices(app: "App") -> list[str]:
    """Return a notice that topics are being renewed; none if they are not."""
    status = app.topics.describe_status()
    return [f"topics are {status.message}"] if status.is_renewed else []


def next_cursor(end: int, total: int, question: tuple[str, ...]) -> str:
    """Return the cursor of the page at `end`; "" without one."""
    return offset_cursor(end, *question) if end < total else ""


def _title(node: TocNode) -> str:
    return shorten((without_date(node.title) or node.title).partition(SEPARATOR)[0], _TITLE)


def _is_told(text: str, title: set[str]) -> bool:
    text_terms = keys_of(text)
    return 2 * len(text_terms & title) > len(text_terms)
