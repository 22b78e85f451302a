"""The contract of a retrieval layer: status, query, hits, and an answer within a budget."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event, ExcludedSession, Role, note_kind
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.model.ids import EventId, GripId, NodeId, TopicId
from memory_mcp.search.layers.budget import Budget


class LayerName(StrEnum):
    """The retrieval layers, as the specification names them."""

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
    """Whether a layer can be used; if not, why, and what enables it."""

    name: LayerName
    enabled: bool
    healthy: bool
    count: int = 0
    reason: str = ""
    enable_with: str = ""
    #: Time before which its index leaves out what ended (UTC milliseconds), which `reason` tells then; 0 if it has everything.
    covered_from: int = 0

    @property
    def usable(self) -> bool:
        """Whether the layer is enabled and healthy."""
        return self.enabled and self.healthy


@dataclass(frozen=True, slots=True)
class Query:
    """A search request; `project` None means all projects."""

    text: str
    limit: int = 10
    project: str | None = None
    agent: str | None = None
    window: TimeWindow | None = None
    #: Role (user, assistant or tool) and name of who said it; None for any.
    role: str | None = None
    speaker: str | None = None
    #: The text names something by its exact words: tool output counts as much as messages.
    literal: bool = False
    #: List what happened by periods rather than by segments.
    overview: bool = False
    #: A keyword index was searched already: texts need not be read again for its words.
    looked_up: bool = False
    #: The question as typed: a message that only repeats it is not an answer. "" for none.
    question: str = ""
    #: Other words or phrases that the answer is likely to hold; they count less than the text.
    keywords: tuple[str, ...] = ()
    #: What is left out: the session that the caller runs in.
    excluded: frozenset[ExcludedSession] = frozenset()

    @property
    def excluded_sessions(self) -> frozenset[str]:
        """The ids of the sessions that are left out."""
        return frozenset(session.session_id for session in self.excluded)


@dataclass(frozen=True, slots=True)
class Aside:
    """A message after or before a hit that completes it."""

    quote: str
    grip_id: GripId
    role: str
    speaker: str
    event_id: EventId


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: the exact words and the grips that cite them."""

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
    #: The score's parts by name.
    parts: tuple[tuple[str, float], ...] = ()
    event_id: str = ""
    #: What was found: a node of this level, or the grip with this id in it.
    level: str = TocLevel.SEGMENT
    grip_id: str = ""
    #: The index's own score, BM25 or cosine similarity; None without an index.
    raw: float | None = None
    keywords: tuple[str, ...] = ()
    #: Cosine similarity to the query, 0..1; 0 if it was not computed.
    similarity: float = 0.0
    #: Whether it is outside the requested time, and shown because nothing is inside.
    outside: bool = False
    #: The `MemoryKind` of the words found; "" for an observation.
    kind: str = ""
    #: Salience of the node, 0..1; 0 without one.
    salience: float = 0.0
    #: Whether the node or one of the grips is pinned.
    pinned: bool = False
    #: The grip of the statement that replaced it.
    superseded_by: str = ""
    #: The reason it was superseded, if given.
    why_superseded: str = ""
    #: What the repository says since of the code that it is about.
    since: str = ""
    #: How well it answers: "exact", "close" or "loose"; "" if that was not judged.
    fit: str = ""
    #: How many hits say the same, this one included, and the time of the last of them, UTC milliseconds; 0 for none.
    times: int = 1
    last: int = 0
    #: Messages that are shown with it.
    asides: tuple[Aside, ...] = ()
    #: Whether it only asks: it is no evidence, and listed after what is.
    asks: bool = False


def pending_hit(event: Event, grip: GripId, quote: str, score: float) -> Hit:
    """Return a hit for an event that has no node yet.

    Its node id is "". `grip` cites `quote`, `score` is 0..1.
    """
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
        kind=note_kind(event),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One step through the tree, with its reason."""

    node_id: NodeId
    label: str
    searched: int
    searched_level: str
    matched: str
    score: float
    decision: str


#: What is reported where there are topics and none is about the query.
NO_TOPIC = "no topic fits"


@dataclass(frozen=True, slots=True)
class Theme:
    """A topic in an answer, with a statement that shows it."""

    topic_id: TopicId
    label: str
    #: The topics of an area, then keywords.
    about: tuple[str, ...]
    #: Number of its segments in the query's time and scope.
    segments: int
    #: Time of the first and the last of them, UTC milliseconds.
    first_ms: int
    last_ms: int
    #: A statement of one of its segments, verbatim, with its grip; "" for none.
    quote: str
    grip_id: GripId


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """Hits, best first, and the steps that led to them."""

    hits: tuple[Hit, ...]
    path: tuple[Step, ...] = ()
    #: The window the hits were filtered by, and the words it was read from.
    window: TimeWindow | None = None
    window_words: str = ""
    #: Messages on what was widened, left out or cut short.
    notices: tuple[str, ...] = ()
    #: Topics, the most important first; only from the topics layer.
    themes: tuple[Theme, ...] = ()
    #: Whether its index lacks something of the query's time: what is left out by age, or not taken in yet.
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class WordWeights:
    """A query's terms with their frequencies in a scope."""

    #: Inverse document frequencies.
    weights: Mapping[str, float]
    #: Number of segments of the scope that hold each term.
    counts: Mapping[str, int]
    #: Number of segments and of events in the scope.
    segments: int
    events: int = 0

    def share_of(self, terms: Collection[str]) -> float:
        """Return the share of the query's weight that `terms` hold, 0..1."""
        total = sum(self.weights.values())
        return sum(self.weights[t] for t in self.weights.keys() & terms) / total if total else 0.0


class Words(Protocol):
    """Tells how frequent words are; needs no index."""

    def weigh_words(self, text: str, project: str | None) -> WordWeights:
        """Return the terms of a text with their weights in a project."""
        ...

    def find_missing(self, words: Sequence[str], project: str | None) -> tuple[str, ...]:
        """Return the words that occur nowhere in a project, in no form.

        Of a run of CJK characters the stretches that do. Events that have no segment yet count.
        """
        ...

    def absent_from(self, text_terms: Set[str], words: Sequence[str]) -> tuple[str, ...]:
        """Return the words that a text with these terms holds in no form."""
        ...

    def projects_with(self, word: str) -> tuple[str, ...]:
        """Return the projects whose segments hold a word in some form, sorted."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """An expected result: its ids, scope and time."""

    id: str
    ids: frozenset[str]
    project: str
    agent: str
    timestamp: int
    #: Whether it is a period, which mixes projects and agents and has no single time.
    is_period: bool = False
    #: For a period: times whose overview may list it.
    listed_in: tuple[TimeWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """Hits of some stretches of events, and the number of events compared."""

    hits: tuple[Hit, ...]
    events: int


class Scanner(Protocol):
    """Searches events by slices of time; needs no index."""

    def read_named(self, query: Query, words: Sequence[str], settles: Callable[[Hit], bool] = ..., /) -> Slice | None:
        """Return what `read_slice` would, from segments known to hold the words.

        None if all must be read. A literal text may occur inside words, so finding some of its segments is enough. A hit that
        surely does not ask and `settles` is returned alone.
        """
        ...

    def read_at_once(self, query: Query, words: Sequence[str]) -> Slice | None:
        """Return what `read_named` would, or else what all slices come to; None if that may take reading every text."""
        ...

    def list_slices(self, query: Query) -> list[tuple[TimeWindow, int]]:
        """Return the query's time, cut at weeks, newest first, and how many events each has."""
        ...

    def read_slice(self, query: Query, words: Sequence[str]) -> tuple[Hit, ...]:
        """Return the newest events that hold all of `words`; case and white space do not matter."""
        ...


class Layer(Protocol):
    """A retrieval layer."""

    name: LayerName

    def status(self) -> LayerStatus:
        """Return whether the layer can be used; never raises."""
        ...

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        """Return at most `query.limit` hits, best first.

        Raises LayerUnavailable when it cannot be used.
        """
        ...


#: Characters that a recorded question may have besides its words.
_SLACK = 20
#: Milliseconds within which a message of the same words is taken for the question being asked.
_JUST_ASKED = 600_000


def is_echo(question: str, hit: Hit, now_ms: int) -> bool:
    """Return whether a hit only repeats the question.

    Only if either ends with a question mark, or a user said it within ten minutes of `now_ms` (UTC milliseconds).
    """
    # Longer by a half it says something else; taking texts apart for nothing cost 9 ms of an answer (measured).
    alike = 2 * len(hit.quote) <= 3 * len(question) + _SLACK
    if not (alike and _letters_only(hit.quote) == _letters_only(question)):
        return False
    # A statement that is looked for word for word is what answers, unless it is what was just typed.
    fresh = hit.role == Role.USER and abs(now_ms - hit.timestamp) <= _JUST_ASKED
    return fresh or any(text.rstrip().endswith(QUESTION_MARKS) for text in (hit.quote, question))


@lru_cache(maxsize=256)
def _letters_only(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
