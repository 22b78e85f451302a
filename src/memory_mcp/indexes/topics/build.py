"""Build the topic graph from segments: groups, areas, identities, names. Pure.

Change here: which areas an overview tells of.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.base import TopicName, TopicNames
from memory_mcp.indexes.topics.communities import Resolution, find_communities
from memory_mcp.indexes.topics.documents import Document, NameTables
from memory_mcp.indexes.topics.grouping import group_segments
from memory_mcp.indexes.topics.identity import match_topics
from memory_mcp.indexes.topics.naming import name_topics
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.reading import SegmentText, TextUnits
from memory_mcp.indexes.topics.rows import Rows, by_area
from memory_mcp.indexes.topics.stored import StoredGraph
from memory_mcp.model.ids import TopicId, segment_key_of
from memory_mcp.model.topic import TopicRecord


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """A new graph, and the topic identities to store with it."""

    graph: StoredGraph
    records: tuple[TopicRecord, ...]


def build_graph(
    documents: Sequence[Document],
    vectors: Array,
    former_topics: Sequence[TopicRecord],
    former_names: Sequence[TopicNames],
    at_ms: int,
) -> BuiltGraph:
    """Group segments into topics and areas, and name these; nothing is stored.

    `documents` are all segments of the memory, each once; `vectors` `(n, dimensions)` float32 rows of length 1 or
    0, with 0 dimensions without an embedder; `former_topics` are topics and areas, `at_ms` is now, UTC
    milliseconds.
    """
    order = sorted(range(len(documents)), key=lambda n: segment_key_of(documents[n].node_id) or 0)
    documents, vectors = [documents[n] for n in order], vectors[order]
    tables = NameTables()
    rows = tables.build_rows(documents, vectors)
    # The segment before each in its session (by start, in its project), -1 for the first.
    latest: dict[tuple[str, str], int] = {}
    previous = [-1] * len(documents)
    for row in sorted(range(len(documents)), key=lambda n: (documents[n].start_ms, n)):
        session = (documents[row].project, documents[row].session)
        previous[row] = latest.get(session, -1)
        latest[session] = row
    number = group_segments(rows, previous)
    count = int(number.max(initial=-1)) + 1
    rows = rows.with_topics(number, np.zeros(len(rows)))
    rows = rows.with_topics(number, Profiles.from_rows(rows, count).compute_relevance(rows))
    areas = areas_of(rows, count)
    area_rows = by_area(rows, areas)
    topics = match_topics(_keys_by_topic(rows, count), former_topics, at_ms)
    larger_topics = match_topics(_keys_by_topic(area_rows, int(areas.max(initial=-1)) + 1), topics.records, at_ms, areas=True)
    names = _name_topics(documents, (rows, area_rows), (topics.ids, larger_topics.ids), {n.topic_id: n for n in former_names})
    return BuiltGraph(StoredGraph(rows, tables, names, tuple(areas.tolist())), larger_topics.records)


def _keys_by_topic(rows: Rows, count: int) -> list[list[int]]:
    return [rows.lo[rows.topic == topic].tolist() for topic in range(count)]


def _name_topics(
    documents: Sequence[Document],
    rows: tuple[Rows, Rows],
    ids: tuple[Sequence[TopicId], Sequence[TopicId]],
    former_names: Mapping[TopicId, TopicNames],
) -> tuple[TopicNames, ...]:
    texts = TextUnits([SegmentText(d.title, d.bullets, d.keywords) for d in documents])
    projects: dict[str, list[int]] = {}
    for row, document in enumerate(documents):
        projects.setdefault(document.project, []).append(row)
    former = [{n: former_names[topic] for n, topic in enumerate(level_ids) if topic in former_names} for level_ids in ids]

    def scope(scope_rows: Array, project: str | None) -> list[dict[int, TopicName]]:
        labels = [{n: name.label for n, names in level.items() if (name := names.by_scope.get(project))} for level in former]
        topics, areas = (level.topic[scope_rows] for level in rows)
        area_names = _name_level(texts, areas, scope_rows, (), labels[1])
        return [_name_level(texts, topics, scope_rows, [name.label for name in area_names.values()], labels[0]), area_names]

    everywhere = scope(np.arange(len(documents)), None)
    by_project: dict[str, list[dict[int, TopicName]]] = {}
    for project, scope_rows in sorted(projects.items()):
        by_project[project] = scope(np.array(scope_rows), project) if len(projects) > 1 else everywhere
    return tuple(
        TopicNames(topic, everywhere[level][n], {p: levels[level][n] for p, levels in by_project.items() if n in levels[level]})
        for level in (0, 1)
        for n, topic in enumerate(ids[level])
    )


def _name_level(
    texts: TextUnits, topic: Array, scope_rows: Array, used_labels: Sequence[str], former_labels: Mapping[int, str]
) -> dict[int, TopicName]:
    """Labels in `used_labels` are not given."""
    topics = sorted(set(topic[topic >= 0].tolist()))
    segments = [scope_rows[topic == t].tolist() for t in topics]
    names_found = name_topics(
        texts, segments, scope_rows[topic < 0].tolist(), used_labels, [former_labels.get(t, "") for t in topics]
    )
    return dict(zip(topics, names_found, strict=True))


#: Topics that each topic is linked to, besides those that are linked to it.
_NEIGHBOURS = 8
#: Resolution of modularity: 8 to 16 areas of 50 to 200 topics. Ten areas name 76 % of what a reader named in coding sessions
#: and 45 % in phone records, ten topics 40 and 17 %. It grows with the topics from 200 on, so that the areas of one part of the
#: memory do not melt because others are added.
_FINENESS, _TOPICS = 3.0, 200


def areas_of(rows: Rows, count: int) -> Array:
    """Return the area of each of `count` topics, numbered by size.

    Each topic is linked to the 8 most similar; a topic similar to none is an area of its own.
    """
    if not count:
        return np.zeros(0, dtype=np.int32)
    similarity = Profiles.from_rows(rows, count).compute_similarities()
    np.fill_diagonal(similarity, 0)
    links: list[dict[int, float]] = [{} for _ in range(count)]
    for topic, neighbours in enumerate(np.argsort(-similarity, axis=1, kind="stable")[:, :_NEIGHBOURS].tolist()):
        for neighbour in neighbours:
            if similarity[topic, neighbour] > 0:
                links[topic][neighbour] = links[neighbour][topic] = float(similarity[topic, neighbour])
    resolution = Resolution(np.zeros(count, dtype=np.int64), np.array([_FINENESS * max(1.0, count / _TOPICS)]))
    area = find_communities(resolution.scale_links(links), range(count))
    segment_counts = np.bincount(area, weights=np.bincount(rows.topic[rows.topic >= 0], minlength=count))
    rank = np.empty(len(segment_counts), dtype=np.int32)
    rank[np.lexsort((np.arange(len(segment_counts)), -segment_counts))] = np.arange(len(segment_counts))
    numbered: Array = rank[area]
    return numbered
