"""Place new and changed segments in the topics of a graph. Pure; nothing is grouped anew."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.base import Name
from memory_mcp.indexes.topics.documents import Document
from memory_mcp.indexes.topics.graph import TopicGraph
from memory_mcp.indexes.topics.rows import Rows
from memory_mcp.indexes.topics.tables import Tables
from memory_mcp.model.ids import NodeId, segment_key_of
from memory_mcp.model.topic import MAX_LABEL
from memory_mcp.tree.summarize.titles import make_headline

#: Keywords of a topic's name in a project that has its first segment of it.
_KEYWORDS = 8


def place_segments(graph: TopicGraph, documents: Sequence[Document], vectors: Array, changed: Collection[NodeId]) -> TopicGraph:
    """Return a graph with some segments replaced, each in the topic it fits best or in none; `graph` is not changed.

    A project that gets its first segment of a topic names it, and its area, after that segment. `documents` are those of
    `changed` that exist, the rows of `changed` are dropped; `vectors` are `(documents, dimensions)` float32 of length 1 or 0.
    """
    tables = Tables(graph.tables.projects, graph.tables.agents)
    changed_keys = np.array([segment_key_of(node) or 0 for node in changed], dtype=np.uint64)
    unchanged = graph.rows.select(np.flatnonzero(~np.isin(graph.rows.lo, changed_keys)))
    fresh = tables.rows(documents, vectors)
    fresh = fresh.with_topics(*graph.profiles().nearest(fresh))
    rows = Rows.merge([unchanged, fresh])
    names = list(graph.names)
    by_key = {segment_key_of(document.node_id): document for document in documents}
    for row in np.flatnonzero(fresh.topic >= 0).tolist():
        topic, project = int(fresh.topic[row]), tables.projects[int(fresh.project[row])]
        document = by_key[int(fresh.lo[row])]
        name = Name(make_headline(document.title, MAX_LABEL), document.keywords[:_KEYWORDS])
        for index in (topic, len(graph.area_of) + graph.area_of[topic]):
            if project not in names[index].by_project:
                names[index] = replace(names[index], by_project={**names[index].by_project, project: name})
    return replace(graph, rows=rows, tables=tables, names=tuple(names))
