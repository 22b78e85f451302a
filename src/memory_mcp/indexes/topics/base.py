"""What the topic graph is asked for and what comes back; words of one project only where a project is named."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import NodeId, TopicId


class State(StrEnum):
    """Whether a topic is talked about."""

    ACTIVE = "active"
    #: Not mentioned for a while.
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
class Name:
    """What a topic is called in one scope: its label, at most 50 characters, and up to 12 keywords, the best first."""

    label: str
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """What a topic is called: for those who see all projects, and for those who see one."""

    topic_id: TopicId
    whole: Name
    by_project: Mapping[str, Name]

    @property
    def by_scope(self) -> dict[str | None, Name]:
        """By project, and by None for those who see all."""
        return dict([(None, self.whole), *self.by_project.items()])


@dataclass(frozen=True, slots=True)
class View:
    """Which part of the memory is looked at, and when."""

    #: UTC milliseconds: ages are counted from here.
    now_ms: int
    #: None: all projects.
    project: str | None = None
    agent: str | None = None
    window: TimeWindow | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a view sees it: label, keywords and numbers come from the segments of that view's project alone."""

    topic_id: TopicId
    label: str
    keywords: tuple[str, ...]
    #: Of an area: the labels of its topics, the largest first.
    parts: tuple[str, ...]
    #: Sum over its mentions of relevance x 0.5^(age / half-life), those of late boosted.
    importance: float
    #: Segments that are about it, and the events in them.
    mentions: int
    events: int
    #: When it was mentioned first and last, UTC milliseconds.
    first_ms: int
    last_ms: int
    state: State
    #: Since when it is in that state.
    since_ms: int
    pinned: bool = False
    #: Who gave the label: "" for the topic's own words, `agent`, or a language model.
    labelled_by: str = ""
    #: 0..1: how well it fits what was asked; 0 where nothing was.
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A segment that is about a topic, and how much (0..1)."""

    node_id: NodeId
    relevance: float
    start_ms: int
    end_ms: int
    project: str


@dataclass(frozen=True, slots=True)
class Related:
    """Another topic, what it is to the one asked about, and how strongly (0..1)."""

    topic_id: TopicId
    label: str
    kind: RelationKind
    strength: float


@dataclass(frozen=True, slots=True)
class TopicsStatus:
    """The topic graph as people and tools ask about it."""

    enabled: bool
    healthy: bool
    topic_count: int = 0
    #: Segments that are grouped, and those of them that no topic has.
    segments: int = 0
    unassigned: int = 0
    #: Segments that wait to be placed.
    behind: int = 0
    #: Whether meaning was compared, or terms alone.
    by_meaning: bool = False
    size_bytes: int = 0
    generation: int = 0
    #: When the memory was grouped last, UTC milliseconds; 0: never.
    last_commit_ms: int = 0
    #: Topics that are left out for their silence.
    pruned: int = 0
    message: str = ""
    last_error: str = ""
    #: How long the last grouping took; None before the first of this process.
    last_rebuild_secs: float | None = None
