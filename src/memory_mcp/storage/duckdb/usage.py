"""UsageStore on DuckDB: a small table of grip ids and moments."""

from collections.abc import Iterable

from memory_mcp.model.ids import GripId
from memory_mcp.model.usage import Used
from memory_mcp.storage.duckdb.connection import Connection


class DuckUsage:
    """See UsageStore."""

    def __init__(self, con: Connection) -> None:
        """Use `con`; nothing is read yet."""
        self._con = con
        #: Whether there is any row; None: not looked yet. Only this process writes.
        self._any: bool | None = None

    def record(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        """Note that each of the grips was opened at `at_ms` (UTC ms); one that is named twice counts twice.

        See UsageStore: one row for each id, in a transaction of its own; nothing without ids.
        """
        ids = list(grip_ids)
        if ids:
            with self._con.writing() as con:
                con.execute("INSERT INTO usage SELECT unnest(?::VARCHAR[]), ?", [ids, at_ms])
            self._any = True

    def of(self, ids: Iterable[GripId]) -> dict[GripId, Used]:
        """Return the openings of those of `ids` that were ever opened. Reads nothing while nothing was.

        See UsageStore; the times of each grip in order, grips that were never opened left out.
        """
        if self._any is None:
            self._any = self._con.row("SELECT 1 FROM usage LIMIT 1") is not None
        wanted = list(set(ids))
        if not self._any or not wanted:
            return {}
        sql = """SELECT grip_id, list(at_ms ORDER BY at_ms) FROM usage WHERE grip_id IN (SELECT unnest(?::VARCHAR[]))
                 GROUP BY grip_id"""
        return {GripId(row[0]): Used(tuple(row[1])) for row in self._con.rows(sql, [wanted])}

    def forget(self, ids: Iterable[GripId]) -> None:
        """Remove every opening of these grips; one without any is no error.

        See UsageStore, in a transaction of its own; grips without openings are no error.
        """
        with self._con.writing() as con:
            con.execute("DELETE FROM usage WHERE grip_id IN (SELECT unnest(?::VARCHAR[]))", [list(set(ids))])
