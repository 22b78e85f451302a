"""Vectors of the generation in force in, by digest of their text: whoever builds another need not embed anew."""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.errors import IndexUnreadable
from memory_mcp.indexes.files import Array, Contents
from memory_mcp.indexes.generation import Home, Manifest
from memory_mcp.indexes.part import TABLES
from memory_mcp.indexes.vector.rows import Rows
from memory_mcp.indexes.vector.stored import files_of, read

log = logging.getLogger(__name__)


class Reuse:
    """What lies in the folder of an index, if it was made as `wanted` says; read when it is first asked."""

    def __init__(self, directory: Path, wanted: dict[str, Any]) -> None:
        self._directory = directory
        self._wanted = wanted
        self._pieces: list[Rows] | None = None
        #: Digests of all pieces, sorted; of each, which piece and which row of it.
        self._digests = np.zeros(0, dtype=np.uint64)
        self._piece, self._row = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def find(self, digests: Array) -> tuple[Array, Rows]:
        """Which of some texts have been embedded already, and the rows of those, in order."""
        pieces = self._read() if self._pieces is None else self._pieces
        if not len(self._digests):
            return np.zeros(len(digests), dtype=bool), Rows.empty(self._wanted["embedder"]["dimensions"])
        at = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        known: Array = self._digests[at] == digests
        places = list(zip(self._piece[at[known]].tolist(), self._row[at[known]].tolist(), strict=True))
        codes = np.zeros((len(places), self._wanted["embedder"]["dimensions"]), dtype=np.int8)
        inverse = np.zeros(len(places), dtype=np.float32)
        for i, (piece, row) in enumerate(places):
            codes[i], inverse[i] = pieces[piece].codes[row], pieces[piece].inverse[row]
        return known, Rows(codes, inverse, np.arange(len(places)), digests[known])

    def _read(self) -> list[Rows]:
        home = Home(self._directory)
        self._pieces = pieces = []
        for entry in self._entries(home):
            try:
                wanted = {name: entry.files[name] for t in TABLES for name in files_of(t)}
                contents = Contents(home.parts / entry.name, wanted, self._directory)
                pieces += [read(contents, t, self._wanted["embedder"]["dimensions"]) for t in TABLES]
            except (IndexUnreadable, ValueError, KeyError) as error:
                log.info("vectors of %s are not used again: %s", entry.name, error)
        if pieces:
            self._sort(pieces)
        return pieces

    def _entries(self, home: Home) -> Any:
        try:
            manifest = home.current()
        except IndexUnreadable:
            return ()
        return manifest.parts if manifest is not None and _made_as(manifest, self._wanted) else ()

    def _sort(self, pieces: list[Rows]) -> None:
        digests = np.concatenate([p.digests for p in pieces])
        order = np.argsort(digests, kind="stable")
        self._digests = digests[order]
        self._piece = np.repeat(np.arange(len(pieces)), [len(p) for p in pieces])[order]
        self._row = np.concatenate([p.place for p in pieces])[order]


def identity(embedder: dict[str, Any]) -> dict[str, Any]:
    """What vectors depend on: not where the model lies."""
    return {k: v for k, v in embedder.items() if k != "folder"}


def _made_as(manifest: Manifest, wanted: dict[str, Any]) -> bool:
    made = manifest.fingerprint
    return (
        isinstance(made.get("embedder"), dict)
        and made.get("format") == wanted["format"]
        and (identity(made["embedder"]) == identity(wanted["embedder"]))
    )
