"""Documents in, rows out: names of projects and agents become places in tables, which the rows are read with."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keys import node_doc
from memory_mcp.indexes.topics.documents import Document
from memory_mcp.indexes.topics.rows import Rows

T = TypeVar("T")


class Tables:
    """Names of projects and sets of agents by index."""

    def __init__(self, projects: Iterable[str] = (), agents: Iterable[Sequence[str]] = ()) -> None:
        """Start with these names; the index of a name is its place in them."""
        self.projects = list(projects)
        self.agents = [tuple(names) for names in agents]

    def rows(self, documents: Sequence[Document], vectors: Array) -> Rows:
        """Return documents, in any order, as rows in order of their keys, without a topic; new names are added to the tables.

        `vectors` are `(n, dimensions)` rows of length 1 or 0.
        """
        keys = [node_doc(d.node_id) for d in documents]
        rows = replace(
            Rows.of_terms([d.terms() for d in documents], vectors),
            hi=np.array([k[0] for k in keys], dtype=np.uint64),
            lo=np.array([k[1] for k in keys], dtype=np.uint64),
            start=np.array([d.start_ms for d in documents], dtype=np.int64),
            end=np.array([d.end_ms for d in documents], dtype=np.int64),
            project=np.array([_place(self.projects, d.project) for d in documents], dtype=np.int32),
            agents=np.array([_place(self.agents, tuple(d.agents)) for d in documents], dtype=np.int32),
            events=np.array([d.events for d in documents], dtype=np.int32),
        )
        return Rows.merge([rows])


def _place(names: list[T], name: T) -> int:
    """Return the index of a name in a list, which it is appended to if missing."""
    if name not in names:
        names.append(name)
    return names.index(name)
