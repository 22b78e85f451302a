"""The small stores of a memory on PostgreSQL: audit, quotations, spending, corrections, tombstones, topics and openings."""

import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memory_mcp.base.errors import StorageError
from memory_mcp.model.grip import Grip, GripUsage, Supersession
from memory_mcp.model.hint import Hint, HintRecord
from memory_mcp.model.ids import HASH_MASK, EventId, GripId, NodeId, TopicId, event_id_from, event_key, grip_id_from, grip_key
from memory_mcp.model.ledger import AuditEntry, ModelCall, Outcome
from memory_mcp.model.toc import EXTRACTIVE
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.records import StoredStatement
from memory_mcp.storage.rows import GRIP, SPENT, TOPIC, grip_of, spent_of, spent_row, topic_columns, topic_of
from memory_mcp.storage.standing import Known, SupersessionBase
from memory_mcp_team.postgres.connection import ACTING_MEMBER, Connection, Writer, own
from memory_mcp_team.postgres.database import uuid_of, uuids_of
from memory_mcp_team.postgres.work import NOW

_AUDIT_COLUMNS = "at_ms, what, author, subject, reason, counts"
_AUDIT_TYPES = ("bigint", "text", "text", "text", "text", "text")


class PostgresAudit:
    """Acts upon the memory; an `AuditStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record_entry(self, act: AuditEntry) -> None:
        """Add an entry, with the member added to its author."""
        member = ACTING_MEMBER.get()
        # Agents call themselves as they like; the member has proved who it is.
        author = f"{act.author} (member {member})".lstrip() if member else act.author
        row = [act.at_ms, act.action, author, act.subject, act.reason, json.dumps(dict(act.counts))]
        with self._con.open_writer() as writer:
            writer.insert_rows("audit", _AUDIT_COLUMNS, _AUDIT_TYPES, [[value] for value in row])

    def list_entries(self, limit: int = 100) -> list[AuditEntry]:
        sql = f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE {own()} ORDER BY at_ms DESC, number DESC LIMIT %(limit)s"
        rows = self._con.rows(sql, limit=limit)
        return [AuditEntry(what, ms, who, on, why, json.loads(n)) for ms, what, who, on, why, n in rows]


_GRIP = f"SELECT {GRIP} FROM grip WHERE {own()} AND grip_id = %(id)s::uuid"
#: The lower 80 bits are the last 10 bytes.
_GRIP_BY_TAIL = f"SELECT {GRIP} FROM grip WHERE {own()} AND substr(uuid_send(grip_id), 7) = %(tail)s::bytea LIMIT 1"
_GRIPS = f"SELECT {GRIP} FROM grip WHERE {own()} AND grip_id = ANY(%(ids)s::uuid[])"
#: Joined by OR the two conditions would use neither index.
_GRIPS_OF_EVENTS = f"""SELECT {GRIP} FROM grip WHERE {own()} AND event_start = ANY(%(ids)s::uuid[])
  UNION SELECT {GRIP} FROM grip WHERE {own()} AND event_end = ANY(%(ids)s::uuid[])
  ORDER BY event_start, span_start, span_end"""
_GRIPS_AFTER = f"SELECT {GRIP} FROM grip WHERE {own()} AND grip_id > %(last)s::uuid ORDER BY grip_id LIMIT %(batch)s"


class PostgresGrips:
    """Quotations of one memory; a `GripStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def find_grip(self, grip_id: str) -> Grip | None:
        key, is_whole = grip_key(grip_id)
        if is_whole:
            row = self._con.row(_GRIP, id=uuid_of(key))
        else:
            row = self._con.row(_GRIP_BY_TAIL, tail=(key & HASH_MASK).to_bytes(10, "big"))
        return grip_of(row) if row else None

    def get_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        keys = list({grip_key(i)[0] for i in ids})
        rows = self._con.rows(_GRIPS, ids=uuids_of(keys)) if keys else ()
        return {g.grip_id: g for g in map(grip_of, rows)}

    def grips_by_event(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        keys = list(dict.fromkeys(map(event_key, ids)))
        if not keys:
            return {}
        by_event: dict[EventId, list[Grip]] = {event_id_from(key): [] for key in keys}
        for grip in map(grip_of, self._con.rows(_GRIPS_OF_EVENTS, ids=uuids_of(keys))):
            for event_id in dict.fromkeys((grip.event_id_start, grip.event_id_end)):
                if event_id in by_event:
                    by_event[event_id].append(grip)
        return {event_id: several for event_id, several in by_event.items() if several}

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        last = uuid_of(0)
        while rows := self._con.rows(_GRIPS_AFTER, last=last, batch=batch):
            yield [grip_of(row) for row in rows]
            last = uuid_of(rows[-1][0])


_SPENDING_TYPES = ("bigint", "text", "text", "text", "bigint", "bigint", "boolean", "text", "text", "bigint")
_SPENT_TOKENS = f"SELECT coalesce(sum(tokens_in + tokens_out), 0)::bigint FROM spending WHERE {own()} AND at_ms >= %(at)s"
_UNUSABLE_ANSWERS = f"""SELECT DISTINCT node_id, written_from FROM spending
  WHERE {own()} AND outcome = %(outcome)s AND model = %(model)s"""


class PostgresSpending:
    """Requests to language models; a `SpendingStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record_call(self, spent: ModelCall) -> None:
        with self._con.open_writer() as writer:
            writer.insert_rows("spending", SPENT, _SPENDING_TYPES, [[value] for value in spent_row(spent)])

    def list_calls(self, at_ms: int) -> list[ModelCall]:
        sql = f"SELECT {SPENT} FROM spending WHERE {own()} AND at_ms >= %(at)s ORDER BY at_ms, number"
        return [spent_of(row) for row in self._con.rows(sql, at=at_ms)]

    def count_tokens(self, at_ms: int) -> int:
        row = self._con.row(_SPENT_TOKENS, at=at_ms)
        return int(row[0]) if row else 0

    def list_unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        rows = self._con.rows(_UNUSABLE_ANSWERS, outcome=Outcome.FALLBACK.value, model=model)
        return frozenset((NodeId(row[0]), row[1]) for row in rows)


_SUPERSEDED_COLUMNS = "old_id, new_id, at_ms, reason, author"
_SUPERSEDED_TYPES = ("text", "text", "bigint", "text", "text")
#: What the database makes of letters outside ASCII depends on its locale: statements that have some are read, and judged here.
_STATEMENTS = f"""SELECT n.node_id, b.text, b.kind, b.project,
    (SELECT g.grip_id FROM bullet_grip g
     WHERE {own("g")} AND g.key = b.key AND g.version = b.version AND g.pos = b.pos ORDER BY g.place LIMIT 1) AS proof
  FROM node n JOIN bullet b ON {own("b")} AND b.key = n.key AND b.version = n.version
  WHERE {own("n")} AND n.current AND n.level = 'segment' AND n.author = %(author)s
    AND (b.kind = ANY(%(kinds)s::text[]) OR octet_length(b.text) <> char_length(b.text) OR lower(b.text) ~ %(pattern)s)"""


class PostgresSuperseded(SupersessionBase):
    """Which statement replaces which; a `SupersededStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        super().__init__()

    def record_supersession(self, superseded: Supersession) -> None:
        with self._con.open_writer() as writer:
            row = [superseded.old, superseded.new, superseded.at_ms, superseded.reason, superseded.author]
            writer.insert_rows("superseded", _SUPERSEDED_COLUMNS, _SUPERSEDED_TYPES, [[value] for value in row])
            writer.head.notes += 1
        self.drop_records()

    def list_statements(self, kinds: Sequence[str], pattern: str) -> list[StoredStatement]:
        # The same signs mean the same to the database, but for the edge of a word.
        theirs = pattern.replace(r"\b", r"\y")
        rows = self._con.rows(_STATEMENTS, author=EXTRACTIVE, kinds=list(kinds), pattern=theirs)
        kind_set, words = frozenset(kinds), re.compile(pattern, re.ASCII)
        return [
            StoredStatement(NodeId(node), text, kind, project, grip_id_from(grip))
            for node, text, kind, project, grip in rows
            if grip is not None and (kind in kind_set or words.search(text.lower()))
        ]

    def _version(self) -> tuple[int, int]:
        return self._con.get_head().notes_stamp

    def _read(self) -> Known:
        rows = self._con.rows(f"SELECT {_SUPERSEDED_COLUMNS} FROM superseded WHERE {own()} ORDER BY at_ms, number")
        records = (Supersession(GripId(old), GripId(new) if new else None, *more) for old, new, *more in rows)
        return {record.old: record for record in records}


_KEY_BYTES = 32
_TOMBSTONE_LINES = f"SELECT line FROM tombstone WHERE {own()} ORDER BY number"
_TOMBSTONE_KEY = f"SELECT key FROM tombstone_key WHERE {own()}"
_MAKE_TOMBSTONE_KEY = """INSERT INTO tombstone_key (tenant, space, key) VALUES (%(tenant)s, %(space)s, %(key)s)
  ON CONFLICT (tenant, space) DO NOTHING"""
_REPLACE_TOMBSTONE_KEY = f"UPDATE tombstone_key SET key = %(key)s WHERE {own()}"

#: Work that looks once more for what was forgotten: for what a server stored that did not know of it yet, and in the place of one
#: that was killed over it. Due after so long (milliseconds).
FORGET, _FORGET_AFTER_MS = "forget", 60_000
_FORGET_DUE = f"""INSERT INTO work (tenant, space, name, due_ms) VALUES (%(tenant)s, %(space)s, %(name)s, {NOW} + %(later)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET due_ms = excluded.due_ms"""


class PostgresTombstones:
    """What was forgotten in a memory, each line a row; a `TombstoneLog`.

    The key of the hashes is in the database too: who can read it can read the memory itself.
    """

    def __init__(self, con: Connection) -> None:
        self._con = con

    def get_stamp(self) -> int:
        return self._con.get_head().resets

    def read_lines(self) -> list[str]:
        return [str(line) for (line,) in self._con.rows(_TOMBSTONE_LINES)]

    def load_key(self) -> bytes:
        row = self._con.row(_TOMBSTONE_KEY)
        if row is None:
            with self._con.open_writer() as writer:
                row = _load_or_make_key(writer, secrets.token_bytes(_KEY_BYTES))
        return bytes(row[0])

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add lines, and look once more in a minute."""
        with self._con.open_writer() as writer:
            _insert_lines(writer, lines)

    def adopt_lines(self, key: bytes, lines: Sequence[str]) -> list[str]:
        with self._con.open_writer() as writer:
            stored_lines = {str(line) for (line,) in writer.rows(_TOMBSTONE_LINES)}
            (stored_set,) = _load_or_make_key(writer, key)
            if bytes(stored_set) != key and stored_lines:
                raise StorageError(
                    "what was forgotten here has another key than the copy",
                    "Apply the copy to the restored database before anything is forgotten there.",
                )
            if bytes(stored_set) != key:
                writer.execute(_REPLACE_TOMBSTONE_KEY, key=key)
            new = [line for line in dict.fromkeys(lines) if line not in stored_lines]
            if new:
                _insert_lines(writer, new)
            return new


def _load_or_make_key(writer: Writer, key: bytes) -> tuple[bytes]:
    writer.execute(_MAKE_TOMBSTONE_KEY, key=key)
    row = writer.row(_TOMBSTONE_KEY)
    assert row is not None
    return (bytes(row[0]),)


def _insert_lines(writer: Writer, lines: Sequence[str]) -> None:
    now = time.time_ns() // 1_000_000
    writer.execute(_FORGET_DUE, name=FORGET, later=_FORGET_AFTER_MS)
    writer.insert_rows("tombstone", "at_ms, line", ("bigint", "text"), [[now] * len(lines), list(lines)])
    writer.head.resets += 1


_TOPIC_TYPES = ("text", "bigint", "boolean", "bytea", "text", "boolean", "text")
_LABEL_COLUMNS = "topic_id, project, label, author, at_ms"
_LABEL_TYPES = ("text", "text", "text", "text", "bigint")
_DROP_LABEL = f"""DELETE FROM topic_label
  WHERE {own()} AND topic_id = %(topic)s AND project IS NOT DISTINCT FROM %(project)s::text"""


class PostgresTopics:
    """Which topics there are and were, and their labels; a `TopicStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def list_topics(self) -> list[TopicRecord]:
        rows = self._con.rows(f'SELECT {TOPIC} FROM topic WHERE {own()} ORDER BY topic_id COLLATE "C"')
        return [topic_of(row) for row in rows]

    def replace_topics(self, topics: Sequence[TopicRecord]) -> None:
        columns = topic_columns(topics)
        with self._con.open_writer() as writer:
            writer.execute(f"DELETE FROM topic WHERE {own()}")
            writer.insert_rows("topic", TOPIC, _TOPIC_TYPES, columns)
            writer.head.notes += 1

    def set_label(self, label: TopicLabel) -> None:
        with self._con.open_writer() as writer:
            writer.execute(_DROP_LABEL, topic=label.topic_id, project=label.project)
            if label.label:
                row = [label.topic_id, label.project, label.label, label.author, label.at_ms]
                writer.insert_rows("topic_label", _LABEL_COLUMNS, _LABEL_TYPES, [[value] for value in row])
            # Labels do not pass through the outbox: this is how other processes notice.
            writer.head.notes += 1

    def list_labels(self) -> list[TopicLabel]:
        rows = self._con.rows(f"SELECT {_LABEL_COLUMNS} FROM topic_label WHERE {own()} ORDER BY at_ms, number")
        return [TopicLabel(TopicId(topic_id), *labels) for topic_id, *labels in rows]


_OPENINGS = f"""SELECT grip_id, array_agg(at_ms ORDER BY at_ms) FROM usage
  WHERE {own()} AND grip_id = ANY(%(ids)s::text[]) GROUP BY grip_id"""


class PostgresUsage:
    """When quotations were opened, a row for each opening; a `UsageStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        #: When there was no row, as `Head.noted` says it; None before the first look.
        self._empty_at: tuple[int, int] | None = None
        self._any = False

    def record_usage(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        """Note openings, as the program: readers may call it too."""
        ids = list(grip_ids)
        if ids:
            with self._con.bind_program(), self._con.open_writer() as writer:
                if not self._any and writer.row(f"SELECT 1 FROM usage WHERE {own()} LIMIT 1") is None:
                    # Processes that know of none look again.
                    writer.head.notes += 1
                writer.insert_rows("usage", "grip_id, at_ms", ("text", "bigint"), [ids, [at_ms] * len(ids)])
            self._any = True

    def get_usage(self, ids: Iterable[GripId]) -> dict[GripId, GripUsage]:
        id_list = list(set(ids))
        # While none is known, the table is looked at again only when the head's notes or resets changed.
        if id_list and not self._any and (noted := self._con.get_head().notes_stamp) != self._empty_at:
            self._any = self._con.row(f"SELECT 1 FROM usage WHERE {own()} LIMIT 1") is not None
            self._empty_at = noted
        if not id_list or not self._any:
            return {}
        return {GripId(row[0]): GripUsage(tuple(row[1])) for row in self._con.rows(_OPENINGS, ids=id_list)}


class PostgresHints:
    """No hints: this engine keeps none, so that none is given; a `HintStore`."""

    is_kept = False

    def record_hint(self, session_id: str, project: str, hint: Hint, at_ms: int) -> None:
        pass

    def record_outcomes(self, outcomes: Mapping[int, str]) -> None:
        pass

    def list_hints(self) -> Sequence[HintRecord]:
        return ()

    def reject_hint(self, hint_id: int) -> bool:  # noqa: ARG002
        return False
