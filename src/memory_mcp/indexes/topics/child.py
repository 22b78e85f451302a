"""A child process that groups a memory's segments: documents in, a graph complete on disk out; it never sees the store."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from memory_mcp.children import answering
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.build import made_of
from memory_mcp.indexes.topics.documents import Document
from memory_mcp.indexes.topics.frames import Finish, Hello, Made
from memory_mcp.indexes.topics.stored import write


class Maker:
    """Collects documents and embeds them as they come."""

    def __init__(self, hello: Hello) -> None:
        self._directory = Path(hello.directory)
        self._embed = _embedding(hello.model)
        self._documents: list[Document] = []
        self._vectors: list[Array] = []

    def answer(self, request: object) -> object:
        """Documents to add, or the end of them."""
        if isinstance(request, Finish):
            vectors = np.concatenate(self._vectors) if self._vectors else np.zeros((0, 0), dtype=np.float32)
            made = made_of(self._documents, vectors, request.known, request.names, request.at_ms)
            return Made(write(self._directory, made.graph), made.known)
        documents = cast("Sequence[Document]", request)
        self._documents += documents
        self._vectors.append(self._embed([d.gist for d in documents]))
        return len(documents)


def _embedding(model: str) -> Callable[[Sequence[str]], Array]:
    if not model:
        return lambda texts: np.zeros((len(texts), 0), dtype=np.float32)
    from memory_mcp.embed.model2vec import Model2Vec

    return Model2Vec(model).embed


def _begin(hello: object) -> Callable[[object], object]:
    return Maker(cast("Hello", hello)).answer


if __name__ == "__main__":
    answering(_begin)
