"""The document of a segment for topics, and documents as rows. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar
from zlib import crc32

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.document import gist_of, subject_of
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keys import node_doc
from memory_mcp.indexes.topics.rows import Rows
from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.tree.summarize.titles import SEPARATOR
from memory_mcp.tree.summarize.vocabulary import cjk_pairs, has_cjk, read_words

T = TypeVar("T")

#: Weight up to which words do not count, and weight of two characters of a script without blanks.
_QUIET, _PAIR = 0.15, 0.8


@dataclass(frozen=True, slots=True)
class Document:
    """What topics use of a segment: its words, and values for filters."""

    node_id: NodeId
    start_ms: int
    end_ms: int
    project: str
    session: str
    agents: tuple[str, ...]
    events: int
    #: The title without its date and without the terms after it.
    title: str
    bullets: tuple[str, ...]
    keywords: tuple[str, ...]
    #: The text that the vector index embeds.
    gist: str

    def term_hashes(self) -> set[int]:
        """Return terms of title, bullets and keywords as 32-bit hashes.

        None without bullets and keywords: such a title counts the segment's events.
        """
        if not self.bullets and not self.keywords:
            return set()
        return set(terms_of("\n".join((self.title, *self.bullets, *self.keywords))))


def hash_term(key: str) -> int:
    """Return the 32-bit hash of a word's key, the same in every process."""
    return crc32(key.encode("utf-8", "surrogatepass"))


def terms_of(text: str, least: float = _QUIET) -> dict[int, float]:
    """Return a text's terms as 32-bit hashes, with weights above `least`.

    Scripts without blanks have a term for every two characters.
    """
    counted = (word for word in read_words(text) if word.key and word.weight > least)
    weights = {hash_term(word.key): word.weight for word in counted if not has_cjk(word.key)}
    return weights | dict.fromkeys(map(hash_term, cjk_pairs(text)), _PAIR)


def spaced_terms_of(text: str) -> dict[int, float]:
    """Return `terms_of` a text without scripts that have no blanks.

    Two adjacent characters may belong to two words, and be missing from a memory that holds both.
    """
    counted = (word for word in read_words(text) if word.key and word.weight > _QUIET)
    return {hash_term(word.key): word.weight for word in counted if not has_cjk(word.key)}


def document_of(node: TocNode, segment: Segment) -> Document:
    """Return what topics use of a segment, from its record and node."""
    return Document(
        node_id=node.node_id,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        project=segment.project,
        session=segment.session_id,
        agents=node.agents,
        events=node.event_count,
        title=subject_of(node).partition(SEPARATOR)[0],
        bullets=tuple(b.text for b in node.bullets),
        keywords=node.keywords,
        gist=gist_of(node),
    )


class NameTables:
    """Names of projects and sets of agents by index."""

    def __init__(self, projects: Iterable[str] = (), agents: Iterable[Sequence[str]] = ()) -> None:
        self.projects = list(projects)
        self.agents = [tuple(names) for names in agents]

    def build_rows(self, documents: Sequence[Document], vectors: Array) -> Rows:
        """Return documents as rows in order of their keys, without a topic.

        `vectors` are `(n, dimensions)` rows of length 1 or 0. New names are added to the tables.
        """
        keys = [node_doc(d.node_id) for d in documents]
        rows = replace(
            Rows.of_terms([d.term_hashes() for d in documents], vectors),
            hi=np.array([k[0] for k in keys], dtype=np.uint64),
            lo=np.array([k[1] for k in keys], dtype=np.uint64),
            start=np.array([d.start_ms for d in documents], dtype=np.int64),
            end=np.array([d.end_ms for d in documents], dtype=np.int64),
            project=np.array([_index_of(self.projects, d.project) for d in documents], dtype=np.int32),
            agents=np.array([_index_of(self.agents, tuple(d.agents)) for d in documents], dtype=np.int32),
            events=np.array([d.events for d in documents], dtype=np.int32),
        )
        return Rows.merge([rows])


def _index_of(names: list[T], name: T) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)
