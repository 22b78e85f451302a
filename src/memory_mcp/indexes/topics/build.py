"""Build the whole topic graph from segments: groups, their identities and names. Pure; runs in a child process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.areas import areas_of
from memory_mcp.indexes.topics.base import Name, Names
from memory_mcp.indexes.topics.documents import Document
from memory_mcp.indexes.topics.grouping import groups
from memory_mcp.indexes.topics.identity import match_topics
from memory_mcp.indexes.topics.naming import names
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.reading import Doc, Texts
from memory_mcp.indexes.topics.rows import Rows, by_area
from memory_mcp.indexes.topics.stored import Stored
from memory_mcp.indexes.topics.tables import Tables
from memory_mcp.model.ids import TopicId, segment_key_of
from memory_mcp.model.topic import TopicRecord


@dataclass(frozen=True, slots=True)
class Made:
    """A new graph, and the topic identities to store with it."""

    graph: Stored
    known: tuple[TopicRecord, ...]


def build_graph(
    documents: Sequence[Document], vectors: Array, former_topics: Sequence[TopicRecord], former_names: Sequence[Names], at_ms: int
) -> Made:
    """Group segments into topics and areas, identify and name these; nothing is stored. Rows are in order of segment keys.

    `documents` are all segments of the memory, each once; `vectors` `(n, dimensions)` float32 rows of length 1 or 0, with 0
    dimensions without an embedder; `former_topics` are topics and areas, `at_ms` is now, UTC milliseconds.
    """
    order = sorted(range(len(documents)), key=lambda n: segment_key_of(documents[n].node_id) or 0)
    documents, vectors = [documents[n] for n in order], vectors[order]
    tables = Tables()
    rows = tables.rows(documents, vectors)
    # The segment before each in its session (by start, in its project), -1 for the first.
    latest: dict[tuple[str, str], int] = {}
    previous = [-1] * len(documents)
    for row in sorted(range(len(documents)), key=lambda n: (documents[n].start_ms, n)):
        session = (documents[row].project, documents[row].session)
        previous[row] = latest.get(session, -1)
        latest[session] = row
    number = groups(rows, previous)
    count = int(number.max(initial=-1)) + 1
    rows = rows.with_topics(number, np.zeros(len(rows)))
    rows = rows.with_topics(number, Profiles.of(rows, count).relevance(rows))
    areas = areas_of(rows, count)
    area_rows = by_area(rows, areas)
    topics = match_topics(_members(rows, count), former_topics, at_ms)
    larger_topics = match_topics(_members(area_rows, int(areas.max(initial=-1)) + 1), topics.known, at_ms, areas=True)
    names = _names(documents, (rows, area_rows), (topics.ids, larger_topics.ids), {n.topic_id: n for n in former_names})
    return Made(Stored(rows, tables, names, tuple(areas.tolist())), larger_topics.known)


def _members(rows: Rows, count: int) -> list[list[int]]:
    """Return the keys of the segments of each of `count` topics, one list a topic, by index of the topic."""
    return [rows.lo[rows.topic == topic].tolist() for topic in range(count)]


def _names(
    documents: Sequence[Document],
    rows: tuple[Rows, Rows],
    ids: tuple[Sequence[TopicId], Sequence[TopicId]],
    former_names: Mapping[TopicId, Names],
) -> tuple[Names, ...]:
    """Name topics and areas for viewers of all projects, and for each project from its own segments; topics first.

    `rows` are those with topics and those with areas as topics, `ids` the ids of topics and of areas. The only project of a
    memory has the names of viewers of all.
    """
    texts = Texts([Doc(d.title, d.bullets, d.keywords) for d in documents])
    projects: dict[str, list[int]] = {}
    for row, document in enumerate(documents):
        projects.setdefault(document.project, []).append(row)
    former = [{n: former_names[topic] for n, topic in enumerate(level_ids) if topic in former_names} for level_ids in ids]

    def scope(scope_rows: Array, project: str | None) -> list[dict[int, Name]]:
        """Return the names of the topics, and of the areas, that some segments have, by index; `scope_rows` are rows, `(n,)`.

        All labels are distinct; `project` None is the scope of all.
        """
        labels = [{n: name.label for n, names in level.items() if (name := names.by_scope.get(project))} for level in former]
        topics, areas = (level.topic[scope_rows] for level in rows)
        area_names = _level(texts, areas, scope_rows, (), labels[1])
        return [_level(texts, topics, scope_rows, [name.label for name in area_names.values()], labels[0]), area_names]

    everywhere = scope(np.arange(len(documents)), None)
    by_project: dict[str, list[dict[int, Name]]] = {}
    for project, scope_rows in sorted(projects.items()):
        by_project[project] = scope(np.array(scope_rows), project) if len(projects) > 1 else everywhere
    return tuple(
        Names(topic, everywhere[level][n], {p: levels[level][n] for p, levels in by_project.items() if n in levels[level]})
        for level in (0, 1)
        for n, topic in enumerate(ids[level])
    )


def _level(
    texts: Texts, topic: Array, scope_rows: Array, used_labels: Sequence[str], former_labels: Mapping[int, str]
) -> dict[int, Name]:
    """Return the name of each topic that occurs in `topic`, by index.

    `topic` is that of each of the segments `scope_rows`, both `(n,)`, -1 for none; labels in `used_labels` are
    not given; `former_labels` are by topic.
    """
    topics = sorted(set(topic[topic >= 0].tolist()))
    segments = [scope_rows[topic == t].tolist() for t in topics]
    names_found = names(texts, segments, scope_rows[topic < 0].tolist(), used_labels, [former_labels.get(t, "") for t in topics])
    return dict(zip(topics, names_found, strict=True))
