"""SupersededStore on DuckDB: a small table, append-only."""

from collections.abc import Iterable, Sequence

from memory_mcp.model.ids import GripId, NodeId, grip_id_from
from memory_mcp.model.superseded import Superseded
from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.records import Noticed, Stated
from memory_mcp.storage.standing import Known, Standing

_STATED = """SELECT n.node_id, b.text, b.kind, b.project, min_by(g.grip_id, g.rowid)
  FROM bullet b JOIN node n ON n.key = b.key AND n.version = b.version
  JOIN bullet_grip g ON g.key = b.key AND g.version = b.version AND g.pos = b.pos
  WHERE n.current AND n.level = 'segment' AND n.author = ?
    AND (b.kind IN (SELECT unnest(?::VARCHAR[])) OR regexp_matches(lower(b.text), ?))
  GROUP BY ALL"""


class DuckSuperseded:
    """Rows kept in memory once they were read: there are few, and every search asks."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        # Only this process writes: it says itself when there is more.
        self._standing = Standing(self._read, lambda: 0)

    def record(self, superseded: Superseded) -> None:
        """See SupersededStore."""
        one = superseded
        with self._con.writing() as con:
            row = [one.old, one.new, one.at_ms, one.reason, one.author]
            con.execute("INSERT INTO superseded VALUES (?, ?, ?, ?, ?)", row)
        self.reread()

    def notice(self, noticed: Noticed) -> None:
        """See SupersededStore."""
        self._standing.notice(noticed)

    def stated(self, kinds: Sequence[str], pattern: str) -> list[Stated]:
        """See SupersededStore."""
        rows = self._con.rows(_STATED, [EXTRACTIVE, list(kinds), pattern])
        return [Stated(NodeId(node), text, kind, project, grip_id_from(grip)) for node, text, kind, project, grip in rows]

    def is_empty(self) -> bool:
        """See SupersededStore."""
        return self._standing.is_empty()

    def reread(self) -> None:
        """Drop what is kept in memory."""
        self._standing.reread()

    def unfollow(self) -> None:
        """Have what was noticed worked out anew: the tree is not what it was."""
        self._standing.unfollow()

    def recorded(self) -> list[Superseded]:
        """See SupersededStore."""
        return self._standing.recorded()

    def of(self, ids: Iterable[GripId]) -> Known:
        """See SupersededStore."""
        return self._standing.of(ids)

    def _read(self) -> Known:
        sql = "SELECT old_id, new_id, at_ms, reason, author FROM superseded ORDER BY at_ms, rowid"
        found = (Superseded(GripId(o), GripId(n) if n else None, *rest) for o, n, *rest in self._con.rows(sql))
        return {one.old: one for one in found}
