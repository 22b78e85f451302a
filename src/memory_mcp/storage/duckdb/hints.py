"""HintStore on DuckDB: a small table, read whole and kept in memory."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory_mcp.model.hint import Hint, HintKind, HintRecord
from memory_mcp.model.ids import EventId, event_key
from memory_mcp.storage.duckdb.connection import Connection

#: Hints that are kept, beside those that a person rejected.
_MOST_HINTS = 1_000
_COLUMNS = (
    "hint_id, at_ms, session_id, project, outcome, rejected, kind, subject, text, grip_id, evidence, topic, call, remedy,"
    " call_name, remedy_name"
)
_QUOTED = "SELECT count(*) FROM event WHERE event_id IN (SELECT unnest(?::HUGEINT[]))"


class DuckHints:
    """Hints that hooks gave."""

    is_kept = True

    def __init__(self, con: Connection) -> None:
        self._con = con
        #: Guards the hints in memory and how often they were replaced; never held while the store is waited for.
        self._lock = threading.Lock()
        #: As they are stored; None: to be read. A hook asks for them and waits for no write.
        self._hints: tuple[HintRecord, ...] | None = None
        self._version = 0

    def record_hint(self, session_id: str, project: str, hint: Hint, at_ms: int) -> None:
        with self._con.hold_writes():
            stored = self.list_hints()
            record = HintRecord(stored[-1].hint_id + 1 if stored else 1, at_ms, session_id, project, hint)
            keys = [event_key(event_id) for event_id in dict.fromkeys(hint.evidence)]
            values = [record.hint_id, at_ms, session_id, project, "", False, hint.kind, hint.subject, hint.text, hint.grip_id]
            values += [" ".join(hint.evidence), hint.topic, hint.call, hint.remedy, hint.call_name, hint.remedy_name]
            removable = [record.hint_id for record in stored if not record.is_rejected]
            removed = removable[: max(len(removable) + 1 - _MOST_HINTS, 0)]
            with self._con.begin_transaction() as con:
                if con.execute(_QUOTED, [keys]).fetchall() != [(len(keys),)]:
                    return
                con.execute(f"INSERT INTO hint ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values)
                if removed:
                    con.execute("DELETE FROM hint WHERE hint_id IN (SELECT unnest(?::BIGINT[]))", [removed])
            self._replace_hints((*(record for record in stored if record.hint_id not in removed), record))

    def record_outcomes(self, outcomes: Mapping[int, str]) -> None:
        with self._con.hold_writes():
            stored = self.list_hints()
            with self._con.begin_transaction() as con:
                for hint_id, outcome in outcomes.items():
                    con.execute("UPDATE hint SET outcome = ? WHERE hint_id = ?", [outcome, hint_id])
            self._replace_hints(tuple(replace(record, outcome=outcomes.get(record.hint_id, record.outcome)) for record in stored))

    def list_hints(self) -> Sequence[HintRecord]:
        with self._lock:
            hints, version = self._hints, self._version
        if hints is None:
            rows = self._con.fetch_rows(f"SELECT {_COLUMNS} FROM hint ORDER BY hint_id")
            hints = tuple(HintRecord(row[0], row[1], row[2], row[3], _hint_of(*row[6:]), row[4], row[5]) for row in rows)
            with self._lock:
                if version == self._version:
                    self._hints = hints
        return hints

    def reject_hint(self, hint_id: int) -> bool:
        with self._con.hold_writes():
            stored = self.list_hints()
            with self._con.begin_transaction() as con:
                con.execute("UPDATE hint SET rejected = true WHERE hint_id = ?", [hint_id])
            self._replace_hints(
                tuple(replace(record, is_rejected=True) if record.hint_id == hint_id else record for record in stored)
            )
        return any(record.hint_id == hint_id for record in stored)

    def drop_cache(self) -> None:
        """Read the hints again when they are asked for: rows may have been removed."""
        self._replace_hints(None)

    def _replace_hints(self, hints: tuple[HintRecord, ...] | None) -> None:
        """Keep hints in memory; what somebody else is still reading is older."""
        with self._lock:
            self._hints, self._version = hints, self._version + 1


def _hint_of(kind: str, subject: str, text: str, grip_id: str, evidence: str, topic: int, *calls: int) -> Hint:
    call, remedy, call_name, remedy_name = calls
    return Hint(
        kind=HintKind(kind),
        subject=subject,
        text=text,
        grip_id=grip_id,
        evidence=tuple(map(EventId, evidence.split())),
        topic=topic,
        call=call,
        remedy=remedy,
        call_name=call_name,
        remedy_name=remedy_name,
    )
