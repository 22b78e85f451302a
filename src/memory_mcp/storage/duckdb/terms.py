"""The tree's term sets and the root's document frequencies, as append-only rows that are folded now and then."""

from collections.abc import Iterable, Sequence

import duckdb

from memory_mcp.model.ids import NodeId, node_key
from memory_mcp.storage.duckdb.connection import Connection, insert
from memory_mcp.storage.termsets import less, smallest, summed, union


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
                joined = [union([hashes for _, hashes in own]) for own in small.values()]
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
            con.execute("INSERT INTO frequency VALUES (?, ?, ?)", [project, *summed(part[1:] for part in small)])
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
        con.execute("DELETE FROM frequency WHERE project = ?", [project])
        if left := less(rows, by_key.values()):
            con.execute("INSERT INTO frequency VALUES (?, ?, ?)", [project, *left])
