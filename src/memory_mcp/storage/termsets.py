"""Join and subtract stored term sets and counts by term. Pure.

A set is its terms' hashes, sorted: uint32, little-endian; counts are next to the hashes of a row: int32,
little-endian.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

R = TypeVar("R", bound=tuple[Any, ...])
#: A row of this many bytes, this many times as large as all smaller ones of its node, is not written again to join them.
_LARGE, _SHARE = 32_768, 4


def select_smallest(rows: Sequence[R], more_than: int) -> list[R]:
    """Return the rows (number, hashes, ...) to join, smallest first.

    That is all, or those below the first large one. A row is large if it has 32 KiB or more and is four times as large as
    all smaller ones together; it is left as it is where at least two smaller ones and fewer than `more_than` rows from it
    on remain. A year's set is a megabyte and its new rows are some hundred bytes: written again with every fold it would be
    most of what a live write costs.
    """
    by_size = sorted(rows, key=lambda row: len(row[1]))
    total = 0
    for index, row in enumerate(by_size):
        if index > 1 and len(by_size) - index < more_than and len(row[1]) >= max(_LARGE, _SHARE * total):
            return by_size[:index]
        total += len(row[1])
    return by_size


def fold_sets(rows: Iterable[tuple[int, int, bytes]], more_than: int) -> tuple[dict[int, list[int]], dict[int, bytes]]:
    """Return the row numbers to replace, and their union, by node key.

    Rows are (number, node key, hashes).
    """
    parts: dict[int, list[tuple[int, bytes]]] = {}
    for number, key, hashes in rows:
        parts.setdefault(key, []).append((number, bytes(hashes)))
    small = {key: select_smallest(node_rows, more_than) for key, node_rows in parts.items()}
    numbers = {key: [number for number, _ in node_rows] for key, node_rows in small.items()}
    return numbers, {key: unite_sets(hashes for _, hashes in node_rows) for key, node_rows in small.items()}


def fold_counts(
    rows: Iterable[tuple[int, str, bytes, bytes]], more_than: int
) -> Iterator[tuple[str, list[int], tuple[bytes, bytes]]]:
    """Yield each project, the row numbers to replace, and their sum.

    Rows are (number, project, hashes, counts); a sum is (hashes, counts).
    """
    parts: dict[str, list[tuple[int, bytes, bytes]]] = {}
    for number, project, hashes, counts in rows:
        parts.setdefault(project, []).append((number, bytes(hashes), bytes(counts)))
    for project, project_rows in parts.items():
        small = select_smallest(project_rows, more_than)
        yield project, [row[0] for row in small], sum_counts(row[1:] for row in small)


def group_sets(rows: Iterable[tuple[str, int, bytes]]) -> dict[str, list[list[bytes]]]:
    """Return each project's term sets, by segment a list of rows."""
    sets: dict[str, dict[int, list[bytes]]] = {}
    for project, key, hashes in rows:
        sets.setdefault(project, {}).setdefault(key, []).append(bytes(hashes))
    return {project: list(by_key.values()) for project, by_key in sets.items()}


def unite_sets(sets: Iterable[bytes]) -> bytes:
    """Return the union of stored sets; raises ValueError for none."""
    return np.unique(np.concatenate([np.frombuffer(hashes, "<u4") for hashes in sets])).astype("<u4").tobytes()


def sum_counts(rows: Iterable[Sequence[bytes]]) -> tuple[bytes, bytes]:
    """Return the summed counts by term as a stored row; 0 stays."""
    terms, sums = _sum_arrays(rows)
    return terms.tobytes(), sums.tobytes()


def subtract_sets(rows: Iterable[Sequence[bytes]], sets: Iterable[Iterable[bytes]]) -> tuple[bytes, bytes] | None:
    """Return the summed counts less 1 for every term of each set.

    As a stored row (hashes, counts); each set is given as its stored rows. Sums of 0 or less are left out; None if none is left.
    """
    removed = [(hashes, np.full(len(hashes) // 4, -1, "<i4").tobytes()) for hashes in map(unite_sets, sets)]
    terms, sums = _sum_arrays([*rows, *removed])
    positive = sums > 0
    return (terms[positive].tobytes(), sums[positive].tobytes()) if positive.any() else None


def _sum_arrays(rows: Iterable[Sequence[bytes]]) -> "tuple[np.ndarray[Any, np.dtype[Any]], np.ndarray[Any, np.dtype[Any]]]":
    """Return distinct terms, (n,) uint32, and their sums, (n,) int32."""
    rows = list(rows)
    terms = np.concatenate([np.frombuffer(hashes, "<u4") for hashes, _ in rows])
    weights = np.concatenate([np.frombuffer(counts, "<i4") for _, counts in rows])
    unique, inverse = np.unique(terms, return_inverse=True)
    return unique.astype("<u4"), np.bincount(inverse, weights=weights, minlength=len(unique)).astype("<i4")
