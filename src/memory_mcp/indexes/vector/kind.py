"""The vector kind of index: int8 rows of the gists of nodes and grips.

A shard names the model that made it: rows of two models cannot get into one index, however a build and a change
of the model overlap.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable, LayerUnavailable
from memory_mcp.embed.base import Embedder
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.document import DOCUMENT_VERSION, Unit
from memory_mcp.indexes.files import Array, FolderContents
from memory_mcp.indexes.shard import TABLES
from memory_mcp.indexes.vector import stored
from memory_mcp.indexes.vector.graph import GRAPH_FROM
from memory_mcp.indexes.vector.reuse import LatestRows, VectorReuse, embedder_identity
from memory_mcp.indexes.vector.rows import MOST_DIMENSIONS, VectorRows

#: Version of the layout of its files, of the coding of rows, and of a graph's parameters.
FORMAT = 2
_MADE_BY = "embedder.json"


@dataclass(frozen=True, slots=True)
class VectorBody:
    """Rows of both tables of a shard, and the embedder that made them."""

    nodes: VectorRows
    grips: VectorRows
    embedder: Embedder
    #: Whether large tables get graphs when written.
    improved: bool = False

    def table(self, doc_type: DocType) -> VectorRows:
        """Return the rows of one table."""
        return self.nodes if doc_type is DocType.NODE else self.grips


class VectorKind:
    """The `IndexKind` of vectors, whose bodies are rows of one model."""

    name = "vector"
    reads_words = False

    def __init__(
        self,
        embedder: Embedder,
        reuse: Path | None = None,
        opened: Callable[[str], Embedder] = Model2Vec,
        graph_from: int = 0,
    ) -> None:
        """Create the kind of one model.

        `reuse` is the folder of an index whose rows are taken for equal texts; `opened` opens a former model by its
        folder; a table of an improved shard gets a graph from `graph_from` rows (0: default). With `reuse`, raises
        LayerUnavailable without the model.
        """
        self.embedder = embedder
        self._graph_from = graph_from or GRAPH_FROM
        self._open_embedder = opened
        self._reuse = VectorReuse(reuse, self.fingerprint()) if reuse else None
        self._latest = LatestRows()

    def fingerprint(self) -> dict[str, Any]:
        """Return format, documents and the model's fingerprint.

        Raises LayerUnavailable when there is no such model or it has more than 1024 dimensions.
        """
        embedder = self.embedder.fingerprint()
        if embedder["dimensions"] > MOST_DIMENSIONS:
            raise LayerUnavailable(f"the embedding model has {embedder['dimensions']} dimensions, more than {MOST_DIMENSIONS}")
        return {"format": FORMAT, "documents": DOCUMENT_VERSION, "embedder": embedder}

    def child_options(self, reuse: Path | None) -> dict[str, Any]:
        """Return model (folder), reuse and graph_from for `open_kind`."""
        folder = self.embedder.fingerprint()["folder"]
        return {"model": folder, "reuse": str(reuse) if reuse else "", "graph_from": self._graph_from}

    def find_predecessor(self, fingerprint: Mapping[str, Any]) -> "VectorKind | None":
        """Return this kind, or one with the former model, or None.

        The former model must have the configured one's name, still load, and have the same files; the formats must be
        equal.
        """
        other_embedder, mine = fingerprint.get("embedder"), self.fingerprint()
        if not isinstance(other_embedder, dict) or {**fingerprint, "embedder": 0} != {**mine, "embedder": 0}:
            return None
        if embedder_identity(other_embedder) == embedder_identity(mine["embedder"]):
            return self
        if other_embedder.get("name") != mine["embedder"]["name"]:
            return None
        try:
            old = self._open_embedder(str(other_embedder.get("folder")))
            return VectorKind(old, opened=self._open_embedder) if old.fingerprint() == other_embedder else None
        except LayerUnavailable:
            return None

    def prepare_unit(self, unit: Unit) -> VectorBody:
        """Embed a unit's gists, but for known ones; raises LayerUnavailable."""
        gists = [d.gist for d in (*unit.nodes, *unit.grips)]
        raw = [hashlib.blake2b(gist.encode("utf-8", "surrogatepass"), digest_size=8).digest() for gist in gists]
        digests = np.array([int.from_bytes(digest, "little") for digest in raw], dtype=np.uint64)
        is_known, known_rows = (self._reuse or self._latest).find_rows(digests)
        if is_known.any():
            fresh = np.flatnonzero(~is_known)
            new_rows = VectorRows.from_vectors(self.embedder.embed([gists[i] for i in fresh.tolist()]), digests[fresh])
            rows = VectorRows.concatenate([known_rows, new_rows])
            order = np.argsort(np.concatenate([np.flatnonzero(is_known), fresh]))
            rows = VectorRows(rows.codes, rows.inverse, rows.row_of[order], digests)
        else:
            rows = new_rows = VectorRows.from_vectors(self.embedder.embed(gists), digests)
        self._latest.add_rows(new_rows)
        first = len(unit.nodes)
        return VectorBody(rows.select_rows(np.arange(first)), rows.select_rows(np.arange(first, len(rows))), self.embedder)

    def build_body(self, prepared: Sequence[VectorBody]) -> VectorBody:
        """Return the rows of prepared units, without graphs."""
        none = VectorRows.empty(self.embedder.dimensions)
        nodes, grips = (VectorRows.concatenate([none, *(p.table(t) for p in prepared)]) for t in TABLES)
        return VectorBody(nodes, grips, self.embedder)

    def merge_bodies(self, bodies: Sequence[VectorBody], kept_rows: Sequence[tuple[Array, Array]]) -> VectorBody:
        """Return one body of the kept rows, without graphs."""
        nodes = VectorRows.concatenate([b.nodes.select_rows(rows) for b, (rows, _) in zip(bodies, kept_rows, strict=True)])
        grips = VectorRows.concatenate([b.grips.select_rows(rows) for b, (_, rows) in zip(bodies, kept_rows, strict=True)])
        return VectorBody(nodes, grips, self.embedder)

    def write_body(self, body: VectorBody, directory: Path) -> None:
        """Write rows, graphs of large tables if improved, and their model."""
        for table in TABLES:
            stored.write_rows(body.table(table), directory, table, self._graph_from if body.improved else None)
        (directory / _MADE_BY).write_text(json.dumps(embedder_identity(self.embedder.fingerprint())), encoding="utf-8")

    def read_body(self, contents: FolderContents) -> VectorBody:
        """Return what `write_body` wrote; raises IndexUnreadable."""
        embedder = self.embedder.fingerprint()
        if contents.json_of(_MADE_BY) != embedder_identity(embedder):
            raise IndexUnreadable("a part of the index was made by another embedding model")
        nodes, grips = (stored.read_rows(contents, t, embedder["dimensions"]) for t in TABLES)
        return VectorBody(nodes, grips, self.embedder)

    def improve_body(self, body: VectorBody) -> VectorBody | None:
        """Mark the body to be written with graphs; None if none lacks one."""
        lacking = [t for t in TABLES if len(body.table(t).codes) >= self._graph_from and body.table(t).graph is None]
        return replace(body, improved=True) if lacking else None


def open_kind(options: Mapping[str, Any]) -> VectorKind:
    """Return the kind from `Vector.child_options`; raises LayerUnavailable."""
    reuse = options.get("reuse")
    kind = VectorKind(Model2Vec(options["model"]), Path(reuse) if reuse else None, graph_from=options.get("graph_from", 0))
    kind.fingerprint()
    return kind
