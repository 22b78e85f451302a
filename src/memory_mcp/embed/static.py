"""A static model as this program uses one: its matrix mapped from the file, and texts it mostly does not know left alone.

Invariants
1. Nothing is fetched and no process or thread is started: the library is given what lies in the folder.
2. The matrix stays in the file: it counts as memory that any process may take back.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from model2vec import StaticModel
from tokenizers import Tokenizer

from memory_mcp.embed.models import CONFIG, TOKENIZER, WEIGHTS
from memory_mcp.embed.tensors import tensors

#: Share of a text's tokens from which on it is left to those who look for words: what remains says too little of it.
MOSTLY = 0.5


class Static(StaticModel):
    """The library's model, for which a text of mostly unknown tokens has no token at all."""

    def tokenize(self, sentences: Sequence[str]) -> list[list[int]]:
        """See StaticModel: ids without the unknown one."""
        unknown = self.unk_token_id
        encoded = [e.ids for e in self.tokenizer.encode_batch_fast(sentences, add_special_tokens=False)]
        return encoded if unknown is None else [_known(ids, unknown) for ids in encoded]


def _known(ids: list[int], unknown: int) -> list[int]:
    if unknown not in ids:
        return ids
    known = [i for i in ids if i != unknown]
    return known if len(ids) - len(known) <= MOSTLY * len(ids) else []


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
