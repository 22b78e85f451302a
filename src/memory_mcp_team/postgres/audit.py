"""AuditStore on PostgreSQL: a small table to which rows are only added."""

import json

from memory_mcp.model.ledger import AuditEntry
from memory_mcp_team.postgres.connection import ACTING, Connection, own

_COLUMNS = "at_ms, what, author, subject, reason, counts"
_TYPES = ("bigint", "text", "text", "text", "text", "text")


class PostgresAudit:
    """Acts upon the memory, rows that are only added; an `AuditStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record_entry(self, act: AuditEntry) -> None:
        """Add an entry, committed when this returns.

        Add an act as one row, in a transaction of its own; in a member's call "(member N)" is added to its author.
        """
        member = ACTING.get()
        # Agents call themselves as they like; the member has proved who it is.
        author = f"{act.author} (member {member})".lstrip() if member else act.author
        row = [act.at_ms, act.action, author, act.subject, act.reason, json.dumps(dict(act.counts))]
        with self._con.open_writer() as writer:
            writer.insert_rows("audit", _COLUMNS, _TYPES, [[value] for value in row])

    def list_entries(self, limit: int = 100) -> list[AuditEntry]:
        """Return up to `limit` entries, newest first."""
        sql = f"SELECT {_COLUMNS} FROM audit WHERE {own()} ORDER BY at_ms DESC, number DESC LIMIT %(limit)s"
        rows = self._con.rows(sql, limit=limit)
        return [AuditEntry(what, ms, who, on, why, json.loads(n)) for ms, what, who, on, why, n in rows]
