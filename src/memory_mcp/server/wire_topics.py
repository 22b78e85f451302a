"""The shapes agents see of topics: lists of them, one with its segments, what it is related to, and how the graph is."""

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from memory_mcp.server.wire import Bullet, Recalled, Wire


class RelatedTopic(Wire):
    """Another topic, and what it is to the one it is named with."""

    topic_id: str
    label: str
    kind: Annotated[str, Field(description="similar, co_occurring, parent or child")]
    strength: float


class TopicBase(Wire):
    """What every list says of a topic."""

    topic_id: str
    label: str
    importance: float
    keywords: SkipJsonSchema[list[str]] = []
    mentions: SkipJsonSchema[int]
    first_mentioned: SkipJsonSchema[str]
    last_mentioned: SkipJsonSchema[str]
    state: SkipJsonSchema[str]
    since: SkipJsonSchema[str] = ""
    pinned: SkipJsonSchema[bool | None] = None
    labelled_by: SkipJsonSchema[str] = ""


class Topic(TopicBase):
    """A topic that fits a query, and where it was talked about."""

    score: SkipJsonSchema[float]
    nodes: list[dict[str, Any]] = []
    related: SkipJsonSchema[list[RelatedTopic]] = []


class TopicsAnswer(Recalled):
    """topics_by_query."""

    topics: list[Topic]
    total: SkipJsonSchema[int]
    scope: SkipJsonSchema[str]
    notices: list[str] = []


class CountedTopic(TopicBase):
    """An area or a topic with its numbers."""

    parts: Annotated[list[str], Field(description="Of an area: topics in it")] = []
    events: int
    weeks: Annotated[list[int], Field(description="Mentions week by week, this week last")]


class TopTopicsAnswer(Recalled):
    """get_top_topics."""

    topics: list[CountedTopic]
    total: int
    next_cursor: str = ""
    scope: str
    notices: list[str] = []


class TopicSegment(Wire):
    """A segment that is about a topic, and its statements that say most about that."""

    node_id: str
    when: str
    title: str
    relevance: float
    project: str = ""
    bullets: list[Bullet] = []


class TopicNodesAnswer(Recalled):
    """get_toc_nodes_for_topic."""

    topic_id: str
    label: str
    nodes: list[TopicSegment]
    total: int
    next_cursor: str = ""
    scope: str
    notices: list[str] = []


class RelatedTopicsAnswer(Recalled):
    """get_related_topics."""

    topic_id: str
    label: str
    related: list[RelatedTopic]
    scope: str
    notices: list[str] = []


class LabelledTopic(Recalled):
    """label_topic."""

    topic_id: str
    label: str
    labelled_by: Annotated[str, Field(description="agent; left out for the topic's own words")] = ""
    scope: str
    notices: list[str] = []


class TopicGraphStatus(Wire):
    """get_topic_graph_status."""

    enabled: bool
    healthy: bool
    topic_count: int
    message: str = ""
    segments: Annotated[int, Field(description="That are about a topic or looked at")] = 0
    unassigned: Annotated[int, Field(description="Segments that are about none")] = 0
    behind: Annotated[int | None, Field(description="Changes not taken in yet")] = None
    by_meaning: Annotated[bool | None, Field(description="By vectors too; else by shared words alone")] = None
    pruned: Annotated[int, Field(description="Topics left out after long silence")] = 0
    size_bytes: int = 0
    last_commit_at: str = ""
    generation: int | None = None
    error: str = ""
