"""Build the whole topic graph from segments: groups, their identities and names. Pure; runs in a child process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.areas import areas_of
from memory_mcp.indexes.topics.base import Name, Names
from memory_mcp.indexes.topics.documents import Document
from memory_mcp.indexes.topics.grouping import groups
from memory_mcp.indexes.topics.identity import identified
from memory_mcp.indexes.topics.naming import names
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.reading import Doc, Texts
from memory_mcp.indexes.topics.rows import Rows, by_area
from memory_mcp.indexes.topics.stored import Stored
from memory_mcp.indexes.topics.tables import Tables
from memory_mcp.model.ids import TopicId, segment_key_of
from memory_mcp.model.topic import KnownTopic


@dataclass(frozen=True, slots=True)
class Made:
    """A new graph, and the topic identities to store with it."""

    graph: Stored
    known: tuple[KnownTopic, ...]


def made_of(
    documents: Sequence[Document], vectors: Array, known: Sequence[KnownTopic], called: Sequence[Names], at_ms: int
) -> Made:
    """Group segments into topics and areas, identify and name these; nothing is stored. Rows are in order of segment keys.

    `documents` are all segments of the memory, each once; `vectors` `(n, dimensions)` float32 rows of length 1 or 0, with 0
    dimensions without an embedder; `known` the former topics and areas, `called` their names; `at_ms` now, UTC milliseconds.
    """
    order = sorted(range(len(documents)), key=lambda n: segment_key_of(documents[n].node_id) or 0)
    documents, vectors = [documents[n] for n in order], vectors[order]
    tables = Tables()
    rows = tables.rows(documents, vectors)
    # The segment before each in its session (by start, in its project), -1 for the first.
    latest: dict[tuple[str, str], int] = {}
    before = [-1] * len(documents)
    for place in sorted(range(len(documents)), key=lambda n: (documents[n].start_ms, n)):
        session = (documents[place].project, documents[place].session)
        before[place] = latest.get(session, -1)
        latest[session] = place
    number = groups(rows, before)
    count = int(number.max(initial=-1)) + 1
    rows = rows.with_topics(number, np.zeros(len(rows)))
    rows = rows.with_topics(number, Profiles.of(rows, count).relevance(rows))
    areas = areas_of(rows, count)
    whole = by_area(rows, areas)
    told = identified(_members(rows, count), known, at_ms)
    larger = identified(_members(whole, int(areas.max(initial=-1)) + 1), told.known, at_ms, areas=True)
    names = _names(documents, rows, whole, (told.ids, larger.ids), {n.topic_id: n for n in called})
    return Made(Stored(rows, tables, names, tuple(areas.tolist())), larger.known)


def _members(rows: Rows, count: int) -> list[list[int]]:
    """Return the keys of the segments of each of `count` topics, one list a topic, by index of the topic."""
    return [rows.lo[rows.topic == place].tolist() for place in range(count)]


def _names(
    documents: Sequence[Document],
    rows: Rows,
    whole: Rows,
    ids: tuple[Sequence[TopicId], Sequence[TopicId]],
    called: Mapping[TopicId, Names],
) -> tuple[Names, ...]:
    """Name topics and areas for viewers of all projects, and for each project from its own segments; topics first.

    `whole` are the rows with areas as topics, `ids` the ids of topics and of areas, `called` the former
    names. The only project of a memory has the names of viewers of all.
    """
    texts = Texts([Doc(d.title, d.bullets, d.keywords) for d in documents])
    projects: dict[str, list[int]] = {}
    for place, document in enumerate(documents):
        projects.setdefault(document.project, []).append(place)
    old = [{n: called[topic] for n, topic in enumerate(own) if topic in called} for own in ids]

    def scope(places: Array, project: str | None) -> list[dict[int, Name]]:
        """Return the names of the topics, and of the areas, that some segments have, by index; `places` are rows, `(n,)`.

        All labels are distinct; `project` None is the scope of all.
        """
        before = [{n: name.label for n, names in own.items() if (name := names.by_scope.get(project))} for own in old]
        large = _level(texts, whole.topic[places], places, (), before[1])
        small = _level(texts, rows.topic[places], places, [name.label for name in large.values()], before[0])
        return [small, large]

    everywhere = scope(np.arange(len(documents)), None)
    each: dict[str, list[dict[int, Name]]] = {}
    for project, places in sorted(projects.items()):
        each[project] = scope(np.array(places), project) if len(projects) > 1 else everywhere
    return tuple(
        Names(topic, everywhere[level][n], {p: own[level][n] for p, own in each.items() if n in own[level]})
        for level in (0, 1)
        for n, topic in enumerate(ids[level])
    )


def _level(texts: Texts, topic: Array, places: Array, taken: Sequence[str], before: Mapping[int, str]) -> dict[int, Name]:
    """Return the name of each topic that occurs in `topic`, by index.

    `topic` is that of each of the segments `places`, both `(n,)`, -1 for none; labels in `taken` are not
    given; `before` are former labels by topic.
    """
    there = sorted(set(topic[topic >= 0].tolist()))
    own = [places[topic == t].tolist() for t in there]
    found = names(texts, own, places[topic < 0].tolist(), taken, [before.get(t, "") for t in there])
    return dict(zip(there, found, strict=True))
