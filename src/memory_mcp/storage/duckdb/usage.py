"""UsageStore and SupersededStore on DuckDB: two small tables of grip ids and moments."""

import threading
from collections.abc import Iterable

from memory_mcp.model.ids import GripId
from memory_mcp.model.usage import Used
from memory_mcp.storage.duckdb.connection import Connection


class DuckUsage:
    """Openings of quotations, a row each."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        #: Whether there is any row; None: not looked yet. Only this process writes.
        self._any: bool | None = None

    def record(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        """See UsageStore."""
        ids = list(grip_ids)
        if ids:
            with self._con.writing() as con:
                con.execute("INSERT INTO usage SELECT unnest(?::VARCHAR[]), ?", [ids, at_ms])
            self._any = True

    def of(self, ids: Iterable[GripId]) -> dict[GripId, Used]:
        """See UsageStore."""
        if self._any is None:
            self._any = self._con.row("SELECT 1 FROM usage LIMIT 1") is not None
        wanted = list(set(ids))
        if not self._any or not wanted:
            return {}
        sql = """SELECT grip_id, list(at_ms ORDER BY at_ms) FROM usage WHERE grip_id IN (SELECT unnest(?::VARCHAR[]))
                 GROUP BY grip_id"""
        return {GripId(row[0]): Used(tuple(row[1])) for row in self._con.rows(sql, [wanted])}

    def forget(self, ids: Iterable[GripId]) -> None:
        """See UsageStore."""
        with self._con.writing() as con:
            con.execute("DELETE FROM usage WHERE grip_id IN (SELECT unnest(?::VARCHAR[]))", [list(set(ids))])


class DuckSuperseded:
    """Pairs of statements, kept in memory once they were read: there are few, and every search asks."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._lock = threading.Lock()
        self._pairs: dict[GripId, GripId] | None = None

    def record(self, old: GripId, new: GripId, at_ms: int) -> None:
        """See SupersededStore."""
        with self._lock:
            with self._con.writing() as con:
                con.execute("INSERT INTO superseded VALUES (?, ?, ?)", [old, new, at_ms])
            self._pairs = None

    def of(self, ids: Iterable[GripId]) -> dict[GripId, GripId]:
        """See SupersededStore."""
        pairs = self._all()
        return {i: _last(i, pairs) for i in ids if i in pairs} if pairs else {}

    def _all(self) -> dict[GripId, GripId]:
        with self._lock:
            if self._pairs is None:
                rows = self._con.rows("SELECT old_id, new_id FROM superseded ORDER BY at_ms, rowid")
                self._pairs = {GripId(old): GripId(new) for old, new in rows}
            return self._pairs


def _last(old: GripId, pairs: dict[GripId, GripId]) -> GripId:
    """Where the steps from `old` end; in a circle, the last before it closes."""
    seen, now = {old}, pairs[old]
    while now in pairs and pairs[now] not in seen:
        seen.add(now)
        now = pairs[now]
    return now
