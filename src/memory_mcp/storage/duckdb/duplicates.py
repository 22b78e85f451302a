"""Pairs of a store: events of a hook and of a transcript that are the same message, and copies in other sessions.

See `storage.pairing` and `storage.copies`.

Invariants
1. Both events stay, and a pair is never removed but by forgetting.
2. What is shown in the place of others is not hidden itself.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set
from typing import Any

import duckdb

from memory_mcp.model.event import HOOK, Event
from memory_mcp.model.ids import EventId, event_id_from, event_key
from memory_mcp.storage.copies import COLUMNS, CopyFinder, Pair, Stream, Utterance, repeated_ids, resolve_pairs
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.keyed_file import PAIRS, KeyedFile
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.outbox import Numbers
from memory_mcp.storage.pairing import SUMMARY, WINDOW_MS, Message, escape_json, iter_pairs, make_message, parse_message

_SESSIONS = """
SELECT session_id, bool_or(starts_with(source, ?)), bool_or(NOT starts_with(source, ?)) FROM event GROUP BY session_id"""
#: Metadata is stored by `rows.pack`: compact, keys in order.
_TOLD = r"""regexp_extract(metadata, '"tool_use_id":"((?:[^"\\]|\\.)*)"', 1)"""
_CANDIDATES = f"""
SELECT event_id, ts, session_id, thread, role, type, source, source_id, {_TOLD} AS told,
       contains(metadata, '{SUMMARY}":"true"'), text
FROM event
WHERE session_id IN (SELECT unnest(?::VARCHAR[])) AND starts_with(source, ?) = ?
  AND (ts BETWEEN ? AND ? OR (told <> '' AND told IN (SELECT unnest(?::VARCHAR[])))
       OR (source_id <> '' AND source_id IN (SELECT unnest(?::VARCHAR[]))))"""
_PAIRS = """
SELECT event_id, canonical FROM duplicate
WHERE event_id IN (SELECT unnest(?::HUGEINT[])) OR canonical IN (SELECT unnest(?::HUGEINT[]))"""
_MOVED = """UPDATE duplicate SET canonical = m.shown
FROM (SELECT unnest(?::HUGEINT[]) AS hidden, unnest(?::HUGEINT[]) AS shown) m WHERE canonical = m.hidden"""

#: A condition for events that are shown.
SHOWN = "event_id NOT IN (SELECT event_id FROM duplicate)"
#: The same where one session is named, twice: copies of what another session shows belong to it.
SHOWN_IN_SESSION = f"""(event_id NOT IN (SELECT event_id FROM duplicate) OR (NOT starts_with(source, '{HOOK}') AND event_id IN (
  SELECT d.event_id FROM duplicate d WHERE d.canonical NOT IN (SELECT event_id FROM event WHERE session_id = ?))))"""
_TWINS = f"""SELECT {COLUMNS} FROM event WHERE (ts, content) IN (SELECT unnest(?::BIGINT[]), unnest(?::BIGINT[])) ORDER BY seq"""
_OPENINGS = f"SELECT {COLUMNS} FROM event WHERE content IN "
_FIRST = "SELECT event_id FROM event WHERE session_id = ? AND thread = ? AND source = ? ORDER BY seq LIMIT 1"
_STREAM = f"SELECT {COLUMNS} FROM event WHERE session_id = ? AND thread = ? AND source = ? ORDER BY seq"


#: Utterances of beginnings that are kept, some 500 bytes each: sessions that begin alike are compared with the same few.
_MOST_KEPT = 8192


class _DuckCopyFinder(CopyFinder):
    """Looks for copies inside the transaction of an append."""

    #: The connection of that transaction, and the streams that it adds to.
    con: duckdb.DuckDBPyConnection
    fresh_streams: Set[Stream] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        #: By stream and source; whole, because what is added to a stream is no longer kept.
        self._beginnings: OrderedDict[tuple[Stream, str], list[Utterance]] = OrderedDict()
        self._kept_count = 0

    def begin_append(self, con: duckdb.DuckDBPyConnection, fresh: Sequence[Event]) -> None:
        """Look for copies of `fresh`, which is stored in this transaction."""
        self.con, self.fresh_streams = con, {(event.session_id, event.thread) for event in fresh}
        self.drop_streams(self.fresh_streams)

    def drop_streams(self, streams: Set[Stream]) -> None:
        """Drop what is kept of streams to which events are added."""
        for key in [key for key in self._beginnings if key[0] in streams]:
            self._kept_count -= len(self._beginnings.pop(key))

    def drop_beginnings(self) -> None:
        """Drop what is kept of streams: events may have been removed."""
        self._beginnings.clear()
        self._kept_count = 0

    def _read_beginning(self, stream: Stream, source: str, arrived: Iterable[Event]) -> list[Utterance]:
        if stream in self.fresh_streams:
            return super()._read_beginning(stream, source, arrived)
        if (entries := self._beginnings.get((stream, source))) is None:
            entries = self._beginnings[stream, source] = super()._read_beginning(stream, source, arrived)
            self._kept_count += len(entries)
            while self._kept_count > _MOST_KEPT and len(self._beginnings) > 1:
                self._kept_count -= len(self._beginnings.popitem(last=False)[1])
        self._beginnings.move_to_end((stream, source))
        return entries

    def _read_twins(self, times: Sequence[int], contents: Sequence[int]) -> Sequence[Sequence[Any]]:
        return self.con.execute(_TWINS, [times, contents]).fetchall()

    def _read_openings(self, firsts: Sequence[Utterance]) -> Sequence[Sequence[Any]]:
        contents = sorted({u.words[-1] for u in firsts})
        # A list of parameters takes half the time of one that is a list.
        return self.con.execute(f"{_OPENINGS}({', '.join('?' * len(contents))})", contents).fetchall()

    def _find_first_key(self, stream: Stream, source: str) -> int | None:
        row = self.con.execute(_FIRST, [*stream, source]).fetchone()
        return row[0] if row else None

    def _read_stream(self, stream: Stream, source: str) -> Sequence[Sequence[Any]]:
        return self.con.execute(_STREAM, [*stream, source]).fetchall()


class Duplicates:
    """The pairs of a store, found inside the transaction of an append."""

    def __init__(self, con: Connection, numbers: Numbers, keyed: KeyedRows) -> None:
        self._con = con
        self._numbers = numbers
        self._keyed = keyed
        row = con.fetch_row("SELECT count(*) FROM (SELECT 1 FROM duplicate LIMIT 1)")
        #: Whether there may be any pair.
        self.any: bool = bool(row and row[0])
        #: Sessions that a hook recorded, and those that another source did; read with the first append. A session too many,
        #: after a rollback, is harmless.
        self._sessions: tuple[set[str], set[str]] | None = None
        self._copies = _DuckCopyFinder()

    def store_pairs(self, con: duckdb.DuckDBPyConnection, fresh: Sequence[Event], stored_times: Set[int]) -> set[EventId]:
        """Store the pairs of `fresh`; return its ids that repeat others.

        `fresh` is stored in this transaction; `stored_times` are those of `fresh` at which others are stored.
        """
        self._copies.begin_append(con, fresh)
        if self._sessions is None:
            rows = con.execute(_SESSIONS, [HOOK, HOOK]).fetchall()
            self._sessions = {row[0] for row in rows if row[1]}, {row[0] for row in rows if row[2]}
        sessions = self._sessions
        copies = self._copies.find_pairs(
            fresh, {e.session_id for e in fresh if e.session_id in sessions[0] or e.session_id in sessions[1]}, stored_times
        )
        new_pairs = [*self._pair_hooks(con, fresh, sessions), *copies]
        if new_pairs:
            self._insert_pairs(con, new_pairs)
        return repeated_ids(copies, fresh)

    def drop_beginnings(self) -> None:
        """Drop what is kept of streams: events may have been removed."""
        self._copies.drop_beginnings()

    def may_pair(self, events: Sequence[Event]) -> bool:
        """Return whether stored events have to be read to find the pairs of new ones, if any."""
        if self._sessions is None:
            return True
        hooked, has_transcript = self._sessions
        others = ((e.session_id, has_transcript if e.source.startswith(HOOK) else hooked) for e in events)
        return any(session_id in sessions for session_id, sessions in others) or self._copies.may_pair(events)

    def note_events(self, events: Sequence[Event]) -> None:
        """Note the streams of events that are being stored, and who recorded their sessions."""
        self._copies.drop_streams({(event.session_id, event.thread) for event in events})
        if self._sessions is not None:
            hooked, has_transcript = self._sessions
            for event in events:
                (hooked if event.source.startswith(HOOK) else has_transcript).add(event.session_id)

    def _insert_pairs(self, con: duckdb.DuckDBPyConnection, new_pairs: Sequence[Pair]) -> None:
        """Store pairs (hidden, shown), joined with stored ones of these events."""
        keys = sorted({key for pair in new_pairs for key in pair})
        hidden = resolve_pairs(new_pairs, dict(con.execute(_PAIRS, [keys, []]).fetchall()) if self.any else {})
        if not hidden:
            return
        columns = [list(hidden), list(hidden.values())]
        if self.any:
            con.execute(_MOVED, columns)
        con.execute("INSERT INTO duplicate SELECT unnest(?::HUGEINT[]), unnest(?::HUGEINT[])", columns)
        self._numbers.once_committed(lambda: self._keyed.note_rows(PAIRS, list(hidden.items())))
        # Readers look for pairs from now on: too early is harmless, too late would show one message twice.
        self.any = True

    def _pair_hooks(
        self, con: duckdb.DuckDBPyConnection, fresh: Sequence[Event], sessions: tuple[set[str], set[str]]
    ) -> list[Pair]:
        """Return the pairs (hidden, shown) of a hook's event and another.

        Only events of sessions that a hook has recorded are compared, with older ones only where the session has events of
        both kinds. Older events that are in a pair already, or are not near in time and share no id, are not compared.
        """
        hooked, has_transcript = sessions
        # A session that only hooks have told of, as most are while they last, has no other half to be looked for.
        met, mixed = ({e.session_id for e in fresh} & call_ids for call_ids in (hooked, has_transcript))
        self.note_events(fresh)
        messages = [make_message(e) for e in fresh if e.session_id in hooked]
        if not messages:
            return []
        older = _read_older(con, [m for m in messages if m.hook and m.session in mixed], False)
        older += _read_older(con, [m for m in messages if not m.hook and m.session in met], True)
        return [(hidden.key, shown_key.key) for hidden, shown_key in iter_pairs([*older, *messages])]

    def find_pairs(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        """Return the pairs with one of `ids`: hidden id to shown id."""
        keys = [event_key(i) for i in ids] if self.any else []
        if not keys:
            return {}
        pairs = self._keyed.read_pairs(keys)
        if pairs is None:
            pairs = [(row[0], row[1]) for row in self._con.fetch_rows(_PAIRS, [keys, keys])]
        return {event_id_from(hidden): event_id_from(shown_key) for hidden, shown_key in pairs}


def select_shown(file: KeyedFile, rows: list[Row], key: int, session_id: str) -> list[Row] | None:
    """Return those rows that are shown in a session, as `SHOWN_IN_SESSION`, and not in the place of the event `key`.

    None if what is shown in the place of one is not in the file yet.
    """
    shown_by_hidden = file.read_hidden([key, *(row[0] for row in rows)])
    if not shown_by_hidden:
        return rows
    canonical = shown_by_hidden.get(key)
    repeated = {row[0] for row in rows if row[0] in shown_by_hidden and not row[10].startswith(HOOK)}
    shown_keys = {shown_by_hidden[i] for i in repeated}
    shown_elsewhere = {row[0]: row[2] != session_id for row in file.read_events(shown_keys)}
    if len(shown_elsewhere) < len(shown_keys):
        return None
    return [
        row
        for row in rows
        if row[0] != canonical
        and (row[0] not in shown_by_hidden or (row[0] in repeated and shown_elsewhere[shown_by_hidden[row[0]]]))
    ]


def _read_older(con: duckdb.DuckDBPyConnection, fresh: Sequence[Message], hook: bool) -> list[Message]:
    """Return unpaired stored events that may form a pair with `fresh`.

    Of hooks or (`hook` False) of other sources; of its session, at most 120 s away or with the same id of a tool call or of
    the source.
    """
    if not fresh:
        return []
    times = [t.time_ms for t in fresh]
    parameters = [
        sorted({t.session for t in fresh}),
        *(HOOK, hook),
        *(min(times) - WINDOW_MS, max(times) + WINDOW_MS),
        [escape_json(t.tool_use_id) for t in fresh if t.tool_use_id],
        [t.source_id for t in fresh if t.source_id],
    ]
    own_keys = {t.key for t in fresh}
    rows = [row for row in con.execute(_CANDIDATES, parameters).fetchall() if row[0] not in own_keys]
    keys = [row[0] for row in rows]
    paired_keys = {key for pair in con.execute(_PAIRS, [keys, keys]).fetchall() for key in pair} if keys else set[int]()
    return [parse_message(row) for row in rows if row[0] not in paired_keys]
