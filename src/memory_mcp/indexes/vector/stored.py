"""The rows of one table of a part as files: a usearch index of its distinct vectors, and which document has which.

    <table>.usearch       distinct int8 rows in the order in which documents first have them, then a graph over them: one
                          worth asking in large tables of parts that were improved, else the least that usearch writes
    <table>.texts.npys    of each document its row and its text's digest; of each row one over its length; with a graph
                          the documents by row, and how far it may be believed

In a history of coding sessions a quarter of the grips repeat the words of another.
"""

from pathlib import Path

import numpy as np

from memory_mcp.errors import IndexUnreadable
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import Array, Contents, write_arrays
from memory_mcp.indexes.vector import graph
from memory_mcp.indexes.vector.rows import Rows

_NAMES = ("digests", "first", "inverse", "least", "order", "place")


def files_of(table: DocType) -> tuple[str, str]:
    """Return the names of a table's files: the index, and what lies beside it."""
    return f"{table.value}.usearch", f"{table.value}.texts.npys"


def write(rows: Rows, directory: Path, table: DocType, graph_from: int | None) -> None:
    """Write a table's files, with a graph where there are at least `graph_from` distinct rows (None: never).

    OSError when they cannot be written.
    """
    codes, inverse, place = _distinct(rows)
    index, texts = files_of(table)
    with_graph = graph_from is not None and len(codes) >= graph_from
    least = graph.save(codes, directory / index, with_graph)
    arrays = {"digests": rows.digests, "inverse": inverse, "place": place, **_by_row(place, len(codes), least)}
    write_arrays(directory / texts, arrays)


def read(contents: Contents, table: DocType, dimensions: int) -> Rows:
    """Return what `write` wrote, mapped; IndexUnreadable when it is something else."""
    index, texts = files_of(table)
    data, held = contents.bytes_of(index), contents.arrays(texts, _NAMES)
    try:
        codes = graph.rows_of(data, dimensions)
        found = Rows(codes, held["inverse"], held["place"], held["digests"], _graph(data, held, dimensions))
    except (ValueError, RuntimeError, KeyError) as error:
        raise IndexUnreadable(f"{index} of the index cannot be used: {error}") from error
    place = found.place
    if len(codes) != len(found.inverse) or len(place) != len(found.digests) or (len(place) and place.max() >= len(codes)):
        raise IndexUnreadable("the vectors of the index contradict each other")
    return found


def _graph(data: memoryview, held: dict[str, Array], dimensions: int) -> graph.Graph | None:
    if not len(held["least"]):
        return None
    return graph.Graph.viewed(data, dimensions, float(held["least"][0]), held["order"], held["first"])


def _distinct(rows: Rows) -> tuple[Array, Array, Array]:
    """Distinct codes in the order of the documents, one over their lengths, and the row of each document (int32)."""
    if not len(rows):
        return rows.codes[:0], rows.inverse[:0], rows.place.astype(np.int32)
    whole = np.ascontiguousarray(rows.codes).view(np.dtype((np.void, rows.codes.shape[1]))).ravel()
    _, row, back = np.unique(whole, return_index=True, return_inverse=True)
    had, document, place = np.unique(back[rows.place], return_index=True, return_inverse=True)
    order = np.argsort(document)
    rank = np.empty(len(had), dtype=np.int32)
    rank[order] = np.arange(len(had), dtype=np.int32)
    chosen = row[had[order]]
    return rows.codes[chosen], rows.inverse[chosen], rank[place]


def _by_row(place: Array, count: int, least: float | None) -> dict[str, Array]:
    if least is None:
        return {"least": np.zeros(0, dtype=np.float32), **dict.fromkeys(("order", "first"), np.zeros(0, dtype=np.int32))}
    order = np.argsort(place, kind="stable").astype(np.int32)
    first = np.searchsorted(place[order], np.arange(count + 1)).astype(np.int32)
    return {"least": np.array([least], dtype=np.float32), "order": order, "first": first}
