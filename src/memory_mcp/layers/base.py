"""What a retrieval layer is: a status, a contract, and an answer to a query within a budget."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memory_mcp.layers.budget import Budget
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.ids import GripId, NodeId, TopicId


class LayerName(StrEnum):
    """The retrieval layers, in the specification's words; the tree below them is their foundation."""

    TOC = "toc"
    AGENTIC = "agentic"
    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"
    TOPICS = "topics"


@dataclass(frozen=True, slots=True)
class Contract:
    """What a layer can and cannot do (cognitive-architecture.md, Cognitive Contracts)."""

    strength: str
    weakness: str
    failure_mode: str
    safe_fallback: str


CONTRACTS = {
    LayerName.TOC: Contract("Always works, time-grounded", "Requires traversal", "None", "N/A (foundation)"),
    LayerName.AGENTIC: Contract("No dependencies", "Slow for large scans", "Timeout", "Return partial"),
    LayerName.BM25: Contract("Fast exact keyword", "Misses synonyms", "Index unavailable", "Agentic"),
    LayerName.VECTOR: Contract("Semantic similarity", "Can hallucinate relevance", "Index unavailable", "BM25 or Agentic"),
    LayerName.HYBRID: Contract("Keyword and meaning together", "Needs both to be whole", "One side missing", "BM25 or Vector"),
    LayerName.TOPICS: Contract("Pattern discovery", "Stale labels, overly broad", "Index unavailable", "Vector or BM25"),
}


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """Whether a layer can be used now, and if not, why and what turns it on."""

    name: LayerName
    enabled: bool
    healthy: bool
    count: int = 0
    reason: str = ""
    enable_with: str = ""

    @property
    def usable(self) -> bool:
        """Enabled and healthy."""
        return self.enabled and self.healthy


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, of which part of the memory. `project` None means all projects."""

    text: str
    limit: int = 10
    project: str | None = None
    agent: str | None = None
    window: TimeWindow | None = None
    #: Who said it: user, assistant or tool, and by name; None: anybody.
    role: str | None = None
    speaker: str | None = None
    #: It names something by its exact words, so that the output of tools counts as much as what was said.
    literal: bool = False
    #: Nothing in particular is asked for: what happened is listed by periods rather than by segments.
    overview: bool = False
    #: Keywords have been looked for already by an index: texts need not be read once more for words that it holds.
    looked_up: bool = False
    #: The question as it was put: a message of just these words is no answer. "" where nobody put one.
    question: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found, with its provenance: the exact words and the grips that lead to them."""

    node_id: NodeId
    title: str
    #: The words found, exactly as stored.
    quote: str
    grip_ids: tuple[GripId, ...]
    timestamp: int
    session_id: str
    project: str
    agent: str
    role: str
    speaker: str
    #: 0..1: how much of the query this covers, by weight.
    score: float
    #: The score's parts, for whoever asks.
    parts: tuple[tuple[str, float], ...] = ()
    event_id: str = ""
    #: What was found: a node of this level, or the grip of that id in it.
    level: str = TocLevel.SEGMENT
    grip_id: str = ""
    #: The engine's own number, where one was asked: BM25 or cosine similarity.
    raw: float | None = None
    keywords: tuple[str, ...] = ()
    #: How near it is to the query in meaning (cosine, 0..1); 0 where meaning was not asked.
    similarity: float = 0.0
    #: It lies outside the time that was named, and is shown because nothing lies inside.
    outside: bool = False
    #: The kind of memory of the words found (`MemoryKind`); "" for an observation.
    kind: str = ""
    #: 0..1, as stored with the node; 0 where there is none.
    salience: float = 0.0
    #: Somebody pinned the node or one of the grips.
    pinned: bool = False
    #: The grip of the statement that stands in its place now.
    superseded_by: str = ""
    #: Why, where a reason was given.
    why_superseded: str = ""


def unfiled_hit(event: Event, grip: GripId, quote: str, score: float) -> Hit:
    """A hit in an event that is not yet part of the tree: `grip` and `quote` are the words that answer."""
    return Hit(
        node_id=NodeId(""),
        title="not yet filed in the tree",
        quote=quote,
        grip_ids=(grip,),
        timestamp=event.timestamp,
        session_id=event.session_id,
        project=event.project,
        agent=event.agent,
        role=event.role.value,
        speaker=event.speaker,
        score=score,
        event_id=event.event_id,
        kind=event.metadata.get("kind", ""),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a search through the tree, with the reason for it."""

    node_id: NodeId
    label: str
    searched: int
    searched_level: str
    matched: str
    score: float
    decision: str


@dataclass(frozen=True, slots=True)
class Theme:
    """A topic as an overview tells it: what it is called, when it was talked about, and a statement that shows it."""

    topic_id: TopicId
    label: str
    #: What else it is about: the topics of an area, then keywords.
    about: tuple[str, ...]
    #: Segments that are about it, in the time and scope that were asked for.
    segments: int
    #: The first and the last of them, UTC milliseconds.
    first_ms: int
    last_ms: int
    #: A statement of one of its segments, word for word, with the grip that proves it; "" where none has one.
    quote: str
    grip_id: GripId


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """Hits, best first, and the way that led to them."""

    hits: tuple[Hit, ...]
    path: tuple[Step, ...] = ()
    #: The window the hits were filtered by, and the words it was read from.
    window: TimeWindow | None = None
    window_words: str = ""
    #: What was widened, left out or cut short, in words.
    notices: tuple[str, ...] = ()
    #: What it is all about, the most important first; the layer of topics alone tells it.
    themes: tuple[Theme, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighed:
    """A query's terms as a scope sees them."""

    #: Inverse document frequencies.
    weights: Mapping[str, float]
    #: How many segments of the scope hold each.
    counts: Mapping[str, int]
    #: Segments of the scope, and its events.
    segments: int
    events: int = 0

    def share(self, terms: Collection[str]) -> float:
        """How much of the query, by weight, these terms are; 0 for a query without words."""
        total = sum(self.weights.values())
        return sum(self.weights[t] for t in self.weights.keys() & terms) / total if total else 0.0


class Words(Protocol):
    """What the tree knows about the words of a query; needs no index."""

    def inhabited(self, query: Query) -> bool:
        """Whether anything was said in the query's window and scope; True when that cannot be told cheaply."""
        ...

    def weigh(self, text: str, project: str | None) -> Weighed:
        """The terms of a text; none for a text without words."""
        ...

    def covered(self, query: Weighed, nodes: Sequence[NodeId]) -> dict[NodeId, frozenset[str]]:
        """Which terms of the query each node's whole text holds."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """What was expected: every id that stands for it in a result, and where it lies."""

    id: str
    ids: frozenset[str]
    project: str
    agent: str
    timestamp: int
    #: Its most telling words, the most telling first.
    words: tuple[str, ...]
    #: A period mixes projects and agents, and lies in no single moment.
    is_period: bool = False
    #: Times whose overview may list it: of a period.
    listed_in: tuple[TimeWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """What reading one stretch of time word by word found, and how many events it compared."""

    hits: tuple[Hit, ...]
    events: int


class Scanner(Protocol):
    """Reads events themselves, slice by slice of time: what exists is found, whatever any layer says."""

    def named(self, query: Query, words: Sequence[str]) -> Slice | None:
        """Return what `read` would, of the few segments that are known to hold the words; None where only reading tells.

        Of a literal text it is enough that some of them hold it: others may hold it inside of words.
        """
        ...

    def slices(self, query: Query) -> list[TimeWindow]:
        """The query's window, or all time, cut at week boundaries into a few stretches, the newest first."""
        ...

    def read(self, query: Query, words: Sequence[str]) -> Slice:
        """Return events of the query's window and scope that hold every one of some texts, newest first.

        Neither case nor the kind of white space matters.
        """
        ...


class Layer(Protocol):
    """A retrieval layer."""

    name: LayerName

    def status(self) -> LayerStatus:
        """Whether it can be used now. Never raises."""
        ...

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """Hits within the budget; LayerUnavailable when the layer cannot be used. Running out is a partial answer."""
        ...
