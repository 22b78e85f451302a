"""The kinds of index that are made of shards."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memory_mcp.indexes.base import Searcher
from memory_mcp.indexes.shard import IndexKind

if TYPE_CHECKING:
    # Children make kinds alone: they need no keeper, and nothing of the store.
    from memory_mcp.indexes.keeper import Keeper


def _create_bm25(_: Mapping[str, Any]) -> IndexKind[Any]:
    from memory_mcp.indexes.bm25.kind import Bm25Kind

    return Bm25Kind()


def _create_vector(options: Mapping[str, Any]) -> IndexKind[Any]:
    """Raises LayerUnavailable when there is no such model."""
    from memory_mcp.indexes.vector.kind import open_kind

    return open_kind(options)


def _bm25_searcher(keeper: "Keeper") -> Searcher:
    """Raises ImportError without the engine."""
    from memory_mcp.indexes.bm25.index import Bm25Index

    return Bm25Index(keeper)


def _vector_searcher(keeper: "Keeper") -> Searcher:
    """Raises ImportError without the engine."""
    from memory_mcp.indexes.vector.index import VectorIndex

    return VectorIndex(keeper)


KINDS: dict[str, Callable[[Mapping[str, Any]], IndexKind[Any]]] = {"bm25": _create_bm25, "vector": _create_vector}
SEARCHERS: "dict[str, Callable[[Keeper], Searcher]]" = {"bm25": _bm25_searcher, "vector": _vector_searcher}
