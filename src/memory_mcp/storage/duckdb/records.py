"""The small stores of a memory on DuckDB: audit, spending, corrections, topics, openings, hints, quotations and calls."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.grip import Grip, GripUsage, Supersession
from memory_mcp.model.hint import Hint, HintKind, HintRecord
from memory_mcp.model.ids import HASH_MASK, EventId, GripId, NodeId, TopicId, event_id_from, event_key, grip_id_from, grip_key
from memory_mcp.model.ledger import AuditEntry, ModelCall, Outcome
from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.model.tool_run import FailureTally, KeyKind, StoredRun
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.recent import RecentGrips
from memory_mcp.storage.duckdb.statements import insert_columns
from memory_mcp.storage.records import StoredStatement
from memory_mcp.storage.rows import (
    GRIP,
    RUN,
    SPENT,
    TOPIC,
    bound_keys,
    grip_of,
    group_by_stream,
    runs_of_rows,
    spent_of,
    spent_row,
    topic_columns,
    topic_of,
)
from memory_mcp.storage.standing import Known, SupersessionBase


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


class DuckSpending:
    """Requests to language models, rows that are only added; a `SpendingStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record_call(self, spent: ModelCall) -> None:
        with self._con.begin_transaction() as con:
            con.execute("INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", spent_row(spent))

    def list_calls(self, at_ms: int) -> list[ModelCall]:
        rows = self._con.fetch_rows(f"SELECT {SPENT} FROM spending WHERE at_ms >= ? ORDER BY at_ms, rowid", [at_ms])
        return [spent_of(row) for row in rows]

    def count_tokens(self, at_ms: int) -> int:
        row = self._con.fetch_row(
            "SELECT coalesce(sum(tokens_in + tokens_out), 0)::BIGINT FROM spending WHERE at_ms >= ?", [at_ms]
        )
        return int(row[0]) if row else 0

    def list_unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        sql = "SELECT DISTINCT node_id, written_from FROM spending WHERE outcome = ? AND model = ?"
        rows = self._con.fetch_rows(sql, [Outcome.FALLBACK, model])
        return frozenset((NodeId(row[0]), row[1]) for row in rows)


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


_TYPES = ("VARCHAR", "BIGINT", "BOOLEAN", "BLOB", "VARCHAR", "BOOLEAN", "VARCHAR")


class DuckTopics:
    """Topics of present and past, and their labels."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def list_topics(self) -> list[TopicRecord]:
        return [topic_of(row) for row in self._con.fetch_rows(f"SELECT {TOPIC} FROM topic ORDER BY topic_id")]

    def replace_topics(self, topics: Sequence[TopicRecord]) -> None:
        columns = topic_columns(topics)
        with self._con.begin_transaction() as con:
            con.execute("DELETE FROM topic")
            if topics:
                insert_columns(con, "topic", _TYPES, columns)

    def set_label(self, topic_label: TopicLabel) -> None:
        with self._con.begin_transaction() as con:
            con.execute(
                "DELETE FROM topic_label WHERE topic_id = ? AND project IS NOT DISTINCT FROM ?",
                [topic_label.topic_id, topic_label.project],
            )
            if topic_label.label:
                row = [topic_label.topic_id, topic_label.project, topic_label.label, topic_label.author, topic_label.at_ms]
                con.execute("INSERT INTO topic_label VALUES (?, ?, ?, ?, ?)", row)

    def list_labels(self) -> list[TopicLabel]:
        rows = self._con.fetch_rows("SELECT topic_id, project, label, author, at_ms FROM topic_label ORDER BY at_ms, rowid")
        return [TopicLabel(TopicId(row[0]), row[1], row[2], row[3], row[4]) for row in rows]


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


#: Events whose grips are kept from one reading: more of them are bulk work.
_KEPT_AT_ONCE = 200
#: Joined by OR the two would be told for every row of the table, at twice the time.
_OF_EVENTS = f"""SELECT {GRIP} FROM grip WHERE event_start IN (SELECT unnest(?::HUGEINT[]))
  UNION SELECT {GRIP} FROM grip WHERE event_end IN (SELECT unnest(?::HUGEINT[])) ORDER BY event_start, span_start, span_end"""


class DuckGrips:
    """Quotations; those of recently quoted or read events are in memory."""

    def __init__(self, con: Connection, recent: RecentGrips, keyed: KeyedRows) -> None:
        """Share `recent` with whatever stores events and grips."""
        self._con = con
        self._keyed = keyed
        self._recent = recent

    def find_grip(self, grip_id: str) -> Grip | None:
        key, is_complete = grip_key(grip_id)
        rows = self._keyed.read_grips([key]) if is_complete else self._keyed.find_grip(key)
        if rows is not None:
            return grip_of(rows[0]) if rows else None
        if is_complete:
            row = self._con.fetch_row(f"SELECT {GRIP} FROM grip WHERE grip_id = ?", [key])
        else:
            row = self._con.fetch_row(f"SELECT {GRIP} FROM grip WHERE (grip_id & ?::HUGEINT) = ?::HUGEINT", [HASH_MASK, key])
        return grip_of(row) if row else None

    def get_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        requested_ids, write_count = set(ids), self._recent.writes
        cached = self._recent.find_grips(requested_ids)
        keys = list({grip_key(i)[0] for i in requested_ids if i not in cached})
        if not keys:
            return cached
        rows = self._keyed.read_grips(keys)
        if rows is None:
            rows = self._con.fetch_rows(f"SELECT {GRIP} FROM grip WHERE grip_id IN (SELECT unnest(?::HUGEINT[]))", [keys])
        read = {g.grip_id: g for g in map(grip_of, rows)}
        self._recent.keep_read(read, write_count)
        return cached | read

    def grips_by_event(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """Return grips; those of up to 200 events are then kept in memory."""
        event_ids = list(dict.fromkeys(ids))
        write_count = self._recent.writes
        grips = {i: cached for i in event_ids if (cached := self._recent.event_grips(i)) is not None}
        if missing := [i for i in event_ids if i not in grips]:
            keys = [event_key(i) for i in missing]
            read: dict[EventId, list[Grip]] = {i: [] for i in map(event_id_from, keys)}
            rows = self._keyed.read_event_grips(keys)
            for grip in map(grip_of, self._con.fetch_rows(_OF_EVENTS, [keys, keys]) if rows is None else rows):
                for event_id in dict.fromkeys((grip.event_id_start, grip.event_id_end)):
                    if event_id in read:
                        read[event_id].append(grip)
            if len(missing) <= _KEPT_AT_ONCE:
                self._recent.keep_grips(read, write_count)
            grips |= read
        return {event_id: cached for event_id, cached in grips.items() if cached}

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        last = -1
        sql = f"SELECT {GRIP} FROM grip WHERE grip_id > ?::HUGEINT ORDER BY grip_id LIMIT ?"
        while rows := self._con.fetch_rows(sql, [last, batch]):
            yield [grip_of(row) for row in rows]
            last = rows[-1][0]


#: Above every key.
_LAST = (1 << 127) - 1
_FOUND = f"""WITH found AS (
    SELECT DISTINCT t.call, t.result, t.key, c.stream, c.project, c.session_id
    FROM tool_run t JOIN segment_cut c ON c.key = t.key
    WHERE t.kind = ? AND list_contains(?::BIGINT[], t.hash) AND (?::VARCHAR IS NULL OR c.project = ?)
      AND t.call >= ?::HUGEINT AND t.call < ?::HUGEINT
    ORDER BY t.call DESC LIMIT ?)
  SELECT {RUN} FROM tool_run r JOIN found s ON s.call = r.call AND s.result = r.result AND s.key = r.key
  ORDER BY r.call DESC, r.result, r.kind, r.hash"""
#: The first call of a session is the one that was called first.
_TALLY = """WITH used AS (
    SELECT t.hash, c.session_id, arg_min(t.failed, t.call) AS first, bool_or(t.failed) AS failed,
      max(t.call) FILTER (t.failed) AS last
    FROM tool_run t JOIN segment_cut c ON c.key = t.key
    WHERE t.kind = ? AND (?::VARCHAR IS NULL OR c.project = ?) AND t.call >= ?::HUGEINT AND t.call < ?::HUGEINT GROUP BY ALL)
  SELECT hash, count(*), count(*) FILTER (failed) AS failing, count(*) FILTER (first), max(last) FROM used GROUP BY hash
  HAVING failing >= ? ORDER BY failing DESC, max(last) DESC, hash LIMIT ?"""
_OF_STREAMS = f"""SELECT {RUN} FROM tool_run r JOIN segment_cut s ON s.key = r.key
  WHERE s.stream IN (SELECT unnest(?::BIGINT[])) ORDER BY r.result, r.call, r.kind, r.hash"""

_FAILED = f"""SELECT {RUN} FROM tool_run r JOIN segment_cut s ON s.key = r.key
  WHERE r.failed AND s.project = ? ORDER BY r.call DESC, r.result, r.kind, r.hash"""


class DuckToolRuns:
    """Calls of tools with their outcomes."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def find_runs(
        self, kind: KeyKind, hashes: Iterable[int], project: str | None, limit: int, window: TimeWindow | None = None
    ) -> list[StoredRun]:
        values = list(hashes)
        if not values:
            return []
        parameters = [int(kind), values, project, project, *bound_keys(window, _LAST), limit]
        return runs_of_rows(self._con.fetch_rows(_FOUND, parameters))

    def tally_failures(
        self, kind: KeyKind, project: str | None, window: TimeWindow, least: int, limit: int
    ) -> list[FailureTally]:
        rows = self._con.fetch_rows(_TALLY, [int(kind), project, project, *bound_keys(window, _LAST), least, limit])
        return [FailureTally(value, used, failing, first, event_id_from(last)) for value, used, failing, first, last in rows]

    def list_stream_runs(self, streams: Iterable[int]) -> dict[int, list[StoredRun]]:
        numbers = list(streams)
        return group_by_stream(self._con.fetch_rows(_OF_STREAMS, [numbers]) if numbers else (), numbers)

    def list_failed_runs(self, project: str) -> list[StoredRun]:
        return runs_of_rows(self._con.fetch_rows(_FAILED, [project]))
