"""Turns drafts into stored events: the one place that sets their ids and their trust.

Invariants
1. The id follows from source time and source id, never from the time of arrival; appending twice changes nothing.
2. Without a source id it follows from session, time, role, text and how often that combination came before it
   in the same append.
3. Trust comes from the write path (`trust`), never from the payload; an event of another store keeps the one it had there.
4. An event of another store keeps its id, its time and its source: it is the same event.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from memory_mcp.base import metrics
from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import FILE_TIME, INFERRED, SOURCE_TIME, TOOL, Event, EventDraft, Role, Trust
from memory_mcp.model.ids import EventId, event_id, event_key, hash_parts
from memory_mcp.storage.base import EventStore
from memory_mcp.storage.values import AppendResult, EventBatch, WriteRequest

#: A source time this far ahead of the clock is a broken clock's, not the future (milliseconds).
FUTURE_SLACK_MS = 86_400_000
#: A source whose times are whole minutes does not order what was said within one (milliseconds).
_COARSE_MS = 60_000

_TRUST_BY_ROLE = {Role.USER: Trust.USER, Role.ASSISTANT: Trust.ASSISTANT, Role.TOOL: Trust.TOOL, Role.SYSTEM: Trust.IMPORTED}


@dataclass(frozen=True, slots=True)
class LogWrite:
    """Drafts of one source kind that are stored together."""

    drafts: Sequence[EventDraft]
    source: str
    request: WriteRequest | None = None


class EventLog:
    """The writing side of layer 0."""

    def __init__(
        self,
        store: EventStore,
        clock: Clock,
        on_write: Callable[[Sequence[EventDraft]], None] = lambda _: None,
        on_stored: Callable[[Sequence[Event]], None] = lambda _: None,
    ) -> None:
        """`on_write` is called with drafts; its errors stop the write.

        `on_stored` is called with the events once they are stored.
        """
        self._store, self._clock, self._on_write, self._on_stored = store, clock, on_write, on_stored

    def append(
        self, drafts: Sequence[EventDraft], source: str, trust: Trust | None = None, request: WriteRequest | None = None
    ) -> AppendResult:
        """Store drafts of one source kind; return new and known ids.

        `trust` None: each event gets the trust of its role, a carried one that of its other store. Nothing is stored when
        `on_write` raises, or when the `request` was answered within the last hour, whose answer is then in the result.
        """
        self._on_write(drafts)
        events = self.make_events(drafts, source, trust)
        stored = self._store.append(events, request)
        self._on_stored(events)
        metrics.count("ingest_events_total", len(stored.new_ids), source=source)
        return stored

    def append_writes(self, writes: Sequence[LogWrite]) -> list[AppendResult]:
        """Store several writes, together where the engine can.

        `on_write` is called once, with the drafts of all writes; where it raises, nothing is stored.
        """
        self._on_write([draft for write in writes for draft in write.drafts])
        batches = [EventBatch(self.make_events(write.drafts, write.source), write.request) for write in writes]
        stored = self._store.append_batches(batches)
        self._on_stored([event for batch in batches for event in batch.events])
        for write, appended in zip(writes, stored, strict=True):
            metrics.count("ingest_events_total", len(appended.new_ids), source=write.source)
        return stored

    def make_events(self, drafts: Sequence[EventDraft], source: str, trust: Trust | None = None) -> list[Event]:
        """Return the events of drafts, with ids, trust and times.

        A time that is missing, 0 or below, or more than a day ahead is inferred from its neighbours in the session, or
        taken from the stored event of that source id; metadata then say so (`INFERRED`) and what the source said. So is one
        of whole minutes that the message before it in the session has too: the order of the source is all that tells them
        apart. Drafts carried from another store keep id, source and, unless `trust` is given, trust. Nothing is stored.
        """
        now = self._clock.now_ms()
        source_times = _source_times(drafts, now)
        times = _fill_by_session(drafts, source_times, now)
        tails = self._make_tails(drafts, source)
        # An id with an inferred time cannot be computed again: the stored one is looked up.
        may_differ = [time_ms is None or time_ms % _COARSE_MS == 0 for time_ms in source_times]
        untimed = [hash_parts(*tail) for tail, differs in zip(tails, may_differ, strict=True) if differs]
        stored = self._store.find_tails(untimed) if untimed else {}
        events = []
        for draft, differs, filled, tail in zip(drafts, may_differ, times, tails, strict=True):
            if draft.original is not None:
                original = draft.original
                # One that a tool wrote is an agent's note, whatever its role.
                by_role = Trust.AGENT_NOTE if original.source == TOOL else _TRUST_BY_ROLE[draft.role]
                time_ms = _id_time(original.event_id) if draft.timestamp is None else draft.timestamp
                event_trust = trust or original.trust or by_role
                events.append(_make_event(draft, original.event_id, time_ms, event_trust, original.source, draft.metadata))
                continue
            stored_id = _match_stored(stored.get(hash_parts(*tail)), _check_time(draft.timestamp, now)) if differs else None
            time_ms = _id_time(stored_id) if stored_id else filled
            metadata = draft.metadata
            if draft.timestamp != time_ms:
                source_time = {} if draft.timestamp is None else {SOURCE_TIME: str(draft.timestamp)}
                metadata = {**metadata, INFERRED: "inferred", **source_time}
            identifier, event_trust = stored_id or event_id(time_ms, *tail), trust or _TRUST_BY_ROLE[draft.role]
            events.append(_make_event(draft, identifier, time_ms, event_trust, source, metadata))
        return events

    def _make_tails(self, drafts: Sequence[EventDraft], source: str) -> list[tuple[str, ...]]:
        """Return what each draft's id is made of besides its time.

        (source, source id); without a source id: source, session, time, role, text, and how often that combination came
        before in `drafts`.
        """
        counts: Counter[tuple[str, ...]] = Counter()
        tails: list[tuple[str, ...]] = []
        for d in drafts:
            if d.source_id:
                tails.append((source, d.source_id))
                continue
            base = (source, d.session_id, str(d.timestamp), d.role, d.text)
            tails.append((*base, str(counts[base])))
            counts[base] += 1
        return tails


def _make_event(
    draft: EventDraft, identifier: EventId, time_ms: int, trust: Trust, source: str, metadata: Mapping[str, str]
) -> Event:
    return Event(
        event_id=identifier,
        session_id=draft.session_id,
        timestamp=time_ms,
        type=draft.type,
        role=draft.role,
        trust=trust,
        text=draft.text,
        source=source,
        source_id=draft.source_id,
        agent=draft.agent,
        project=draft.project,
        thread=draft.thread,
        speaker=draft.speaker,
        metadata=metadata,
    )


#: A time in milliseconds has fewer digits than this.
_DIGITS = 16


def fill_times(times: Sequence[int | None], now_ms: int) -> list[int]:
    """Return `times` (UTC ms) with each None replaced.

    By 1 ms more than the time before it; leading ones count up to just before the first known time, or from `now_ms` on
    where none is known; never below 0. A millisecond apart, because events are ordered by their time: equal ones would lose
    the order of their source.
    """
    first = next((n for n, t in enumerate(times) if t is not None), None)
    first_time = None if first is None else times[first]
    following = now_ms - 1 if first is None or first_time is None else max(0, first_time - first - 1)
    filled: list[int] = []
    for time_ms in times:
        following = time_ms if time_ms is not None else following + 1
        filled.append(following)
    return filled


def _fill_by_session(drafts: Sequence[EventDraft], source_times: Sequence[int | None], now_ms: int) -> list[int]:
    """Return the drafts' times, missing ones filled within their session.

    Where no neighbour has a time either, that of its file is nearer the truth than that of the import.
    """
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for position, draft in enumerate(drafts):
        positions[draft.session_id].append(position)
    times = [0] * len(drafts)
    for session in positions.values():
        stated = (drafts[p].metadata.get(FILE_TIME, "") for p in session)
        file_time = next((int(text) for text in stated if text.isdecimal() and len(text) < _DIGITS), now_ms)
        filled = fill_times([source_times[p] for p in session], min(file_time, now_ms))
        for position, time_ms in zip(session, filled, strict=True):
            times[position] = time_ms
    return times


def _source_times(drafts: Sequence[EventDraft], now_ms: int) -> list[int | None]:
    """Return the times that order the drafts; None for unusable ones.

    Also where one repeats whole minutes in its session.
    """
    times: list[int | None] = []
    latest: dict[str, int | None] = {}
    for draft in drafts:
        time_ms = _check_time(draft.timestamp, now_ms)
        repeats = time_ms is not None and time_ms % _COARSE_MS == 0 and latest.get(draft.session_id) == time_ms
        latest[draft.session_id] = time_ms
        times.append(None if repeats and draft.original is None else time_ms)
    return times


def _match_stored(stored: EventId | None, time_ms: int | None) -> EventId | None:
    """Return a stored id unless its time cannot come from `time_ms`.

    A source may use an id again later.
    """
    return stored if stored is None or time_ms is None or 0 <= _id_time(stored) - time_ms < _COARSE_MS else None


def _check_time(time_ms: int | None, now_ms: int) -> int | None:
    """Return the time; None if it is missing, not positive, or in the future."""
    return time_ms if time_ms is not None and 0 < time_ms <= now_ms + FUTURE_SLACK_MS else None


def _id_time(identifier: EventId) -> int:
    return event_key(identifier) >> 80
