"""Merge the best of each shard into one list; the division into shards has no effect."""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes import keys
from memory_mcp.indexes.base import DocType, Match
from memory_mcp.indexes.calibrate import REQUEST_FACTOR, Table, calibrate_scores
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.shard import LiveShard
from memory_mcp.indexes.snapshot import segment_of
from memory_mcp.model.exchange import LISTED_LAST
from memory_mcp.model.ids import GripId

# A number of numpy's takes ten times as long with a flag.
_LISTED_LAST = int(LISTED_LAST)


@dataclass(frozen=True, slots=True)
class TableBest:
    """The best documents of one table of one part."""

    live: LiveShard[Any]
    table: DocType
    #: Rows of the documents, `(n,)` int64, and their raw scores, `(n,)` float.
    rows: Array
    raw: Array


S = TypeVar("S", bound=TableBest)


@dataclass(frozen=True, slots=True)
class RankedDocument(Generic[S]):
    """One of the best documents: index `at` in the `TableBest` of its shard."""

    #: Calibrated, normalized and raw score.
    value: float
    normalized: float
    raw: float
    #: Halves of the document's key.
    high: int
    low: int
    best: S
    at: int

    def to_match(self, raw: float, best_grip: GripId | None, score_parts: tuple[tuple[str, float], ...]) -> Match:
        """Return the document as a match with this raw score."""
        shard, row, table = self.best.live.shard, int(self.best.rows[self.at]), self.best.table
        is_node = table is DocType.NODE
        columns = shard.table(table)
        return Match(
            doc_type=table,
            node_key=int(shard.units.key[columns.unit[row]]),
            node_id=keys.node_of(self.high, self.low) if is_node else segment_of(shard, row),
            grip_id=None if is_node else keys.grip_of(self.high, self.low),
            start_ms=int(columns.start[row]),
            score=round(self.value, 6),
            raw=raw,
            best_grip=best_grip,
            parts=score_parts,
            asks=_is_request(self.best, self.at),
        )


def rank_table(
    best: Iterable[S], table: DocType, limit: int, normalize: Callable[[Array], Array], calibration: Table
) -> list[RankedDocument[S]]:
    """Return a table's best documents over all shards, ties by key.

    `normalize` takes their raw scores in that order, `(n,)` float64, and returns normalized ones, which
    `calibration` maps. The calibrated scores of requests are a hundredth: a question is not its answer.
    """
    entries: list[tuple[float, int, int, S, int]] = []
    for shard_best in best:
        columns = shard_best.live.shard.table(table)
        high, low = columns.hi[shard_best.rows].tolist(), columns.lo[shard_best.rows].tolist()
        entries += [
            (-raw, h, lo, shard_best, at) for at, (raw, h, lo) in enumerate(zip(shard_best.raw.tolist(), high, low, strict=True))
        ]
    entries.sort(key=itemgetter(0, 1, 2))
    entries = entries[:limit]
    normalized = normalize(np.array([-f[0] for f in entries]))
    values = calibrate_scores(calibration, normalized).tolist()
    return [
        RankedDocument(value * REQUEST_FACTOR if _is_request(shard_best, at) else value, share, -raw, high, low, shard_best, at)
        for value, share, (raw, high, low, shard_best, at) in zip(values, normalized.tolist(), entries, strict=True)
    ]


def _is_request(best: TableBest, at: int) -> bool:
    return bool(best.live.shard.table(best.table).turn[best.rows[at]] & _LISTED_LAST)


def merge_tables(tables: Iterable[Sequence[RankedDocument[S]]]) -> list[RankedDocument[S]]:
    """Return documents of several tables by calibrated, then raw score."""
    return sorted((r for table in tables for r in table), key=lambda r: (-r.value, -r.raw, r.high, r.low))
