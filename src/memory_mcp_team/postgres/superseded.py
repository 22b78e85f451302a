"""SupersededStore on PostgreSQL: a small table to which any process may add rows."""

import re
from collections.abc import Sequence

from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId, NodeId, grip_id_from
from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.storage.records import StoredStatement
from memory_mcp.storage.standing import Known, SupersessionBase
from memory_mcp_team.postgres.connection import Connection, own

_COLUMNS = "old_id, new_id, at_ms, reason, author"
_TYPES = ("text", "text", "bigint", "text", "text")
#: What the database makes of letters outside ASCII depends on its locale: statements that have some are read, and judged here.
_STATED = f"""SELECT n.node_id, b.text, b.kind, b.project,
    (SELECT g.grip_id FROM bullet_grip g
     WHERE {own("g")} AND g.key = b.key AND g.version = b.version AND g.pos = b.pos ORDER BY g.place LIMIT 1) AS proof
  FROM node n JOIN bullet b ON {own("b")} AND b.key = n.key AND b.version = n.version
  WHERE {own("n")} AND n.current AND n.level = 'segment' AND n.author = %(author)s
    AND (b.kind = ANY(%(kinds)s::text[]) OR octet_length(b.text) <> char_length(b.text) OR lower(b.text) ~ %(pattern)s)"""


class PostgresSuperseded(SupersessionBase):
    """Which statement replaces which, in a table to which any process adds rows; a `SupersededStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        super().__init__()

    def record_supersession(self, superseded: Supersession) -> None:
        """Record that `new` replaces `old`; the last record of `old` counts."""
        with self._con.open_writer() as writer:
            row = [superseded.old, superseded.new, superseded.at_ms, superseded.reason, superseded.author]
            writer.insert_rows("superseded", _COLUMNS, _TYPES, [[value] for value in row])
            writer.head.notes += 1
        self.drop_records()

    def list_statements(self, kinds: Sequence[str], pattern: str) -> list[StoredStatement]:
        """Return the summarizer's statements of these kinds, or that match."""
        # The same signs mean the same to the database, but for the edge of a word.
        theirs = pattern.replace(r"\b", r"\y")
        rows = self._con.rows(_STATED, author=EXTRACTIVE, kinds=list(kinds), pattern=theirs)
        kind_set, words = frozenset(kinds), re.compile(pattern, re.ASCII)
        return [
            StoredStatement(NodeId(node), text, kind, project, grip_id_from(grip))
            for node, text, kind, project, grip in rows
            if grip is not None and (kind in kind_set or words.search(text.lower()))
        ]

    def _version(self) -> tuple[int, int]:
        """Return the head's (resets, notes): a recorded replacement raises the notes, in any process."""
        return self._con.head().noted

    def _read(self) -> Known:
        rows = self._con.rows(f"SELECT {_COLUMNS} FROM superseded WHERE {own()} ORDER BY at_ms, number")
        records = (Supersession(GripId(old), GripId(new) if new else None, *more) for old, new, *more in rows)
        return {record.old: record for record in records}
