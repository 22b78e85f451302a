"""Which tokens the model has: the teacher's, and whole words of code and documentation that the teacher takes apart."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float64]

#: A word must be met so often, and be a word, to get a vector of its own.
_OFTEN, _SHORT, _LONG = 8, 3, 24


def additions(tokenizer: Any, texts: Iterable[str]) -> list[str]:
    """Whole words that the tokenizer takes apart, the most costly first: by how often they occur and in how many pieces."""
    counts: Counter[str] = Counter()
    cut, fold, known = tokenizer.pre_tokenizer, tokenizer.normalizer, tokenizer.get_vocab()
    for text in texts:
        counts.update(word for word, _ in cut.pre_tokenize_str(fold.normalize_str(text)))
    words = [w for w, n in counts.items() if n >= _OFTEN and _SHORT <= len(w) <= _LONG and w.isascii() and w.isalpha()]
    new = [w for w in words if w not in known]
    pieces = {w: len(tokenizer.encode(w, add_special_tokens=False).ids) for w in new}
    return sorted(new, key=lambda w: (-counts[w] * (pieces[w] - 1), w))


def shares(tokenizer: Any, kinds: Iterable[Iterable[str]]) -> Shares:
    """How common each token is, all kinds of text alike; what none of them has is as rare as its place suggests.

    The places of the teacher's vocabulary fall with frequency; one part in a hundred of the whole is guessed from them.
    """
    size = tokenizer.get_vocab_size()
    measured = []
    for texts in kinds:
        counts = np.zeros(size)
        for encoded in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False):
            np.add.at(counts, encoded.ids, 1)
        measured.append(counts / counts.sum())
    guessed = 1.0 / np.arange(2, size + 2)
    return np.asarray(0.99 * np.mean(measured, axis=0) + 0.01 * guessed / guessed.sum())
