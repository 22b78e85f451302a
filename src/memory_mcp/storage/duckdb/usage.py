"""UsageStore on DuckDB: a small table of grip ids and moments."""

from collections.abc import Iterable

from memory_mcp.model.grip import GripUsage
from memory_mcp.model.ids import GripId
from memory_mcp.storage.duckdb.connection import Connection


class DuckUsage:
    """When quotations were opened, a row for each opening."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        #: Whether there is any row; None: not looked yet. Only this process writes.
        self._any: bool | None = None

    def record_usage(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        ids = list(grip_ids)
        if ids:
            with self._con.begin_transaction() as con:
                con.execute("INSERT INTO usage SELECT unnest(?::VARCHAR[]), ?", [ids, at_ms])
            self._any = True

    def get_usage(self, ids: Iterable[GripId]) -> dict[GripId, GripUsage]:
        if self._any is None:
            self._any = self._con.fetch_row("SELECT 1 FROM usage LIMIT 1") is not None
        grip_ids = list(set(ids))
        if not self._any or not grip_ids:
            return {}
        sql = """SELECT grip_id, list(at_ms ORDER BY at_ms) FROM usage WHERE grip_id IN (SELECT unnest(?::VARCHAR[]))
                 GROUP BY grip_id"""
        return {GripId(row[0]): GripUsage(tuple(row[1])) for row in self._con.fetch_rows(sql, [grip_ids])}
