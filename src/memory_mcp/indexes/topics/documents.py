"""A segment's node in, what topics are made of out. Pure, so that child processes can do it."""

from dataclasses import dataclass
from zlib import crc32

from memory_mcp.indexes.document import gist_of, subject
from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.summarize.titles import SEPARATOR
from memory_mcp.summarize.vocabulary import words

#: Words that weigh no more say nothing.
_QUIET = 0.15


@dataclass(frozen=True, slots=True)
class Document:
    """A segment as topics see it: its node's words, and what they are filtered and weighed by."""

    node_id: NodeId
    start_ms: int
    end_ms: int
    project: str
    session: str
    agents: tuple[str, ...]
    events: int
    #: The title without its date and without the terms behind it.
    title: str
    bullets: tuple[str, ...]
    keywords: tuple[str, ...]
    #: What it is about, for its meaning: the text that the vector index embeds.
    gist: str

    def terms(self) -> set[int]:
        """Return what its title, bullets and keywords name, as 32-bit hashes."""
        return set(terms_of("\n".join((self.title, *self.bullets, *self.keywords))))


def hashed(key: str) -> int:
    """Return the 32-bit hash of a word's key."""
    return crc32(key.encode("utf-8", "surrogatepass"))


def terms_of(text: str) -> dict[int, float]:
    """Return the 32-bit hashes of the words of a text that say something, and how much each says (0..1)."""
    return {hashed(w.key): w.weight for w in words(text) if w.key and w.weight > _QUIET}


def document_of(node: TocNode, segment: Segment) -> Document:
    """Return the document of a segment and its node."""
    return Document(
        node_id=node.node_id,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        project=segment.project,
        session=segment.session_id,
        agents=node.agents,
        events=node.event_count,
        title=subject(node).partition(SEPARATOR)[0],
        bullets=tuple(b.text for b in node.bullets),
        keywords=node.keywords,
        gist=gist_of(node),
    )
