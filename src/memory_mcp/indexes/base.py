"""What is looked for in an index and what comes back: filters in, matches and a status out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.model.toc import MemoryKind


class DocType(StrEnum):
    """The two sorts of documents (bm25-teleport-prd.md, section 5)."""

    NODE = "toc_node"
    GRIP = "grip"


class Visible(IntEnum):
    """Which callers may find a document. On disk: do not change the values."""

    #: One project's own: found by callers of that project and by those who search everything.
    ALWAYS = 0
    #: Mixes projects: found only when everything is searched.
    UNSCOPED = 1
    #: One project's share of a period: found only by callers of that project.
    SCOPED = 2


@dataclass(frozen=True, slots=True)
class Filters:
    """What a document must be to be found at all; None is no restriction. Applied before the best are chosen."""

    doc_type: DocType | None = None
    #: Of nodes; naming one leaves grips out.
    level: TocLevel | None = None
    window: TimeWindow | None = None
    project: str | None = None
    agent: str | None = None
    speaker: str | None = None
    kind: MemoryKind | None = None
    #: Who said it (user, assistant, system, tool); of grips: a node was said by nobody.
    role: str | None = None

    @property
    def wants_nodes(self) -> bool:
        """Whether a node can be found."""
        return self.doc_type is not DocType.GRIP and self.role is None

    @property
    def wants_grips(self) -> bool:
        """Whether a grip can be found."""
        return self.doc_type is not DocType.NODE and self.level is None


@dataclass(frozen=True, slots=True)
class Match:
    """One document found: ids and scores; whoever shows it reads the words from the store."""

    doc_type: DocType
    #: The node itself, or the segment the grip belongs to ("" when only its key is known).
    node_key: int
    node_id: NodeId
    grip_id: GripId | None
    start_ms: int
    #: 0..1, calibrated: how likely it is what was looked for.
    score: float
    #: As the engine counts: BM25 with its lifts, or cosine similarity.
    raw: float
    #: For a segment: its grip that fits the query best.
    best_grip: GripId | None = None
    #: Further grips of the same segment that match.
    also: tuple[GripId, ...] = ()
    parts: tuple[tuple[str, float], ...] = ()
    #: How near it is in meaning; 0 where that was not asked.
    similarity: float = 0.0


@dataclass(frozen=True, slots=True)
class Matches:
    """The best, best first; how many documents hold something of the query at all."""

    best: tuple[Match, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Unfiled:
    """An event that is in no document yet, scored as if it were."""

    event: Event
    score: float
    raw: float


class Searcher(Protocol):
    """An index that layers can ask."""

    keeper: Any

    def search(self, text: str, filters: Filters, limit: int, least: float = 0.0) -> Matches:
        """The best documents, filters applied first, raw scores of at least `least`; IndexUnreadable when it cannot say.

        InvalidQuery for a text without words.
        """
        ...

    def candidates(self, text: str, filters: Filters, limit: int, also: Any) -> Any:
        """Return the best `limit` messages as `Candidates`, and those whose names `also` (`(n,)` uint64) holds.

        InvalidQuery for a text without words, IndexUnreadable when the index cannot say.
        """
        ...

    def scale(self, text: str) -> float:
        """Return what raw scores of messages are divided by to be shares of what the text could give."""
        ...

    def unfiled(self, text: str, events: Iterable[Event]) -> list[Unfiled]:
        """Those of some events that match, scored as the index would."""
        ...

    def improve(self, goes_on: Callable[[], bool]) -> int:
        """Have made, for as long as `goes_on` says, what makes searching faster and is never needed; how many parts."""
        ...


class Health(StrEnum):
    """How an index is."""

    #: Files are being read; nothing is known yet.
    LOADING = "loading"
    HEALTHY = "healthy"
    #: Nothing to read from yet: the first generation is being built.
    BUILDING = "building"
    #: What is on disk cannot be used; a new generation is built.
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """An index as people and tools ask about it."""

    health: Health
    #: Why it cannot be used now; "" when it can.
    reason: str = ""
    #: Documents by type.
    counts: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    #: Of the last generation made durable, UTC milliseconds; 0: never.
    last_commit_ms: int = 0
    last_prune_ms: int = 0
    #: Documents left out by retention, by level.
    pruned: Mapping[str, int] = field(default_factory=dict)
    #: Changes of the store that it does not hold yet.
    behind: int = 0
    #: What a build under way has done, documents.
    building: int | None = None
    generation: int = 0
    parts: int = 0
    last_error: str = ""

    @property
    def ready(self) -> bool:
        """Whether it can be searched."""
        return self.health is Health.HEALTHY

    @property
    def documents(self) -> int:
        """All of them."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Position:
    """How far into the store an index has followed."""

    #: Number of the last outbox entry.
    outbox: int = 0
    #: Number of the last event that its documents may hold; later ones are searched beside it.
    events: int = 0
    #: What that outbox entry named: in another history of the same store it names something else.
    mark: str = ""
