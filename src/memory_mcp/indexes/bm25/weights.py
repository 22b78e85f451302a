"""Weigh the terms of a query by their frequency, and those of keywords by need."""

import math
from collections.abc import Sequence

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.bm25.kind import Bm25Body
from memory_mcp.indexes.bm25.postings import term_key
from memory_mcp.indexes.calibrate import SCORE_OFFSET
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keywords import keyword_need
from memory_mcp.indexes.shard import LiveShard
from memory_mcp.indexes.snapshot import Snapshot

#: Highest factor on the weight of a keyword's term, and of all of them together as a share of the query's own weight.
_FACTOR, _SHARE = 0.8, 0.5


@dataclass(frozen=True, slots=True)
class Weights:
    """Hashes of a query's terms, uint64, and their inverse document frequencies."""

    keys: Array
    idf: Array
    #: How many of the terms, the last ones, are keywords'.
    keywords: int = 0

    @property
    def total(self) -> float:
        """Sum of the own terms' weights; no score is above it."""
        return float(self.idf[: len(self.idf) - self.keywords].sum())

    def with_keywords(self, keywords: "Weights", highest: float) -> "Weights":
        """Return these weights with those of keywords' terms, lowered.

        The higher the score of the best document for the own terms alone, `highest`, the less keywords count.
        """
        need = keyword_need(highest / (self.total + SCORE_OFFSET))
        factor = need * min(_FACTOR, _SHARE * self.total / keywords.total) if len(keywords.keys) else 0.0
        idf = np.concatenate([self.idf, factor * keywords.idf])
        return Weights(np.concatenate([self.keys, keywords.keys]), idf, len(keywords.keys))


def weigh_terms(snapshot: Snapshot[Bm25Body], terms: Sequence[str]) -> Weights:
    """Weigh terms by their frequency in living segments and grips.

    Periods repeat these and do not count. A term that no document holds has the highest weight.
    """
    hashes = np.array([term_key(t) for t in terms], dtype=np.uint64)
    df = np.zeros(len(hashes), dtype=np.int64)
    n = 0
    for live in snapshot:
        segments = live.segment_rows()
        n += int(np.count_nonzero(segments)) + live.counts[DocType.GRIP]
        _add_frequencies(df, live, DocType.NODE, hashes, segments)
        _add_frequencies(df, live, DocType.GRIP, hashes, live.alive_rows(DocType.GRIP))
    return Weights(hashes, np.array([math.log(1 + (n - d + 0.5) / (d + 0.5)) for d in df.tolist()]))


def _add_frequencies(df: Array, live: LiveShard[Bm25Body], table: DocType, hashes: Array, counting: Array | None) -> None:
    """Add to `df` the number of counting rows that hold each term."""
    postings = live.shard.body.table(table)
    for i, term_slice in enumerate(postings.find_slices(hashes)):
        if term_slice is not None:
            rows = postings.rows_at(term_slice)
            df[i] += len(rows) if counting is None else np.count_nonzero(counting[rows])
