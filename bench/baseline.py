"""Plain BM25 over whole documents, as a yardstick: Robertson's formula with k1 1.5 and b 0.75 on the shared tokenizer."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from memory_mcp.base.text import query_terms, terms


class PlainBm25:
    """An in-memory index of a few thousand documents; nothing clever."""

    def __init__(self, documents: Mapping[str, str], k1: float = 1.5, b: float = 0.75) -> None:
        self._counts = {key: Counter(terms(text)) for key, text in documents.items()}
        self._lengths = {key: sum(c.values()) for key, c in self._counts.items()}
        self._mean = sum(self._lengths.values()) / max(len(self._lengths), 1)
        self._frequency = Counter(t for c in self._counts.values() for t in c)
        self._k1, self._b = k1, b

    def rank(self, query: str, limit: int) -> list[str]:
        """Keys of the best documents, best first."""
        scores: defaultdict[str, float] = defaultdict(float)
        for term in query_terms(query):
            df = self._frequency.get(term, 0)
            weight = math.log(1 + (len(self._counts) - df + 0.5) / (df + 0.5))
            for key, counts in self._counts.items():
                if term in counts:
                    norm = self._k1 * (1 - self._b + self._b * self._lengths[key] / self._mean)
                    scores[key] += weight * counts[term] * (self._k1 + 1) / (counts[term] + norm)
        return [key for key, _ in sorted(scores.items(), key=lambda s: (-s[1], s[0]))[:limit]]
