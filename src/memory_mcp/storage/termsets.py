"""Joins and subtracts stored term sets and counts by term (pure).

A set is its terms' hashes, sorted: uint32, little-endian; counts stand beside the hashes of a row: int32,
little-endian.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

R = TypeVar("R", bound=tuple[Any, ...])
#: A row of this many bytes, this many times as large as all smaller ones of its node, is not written again to join them.
_LARGE, _SHARE = 32_768, 4


def select_smallest(rows: Sequence[R], more_than: int) -> list[R]:
    """Return the rows (number, hashes, ...) of a node to join, smallest first: all, or those below the first large one.

    A row is large if it has 32 KiB or more and is four times as large as all smaller ones together; it is left as it
    is where at least two smaller ones and fewer than `more_than` rows from it on remain. A year's set is a megabyte
    and its new rows are some hundred bytes: written anew with every fold it would be most of what a live write costs.
    """
    found = sorted(rows, key=lambda row: len(row[1]))
    total = 0
    for place, row in enumerate(found):
        if place > 1 and len(found) - place < more_than and len(row[1]) >= max(_LARGE, _SHARE * total):
            return found[:place]
        total += len(row[1])
    return found


def fold_sets(rows: Iterable[tuple[int, int, bytes]], more_than: int) -> tuple[dict[int, list[int]], dict[int, bytes]]:
    """Return which term rows (number, node key, hashes) to replace, and by what, each by node key.

    The first value has the numbers of the rows that go, the second their union; `smallest` says which rows these are.
    """
    parts: dict[int, list[tuple[int, bytes]]] = {}
    for number, key, hashes in rows:
        parts.setdefault(key, []).append((number, bytes(hashes)))
    small = {key: select_smallest(several, more_than) for key, several in parts.items()}
    numbers = {key: [number for number, _ in several] for key, several in small.items()}
    return numbers, {key: unite_sets(hashes for _, hashes in several) for key, several in small.items()}


def fold_counts(
    rows: Iterable[tuple[int, str, bytes, bytes]], more_than: int
) -> Iterator[tuple[str, list[int], tuple[bytes, bytes]]]:
    """Yield by project of rows (number, project, hashes, counts): its name, the numbers of the rows that go, their sum.

    The sum is a row (hashes, counts) to store in their place; `smallest` says which rows these are.
    """
    parts: dict[str, list[tuple[int, bytes, bytes]]] = {}
    for number, project, hashes, counts in rows:
        parts.setdefault(project, []).append((number, bytes(hashes), bytes(counts)))
    for project, several in parts.items():
        small = select_smallest(several, more_than)
        yield project, [row[0] for row in small], sum_counts(row[1:] for row in small)


def group_sets(rows: Iterable[tuple[str, int, bytes]]) -> dict[str, list[list[bytes]]]:
    """Return by project the term sets of its segments, from rows (project, segment key, hashes); a set may have several."""
    found: dict[str, dict[int, list[bytes]]] = {}
    for project, key, hashes in rows:
        found.setdefault(project, {}).setdefault(key, []).append(bytes(hashes))
    return {project: list(by_key.values()) for project, by_key in found.items()}


def unite_sets(sets: Iterable[bytes]) -> bytes:
    """Return the union of stored sets as a stored set: sorted, each hash once. Raises ValueError for no sets."""
    return np.unique(np.concatenate([np.frombuffer(one, "<u4") for one in sets])).astype("<u4").tobytes()


def sum_counts(rows: Iterable[Sequence[bytes]]) -> tuple[bytes, bytes]:
    """Return the terms of rows (hashes, counts), sorted, and the sum of each, as a stored row; sums of 0 stay."""
    terms, sums = _sum_arrays(rows)
    return terms.tobytes(), sums.tobytes()


def subtract_sets(rows: Iterable[Sequence[bytes]], sets: Iterable[Iterable[bytes]]) -> tuple[bytes, bytes] | None:
    """Return the sums of rows (hashes, counts) less 1 for every term of each set, as a stored row (hashes, counts).

    Each set is given as its stored rows. Terms whose sum is 0 or less are left out; None where none is left.
    """
    gone = [(one, np.full(len(one) // 4, -1, "<i4").tobytes()) for one in map(unite_sets, sets)]
    terms, sums = _sum_arrays([*rows, *gone])
    held = sums > 0
    return (terms[held].tobytes(), sums[held].tobytes()) if held.any() else None


def _sum_arrays(rows: Iterable[Sequence[bytes]]) -> "tuple[np.ndarray[Any, np.dtype[Any]], np.ndarray[Any, np.dtype[Any]]]":
    """Return the distinct terms of rows (at least one), sorted, shape (n,) uint32, and the sum of each, shape (n,) int32."""
    rows = list(rows)
    terms = np.concatenate([np.frombuffer(hashes, "<u4") for hashes, _ in rows])
    weights = np.concatenate([np.frombuffer(counts, "<i4") for _, counts in rows])
    unique, place = np.unique(terms, return_inverse=True)
    return unique.astype("<u4"), np.bincount(place, weights=weights, minlength=len(unique)).astype("<i4")
