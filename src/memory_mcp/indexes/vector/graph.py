"""Large parts in, usearch graphs of them out, which name near rows without looking at all: an accelerator's accelerator.

    <index folder>/graphs/<part>-<table>.usearch    one graph; its keys are places in `firsts` below
                          <part>-<table>.json       what the file must be, and what it was made of

Invariants
1. A graph that is missing, damaged or another part's is as if it were not: search is exact until it has been built again.
2. One row stands for all of the same text. Many equal rows would be each other's only neighbours, which cuts a graph into
   pieces; and all of them must be known to choose by key.
3. usearch is told dtype and metric: its own choice depends on the processor. Its `save` is neither atomic nor checked, and
   its `load` believes whatever a file says; so files are put in place here, verified here, and used from a private copy.
"""

import json
import logging
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from usearch.index import Index

from memory_mcp.errors import IndexUnreadable
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import Array, Checked, Contents, replace_text, seal
from memory_mcp.indexes.part import TABLES, LivePart
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.kind import Body
from memory_mcp.indexes.vector.rows import Query, Rows, file_of

log = logging.getLogger(__name__)

#: Living documents of an index from which graphs are asked: exact search takes some 7 ms there.
GRAPH_FROM = 400_000
#: Rows of one table of a part from which it gets a graph: scanning fewer takes less than a third of a millisecond.
PART_FROM = 20_000
#: Layout of the files; raised with any change of the parameters below.
_FORMAT = 1
_CONNECTIVITY, _EXPANSION_ADD, _EXPANSION_SEARCH = 16, 128, 384
#: Folder of a file that is being written.
_ASIDE = "new"
#: Rows added between two looks at whether to go on: a second of work.
_SLICE = 4096


@dataclass(frozen=True, slots=True)
class _Graph:
    """One table's graph."""

    index: Any
    #: What usearch looks into: must live as long as it does.
    contents: Contents
    same: "_Same"
    #: usearch has as many search contexts as processors, and refuses whoever comes beyond them.
    turn: threading.Lock


@dataclass(frozen=True, slots=True)
class _Same:
    """Rows of a table grouped by text."""

    #: Rows, those of one text together.
    order: Array
    #: Where in `order` each text begins, and one beyond the end.
    bounds: Array

    @classmethod
    def of(cls, held: Rows) -> "_Same":
        """Of all rows that can match."""
        usable = np.flatnonzero(held.inverse > 0)
        order = usable[np.argsort(held.digests[usable], kind="stable")]
        digests = held.digests[order]
        changes = np.flatnonzero(digests[1:] != digests[:-1]) + 1
        bounds = np.concatenate([[0], changes, [len(order)]]) if len(order) else np.zeros(1, dtype=np.int64)
        return cls(order, bounds)

    @property
    def firsts(self) -> Array:
        """The row that stands for each text."""
        return self.order[self.bounds[:-1]]

    def all_of(self, texts: Array) -> Array:
        """Rows of some texts."""
        if not len(texts):
            return texts
        return np.concatenate([self.order[self.bounds[t] : self.bounds[t + 1]] for t in texts.tolist()])


@dataclass(frozen=True, slots=True)
class _Plan:
    """A graph that should be there."""

    rows: Rows
    #: Which file the rows are from, by its checksum: a graph of others is of no use.
    made_of: dict[str, Any]

    @classmethod
    def of(cls, live: LivePart[Body], table: DocType) -> "_Plan":
        """That of one table of a part on disk."""
        file = (live.part.files or {})[file_of(table)]
        return cls(live.part.body.table(table), {"format": _FORMAT, "rows": file.digest})


class Graphs:
    """The graphs of one index. `build_missing` is called by one thread; everything else by any."""

    def __init__(self, index_directory: Path, graph_from: int = GRAPH_FROM, part_from: int = PART_FROM) -> None:
        self._directory = index_directory / "graphs"
        self._graph_from, self._part_from = graph_from, part_from
        self._held: dict[str, _Graph] = {}

    def serves(self, snapshot: Snapshot[Body]) -> bool:
        """Whether the index is large enough to ask a graph."""
        return sum(snapshot.counts.values()) >= self._graph_from

    def candidates(self, live: LivePart[Body], table: DocType, query: Query, count: int) -> Array | None:
        """Rows of the `count` texts that are probably nearest; None where the part has no graph."""
        graph = self._held.get(_name(live, table))
        if graph is None:
            return None
        try:
            with graph.turn:
                found = graph.index.search(query.codes, min(count, len(graph.index)), threads=1)
        except RuntimeError:
            log.exception("a graph of the vector index cannot be asked; search is exact")
            return None
        return graph.same.all_of(np.asarray(found.keys).astype(np.int64))

    def build_missing(self, snapshot: Snapshot[Body], goes_on: Callable[[], bool] = lambda: True) -> int:
        """Load or build the graph of every large part, forget those of parts that are gone; how many were built.

        It ends early, to be called again, as soon as `goes_on` denies. OSError when a file cannot be written.
        """
        wanted = self._wanted(snapshot) if self.serves(snapshot) else {}
        self._held = {name: graph for name, graph in self._held.items() if name in wanted}
        self._sweep(wanted)
        built = 0
        for name, plan in wanted.items():
            if name not in self._held and not self._load(name, plan):
                if not self._build(name, plan, goes_on):
                    return built
                built += 1
                self._load(name, plan)
        return built

    def _wanted(self, snapshot: Snapshot[Body]) -> dict[str, _Plan]:
        """What to make, by name; a part in memory alone has no name."""
        tables = [(live, t) for live in snapshot if live.part.name for t in TABLES]
        return {_name(p, t): _Plan.of(p, t) for p, t in tables if p.counts[t] >= self._part_from}

    def _sweep(self, wanted: dict[str, _Plan]) -> None:
        if not self._directory.is_dir():
            return
        shutil.rmtree(self._directory / _ASIDE, ignore_errors=True)
        for path in self._directory.iterdir():
            if path.stem not in wanted or path.suffix == ".new":
                path.unlink(missing_ok=True)

    def _load(self, name: str, plan: _Plan) -> bool:
        try:
            made = json.loads((self._directory / f"{name}.json").read_text(encoding="utf-8"))
            if made["made_of"] != plan.made_of:
                return False
            contents = Contents(self._directory, {f"{name}.usearch": Checked(*made["file"])}, self._directory)
            same = _Same.of(plan.rows)
            index = _viewed(contents.bytes_of(f"{name}.usearch"), plan.rows.codes.shape[1], len(same.firsts))
            self._held[name] = _Graph(index, contents, same, threading.Lock())
        except FileNotFoundError:
            return False
        except (OSError, IndexUnreadable, ValueError, KeyError, TypeError, RuntimeError) as error:
            log.warning("a graph of the vector index cannot be used and is built again: %s", error)
            return False
        return True

    def _build(self, name: str, plan: _Plan, goes_on: Callable[[], bool]) -> bool:
        index = _index(plan.rows.codes.shape[1])
        firsts = _Same.of(plan.rows).firsts
        for start in range(0, len(firsts), _SLICE):
            if not goes_on():
                return False
            rows = firsts[start : start + _SLICE]
            index.add(np.arange(start, start + len(rows), dtype=np.uint64), plan.rows.codes[rows], threads=1)
        self._put(name, index, plan.made_of)
        return True

    def _put(self, name: str, index: Any, made_of: dict[str, Any]) -> None:
        aside = self._directory / _ASIDE
        aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        index.save(aside / f"{name}.usearch")
        checked = seal(aside)[f"{name}.usearch"]
        os.replace(aside / f"{name}.usearch", self._directory / f"{name}.usearch")
        # Until this names the new file, the old text and the new file contradict each other: built again.
        text = json.dumps({"made_of": made_of, "file": [checked.size, checked.digest]})
        replace_text(self._directory / f"{name}.json", text)
        aside.rmdir()


def _name(live: LivePart[Body], table: DocType) -> str:
    return f"{live.part.name}-{table.value}"


def _index(dimensions: int) -> Any:
    return Index(
        ndim=dimensions,
        metric="cos",
        dtype="i8",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        expansion_search=_EXPANSION_SEARCH,
    )


def _viewed(data: memoryview, dimensions: int, texts: int) -> Any:
    told = Index.metadata(data) or {}
    index = _index(dimensions)
    wanted = (dimensions, index.dtype, index.metric_kind, texts)
    if (told.get("dimensions"), told.get("kind_scalar"), told.get("kind_metric"), told.get("count_present")) != wanted:
        raise ValueError("it is of another shape")
    index.view(data)
    # What was told when it was made is lost with a view.
    index.expansion_search = _EXPANSION_SEARCH
    return index
