"""A folder of a model2vec model in, an Embedder out: static token vectors, averaged; nothing is ever fetched.

Invariants
1. Only the files that the fingerprint names are used: a folder that changes while it is being loaded is refused.
2. Loading waits for the first text: the tokenizer takes some 60 ms and 15 MB, whatever model lies in the folder.
"""

import hashlib
import os
import struct
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from memory_mcp.embed.base import Vectors
from memory_mcp.embed.models import FILES, WEIGHTS
from memory_mcp.embed.tensors import head
from memory_mcp.errors import LayerUnavailable

#: How a text becomes a vector here; part of the fingerprint.
VERSION = 2
_CHUNK = 1 << 20
#: Texts embedded before another thread gets its turn: some 4 ms, which is how long a query waits at most.
_TURN = 64
_HINT = "Choose another: memory-mcp embedder list."


class _Loaded:
    """A model in memory. Its tokenizer is changed by every call and must not be met in that state: one caller at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.turn = threading.Lock()


_LOADING = threading.Lock()
#: Models in memory, by folder and digest.
_LOADED: WeakValueDictionary[tuple[Path, str], _Loaded] = WeakValueDictionary()


class Model2Vec:
    """See Embedder."""

    name = "model2vec"

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self._fingerprint: dict[str, Any] | None = None
        self._shared: _Loaded | None = None

    @property
    def dimensions(self) -> int:
        """See Embedder."""
        return int(self.fingerprint()["dimensions"])

    def fingerprint(self) -> dict[str, Any]:
        """See Embedder."""
        if self._fingerprint is None:
            self._fingerprint = _fingerprint(self.folder)
        return dict(self._fingerprint)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder."""
        rows = [self._some(texts[start : start + _TURN]) for start in range(0, len(texts), _TURN)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def _some(self, texts: Sequence[str]) -> Vectors:
        loaded = self._loaded()
        with loaded.turn:
            found = loaded.model.encode([_sendable(t) for t in texts])
        return _unit(found.astype(np.float32))

    def _loaded(self) -> _Loaded:
        """Return the model, loaded once for all that use its folder while its files are the same."""
        if self._shared is None:
            expected = self.fingerprint()
            key = (self.folder, str(expected["digest"]))
            with _LOADING:
                found = _LOADED.get(key)
                if found is None:
                    model = _load(self.folder)
                    if _fingerprint(self.folder) != expected or model.dim != expected["dimensions"]:
                        told = f"the embedding model in {self.folder} has been changed"
                        raise LayerUnavailable(told, "Restart to use the new one.")
                    found = _LOADED[key] = _Loaded(model)
            self._shared = found
        return self._shared


def _load(folder: Path) -> Any:
    # Read when the library is imported; no thread may stay behind in the tokenizer.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from memory_mcp.embed.static import load

    try:
        return load(folder)
    except Exception as error:
        raise LayerUnavailable(f"the embedding model in {folder} cannot be loaded: {error}", _HINT) from error


def _fingerprint(folder: Path) -> dict[str, Any]:
    missing = [n for n in FILES if not (folder / n).is_file()]
    if missing:
        what = "does not exist" if not folder.is_dir() else f"has no {' and no '.join(missing)}"
        raise LayerUnavailable(f"the folder of the embedding model, {folder}, {what}", _HINT)
    try:
        digest, dimensions = _digest(folder / n for n in FILES), _dimensions(folder / WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise LayerUnavailable(f"the embedding model in {folder} cannot be read: {error}", _HINT) from error
    return {
        "name": Model2Vec.name,
        "version": VERSION,
        "folder": str(folder),
        "digest": digest,
        "dimensions": dimensions,
    }


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        digest.update(path.stat().st_size.to_bytes(8, "little"))
        with path.open("rb") as f:
            while block := f.read(_CHUNK):
                digest.update(block)
    return digest.hexdigest()


def _dimensions(path: Path) -> int:
    """Columns of the matrix, from the head of the file alone."""
    return int(head(path)[0]["embeddings"]["shape"][1])


def _sendable(text: str) -> str:
    """The text without lone surrogates, which the tokenizer refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _unit(rows: Vectors) -> Vectors:
    lengths = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1, keepdims=True))
    usable = np.isfinite(lengths) & (lengths > 0)
    return np.where(usable, rows / np.where(usable, lengths, 1.0), 0.0).astype(np.float32)
