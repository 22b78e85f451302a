"""SupersededStore on DuckDB: a small table to which rows are only added."""

from collections.abc import Sequence

from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId, NodeId, grip_id_from
from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.records import StoredStatement
from memory_mcp.storage.standing import Known, SupersessionBase

_STATED = """SELECT n.node_id, b.text, b.kind, b.project, min_by(g.grip_id, g.rowid)
  FROM bullet b JOIN node n ON n.key = b.key AND n.version = b.version
  JOIN bullet_grip g ON g.key = b.key AND g.version = b.version AND g.pos = b.pos
  WHERE n.current AND n.level = 'segment' AND n.author = ?
    AND (b.kind IN (SELECT unnest(?::VARCHAR[])) OR regexp_matches(lower(b.text), ?))
  GROUP BY ALL"""


class DuckSuperseded(SupersessionBase):
    """Which statement replaces which, in a table that only grows."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        super().__init__()

    def record_supersession(self, superseded: Supersession) -> None:
        with self._con.begin_transaction() as con:
            row = [superseded.old, superseded.new, superseded.at_ms, superseded.reason, superseded.author]
            con.execute("INSERT INTO superseded VALUES (?, ?, ?, ?, ?)", row)
        self.drop_records()

    def list_statements(self, kinds: Sequence[str], pattern: str) -> list[StoredStatement]:
        """Return statements with their first quotation, if they have any."""
        rows = self._con.fetch_rows(_STATED, [EXTRACTIVE, list(kinds), pattern])
        return [
            StoredStatement(NodeId(node), text, kind, project, grip_id_from(grip)) for node, text, kind, project, grip in rows
        ]

    def _read(self) -> Known:
        sql = "SELECT old_id, new_id, at_ms, reason, author FROM superseded ORDER BY at_ms, rowid"
        records = (Supersession(GripId(o), GripId(n) if n else None, *fields) for o, n, *fields in self._con.fetch_rows(sql))
        return {record.old: record for record in records}
