"""What the bundled model's teacher, a transformer of six layers, finds among the same candidates: the most to be had of it.

Two numbers for each candidate: the similarity of the whole texts (the mean of the last layer, as the teacher is meant to be
used), and late interaction over the last layer's vector of each token. Both read at most `LONGEST` tokens of a message.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.reader.files import Store
from bench.reader.late import Places, Reader
from bench.reader.tokens import Rows

#: Tokens of a message, of a window that is read at once, and windows that are read together.
LONGEST, _WINDOW, _TOGETHER = 378, 126, 64
#: Characters of a message.
_CHARACTERS = 2500


class Encoder:
    """The teacher, read once."""

    def __init__(self, folder: Path) -> None:
        """Needs torch, transformers and the teacher's own package."""
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoTokenizer, BertModel

        torch.set_num_threads(1)
        self._torch: Any = torch
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
        self._model: Any = BertModel.from_pretrained(str(folder), add_pooling_layer=False).eval()
        self._marks = (self.tokenizer.cls_token_id, self.tokenizer.sep_token_id)
        self.size: int = self.tokenizer.vocab_size
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(self.size)))
        self.is_said = np.array([any(map(str.isalnum, token)) and not token.startswith("[") for token in tokens])

    def encode(self, texts: Sequence[str]) -> tuple[list[NDArray[Any]], list[Rows], list[Rows]]:
        """Tokens of each text, their vectors in context, and the vectors of its windows; all of length 1."""
        lists = [
            self.tokenizer(text[:_CHARACTERS], add_special_tokens=False, verbose=False)["input_ids"][:LONGEST] for text in texts
        ]
        windows = [(at, ids[k : k + _WINDOW]) for at, ids in enumerate(lists) for k in range(0, max(len(ids), 1), _WINDOW)]
        vectors: list[Rows] = [np.zeros((0, 0), dtype=np.float16)] * len(windows)
        means: list[Rows] = list(vectors)
        order = sorted(range(len(windows)), key=lambda number: len(windows[number][1]))
        for start in range(0, len(order), _TOGETHER):
            part = order[start : start + _TOGETHER]
            for number, tokens, mean in zip(part, *self._read([windows[n][1] for n in part]), strict=True):
                vectors[number], means[number] = tokens, mean
        own: list[list[Rows]] = [[] for _ in texts]
        whole: list[list[Rows]] = [[] for _ in texts]
        for (at, _), tokens, mean in zip(windows, vectors, means, strict=True):
            own[at].append(tokens)
            whole[at].append(mean)
        return [np.array(ids, dtype=np.int64) for ids in lists], [np.concatenate(v) for v in own], [np.stack(m) for m in whole]

    def _read(self, windows: Sequence[Sequence[int]]) -> tuple[list[Rows], list[Rows]]:
        torch, first, last = self._torch, *self._marks
        ids = torch.zeros(len(windows), max(map(len, windows)) + 2, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = torch.tensor([first, *window, last])
            mask[row, : len(window) + 2] = 1
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        unit = torch.nn.functional.normalize
        tokens, means = unit(states, dim=2).numpy().astype(np.float16), unit(mean, dim=1).numpy()
        return [tokens[row, 1 : 1 + len(window)] for row, window in enumerate(windows)], list(means)


class TeachersReader(Reader):
    """The candidates of one store as the teacher reads them; other messages are empty."""

    def __init__(self, store: Store, encoder: Encoder) -> None:
        """Encode all candidates."""
        self._encoder, self._mixed = encoder, 0.0
        needed = {name for ranked in store.ranked for name in ranked.candidates.message.tolist()}
        texts = [f"{t.speaker}: {t.text}".removeprefix(": ") if t.name in needed else "" for t in store.texts]
        lists, vectors, self._means = encoder.encode(texts)
        self._rows = np.concatenate([*vectors, np.zeros((1, vectors[0].shape[1]), dtype=np.float16)])
        self._ids = np.arange(len(self._rows))
        counts = np.zeros(encoder.size)
        for ids in lists:
            counts[np.unique(ids)] += 1
        self._rarity = np.maximum(np.log((len(texts) + 1) / (counts + 0.5)) / np.log((len(texts) + 1) / 0.5), 0.0)
        self._lay_out(store, [len(ids) for ids in lists])

    def _read_question(self, question: str) -> tuple[Rows, Rows]:
        (ids,), (vectors,), _ = self._encoder.encode([question])
        said = self._encoder.is_said[ids]
        if not said.any():
            return np.zeros((1, self._rows.shape[1]), dtype=np.float32), np.ones(1, dtype=np.float32)
        return vectors[said].astype(np.float32), self._rarity[ids[said]].astype(np.float32)

    def similarities(self, question: str, places: Places) -> Rows:
        """The similarity of the whole question and the nearest window of each message."""
        mean = self._encoder.encode([question])[2][0][0]
        found: Rows = np.array([float((self._means[place] @ mean).max()) for place in places.tolist()], dtype=np.float32)
        return found
