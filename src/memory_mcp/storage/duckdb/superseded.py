"""SupersededStore on DuckDB: a small table, append-only."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from memory_mcp.model.ids import GripId, NodeId, grip_id_from
from memory_mcp.model.superseded import Superseded
from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.records import Noticed, Stated

_STATED = """SELECT n.node_id, b.text, b.kind, b.project, min_by(g.grip_id, g.rowid)
  FROM bullet b JOIN node n ON n.key = b.key AND n.version = b.version
  JOIN bullet_grip g ON g.key = b.key AND g.version = b.version AND g.pos = b.pos
  WHERE n.current AND n.level = 'segment' AND n.author = ?
    AND (b.kind IN (SELECT unnest(?::VARCHAR[])) OR regexp_matches(lower(b.text), ?))
  GROUP BY ALL"""

_Known = dict[GripId, Superseded]


class DuckSuperseded:
    """Rows kept in memory once they were read: there are few, and every search asks."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        #: Never held while the store is read or written: whoever holds that says here that it changed.
        self._lock = threading.Lock()
        self._changes = 0
        self._recorded: _Known | None = None
        self._noticed: Noticed | None = None
        #: What was recorded and noticed, and both together.
        self._both: tuple[_Known, Mapping[GripId, Sequence[Superseded]], _Known] | None = None

    def record(self, superseded: Superseded) -> None:
        """See SupersededStore."""
        one = superseded
        with self._con.writing() as con:
            row = [one.old, one.new, one.at_ms, one.reason, one.author]
            con.execute("INSERT INTO superseded VALUES (?, ?, ?, ?, ?)", row)
        self.reread()

    def notice(self, noticed: Noticed) -> None:
        """See SupersededStore."""
        self._noticed = noticed

    def stated(self, kinds: Sequence[str], pattern: str) -> list[Stated]:
        """See SupersededStore."""
        rows = self._con.rows(_STATED, [EXTRACTIVE, list(kinds), pattern])
        return [Stated(NodeId(node), text, kind, project, grip_id_from(grip)) for node, text, kind, project, grip in rows]

    def is_empty(self) -> bool:
        """See SupersededStore."""
        return not self._all()

    def reread(self) -> None:
        """Drop what is kept in memory."""
        with self._lock:
            self._changes += 1
            self._recorded = None

    def unfollow(self) -> None:
        """What was noticed is worked out anew: the tree is not what it was."""
        if self._noticed is not None:
            self._noticed.forget()

    def of(self, ids: Iterable[GripId]) -> _Known:
        """See SupersededStore."""
        known = self._all()
        return {i: _last(i, known) for i in ids if i in known} if known else {}

    def _all(self) -> _Known:
        recorded = self._read()
        noticed = self._noticed.marks() if self._noticed is not None else {}
        if not noticed:
            return recorded
        both = self._both
        if both is None or both[0] is not recorded or both[1] is not noticed:
            both = self._both = (recorded, noticed, _together(recorded, noticed))
        return both[2]

    def _read(self) -> _Known:
        known = self._recorded
        if known is None:
            changes = self._changes
            sql = "SELECT old_id, new_id, at_ms, reason, author FROM superseded ORDER BY at_ms, rowid"
            found = (Superseded(GripId(o), GripId(n) if n else None, *rest) for o, n, *rest in self._con.rows(sql))
            known = {one.old: one for one in found}
            with self._lock:
                if changes == self._changes:
                    self._recorded = known
        return known


def _together(recorded: _Known, noticed: Mapping[GripId, Sequence[Superseded]]) -> _Known:
    """What somebody said of a statement counts alone, and what was taken back contradicts nothing."""
    taken_back = {old for old, one in recorded.items() if one.new is None}
    known = dict(recorded)
    for old, several in noticed.items():
        standing = [one for one in several if one.new not in taken_back]
        if standing and old not in recorded:
            known[old] = standing[-1]
    return known


def _last(old: GripId, known: _Known) -> Superseded:
    """Where the steps from `old` end; in a circle, the last before it closes."""
    seen, now = {old}, known[old]
    while now.new in known and known[now.new].new not in seen:
        seen.add(now.new)
        now = known[now.new]
    return replace(now, old=old, words=known[old].words)
