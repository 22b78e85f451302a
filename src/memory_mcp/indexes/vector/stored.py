"""The files of one table's rows: distinct vectors, and each document's row.

    <table>.rows.npys     distinct int8 rows, `(n, dimensions)`, in order of their first document; in large tables of improved
                          shards in its place:
    <table>.usearch       the same in a usearch index with a graph over them. Earlier versions wrote one for every table, with
                          44 bytes a row for a graph that nothing asked; it is read as before
    <table>.texts.npys    row and text digest of each document; 1 / length of each row; with a graph the documents by row,
                          and the least similarity at which it is used

In coding sessions a quarter of the grips repeat the words of another.
"""

from pathlib import Path

import numpy as np

from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import Array, FolderContents, write_arrays
from memory_mcp.indexes.vector import graph
from memory_mcp.indexes.vector.rows import VectorRows

_CODES = "codes"
_NAMES = ("digests", "first", "inverse", "least", "order", "place")


def files_of(table: DocType) -> tuple[str, str, str]:
    """Return the names of a table's files: its usearch index or its rows, of which one is there, and its texts."""
    return f"{table.value}.usearch", f"{table.value}.rows.npys", f"{table.value}.texts.npys"


def write_rows(rows: VectorRows, directory: Path, table: DocType, graph_from: int | None) -> None:
    """Write a table, with a graph from `graph_from` rows."""
    codes, inverse, row_numbers = _distinct_rows(rows)
    index, plain_rows, texts = files_of(table)
    least_array = np.zeros(0, dtype=np.float32)
    order = first = np.zeros(0, dtype=np.int32)
    if graph_from is not None and len(codes) >= graph_from:
        least_array = np.array([graph.save_index(codes, directory / index)], dtype=np.float32)
        order = np.argsort(row_numbers, kind="stable").astype(np.int32)
        first = np.searchsorted(row_numbers[order], np.arange(len(codes) + 1)).astype(np.int32)
    else:
        write_arrays(directory / plain_rows, {_CODES: codes})
    arrays = (rows.digests, first, inverse, least_array, order, row_numbers)
    write_arrays(directory / texts, dict(zip(_NAMES, arrays, strict=True)))


def read_rows(contents: FolderContents, table: DocType, dimensions: int) -> VectorRows:
    """Return what `write_rows` wrote; raises IndexUnreadable if damaged."""
    index, plain_rows, texts = files_of(table)
    arrays = contents.read_arrays(texts, _NAMES)
    near = None
    try:
        if plain_rows in contents:
            codes = contents.read_arrays(plain_rows, (_CODES,))[_CODES]
            if codes.dtype != np.int8 or codes.shape[1:] != (dimensions,):
                raise ValueError("its rows are of another shape")
        else:
            data = contents.bytes_of(index)
            codes = graph.rows_of(data, dimensions)
            if len(arrays["least"]):
                near = graph.Graph.open_view(data, dimensions, float(arrays["least"][0]), arrays["order"], arrays["first"])
        rows = VectorRows(codes, arrays["inverse"], arrays["place"], arrays["digests"], near)
    except (ValueError, RuntimeError, KeyError) as error:
        raise IndexUnreadable(f"the {table.value} vectors of the index cannot be used: {error}") from error
    row_numbers = rows.row_of
    if (
        len(codes) != len(rows.inverse)
        or len(row_numbers) != len(rows.digests)
        or (len(row_numbers) and row_numbers.max() >= len(codes))
    ):
        raise IndexUnreadable("the vectors of the index contradict each other")
    return rows


def _distinct_rows(rows: VectorRows) -> tuple[Array, Array, Array]:
    if not len(rows):
        return rows.codes[:0], rows.inverse[:0], rows.row_of.astype(np.int32)
    row_bytes = np.ascontiguousarray(rows.codes).view(np.dtype((np.void, rows.codes.shape[1]))).ravel()
    _, row, back = np.unique(row_bytes, return_index=True, return_inverse=True)
    had, document, row_numbers = np.unique(back[rows.row_of], return_index=True, return_inverse=True)
    order = np.argsort(document)
    rank = np.empty(len(had), dtype=np.int32)
    rank[order] = np.arange(len(had), dtype=np.int32)
    chosen = row[had[order]]
    return rows.codes[chosen], rows.inverse[chosen], rank[row_numbers]
