"""The tree's term sets and the root's document frequencies, as append-only rows that are folded now and then."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from memory_mcp.model.ids import NodeId, node_key
from memory_mcp.storage.duckdb.connection import Connection


class DuckTerms:
    """Reading and folding; rows are added by `publish`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        """See TocStore."""
        by_key = {node_key(i): i for i in ids}
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
            rows = con.execute(f"SELECT key, hashes FROM term_delta WHERE key IN ({many})", [more_than]).fetchall()
            parts: dict[int, list[bytes]] = {}
            for key, hashes in rows:
                parts.setdefault(key, []).append(bytes(hashes))
            if parts:
                con.execute("DELETE FROM term_delta WHERE key IN (SELECT unnest(?::BIGINT[]))", [list(parts)])
                con.execute(
                    "INSERT INTO term_delta SELECT unnest(?::BIGINT[]), unnest(?::BLOB[])",
                    [list(parts), [_union(p) for p in parts.values()]],
                )
            folded = len(parts)
            if con.execute("SELECT count(*) FROM frequency").fetchall()[0][0] > more_than:
                folded += self._fold_frequencies(con)
        return folded

    def _fold_frequencies(self, con: Any) -> int:
        by_project: dict[str, list[tuple[bytes, bytes]]] = {}
        for project, hashes, counts in con.execute("SELECT project, hashes, counts FROM frequency").fetchall():
            by_project.setdefault(project, []).append((bytes(hashes), bytes(counts)))
        con.execute("DELETE FROM frequency")
        for project, parts in by_project.items():
            hashes = np.concatenate([np.frombuffer(h, "<u4") for h, _ in parts])
            counts = np.concatenate([np.frombuffer(c, "<i4") for _, c in parts])
            unique, place = np.unique(hashes, return_inverse=True)
            sums = np.bincount(place, weights=counts, minlength=len(unique)).astype("<i4")
            con.execute("INSERT INTO frequency VALUES (?, ?, ?)", [project, unique.tobytes(), sums.tobytes()])
        return len(by_project)


def _union(parts: list[bytes]) -> bytes:
    return np.unique(np.concatenate([np.frombuffer(p, "<u4") for p in parts])).astype("<u4").tobytes()
