"""Merge the best of each part into one list, calibrated per table, so that the division into parts has no effect."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np

from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.calibrate import Table, calibrated
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.part import LivePart


@dataclass(frozen=True, slots=True)
class Best:
    """The best documents of one table of one part, with raw scores."""

    live: LivePart[Any]
    table: DocType
    rows: Array
    raw: Array


S = TypeVar("S", bound=Best)


@dataclass(frozen=True, slots=True)
class Ranked(Generic[S]):
    """One of the best over all parts: index `at` in the `Best` of its part."""

    value: float
    stand: float
    raw: float
    high: int
    low: int
    best: S
    at: int


def ranked(
    best: Iterable[S], table: DocType, limit: int, standing: Callable[[Array], Array], calibration: Table
) -> list[Ranked[S]]:
    """Return the best of one table, best first, ties by key; `standing` gets their raw scores in that order."""
    found: list[tuple[float, int, int, S, int]] = []
    for some in best:
        columns = some.live.part.table(table)
        high, low = columns.hi[some.rows].tolist(), columns.lo[some.rows].tolist()
        found += [(-raw, h, lo, some, at) for at, (raw, h, lo) in enumerate(zip(some.raw.tolist(), high, low, strict=True))]
    found.sort(key=itemgetter(0, 1, 2))
    found = found[:limit]
    stands = standing(np.array([-f[0] for f in found]))
    values = calibrated(calibration, stands).tolist()
    return [
        Ranked(value, stand, -raw, high, low, some, at)
        for value, stand, (raw, high, low, some, at) in zip(values, stands.tolist(), found, strict=True)
    ]


def merged(tables: Iterable[Sequence[Ranked[S]]]) -> list[Ranked[S]]:
    """Return several tables' best as one list by calibrated score."""
    return sorted((r for table in tables for r in table), key=lambda r: (-r.value, -r.raw, r.high, r.low))
