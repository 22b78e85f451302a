"""Segments in, the whole topic graph out: groups, which topic each is, what that is called. Pure; for a child process."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.base import Name
from memory_mcp.indexes.topics.documents import Document
from memory_mcp.indexes.topics.graph import Names
from memory_mcp.indexes.topics.grouping import groups
from memory_mcp.indexes.topics.identity import identified
from memory_mcp.indexes.topics.naming import names
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.reading import Doc, Texts
from memory_mcp.indexes.topics.rows import Rows, Tables
from memory_mcp.model.ids import TopicId, segment_key_of
from memory_mcp.model.topic import KnownTopic


@dataclass(frozen=True, slots=True)
class Made:
    """A graph that was made anew, and what is known of topics from now on."""

    rows: Rows
    tables: Tables
    names: tuple[Names, ...]
    known: tuple[KnownTopic, ...]


def made_of(documents: Sequence[Document], vectors: Array, known: Sequence[KnownTopic], at_ms: int) -> Made:
    """Group segments.

    Args:
        documents: All segments of the memory, each once.
        vectors: (n, dimensions) float32 rows of length 1 or 0; no dimensions where nothing is embedded.
        known: The topics there were.
        at_ms: Now, UTC milliseconds.

    """
    order = sorted(range(len(documents)), key=lambda n: segment_key_of(documents[n].node_id) or 0)
    documents, vectors = [documents[n] for n in order], vectors[order]
    tables = Tables()
    rows = tables.rows(documents, vectors)
    terms = [set(rows.terms[a:b].tolist()) for a, b in pairwise(rows.ptr.tolist())]
    number = groups(vectors if vectors.shape[1] else None, terms, _before(documents))
    count = int(number.max(initial=-1)) + 1
    rows = rows.with_topics(number, np.zeros(len(rows)))
    rows = rows.with_topics(number, Profiles.of(rows, count).relevance(rows))
    members = [rows.lo[rows.topic == place].tolist() for place in range(count)]
    told = identified(members, known, at_ms)
    return Made(rows, tables, tuple(_names(documents, rows, told.ids)), told.known)


def _before(documents: Sequence[Document]) -> list[int]:
    """Return the place of the segment before each in its session, -1 for the first."""
    latest: dict[tuple[str, str], int] = {}
    found = [-1] * len(documents)
    for place in sorted(range(len(documents)), key=lambda n: (documents[n].start_ms, n)):
        session = (documents[place].project, documents[place].session)
        found[place] = latest.get(session, -1)
        latest[session] = place
    return found


def _names(documents: Sequence[Document], rows: Rows, ids: Sequence[TopicId]) -> list[Names]:
    """Name every topic for those who see all, and for each project from what that project alone has of it."""
    texts = Texts([Doc(d.title, d.bullets, d.keywords) for d in documents])
    projects: dict[str, list[int]] = {}
    for place, document in enumerate(documents):
        projects.setdefault(document.project, []).append(place)
    whole = _scope(texts, rows, np.arange(len(documents)))
    by_project = {project: _scope(texts, rows, np.array(places)) for project, places in sorted(projects.items())}
    return [Names(name, whole[n], {p: own[n] for p, own in by_project.items() if n in own}) for n, name in enumerate(ids)]


def _scope(texts: Texts, rows: Rows, places: Array) -> dict[int, Name]:
    """Name the topics of some of the segments by these alone."""
    topic = rows.topic[places]
    there = sorted(set(topic[topic >= 0].tolist()))
    found = names(texts, [places[topic == t].tolist() for t in there], places[topic < 0].tolist())
    return dict(zip(there, found, strict=True))
