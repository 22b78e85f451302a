"""The document of a segment for topics. Pure, so that child processes can use it."""

from dataclasses import dataclass
from zlib import crc32

from memory_mcp.indexes.document import gist_of, subject
from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.tree.summarize.titles import SEPARATOR
from memory_mcp.tree.summarize.vocabulary import cjk_pairs, has_cjk, read_words

#: Weight up to which words do not count, and weight of two characters of a script without blanks.
_QUIET, _PAIR = 0.15, 0.8


@dataclass(frozen=True, slots=True)
class Document:
    """What topics use of a segment: its node's words, and values for filters."""

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
    #: The text that the vector index embeds.
    gist: str

    def terms(self) -> set[int]:
        """Return the terms of title, bullets and keywords as 32-bit hashes, without words of little weight (see `terms_of`).

        None without bullets and keywords: such a title counts the segment's events.
        """
        if not self.bullets and not self.keywords:
            return set()
        return set(terms_of("\n".join((self.title, *self.bullets, *self.keywords))))


def hashed(key: str) -> int:
    """Return the 32-bit hash (CRC-32) of a word's key, the same in every process."""
    return crc32(key.encode("utf-8", "surrogatepass"))


def terms_of(text: str, least: float = _QUIET) -> dict[int, float]:
    """Return the terms of a text as 32-bit hashes, with their weights; words without a key or of up to `least` left out.

    Scripts without blanks have a term for every two characters.
    """
    counted = (word for word in read_words(text) if word.key and word.weight > least)
    weights = {hashed(word.key): word.weight for word in counted if not has_cjk(word.key)}
    return weights | dict.fromkeys(map(hashed, cjk_pairs(text)), _PAIR)


def spaced_terms_of(text: str) -> dict[int, float]:
    """Return the terms of a text as `terms_of` does, without those in scripts that put no blanks between words.

    Two characters side by side may belong to two words, and be missing from a memory that holds both.
    """
    counted = (word for word in read_words(text) if word.key and word.weight > _QUIET)
    return {hashed(word.key): word.weight for word in counted if not has_cjk(word.key)}


def document_of(node: TocNode, segment: Segment) -> Document:
    """Return what topics use of a segment, from its record and its node; `title` is without date and without terms behind it."""
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
