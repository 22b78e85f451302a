"""Values of the topic graph; a view of one project has words of that project only."""

from collections.abc import Mapping
from enum import StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import NodeId, TopicId


class State(StrEnum):
    """Whether a topic is current."""

    ACTIVE = "active"
    #: Not mentioned for `dormant_days`.
    DORMANT = "dormant"
    #: Mentioned again after it was dormant.
    REVIVED = "revived"


class RelationKind(StrEnum):
    """Kinds of relation between two topics; both topics report it."""

    SIMILAR = "similar"
    CO_OCCURRING = "co_occurring"
    PARENT = "parent"
    CHILD = "child"


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's name in one scope: a label, and up to 12 keywords, best first."""

    label: str
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicNames:
    """A topic's names: for viewers of all projects, and by project."""

    topic_id: TopicId
    overall: TopicName
    by_project: Mapping[str, TopicName]

    @property
    def by_scope(self) -> dict[str | None, TopicName]:
        """Names by project, and by None for viewers of all."""
        return dict([(None, self.overall), *self.by_project.items()])


@dataclass(frozen=True, slots=True)
class View:
    """The part of the memory that is viewed, and the time."""

    #: Current time, UTC milliseconds.
    now_ms: int
    #: None: all projects.
    project: str | None = None
    agent: str | None = None
    window: TimeWindow | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in a view, with values of the view's project."""

    topic_id: TopicId
    label: str
    keywords: tuple[str, ...]
    #: For an area: the labels of its topics, largest first.
    parts: tuple[str, ...]
    #: Sum over its mentions of relevance x 0.5^(age / half-life), recent ones boosted.
    importance: float
    #: Number of its segments, and of the events in them.
    mentions: int
    events: int
    #: Time of the first and last mention, UTC milliseconds.
    first_ms: int
    last_ms: int
    state: State
    #: When that state began, UTC milliseconds.
    since_ms: int
    pinned: bool = False
    #: Author of the label: "" for the topic's own words, `agent`, or a language model.
    labelled_by: str = ""
    #: Fit to the query, 0..1; 0 without a query.
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A segment of a topic, and its relevance to it (0..1)."""

    node_id: NodeId
    relevance: float
    start_ms: int
    end_ms: int
    project: str


@dataclass(frozen=True, slots=True)
class Related:
    """A related topic, the kind of relation and its strength (0..1)."""

    topic_id: TopicId
    label: str
    kind: RelationKind
    strength: float


@dataclass(frozen=True, slots=True)
class TopicsStatus:
    """State and numbers of the topic graph, for people and tools."""

    enabled: bool
    healthy: bool
    topic_count: int = 0
    #: Number of grouped segments, and of those without a topic.
    segments: int = 0
    unassigned: int = 0
    #: Segments that came or changed since topics were looked for.
    behind: int = 0
    #: Whether these are so many that topics are looked for again before the graph counts as healthy.
    is_renewed: bool = False
    #: Whether vectors were compared, or terms alone.
    by_meaning: bool = False
    size_bytes: int = 0
    generation: int = 0
    #: Time of the last grouping, UTC milliseconds; 0 for never.
    last_commit_ms: int = 0
    #: Topics that are left out because they are old.
    pruned: int = 0
    message: str = ""
    last_error: str = ""
    #: Duration of the last grouping in this process; None for none.
    last_rebuild_secs: float | None = None
