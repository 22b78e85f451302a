"""Find vectors by digest of their text, so that a rebuild need not embed again."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.files import Array, FolderContents
from memory_mcp.indexes.generation import IndexFolder, ShardEntry
from memory_mcp.indexes.shard import TABLES
from memory_mcp.indexes.vector.rows import VectorRows
from memory_mcp.indexes.vector.stored import files_of, read_rows

log = logging.getLogger(__name__)

#: Rows of texts that are kept in memory, some 500 bytes each.
_LATEST = 1000


class LatestRows:
    """The rows of the texts embedded last: a segment that grows keeps most of them, as do the periods above it."""

    def __init__(self) -> None:
        #: Code and 1 / length by digest, oldest first.
        self._rows: dict[int, tuple[Array, np.float32]] = {}
        self._lock = threading.Lock()

    def find_rows(self, digests: Array) -> tuple[Array, VectorRows]:
        """Return which of some texts are here, and the rows of those."""
        cached = [self._rows.get(digest) for digest in digests.tolist()]
        is_known = np.array([row is not None for row in cached], dtype=bool)
        rows = [row for row in cached if row is not None]
        codes, inverse = np.array([row[0] for row in rows], dtype=np.int8), np.array([row[1] for row in rows], dtype=np.float32)
        return is_known, VectorRows(codes, inverse, np.arange(len(rows)), digests[is_known])

    def add_rows(self, rows: VectorRows) -> None:
        """Add the rows of texts; the oldest go."""
        with self._lock:
            for digest, row in zip(rows.digests.tolist(), rows.row_of.tolist(), strict=True):
                self._rows[digest] = rows.codes[row].copy(), rows.inverse[row]
            while len(self._rows) > _LATEST:
                del self._rows[next(iter(self._rows))]


class VectorReuse:
    """The rows of an index folder that was made as wanted; read on first use."""

    def __init__(self, directory: Path, fingerprint: dict[str, Any]) -> None:
        """`fingerprint` is what the rows must have been made with."""
        self._directory = directory
        self._wanted = fingerprint
        self._pieces: list[VectorRows] | None = None
        #: Digests of all pieces, sorted; the piece and the row of each.
        self._digests = np.zeros(0, dtype=np.uint64)
        self._piece, self._row = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def find_rows(self, digests: Array) -> tuple[Array, VectorRows]:
        """Return which texts are embedded already, and the rows of those.

        `digests` are `(n,)` uint64. None are known if the folder cannot be read.
        """
        pieces = self._read_rows() if self._pieces is None else self._pieces
        if not len(self._digests):
            return np.zeros(len(digests), dtype=bool), VectorRows.empty(self._wanted["embedder"]["dimensions"])
        at = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        is_known: Array = self._digests[at] == digests
        places = list(zip(self._piece[at[is_known]].tolist(), self._row[at[is_known]].tolist(), strict=True))
        codes = np.zeros((len(places), self._wanted["embedder"]["dimensions"]), dtype=np.int8)
        inverse = np.zeros(len(places), dtype=np.float32)
        for i, (piece, row) in enumerate(places):
            codes[i], inverse[i] = pieces[piece].codes[row], pieces[piece].inverse[row]
        return is_known, VectorRows(codes, inverse, np.arange(len(places)), digests[is_known])

    def _read_rows(self) -> list[VectorRows]:
        folder = IndexFolder(self._directory)
        self._pieces = pieces = []
        for entry in self._list_entries(folder):
            try:
                files = {name: entry.files[name] for t in TABLES for name in files_of(t) if name in entry.files}
                contents = FolderContents(folder.shards_path / entry.name, files, self._directory)
                pieces += [read_rows(contents, t, self._wanted["embedder"]["dimensions"]) for t in TABLES]
            except (IndexUnreadable, ValueError, KeyError) as error:
                log.info("vectors of %s are not used again: %s", entry.name, error)
        if pieces:
            digests = np.concatenate([p.digests for p in pieces])
            order = np.argsort(digests, kind="stable")
            self._digests = digests[order]
            self._piece = np.repeat(np.arange(len(pieces)), [len(p) for p in pieces])[order]
            self._row = np.concatenate([p.row_of for p in pieces])[order]
        return pieces

    def _list_entries(self, folder: IndexFolder) -> Sequence[ShardEntry]:
        try:
            manifest = folder.read_current()
        except IndexUnreadable:
            return ()
        fingerprint = manifest.fingerprint if manifest is not None else {}
        embedder = fingerprint.get("embedder")
        if manifest is None or not isinstance(embedder, dict) or fingerprint.get("format") != self._wanted["format"]:
            return ()
        return manifest.shards if embedder_identity(embedder) == embedder_identity(self._wanted["embedder"]) else ()


def embedder_identity(embedder: dict[str, Any]) -> dict[str, Any]:
    """Return the fingerprint without the model's folder."""
    return {k: v for k, v in embedder.items() if k != "folder"}
