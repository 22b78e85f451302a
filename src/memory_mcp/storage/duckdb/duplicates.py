"""The same message told twice, by a client's hook and by its transcript: which two events they are, and which is shown.

Invariants
1. A pair is one event of a hook and one of another source, in one session; no event is in two pairs.
2. They carry the same tool call or the same id of the source, else the same words (white space aside) by the same role
   in the same thread at most 120 s apart. The nearest in time go together.
3. The longer one is shown; of equally long ones the one stored first. Both stay, and a pair is never taken back.
4. A store that no hook writes to pays nothing.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import duckdb

from memory_mcp.model.event import HOOK, RECAP, Event, EventType
from memory_mcp.model.ids import EventId, event_id_from, event_key
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.rows import pack

#: How far apart the same words may be told (milliseconds).
WINDOW_MS = 120_000
#: A transcript tells a summary of the conversation with a sentence around it: its words are not compared.
_SUMMARY = RECAP

_SESSIONS = """
SELECT session_id, bool_or(starts_with(source, ?)), bool_or(NOT starts_with(source, ?)) FROM event GROUP BY session_id"""
#: Metadata is stored by `rows.pack`: compact, keys in order.
_TOLD = r"""regexp_extract(metadata, '"tool_use_id":"((?:[^"\\]|\\.)*)"', 1)"""
_CANDIDATES = f"""
SELECT event_id, ts, session_id, thread, role, type, source, source_id, {_TOLD} AS told,
       contains(metadata, '"{_SUMMARY}":"true"'), text
FROM event
WHERE session_id IN (SELECT unnest(?::VARCHAR[])) AND starts_with(source, ?) = ?
  AND (ts BETWEEN ? AND ? OR (told <> '' AND told IN (SELECT unnest(?::VARCHAR[])))
       OR (source_id <> '' AND source_id IN (SELECT unnest(?::VARCHAR[]))))"""
_PAIRS = """
SELECT event_id, canonical FROM duplicate
WHERE event_id IN (SELECT unnest(?::HUGEINT[])) OR canonical IN (SELECT unnest(?::HUGEINT[]))"""

#: A condition for events that are shown.
SHOWN = "event_id NOT IN (SELECT event_id FROM duplicate)"


@dataclass(frozen=True, slots=True)
class Told:
    """One event as far as pairing looks at it."""

    key: int
    time_ms: int
    session: str
    thread: str
    role: str
    #: A call of a tool: its words are compared with those of calls alone.
    call: bool
    hook: bool
    source_id: str
    tool_use_id: str
    #: Its words with every stretch of white space as one space.
    words: str
    #: Whether it is the summary of a conversation.
    summary: bool = False
    #: Stored before the events that are paired now.
    stored: bool = False


class Duplicates:
    """The pairs of a store. Deciding happens inside an append's transaction."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        row = con.row("SELECT count(*) FROM (SELECT 1 FROM duplicate LIMIT 1)")
        #: Whether there may be any pair.
        self.any: bool = bool(row and row[0])
        #: Sessions that a hook told of, and those that another source did; read with the first append.
        self._sessions: tuple[set[str], set[str]] | None = None

    def decide(self, con: duckdb.DuckDBPyConnection, fresh: Sequence[Event]) -> None:
        """Write the pairs that `fresh`, stored in this very transaction, makes among themselves and with older events."""
        hooked, others = self._told(con)
        # A session that only hooks have told of, as most are while they last, has no other half to be looked for.
        met, mixed = ({e.session_id for e in fresh} & told for told in (hooked, others))
        hooked.update(e.session_id for e in fresh if e.source.startswith(HOOK))
        others.update(e.session_id for e in fresh if not e.source.startswith(HOOK))
        told = [_told_of(e) for e in fresh if e.session_id in hooked]
        if not told:
            return
        older = _older(con, [t for t in told if t.hook and t.session in mixed], False)
        older += _older(con, [t for t in told if not t.hook and t.session in met], True)
        found = list(pairs([*older, *told]))
        if found:
            # Readers look for pairs from now on: too early is harmless, too late would show one message twice.
            self.any = True
            columns = [[hidden.key for hidden, _ in found], [shown.key for _, shown in found]]
            con.execute("INSERT INTO duplicate SELECT unnest(?::HUGEINT[]), unnest(?::HUGEINT[])", columns)

    def _told(self, con: duckdb.DuckDBPyConnection) -> tuple[set[str], set[str]]:
        """Sessions that hooks and that others told of; a session too many, after a rollback, is harmless."""
        if self._sessions is None:
            rows = con.execute(_SESSIONS, [HOOK, HOOK]).fetchall()
            self._sessions = {row[0] for row in rows if row[1]}, {row[0] for row in rows if row[2]}
        return self._sessions

    def of(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        """Pairs in which one of `ids` takes part: the event that is not shown, and the one that is."""
        keys = [event_key(i) for i in ids] if self.any else []
        if not keys:
            return {}
        return {event_id_from(hidden): event_id_from(shown) for hidden, shown in self._con.rows(_PAIRS, [keys, keys])}


def _told_of(event: Event) -> Told:
    return Told(
        key=event_key(event.event_id),
        time_ms=event.timestamp,
        session=event.session_id,
        thread=event.thread,
        role=event.role.value,
        call=event.type is EventType.TOOL_CALL,
        hook=event.source.startswith(HOOK),
        source_id=event.source_id,
        tool_use_id=event.metadata.get("tool_use_id", ""),
        words=" ".join(event.text.split()),
        summary=event.metadata.get(_SUMMARY) == "true",
    )


def _older(con: duckdb.DuckDBPyConnection, fresh: Sequence[Told], hook: bool) -> list[Told]:
    """Events stored before, of hooks or of the others, that may be the other half of one of `fresh`."""
    if not fresh:
        return []
    times = [t.time_ms for t in fresh]
    parameters = [
        sorted({t.session for t in fresh}),
        *(HOOK, hook),
        *(min(times) - WINDOW_MS, max(times) + WINDOW_MS),
        [_escaped(t.tool_use_id) for t in fresh if t.tool_use_id],
        [t.source_id for t in fresh if t.source_id],
    ]
    own = {t.key for t in fresh}
    rows = [row for row in con.execute(_CANDIDATES, parameters).fetchall() if row[0] not in own]
    keys = [row[0] for row in rows]
    taken = {key for pair in con.execute(_PAIRS, [keys, keys]).fetchall() for key in pair} if keys else set[int]()
    return [_stored(row) for row in rows if row[0] not in taken]


def _escaped(text: str) -> str:
    """A value as it stands between the quotes of stored metadata."""
    return pack({"": text}).removeprefix('{"":"').removesuffix('"}')


def _stored(row: Row) -> Told:
    key, ms, session, thread, role, kind, source, source_id, tool_use_id, summary, text = row
    return Told(
        key=key,
        time_ms=ms,
        session=session,
        thread=thread,
        role=role,
        call=kind == EventType.TOOL_CALL.value,
        hook=source.startswith(HOOK),
        source_id=source_id,
        tool_use_id=json.loads(f'"{tool_use_id}"'),
        words=" ".join(text.split()),
        summary=summary,
        stored=True,
    )


def pairs(told: Sequence[Told]) -> Iterator[tuple[Told, Told]]:
    """Which of these, in order of arrival, are the same message: the one that is not shown, and the one that is. Pure.

    Events that were stored before pair with fresh ones only: had they belonged together, they would be a pair already.
    """
    place = {t.key: n for n, t in enumerate(told)}
    free = set(place)
    for same in (_same_call, _same_id, _same_words):
        for several in _grouped(told, same):
            for one, other in _nearest([t for t in several if t.key in free], WINDOW_MS if same is _same_words else None):
                free -= {one.key, other.key}
                first, second = sorted((one, other), key=lambda t: place[t.key])
                yield (first, second) if len(second.words) > len(first.words) else (second, first)


def _same_call(told: Told) -> Hashable:
    """A call and its result carry the same id, and roles tell them apart."""
    return (told.session, told.tool_use_id, told.role) if told.tool_use_id else None


def _same_id(told: Told) -> Hashable:
    return (told.session, told.source_id) if told.source_id else None


def _same_words(told: Told) -> Hashable:
    return told.session, told.thread, told.role, told.call, _SUMMARY if told.summary else told.words


def _grouped(told: Iterable[Told], same: Callable[[Told], Hashable]) -> Iterable[list[Told]]:
    found: dict[Hashable, list[Told]] = {}
    for one in told:
        if (key := same(one)) is not None:
            found.setdefault(key, []).append(one)
    return found.values()


def _nearest(several: Sequence[Told], window: int | None) -> Iterator[tuple[Told, Told]]:
    """Hooks' events with others', one to one, the nearest in time first."""
    hooks, others = [t for t in several if t.hook], [t for t in several if not t.hook]
    near = [(abs(h.time_ms - o.time_ms), h.time_ms, h.key, o.key, h, o) for h in hooks for o in others if _may_be(h, o, window)]
    used: set[int] = set()
    for *_, hook, other in sorted(near, key=lambda n: n[:4]):
        if not {hook.key, other.key} & used:
            used |= {hook.key, other.key}
            yield hook, other


def _may_be(hook: Told, other: Told, window: int | None) -> bool:
    if hook.stored and other.stored:
        return False
    if window is None:
        return True
    # Words of two calls may be the same; their ids, where both have one, were compared before.
    return abs(hook.time_ms - other.time_ms) <= window and not (hook.tool_use_id and other.tool_use_id)
