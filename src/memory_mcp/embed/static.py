"""A static model as this program uses one: its matrix mapped from the file, and texts it mostly does not know left alone.

Invariants
1. Nothing is fetched and no process or thread is started: the library is given what lies in the folder.
2. The matrix stays in the file: it counts as memory that any process may take back.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from model2vec import StaticModel
from tokenizers import Tokenizer

from memory_mcp.embed.models import CONFIG, TOKENIZER, WEIGHTS
from memory_mcp.embed.prepare import split_identifiers
from memory_mcp.embed.tensors import tensors

#: Share of a text's words from which on it is left to those who look for words: what remains says too little of it.
MOSTLY = 0.5
#: How tokenizers mark a token that begins inside a word, or at a space.
_INSIDE, _SPACES = "##", "▁Ġ"


class Static(StaticModel):
    """The library's model, for which a text of mostly unknown words has no token at all.

    An unknown word is one token, and in scripts without spaces each of their characters is. Over Russian manual pages the
    fusion with keywords finds 1 point less than keywords alone when such texts are embedded by what little is known of
    them, and as much when they are left out. Words of other languages in Latin letters come apart into known pieces and
    are kept: over German pages fusion finds 1 to 2 points more, over French, Spanish and Polish ones about as much
    (`bench.embedder --languages`).
    """

    def tokenize(self, sentences: Sequence[str]) -> list[list[int]]:
        """See StaticModel: ids without the unknown one."""
        prepared = [split_identifiers(text, self._vocabulary) for text in sentences]
        encoded = [e.ids for e in self.tokenizer.encode_batch_fast(prepared, add_special_tokens=False)]
        return encoded if self.unk_token_id is None else [self._known(ids, self.unk_token_id) for ids in encoded]

    def _known(self, ids: list[int], unknown: int) -> list[int]:
        if unknown not in ids:
            return ids
        known = [i for i in ids if i != unknown]
        words = sum(map(self._begins_word.__getitem__, known))
        missing = len(ids) - len(known)
        return known if missing <= MOSTLY * (missing + words) else []

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(t.strip(_SPACES).lower() for t in self.tokens)

    @cached_property
    def _begins_word(self) -> list[bool]:
        """Of each token, whether a word begins with it: digits and punctuation say nothing of a text's language."""
        return [not t.startswith(_INSIDE) and t.strip(_SPACES)[:1].isalpha() for t in self.tokens]


def load(folder: Path) -> Static:
    """The model of a folder; ValueError, KeyError or OSError when it cannot be read."""
    found = tensors(folder / WEIGHTS)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return Static(
        found["embeddings"],
        Tokenizer.from_file(str(folder / TOKENIZER)),
        config,
        normalize=bool(config.get("normalize", False)),
        weights=found.get("weights"),
        token_mapping=found.get("mapping"),
        max_length=config.get("max_length", 512),
    )
