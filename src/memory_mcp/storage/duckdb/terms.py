"""The tree's term sets and document frequencies, as rows that are folded now and then."""

from collections.abc import Iterable, Sequence

import duckdb

from memory_mcp.model.ids import NodeId, node_key
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.statements import insert_columns
from memory_mcp.storage.termsets import fold_counts, fold_sets, group_sets, subtract_sets


class DuckTerms:
    """The part of TocStore about terms."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def get_term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        by_key = {node_key(i): i for i in ids}
        if not by_key:
            return {}
        sql = "SELECT key, hashes FROM term_delta WHERE key IN (SELECT unnest(?::BIGINT[]))"
        sets: dict[NodeId, list[bytes]] = {}
        for key, hashes in self._con.fetch_rows(sql, [list(by_key)]):
            sets.setdefault(by_key[key], []).append(bytes(hashes))
        return sets

    def list_day_terms(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        sql = """SELECT t.hashes FROM term_delta t JOIN segment_cut s ON s.key = t.key
                 WHERE s.project = ? AND s.day >= ? AND s.day < ?"""
        return [bytes(row[0]) for row in self._con.fetch_rows(sql, [project, first_day, after_day])]

    def list_frequencies(self) -> list[tuple[str, bytes, bytes]]:
        rows = self._con.fetch_rows("SELECT project, hashes, counts FROM frequency")
        return [(row[0], bytes(row[1]), bytes(row[2])) for row in rows]

    def fold_terms(self, more_than: int) -> int:
        many = "SELECT key FROM term_delta GROUP BY key HAVING count(*) > ?"
        with self._con.begin_transaction() as con:
            rows = con.execute(f"SELECT rowid, key, hashes FROM term_delta WHERE key IN ({many})", [more_than]).fetchall()
            old_numbers, joined = fold_sets(rows, more_than)
            if joined:
                # Ids of rows hold good until the transaction ends.
                numbers = [number for group in old_numbers.values() for number in group]
                con.execute("DELETE FROM term_delta WHERE rowid IN (SELECT unnest(?::BIGINT[]))", [numbers])
                insert_columns(con, "term_delta", ("BIGINT", "BLOB"), [list(joined), list(joined.values())])
            many = "SELECT project FROM frequency GROUP BY project HAVING count(*) > ?"
            sql = f"SELECT rowid, project, hashes, counts FROM frequency WHERE project IN ({many})"
            folded = list(fold_counts(con.execute(sql, [more_than]).fetchall(), more_than))
            for project, numbers, summed in folded:
                con.execute("DELETE FROM frequency WHERE rowid IN (SELECT unnest(?::BIGINT[]))", [numbers])
                con.execute("INSERT INTO frequency VALUES (?, ?, ?)", [project, *summed])
            return len(joined) + len(folded)


def without_sets(con: duckdb.DuckDBPyConnection, segments: Sequence[int]) -> None:
    """Subtract segments' term sets from their projects' frequencies.

    Inside the caller's transaction. Terms whose count becomes 0 are removed. The segments' cuts and term rows have to be
    there still.
    """
    keys = "(SELECT unnest(?::BIGINT[]))"
    sql = f"""SELECT s.project, t.key, t.hashes FROM term_delta t JOIN segment_cut s ON s.key = t.key WHERE t.key IN {keys}"""
    for project, sets in group_sets(con.execute(sql, [segments]).fetchall()).items():
        rows = con.execute("SELECT hashes, counts FROM frequency WHERE project = ?", [project]).fetchall()
        con.execute("DELETE FROM frequency WHERE project = ?", [project])
        if remaining := subtract_sets(rows, sets):
            con.execute("INSERT INTO frequency VALUES (?, ?, ?)", [project, *remaining])
