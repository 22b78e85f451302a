"""AuditStore on DuckDB: a small table to which rows are only added."""

import json

from memory_mcp.model.ledger import AuditEntry
from memory_mcp.storage.duckdb.connection import Connection


class DuckAudit:
    """The audit trail, rows that are only added."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record_entry(self, act: AuditEntry) -> None:
        row = [act.at_ms, act.action, act.author, act.subject, act.reason, json.dumps(dict(act.counts))]
        with self._con.begin_transaction() as con:
            con.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?)", row)

    def list_entries(self, limit: int = 100) -> list[AuditEntry]:
        sql = "SELECT what, at_ms, author, subject, reason, counts FROM audit ORDER BY at_ms DESC, rowid DESC LIMIT ?"
        return [
            AuditEntry(what, ms, who, on, why, json.loads(n)) for what, ms, who, on, why, n in self._con.fetch_rows(sql, [limit])
        ]
