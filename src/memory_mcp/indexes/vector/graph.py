"""A usearch graph over the rows of a large table: finds near rows without comparing all.

Invariants
1. The rows of a graph are distinct. Many equal ones would be each other's only neighbours, which disconnects the graph.
2. usearch gets an explicit dtype and metric: its default depends on the processor.
3. Callers compare the found rows exactly, so that a score does not depend on how a row was found.
"""

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
from usearch.index import Index

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.columns import expand_ranges
from memory_mcp.indexes.files import Array

log = logging.getLogger(__name__)

#: Distinct rows from which a table gets a graph. For 248 real questions over the grips of recombined real sessions
#: (`bench.graph`), CPU of the exact scan (median) and of the graph (mean, including scans it falls back to): 0.35 and 0.75 ms
#: at 20,000 rows, 0.7 and 0.8 at 45,000, 1.7 and 1.6 at 100,000, 3.6 and 2.6 at 200,000, 7.1 and 3.0 at 363,000. They cross
#: near 80,000.
GRAPH_FROM = 100_000
#: Rows that a graph returns, and visits at least. It finds .990 of the ten most similar at 20,000 rows, .988 at 200,000 and
#: .983 at 363,000; with 256 too few. Fusion needs 360.
RETURNED_ROWS = 512
#: Parameters of a graph (0.1 to 0.3 ms and 148 bytes a row), and of an index that is only looked into.
_CONNECTIVITY, _EXPANSION_ADD = 16, 128
_NO_CONNECTIVITY, _NO_EXPANSION = 2, 1
#: A query is far from all rows if its tenth neighbour is this many times as far as the third quartile of rows' tenth
#: neighbours. Of 248 real questions over 100,000 rows one in eight is, and half of those where a graph misses rows.
_FAR, _TENTH = 2.2, 10
#: Rows sampled for that quartile.
_SAMPLE = 256
#: Rows added at a time, in a second of work, after which other threads run: one ends a child with its parent.
_SLICE = 4096


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph of one table, over mapped rows."""

    index: Any
    #: The memory that usearch reads; must be kept alive.
    data: memoryview
    #: Least similarity of the tenth row found; below it the query is too far from all rows for the graph to be right.
    least: float
    #: Documents grouped by row, `(documents,)` int32, and the first of each row, `(rows + 1,)` int32.
    order: Array
    first: Array
    #: Serializes searches: usearch has one context per processor, and fails beyond them.
    turn: threading.Lock

    def find_near(self, codes: Array) -> Array | None:
        """Return about 512 near documents; None to compare all.

        That is so if the query is far from all rows or the graph fails, which is logged. `codes` is `(dimensions,)`
        int8.
        """
        try:
            with self.turn:
                matches = self.index.search(codes, min(RETURNED_ROWS, len(self.index)), threads=1)
        except RuntimeError:
            log.exception("a graph of the vector index cannot be asked; search is exact")
            return None
        if len(matches) < _TENTH or 1 - matches.distances[_TENTH - 1] < self.least:
            return None
        rows = np.asarray(matches.keys).astype(np.int64)
        starts, counts = self.first[rows], self.first[rows + 1] - self.first[rows]
        return np.sort(self.order[expand_ranges(starts, counts)]).astype(np.int64)

    @classmethod
    def open_view(cls, data: memoryview, dimensions: int, least: float, order: Array, first: Array) -> "Graph":
        """Return the graph in a file that `save_index` wrote; raises RuntimeError."""
        index = _create_index(dimensions, _CONNECTIVITY, _EXPANSION_ADD, lookups=False)
        index.view(data)
        # A view does not keep the parameter of the constructor.
        index.expansion_search = RETURNED_ROWS
        return cls(index, data, least, order, first, threading.Lock())


def save_index(codes: Array, path: Path) -> float:
    """Write distinct rows as a usearch index with a graph, in order; not synced.

    `codes` are `(n, dimensions)` int8, some at least. Returns `Graph.least`, from up to 256 of its own rows. Raises OSError.
    """
    index = _create_index(codes.shape[1], _CONNECTIVITY, _EXPANSION_ADD)
    for start in range(0, len(codes), _SLICE):
        rows = codes[start : start + _SLICE]
        # One thread, so that rows keep their order; not copied, as they live until they are saved.
        index.add(np.arange(start, start + len(rows), dtype=np.uint64), rows, threads=1, copy=False)
    try:
        index.save(path)
    except RuntimeError as error:
        raise OSError(f"{path.name} of the index cannot be written: {error}") from error
    sample = codes[np.unique(np.linspace(0, len(codes) - 1, _SAMPLE).astype(np.int64))]
    tenth = [index.search(row, _TENTH + 1, threads=1).distances[-1] for row in sample]
    return float(1 - _FAR * np.quantile(tenth, 0.75))


def rows_of(data: memoryview, dimensions: int) -> Array:
    """Return the rows of a usearch file, mapped; raises ValueError.

    The file begins with their number and length, two uint32; the rows follow in order. usearch does not guarantee
    that: its metadata and some rows are compared.
    """
    metadata = Index.metadata(data) or {}
    index = _create_index(dimensions, _NO_CONNECTIVITY, _NO_EXPANSION)
    expected = (dimensions, index.dtype, index.metric_kind, 0)
    if (metadata["dimensions"], metadata["kind_scalar"], metadata["kind_metric"], metadata["count_deleted"]) != expected:
        raise ValueError("it is of another shape")
    count, width = np.frombuffer(data, dtype="<u4", count=2).tolist()
    if (count, width) != (metadata["count_present"], dimensions):
        raise ValueError("its rows are elsewhere")
    codes = np.frombuffer(data, dtype=np.int8, count=count * width, offset=8).reshape(count, width)
    index.view(data)
    for row in {0, count // 2, count - 1} if count else ():
        stored_row = index.get(row)
        if stored_row is None or not np.array_equal(stored_row, codes[row]):
            raise ValueError("its rows are in another order")
    return codes


def _create_index(dimensions: int, connectivity: int, expansion_add: int, lookups: bool = True) -> Any:
    # Key lookups take 43 bytes of memory a row.
    return Index(
        ndim=dimensions,
        metric="cos",
        dtype="i8",
        connectivity=connectivity,
        expansion_add=expansion_add,
        expansion_search=RETURNED_ROWS,
        enable_key_lookups=lookups,
    )
