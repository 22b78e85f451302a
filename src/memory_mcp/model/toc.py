"""TocNode: a node of the time tree, its bullets and the grips that cite their sources."""

from dataclasses import field
from enum import StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import GripId, NodeId


class MemoryKind(StrEnum):
    """The kind of a statement. On disk: do not change."""

    PROCEDURE = "procedure"
    DECISION = "decision"
    CONSTRAINT = "constraint"
    DEFINITION = "definition"
    PREFERENCE = "preference"
    OBSERVATION = "observation"


#: Salience by kind, highest first (cognitive-architecture.md, ranking policy; it has no decisions, which people ask for most).
KIND_SALIENCE = {
    MemoryKind.PROCEDURE: 1.0,
    MemoryKind.DECISION: 0.95,
    MemoryKind.CONSTRAINT: 0.9,
    MemoryKind.DEFINITION: 0.8,
    MemoryKind.PREFERENCE: 0.7,
    MemoryKind.OBSERVATION: 0.5,
}
#: Salience of a segment in which nothing but requests was said, and of a period of such: they tell nothing of other periods.
#: Below every other; 0 is that of a node without one. On disk.
REQUESTS_SALIENCE = 0.001

#: Authors of texts: the default summarizer, an agent, and the prefix of the name of a language model.
EXTRACTIVE, AGENT, LLM = "extractive", "agent", "llm:"


def make_llm_author(model: str, written_from: str) -> str:
    """Return a model's author text: "llm:<model>#<written_from>".

    `written_from` is the digest of what the text was written from.
    """
    return f"{LLM}{model}#{written_from}"


def author_digest(author: str) -> str:
    """Return the digest in a language model's author, or ""."""
    return author.rpartition("#")[2] if author.startswith(LLM) else ""


def make_agent_author(count: int, bullets: int) -> str:
    """Return the author of a text whose first bullets are an agent's.

    "agent#<count>", or "agent" if all of them are.
    """
    return AGENT if count == bullets else f"{AGENT}#{count}"


def count_author_bullets(author: str, bullets: int) -> int:
    """Return how many bullets, from the first, are the author's own."""
    return int(author.partition("#")[2]) if author.startswith(f"{AGENT}#") else bullets


def is_by_agent(author: str) -> bool:
    """Return whether an agent wrote a text or its first bullets."""
    return author == AGENT or author.startswith(f"{AGENT}#")


def display_author(author: str) -> str:
    """Return an author as readers see it; "" for the extractive summarizer."""
    return "" if author == EXTRACTIVE else author.rpartition("#")[0] if author.startswith((LLM, f"{AGENT}#")) else author


@dataclass(frozen=True, slots=True)
class TocBullet:
    """One statement of a node, with the grips that prove it."""

    text: str
    grip_ids: tuple[GripId, ...]
    kind: MemoryKind = MemoryKind.OBSERVATION
    project: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class TocNode:
    """One node as stored.

    Times are UTC milliseconds; a period's end is exclusive, a segment's is its last event.
    """

    node_id: NodeId
    level: TocLevel
    start_ms: int
    end_ms: int
    title: str
    summary: str
    bullets: tuple[TocBullet, ...]
    keywords: tuple[str, ...]
    version: int = 1
    kind: MemoryKind = MemoryKind.OBSERVATION
    salience: float = 0.0
    pinned: bool = False
    session_count: int = 0
    event_count: int = 0
    agents: tuple[str, ...] = field(default=())
    projects: tuple[str, ...] = field(default=())
    #: Who wrote the text: extractive, agent after refine_summary, or a language model (`make_llm_author`).
    author: str = EXTRACTIVE
    #: Number of the build that published this version; a parent's is never below its children's.
    built: int = 0

    @property
    def holds_requests(self) -> bool:
        """Whether only requests were said here (see `REQUESTS_SALIENCE`)."""
        return 0.0 < self.salience <= 1.5 * REQUESTS_SALIENCE

    @property
    def author_bullets(self) -> tuple[TocBullet, ...]:
        """The bullets that the author wrote, which come first."""
        return self.bullets[: count_author_bullets(self.author, len(self.bullets))]
