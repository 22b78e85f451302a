"""The tree's term sets and the root's document frequencies, as append-only rows that are folded now and then."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import duckdb
import numpy as np

from memory_mcp.model.ids import NodeId, node_key
from memory_mcp.storage.duckdb.connection import Connection, insert

R = TypeVar("R", bound=tuple[Any, ...])
#: A row of this many bytes, this many times as large as all smaller ones of its node, is not written again to join them.
_LARGE, _SHARE = 32_768, 4


class DuckTerms:
    """Reading and folding; rows are added by `publish`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        """See TocStore."""
        by_key = {node_key(i): i for i in ids}
        if not by_key:
            return {}
        sql = "SELECT key, hashes FROM term_delta WHERE key IN (SELECT unnest(?::BIGINT[]))"
        found: dict[NodeId, list[bytes]] = {}
        for key, hashes in self._con.rows(sql, [list(by_key)]):
            found.setdefault(by_key[key], []).append(bytes(hashes))
        return found

    def terms_of_days(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        """See TocStore."""
        sql = """SELECT t.hashes FROM term_delta t JOIN segment_cut s ON s.key = t.key
                 WHERE s.project = ? AND s.day >= ? AND s.day < ?"""
        return [bytes(row[0]) for row in self._con.rows(sql, [project, first_day, after_day])]

    def frequencies(self) -> list[tuple[str, bytes, bytes]]:
        """See TocStore."""
        rows = self._con.rows("SELECT project, hashes, counts FROM frequency")
        return [(row[0], bytes(row[1]), bytes(row[2])) for row in rows]

    def fold_terms(self, more_than: int) -> int:
        """See TocStore."""
        many = "SELECT key FROM term_delta GROUP BY key HAVING count(*) > ?"
        with self._con.writing() as con:
            rows = con.execute(f"SELECT rowid, key, hashes FROM term_delta WHERE key IN ({many})", [more_than]).fetchall()
            parts: dict[int, list[tuple[int, bytes]]] = {}
            for row, key, hashes in rows:
                parts.setdefault(key, []).append((row, bytes(hashes)))
            if parts:
                # Ids of rows hold good until the transaction ends.
                small = {key: smallest(own, more_than) for key, own in parts.items()}
                gone = [row for own in small.values() for row, _ in own]
                con.execute("DELETE FROM term_delta WHERE rowid IN (SELECT unnest(?::BIGINT[]))", [gone])
                joined = [_union([hashes for _, hashes in own]) for own in small.values()]
                insert(con, "term_delta", ("BIGINT", "BLOB"), [list(small), joined])
            return len(parts) + self._fold_frequencies(con, more_than)

    def _fold_frequencies(self, con: duckdb.DuckDBPyConnection, more_than: int) -> int:
        many = "SELECT project FROM frequency GROUP BY project HAVING count(*) > ?"
        sql = f"SELECT rowid, project, hashes, counts FROM frequency WHERE project IN ({many})"
        by_project: dict[str, list[tuple[int, bytes, bytes]]] = {}
        for row, project, hashes, counts in con.execute(sql, [more_than]).fetchall():
            by_project.setdefault(project, []).append((row, bytes(hashes), bytes(counts)))
        for project, parts in by_project.items():
            small = smallest(parts, more_than)
            con.execute("DELETE FROM frequency WHERE rowid IN (SELECT unnest(?::BIGINT[]))", [[part[0] for part in small]])
            terms = np.concatenate([np.frombuffer(part[1], "<u4") for part in small])
            unique, place = np.unique(terms, return_inverse=True)
            weights = np.concatenate([np.frombuffer(part[2], "<i4") for part in small])
            sums = np.bincount(place, weights=weights, minlength=len(unique)).astype("<i4")
            con.execute("INSERT INTO frequency VALUES (?, ?, ?)", [project, unique.tobytes(), sums.tobytes()])
        return len(by_project)


def without_sets(con: duckdb.DuckDBPyConnection, segments: Sequence[int]) -> None:
    """Take the sets of some segments (keys) out of the frequencies of their projects, with terms that nothing else holds."""
    keys = "(SELECT unnest(?::BIGINT[]))"
    sql = f"""SELECT s.project, t.key, t.hashes FROM term_delta t JOIN segment_cut s ON s.key = t.key WHERE t.key IN {keys}"""
    sets: dict[str, dict[int, list[bytes]]] = {}
    for project, key, hashes in con.execute(sql, [segments]).fetchall():
        sets.setdefault(project, {}).setdefault(key, []).append(bytes(hashes))
    for project, by_key in sets.items():
        rows = con.execute("SELECT hashes, counts FROM frequency WHERE project = ?", [project]).fetchall()
        gone = [np.frombuffer(_union(parts), "<u4") for parts in by_key.values()]
        terms = np.concatenate([*(np.frombuffer(row[0], "<u4") for row in rows), *gone])
        weights = np.concatenate([*(np.frombuffer(row[1], "<i4") for row in rows), *(np.full(len(g), -1) for g in gone)])
        unique, place = np.unique(terms, return_inverse=True)
        sums = np.bincount(place, weights=weights, minlength=len(unique)).astype("<i4")
        con.execute("DELETE FROM frequency WHERE project = ?", [project])
        if (held := sums > 0).any():
            row = [project, unique[held].astype("<u4").tobytes(), sums[held].tobytes()]
            con.execute("INSERT INTO frequency VALUES (?, ?, ?)", row)


def smallest(rows: Sequence[R], more_than: int) -> list[R]:
    """Return the rows (number, hashes, ...) of a node to join: all of them, or those that do not amount to a large one.

    A year's set is a megabyte and its new rows are some hundred bytes: written anew with every fold it would be most of
    what a live write costs. A row is left as it is while it is `_SHARE` times as large as all smaller ones together.
    """
    found = sorted(rows, key=lambda row: len(row[1]))
    total = 0
    for place, row in enumerate(found):
        if place > 1 and len(found) - place < more_than and len(row[1]) >= max(_LARGE, _SHARE * total):
            return found[:place]
        total += len(row[1])
    return found


def _union(parts: list[bytes]) -> bytes:
    return np.unique(np.concatenate([np.frombuffer(p, "<u4") for p in parts])).astype("<u4").tobytes()
