"""Removes what is to be forgotten from every table, in one transaction; the caller derives anew what depends on it.

Events are looked through before it, while others write; the transaction looks at what came meanwhile.

Invariants
1. Sessions that lose or change an event, and those of which a text tells of one, are derived anew: their events arrive again,
   behind all others.
2. Events are numbered from 1 without gaps, before and after.
3. A changed event has the id that an import of its source gives it now, so that no second copy comes.
4. Whoever follows the store is told of every node that goes.
"""

from functools import partial
from typing import Any

import duckdb

from memory_mcp.model.ids import event_id_from, event_key
from memory_mcp.storage import forgotten
from memory_mcp.storage.archive import SYNCED
from memory_mcp.storage.duckdb.connection import Row
from memory_mcp.storage.duckdb.deferred import EVENT_TYPES
from memory_mcp.storage.duckdb.outbox import Numbers, add_changes
from memory_mcp.storage.duckdb.statements import insert_columns
from memory_mcp.storage.duckdb.terms import without_sets
from memory_mcp.storage.forgotten import Findings
from memory_mcp.storage.records import DERIVER
from memory_mcp.storage.rows import event_columns
from memory_mcp.storage.values import Cleaner

_SPELLED = {
    "own": "true",
    "keys": "IN (SELECT unnest($keys::BIGINT[]))",
    "ids": "IN (SELECT unnest($ids::HUGEINT[]))",
    "names": "IN (SELECT unnest($names::VARCHAR[]))",
    "list": "$list::VARCHAR[]",
}
_KEYS, _IDS = "(SELECT unnest(?::BIGINT[]))", "(SELECT unnest(?::HUGEINT[]))"
#: A hint of which only the topic is left.
_WORDLESS = ", ".join(f"{name} = {value!r}" for name, value in forgotten.HINT_WORDS.items())
#: Parameter: the number of an event behind which some are read.
EVENTS_AFTER = f"{forgotten.EVENTS_AFTER.format(own='true', after='?')} LIMIT {forgotten.READ_LIMIT}"


class DuckEraser(forgotten.Eraser):
    """One pass over the store, inside the caller's transaction."""

    _keys = dict.fromkeys((*forgotten.CLEANED, *forgotten.DROPPED), "rowid")

    def __init__(self, con: duckdb.DuckDBPyConnection, numbers: Numbers, keep: Cleaner, dry: bool, findings: Findings) -> None:
        super().__init__(keep, findings, dry)
        self._con = con
        self._add_changes, self._subtract_sets = partial(add_changes, con, numbers), partial(without_sets, con)

    def _fetch_rows(self, statement: str, **parameters: Any) -> list[Row]:
        spelled = statement.format(**{name: f"${name}" for name in parameters} | _SPELLED)
        return self._con.execute(spelled, parameters).fetchall()

    def _remove_grips(self) -> None:
        super()._remove_grips()
        self._remove_hints()

    def _remove_hints(self) -> None:
        """Count and remove hints that quote what goes, were given in its sessions, or hold a forgotten value.

        Of a rejected one the topic stays, without words, so that it is not given again.
        """
        gone = {event_id_from(key) for key in (*self._findings.removed, *self._findings.changed)}
        sessions = {event.session_id for event in self._findings.removed.values()}
        rows = self._fetch_rows("SELECT hint_id, evidence, session_id, project, subject, text FROM hint")
        doomed = [
            hint_id
            for hint_id, evidence, session_id, *texts in rows
            if not gone.isdisjoint(evidence.split()) or session_id in sessions or self._holds_forgotten(session_id, *texts)
        ]
        if doomed:
            self._add_count("hints", len(doomed))
        if doomed and not self._dry:
            self._execute_write("DELETE FROM hint WHERE NOT rejected AND hint_id {keys}", keys=doomed)
            self._execute_write(f"UPDATE hint SET {_WORDLESS} WHERE hint_id {{keys}}", keys=doomed)

    def _rewrite_events(self) -> None:
        """Remove and change events, then number all again without gaps.

        Events of the streams concerned come after all others. A changed event whose new id is stored already is removed
        instead, with its pairs. The deriver's and the exports' positions are set to the number of unconcerned events before
        them.
        """
        con, streams = self._con, list(self._findings.streams)
        gone, changed = list(self._findings.removed), self._findings.changed
        if first := self._fetch_number("SELECT coalesce(min(seq), 0) FROM event WHERE stream {keys}", keys=streams):
            self._add_changes(self._findings.make_changes(first))
        con.execute(f"DELETE FROM duplicate WHERE event_id IN {_IDS} OR canonical IN {_IDS}", [gone, gone])
        con.execute(f"DELETE FROM event WHERE event_id IN {_IDS}", [[*gone, *changed]])
        for old, (seq, event) in changed.items():
            key = event_key(event.event_id)
            if self._fetch_number("SELECT count(*) FROM event WHERE event_id = {key}", key=key):
                con.execute("DELETE FROM duplicate WHERE event_id = ? OR canonical = ?", [old, old])
                continue
            insert_columns(con, "event", EVENT_TYPES, event_columns([event], seq))
            con.execute("UPDATE duplicate SET event_id = ? WHERE event_id = ?", [key, old])
            con.execute("UPDATE duplicate SET canonical = ? WHERE canonical = ?", [key, old])
        # Whoever counts in numbers of events goes on where it was; what was touched comes to everybody again.
        places = con.execute(
            f"""SELECT name, (SELECT count(*) FROM event WHERE seq <= value::BIGINT AND stream NOT IN {_KEYS})
                FROM checkpoint WHERE name = ? OR starts_with(name, ?)""",
            [streams, DERIVER, SYNCED],
        ).fetchall()
        con.execute(
            f"""UPDATE event SET seq = n.place FROM (
                  SELECT event_id, row_number() OVER (ORDER BY stream IN {_KEYS}, seq) AS place FROM event) n
                WHERE event.event_id = n.event_id AND event.seq <> n.place""",
            [streams],
        )
        for name, next_seq in places:
            con.execute("UPDATE checkpoint SET value = ? WHERE name = ?", [str(next_seq), name])
