"""Messages and questions as tokens of the bundled model, with what it does not know as tokens of their own.

A word or sign that the model's vocabulary lacks (Chinese, Japanese, emoji) has a token by a hash of its characters, whose row
is a random unit vector: it matches itself and nothing else until it is trained.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

import memory_mcp.embed
from memory_mcp.embed.models import TOKENIZER, WEIGHTS
from memory_mcp.embed.static import split_identifiers
from memory_mcp.embed.tensors import read_tensors

Ids = NDArray[np.int32]
Rows = NDArray[np.float32]

FOLDER = Path(memory_mcp.embed.__file__).parent / "bundled"
#: Rows for what the vocabulary lacks, and their seed.
HASHED, _SEED = 4096, 7
#: Tokens of a message that are read.
LONGEST = 512
_SIGN = re.compile(r"[^\w]+")


class Vocabulary:
    """The bundled model's tokens and rows, hashed ones behind them."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Read the model in a folder."""
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._known = frozenset(token.strip().lower() for token in self._tokenizer.get_vocab())
        self._unknown = self._tokenizer.token_to_id(self._tokenizer.model.unk_token)
        self.rows = np.asarray(read_tensors(folder / WEIGHTS, False)["embeddings"], dtype=np.float32)

    @property
    def size(self) -> int:
        """Number of tokens, hashed ones included."""
        return len(self.rows) + HASHED

    @cached_property
    def unit_rows(self) -> Rows:
        """Rows of length 1, hashed ones included."""
        chance = np.random.default_rng(_SEED)
        rows = np.concatenate([self.rows, chance.standard_normal((HASHED, self.rows.shape[1])).astype(np.float32)])
        unit: Rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        return unit

    @cached_property
    def is_said(self) -> NDArray[np.bool_]:
        """Whether a token is more than a sign."""
        vocabulary = self._tokenizer.get_vocab()
        tokens = sorted(vocabulary, key=vocabulary.__getitem__)
        said = [bool(_SIGN.sub("", token.removeprefix("##"))) and not token.startswith("[") for token in tokens]
        return np.array([*said, *([True] * HASHED)])

    def ids(self, texts: Iterable[str]) -> list[Ids]:
        """The tokens of each text, without signs."""
        prepared = [split_identifiers(text[: 8 * LONGEST], self._known) for text in texts]
        found: list[Ids] = []
        for text, encoded in zip(prepared, self._tokenizer.encode_batch(prepared, add_special_tokens=False), strict=True):
            ids = np.array(encoded.ids[:LONGEST], dtype=np.int32)
            if self._unknown in encoded.ids:
                spans = encoded.offsets
                for at in np.flatnonzero(ids == self._unknown).tolist():
                    piece = text[slice(*spans[at])].lower()
                    ids[at] = (
                        len(self.rows) + zlib.crc32(piece.encode("utf-8", "replace")) % HASHED if _SIGN.sub("", piece) else -1
                    )
                ids = ids[ids >= 0]
            found.append(ids[self.is_said[ids]])
        return found


def rarity(texts: Sequence[Ids], size: int) -> Rows:
    """Of each token: the logarithm of how few texts hold it, 0..1."""
    counts = np.zeros(size)
    for ids in texts:
        counts[np.unique(ids)] += 1
    worth: Rows = (np.log((len(texts) + 1) / (counts + 0.5)) / np.log((len(texts) + 1) / 0.5)).astype(np.float32)
    return np.maximum(worth, 0.0)
