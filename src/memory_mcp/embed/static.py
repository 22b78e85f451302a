"""A static model as this program uses one: its matrix mapped from the file, and texts it mostly does not know left alone.

Invariants
1. Nothing is fetched and no process or thread is started: the library is given what lies in the folder.
2. The matrix of a model that only this program writes stays in its file: memory that any process may take back. A user's
   own file is read, as one that is shortened under a process that maps it kills the process.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from model2vec import StaticModel
from tokenizers import Tokenizer
from tqdm import tqdm

from memory_mcp.embed.models import CONFIG, TOKENIZER, WEIGHTS, is_ours
from memory_mcp.embed.prepare import split_identifiers
from memory_mcp.embed.tensors import tensors

#: Share of a text's words from which on it is left to those who look for words: what remains says too little of it.
MOSTLY = 0.5
#: How tokenizers mark a token that begins inside a word (WordPiece), or at a space (the others).
_INSIDE, _SPACES = "##", "▁Ġ"
_SYMBOLS = re.compile(r"[^\w\s\x00-\x7f]+")

# Even a progress bar that is switched off starts a thread, which wakes up every ten seconds for the rest of the process.
tqdm.monitor_interval = 0


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
        encoded = self._encoded(prepared)
        if self.unk_token_id is None:
            return encoded
        return [self._known(ids, text, self.unk_token_id) for ids, text in zip(encoded, prepared, strict=True)]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _known(self, ids: list[int], text: str, unknown: int) -> list[int]:
        if unknown not in ids:
            return ids
        known = [i for i in ids if i != unknown]
        if self._is_known(len(ids) - len(known), known):
            return known
        # Ticks, arrows and faces are unknown too, and say nothing of the language.
        (worded,) = self._encoded([_SYMBOLS.sub(" ", text)])
        return known if self._is_known(worded.count(unknown), known) else []

    def _is_known(self, missing: int, known: Sequence[int]) -> bool:
        """Whether enough words are, beside so many that are not."""
        return missing <= MOSTLY * (missing + sum(map(self._begins_word.__getitem__, known)))

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(t.strip(_SPACES).lower() for t in self.tokens)

    @cached_property
    def _begins_word(self) -> list[bool]:
        """Of each token, whether a word begins with it: digits and punctuation say nothing of a text's language."""
        return [not t.startswith(_INSIDE) and t.strip(_SPACES)[:1].isalpha() for t in self.tokens]


def load(folder: Path) -> Static:
    """The model of a folder; ValueError, KeyError or OSError when it cannot be read."""
    found = tensors(folder / WEIGHTS, is_ours(folder))
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
