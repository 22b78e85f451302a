"""SupersededStore on DuckDB: a small table, append-only."""

import threading
from collections.abc import Iterable
from dataclasses import replace

from memory_mcp.model.ids import GripId
from memory_mcp.model.superseded import Superseded
from memory_mcp.storage.duckdb.connection import Connection


class DuckSuperseded:
    """Rows kept in memory once they were read: there are few, and every search asks."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._lock = threading.Lock()
        self._known: dict[GripId, Superseded] | None = None

    def record(self, superseded: Superseded) -> None:
        """See SupersededStore."""
        one = superseded
        with self._lock:
            with self._con.writing() as con:
                row = [one.old, one.new, one.at_ms, one.reason, one.author]
                con.execute("INSERT INTO superseded VALUES (?, ?, ?, ?, ?)", row)
            self._known = None

    def is_empty(self) -> bool:
        """See SupersededStore."""
        return not self._all()

    def reread(self) -> None:
        """Drop what is kept in memory."""
        with self._lock:
            self._known = None

    def of(self, ids: Iterable[GripId]) -> dict[GripId, Superseded]:
        """See SupersededStore."""
        known = self._all()
        return {i: _last(i, known) for i in ids if i in known} if known else {}

    def _all(self) -> dict[GripId, Superseded]:
        with self._lock:
            if self._known is None:
                sql = "SELECT old_id, new_id, at_ms, reason, author FROM superseded ORDER BY at_ms, rowid"
                found = (Superseded(GripId(o), GripId(n) if n else None, *rest) for o, n, *rest in self._con.rows(sql))
                self._known = {one.old: one for one in found}
            return self._known


def _last(old: GripId, known: dict[GripId, Superseded]) -> Superseded:
    """Where the steps from `old` end; in a circle, the last before it closes."""
    seen, now = {old}, known[old]
    while now.new in known and known[now.new].new not in seen:
        seen.add(now.new)
        now = known[now.new]
    return replace(now, old=old)
