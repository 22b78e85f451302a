"""The contract of an index: filters, matches, status, and the searcher protocol."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.model.toc import MemoryKind


class DocType(StrEnum):
    """The two types of documents (bm25-teleport-prd.md, section 5)."""

    NODE = "toc_node"
    GRIP = "grip"


class Visibility(IntEnum):
    """Which callers may find a document; values are on disk."""

    #: A document of one project: found by callers of that project and by unscoped ones.
    ALWAYS = 0
    #: A document that mixes projects: found only by unscoped callers.
    UNSCOPED = 1
    #: One project's share of a period: found only by callers of that project.
    SCOPED = 2


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions applied before the best are chosen; None is no restriction."""

    doc_type: DocType | None = None
    #: Level of nodes; excludes grips.
    level: TocLevel | None = None
    window: TimeWindow | None = None
    project: str | None = None
    agent: str | None = None
    speaker: str | None = None
    kind: MemoryKind | None = None
    #: Role of the speaker (user, assistant, system, tool); excludes nodes.
    role: str | None = None
    #: Names of sessions that are left out (see `keys.session_name`), each from a moment on, UTC milliseconds.
    excluded_sessions: frozenset[tuple[int, int]] = frozenset()

    @property
    def wants_nodes(self) -> bool:
        """Whether nodes can pass."""
        return self.doc_type is not DocType.GRIP and self.role is None

    @property
    def wants_grips(self) -> bool:
        """Whether grips can pass."""
        return self.doc_type is not DocType.NODE and self.level is None


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A search of an index."""

    text: str
    filters: Filters
    #: Most documents or messages returned.
    limit: int
    #: Least raw score of a document: a BM25 score or a cosine similarity.
    min_score: float = 0.0
    #: Whether the text names something by its exact words.
    literal: bool = False
    #: Other words or phrases that the answer is likely to hold; they count less than the text.
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """One document found: ids and scores; its words are in the store."""

    doc_type: DocType
    #: The node itself, or the segment the grip belongs to ("" when only its key is known).
    node_key: int
    node_id: NodeId
    grip_id: GripId | None
    start_ms: int
    #: Calibrated score, 0..1: the probability that it is relevant.
    score: float
    #: The engine's score: BM25 with shares of neighbours and segment, or cosine similarity.
    raw: float
    #: For a segment: its best grip.
    best_grip: GripId | None = None
    #: Further grips of the same segment that match.
    other_grips: tuple[GripId, ...] = ()
    parts: tuple[tuple[str, float], ...] = ()
    #: Cosine similarity; 0 if not computed.
    similarity: float = 0.0
    #: Whether it is a message that only asks.
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """The best documents, best first, and the number of all."""

    best: tuple[Match, ...]
    total: int


@dataclass(frozen=True, slots=True)
class PendingMatch:
    """An event that is not indexed yet, scored as if it were."""

    event: Event
    score: float
    raw: float


@dataclass(frozen=True, slots=True)
class ArrivedMatches:
    """Events without their texts, best first, and the number of the last event that was searched."""

    best: tuple[PendingMatch, ...]
    reach: int


class Searcher(Protocol):
    """An index as layers search it."""

    keeper: Any

    def search(self, query: IndexQuery) -> Matches:
        """Return the best `query.limit` documents and the number of all.

        Raises InvalidQuery for a text without words, IndexUnreadable when the index cannot answer.
        """
        ...

    def find_candidates(self, query: IndexQuery, also: Any) -> Any:
        """Return best messages, and those named in `also`, as `Candidates`.

        `also` is `(n,)` uint64. Raises as `search`.
        """
        ...

    def highest_score(self, text: str) -> float:
        """Return the highest raw score a message can have for a text."""
        ...

    def score_pending(self, text: str, events: Iterable[Event], keywords: Sequence[str] = ()) -> list[PendingMatch]:
        """Score events that are not indexed yet, without those that do not match.

        What matches `keywords` counts less.
        """
        ...

    def improve_shards(self, goes_on: Callable[[], bool]) -> int:
        """Rewrite shards in a faster form while `goes_on()`; return how many."""
        ...


class Health(StrEnum):
    """The state of an index."""

    #: Its files are being read.
    LOADING = "loading"
    HEALTHY = "healthy"
    #: There are no files yet: the first generation is being built.
    BUILDING = "building"
    #: Its files cannot be used; a new generation is built.
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """State and numbers of an index, for people and tools."""

    health: Health
    #: Why it cannot be searched now; "" when it can.
    reason: str = ""
    #: Documents by type.
    counts: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    #: Time of the last commit, UTC milliseconds; 0 for never.
    last_commit_ms: int = 0
    last_prune_ms: int = 0
    #: Documents removed by retention, by level.
    pruned: Mapping[str, int] = field(default_factory=dict)
    #: Changes of the store that are not indexed yet.
    behind: int = 0
    #: Documents done by the current build; None without one.
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
        """Number of all documents."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Position:
    """How far an index has followed the store."""

    #: Number of the last outbox entry.
    outbox: int = 0
    #: Number of the last event that is indexed; later ones are searched separately.
    events: int = 0
    #: Subject of that outbox entry: it differs in another history of the same store.
    mark: str = ""
