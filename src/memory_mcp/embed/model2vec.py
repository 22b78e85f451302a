"""Embed texts with the static token vectors of a model2vec folder; downloads nothing.

Invariants
1. Only the files in the fingerprint are used: a folder that changes during loading is refused.
2. Loading waits for the first text: it takes some 40 ms and 10 MB.
"""

import hashlib
import os
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from memory_mcp.base import foreign_files
from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.embed.base import Vectors
from memory_mcp.embed.models import FILES, WEIGHTS
from memory_mcp.embed.tensors import read_header

#: Version of how a text becomes a vector; part of the fingerprint.
VERSION = 2
_CHUNK = 1 << 20
#: Texts embedded before another thread gets its turn: about 4 ms, the longest wait of a query.
_BATCH = 64
_HINT = "Choose another: memory-mcp embedder list."


class _SharedModel:
    """A model in memory, for one caller at a time.

    Every call changes its tokenizer.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.turn = threading.Lock()


_LOAD_LOCK = threading.Lock()
#: Models in memory, by folder and digest.
_SHARED_MODELS: WeakValueDictionary[tuple[Path, str], _SharedModel] = WeakValueDictionary()


class Model2Vec:
    """An `Embedder` with the model2vec model of one folder."""

    name = "model2vec"

    def __init__(self, folder: str | Path) -> None:
        """Use the model in `folder` ("~" is the home directory), read when needed."""
        self.folder = Path(folder).expanduser().absolute()
        self._fingerprint: dict[str, Any] | None = None
        self._shared: _SharedModel | None = None

    @property
    def dimensions(self) -> int:
        """Length of a vector; raises LayerUnavailable without a model."""
        return int(self.fingerprint()["dimensions"])

    def fingerprint(self) -> dict[str, Any]:
        """Return a copy of the fingerprint; all files are read once.

        Raises LayerUnavailable if files are missing or cannot be read.
        """
        if self._fingerprint is None:
            self._fingerprint = _compute_fingerprint(self.folder)
        return dict(self._fingerprint)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return `(texts, dimensions)` float32 rows of length 1.

        Zeros for a text of mostly unknown words. Loads the model at the first text; other threads get their turn after every 64
        texts. Raises LayerUnavailable if the model cannot be loaded or its files have changed.
        """
        rows = []
        for start in range(0, len(texts), _BATCH):
            # Without lone surrogates, which the tokenizer refuses.
            some = [t if t.isascii() else t.encode("utf-8", "replace").decode("utf-8") for t in texts[start : start + _BATCH]]
            loaded = self._load_shared()
            with loaded.turn:
                vectors = loaded.model.encode(some).astype(np.float32)
            lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1, keepdims=True))
            # Rows of zeros, and of numbers that are not finite, become zeros.
            usable = np.isfinite(lengths) & (lengths > 0)
            rows.append(np.where(usable, vectors / np.where(usable, lengths, 1.0), 0.0).astype(np.float32))
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def _load_shared(self) -> _SharedModel:
        """Return the model, loaded once per process, folder and digest.

        Raises LayerUnavailable if it cannot be loaded or its files have changed since the fingerprint was read.
        """
        if self._shared is None:
            expected = self.fingerprint()
            key = (self.folder, str(expected["digest"]))
            with _LOAD_LOCK:
                loaded = _SHARED_MODELS.get(key)
                if loaded is None:
                    model = _load_model(self.folder)
                    if _compute_fingerprint(self.folder) != expected or model.dim != expected["dimensions"]:
                        text = f"the embedding model in {self.folder} has been changed"
                        raise LayerUnavailable(text, "Restart to use the new one.")
                    loaded = _SHARED_MODELS[key] = _SharedModel(model)
            self._shared = loaded
        return self._shared


def _load_model(folder: Path) -> Any:
    """Load a model; raises LayerUnavailable. Sets TOKENIZERS_PARALLELISM to false."""
    # Must be set before the import: the tokenizer may not start threads.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from memory_mcp.embed.static import load_static_model

    try:
        return load_static_model(folder)
    except Exception as error:
        raise LayerUnavailable(f"the embedding model in {folder} cannot be loaded: {error}", _HINT) from error


def _compute_fingerprint(folder: Path) -> dict[str, Any]:
    """Read all files of a folder; raises LayerUnavailable."""
    missing = [n for n in FILES if not (folder / n).is_file()]
    if missing:
        what = "does not exist" if not folder.is_dir() else f"has no {' and no '.join(missing)}"
        raise LayerUnavailable(f"the folder of the embedding model, {folder}, {what}", _HINT)
    try:
        digest = hashlib.blake2b(digest_size=16)
        for name in FILES:
            digest.update((folder / name).stat().st_size.to_bytes(8, "little"))
            with foreign_files.open_file((folder / name).resolve()) as f:
                while block := f.read(_CHUNK):
                    digest.update(block)
        dimensions = int(read_header(folder / WEIGHTS)[0]["embeddings"]["shape"][1])
    except (OSError, ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise LayerUnavailable(f"the embedding model in {folder} cannot be read: {error}", _HINT) from error
    identity = {"name": Model2Vec.name, "version": VERSION, "folder": str(folder)}
    return {**identity, "digest": digest.hexdigest(), "dimensions": dimensions}
