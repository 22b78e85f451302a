"""The child process that groups segments and writes a graph; it never opens the store."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.build import build_graph
from memory_mcp.indexes.topics.documents import Document
from memory_mcp.indexes.topics.stored import GroupingRequest, GroupingResult, GroupingSetup, write_graph


class GraphMaker:
    """Collects documents and embeds each batch."""

    def __init__(self, hello: GroupingSetup) -> None:
        self._directory = Path(hello.directory)
        self._embedder = Model2Vec(hello.model) if hello.model else None
        self._documents: list[Document] = []
        self._vectors: list[Array] = []

    def answer_request(self, request: object) -> object:
        """Add documents and return their number, or group all of them.

        The latter, for `GroupingRequest`, writes the graph and returns `GroupingResult`. Raises OSError.
        """
        if isinstance(request, GroupingRequest):
            vectors = np.concatenate(self._vectors) if self._vectors else np.zeros((0, 0), dtype=np.float32)
            graph = build_graph(self._documents, vectors, request.records, request.names, request.at_ms)
            return GroupingResult(write_graph(self._directory, graph.graph), graph.records)
        documents = cast("Sequence[Document]", request)
        self._documents += documents
        no_vectors = np.zeros((len(documents), 0), dtype=np.float32)
        self._vectors.append(self._embedder.embed([d.gist for d in documents]) if self._embedder else no_vectors)
        return len(documents)


def begin(hello: GroupingSetup) -> Callable[[object], object]:
    """Return the message handler."""
    return GraphMaker(hello).answer_request
