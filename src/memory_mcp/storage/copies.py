"""Find utterances that several sessions hold: forks, resumed and copied sessions.

Invariants
1. Events of one source in different sessions or threads are one utterance if role, speaker, words and the client's own time are
   the same; a time that was inferred says nothing, and a whole second only within a project: work is given to several at once.
2. Where a client stamps its copies again, sessions are compared from their beginnings, event by event: what is the same up to
   the first difference is one utterance each, if the session says that it is a fork, or if that is a whole conversation.
   Calls with different ids are different calls: the same task done again is no copy.
3. All events stay in their sessions; the earliest is shown, of equally early ones that of the first session by name, whichever
   arrived first.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import COPY_OF, FORKED_FROM, Event, EventType, Role, content_hash, may_be_copied, states_time
from memory_mcp.model.ids import EventId, event_key
from memory_mcp.storage.rows import metadata_of

#: Messages that sessions have to begin with alike before they count as copies, where none of them says that it is a fork.
LEAST_SHARED = 4
#: A beginning that more streams than this have is a task that is given again and again.
_MOST_LIKE = 16
#: Sessions whose beginning may go on being a copy.
_OPEN_HEADS = 64
#: Columns of the rows that `utterance_of` reads.
COLUMNS = "event_id, ts, session_id, thread, role, type, speaker, source, project, content, metadata"

#: A session and a thread in it.
Stream = tuple[str, str]
#: Keys of an event that is hidden and of the one that is shown in its place.
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Utterance:
    """What is compared of one event."""

    key: int
    time_ms: int
    stream: Stream
    #: Source, speaker, role, type and hash of the text.
    words: tuple[str, str, str, str, int]
    #: As it was recorded.
    project: str
    tool_use_id: str
    #: Whether the client stated its time.
    is_timed: bool
    #: The session that its own begins with a copy of, if it says so.
    forked_from: str
    #: Key of the event with the same id at its source in another session; 0 for none.
    copy_of: int

    @property
    def source(self) -> str:
        """Kind of source that it comes from."""
        return self.words[0]

    @property
    def moment(self) -> tuple[int, str]:
        """Its time, and its project if the time is in whole seconds."""
        return self.time_ms, "" if self.time_ms % 1000 else self.project

    @property
    def order(self) -> tuple[int, Stream, int]:
        """Sort key: of several copies the first is shown."""
        return (self.time_ms, self.stream, self.key)

    def matches(self, other: "Utterance") -> bool:
        """Return whether both say the same, whenever."""
        is_same_call = not self.tool_use_id or not other.tool_use_id or self.tool_use_id == other.tool_use_id
        return self.words == other.words and is_same_call


def _make_utterance(
    key: int, ms: int, stream: Stream, words: tuple[str, str, str, str, int], project: str, metadata: Mapping[str, str]
) -> Utterance:
    copy_of = event_key(metadata[COPY_OF]) if COPY_OF in metadata else 0
    tool_use_id, forked_from = metadata.get("tool_use_id", ""), metadata.get(FORKED_FROM, "")
    return Utterance(key, ms, stream, words, project, tool_use_id, states_time(metadata), forked_from, copy_of)


def parse_utterance(row: Sequence[Any]) -> Utterance:
    """Return what is compared of a stored event (`COLUMNS`)."""
    key, ms, session, thread, role, kind, speaker, source, project, content, metadata = row
    return _make_utterance(key, ms, (session, thread), (source, speaker, role, kind, content), project, metadata_of(metadata))


def _fresh_utterance(event: Event) -> Utterance:
    words = (event.source, event.speaker, event.role.value, event.type.value, content_hash(event.text))
    stream = (event.session_id, event.thread)
    return _make_utterance(event_key(event.event_id), event.timestamp, stream, words, event.project, event.metadata)


def _is_compared(utterance: Utterance) -> bool:
    """Return whether an utterance counts in a session's beginning.

    What a client notes next to the words may differ in a fork.
    """
    role, kind = utterance.words[2:4]
    return role != Role.SYSTEM.value and (kind != EventType.NOTE.value or role == Role.USER.value)


def _is_said(utterance: Utterance) -> bool:
    role, kind = utterance.words[2:4]
    return role != Role.TOOL.value and kind != EventType.TOOL_CALL.value


@dataclass(slots=True)
class _StreamHead:
    """Beginning of a stream, while it may be that of another one."""

    entries: list[Utterance] = field(default_factory=list)
    candidates: dict[Stream, list[Utterance]] = field(default_factory=dict)
    forked_from: str = ""
    #: The stream it is a copy of or was copied to, and how many of its entries are paired with those of it.
    partner: Stream | None = None
    paired: int = 0

    def add_utterances(self, utterances: Iterable[Utterance]) -> None:
        """Add what arrived, also again after a failed transaction."""
        keys = {entry.key for entry in self.entries}
        self.entries += [u for u in utterances if u.key not in keys and _is_compared(u)]


def _names_stream(session: str, stream: Stream) -> bool:
    return bool(session) and session in stream


def _may_be_forks(stream: Stream, first: Utterance, other_stream: Stream, other_first: Utterance) -> bool:
    is_declared = _names_stream(first.forked_from, other_stream) or _names_stream(other_first.forked_from, stream)
    return is_declared or first.project == other_first.project


def _common_length(first: Sequence[Utterance], second: Sequence[Utterance]) -> int:
    pairs = zip(first, second, strict=False)
    return next((n for n, (earlier, later) in enumerate(pairs) if not earlier.matches(later)), min(len(first), len(second)))


class CopyFinder(ABC):
    """Finds copies among events that are being stored.

    Engines look up what is stored.
    """

    def __init__(self) -> None:
        self._heads: dict[Stream, _StreamHead] = {}
        self._decided: set[Stream] = set()

    @abstractmethod
    def _read_twins(self, times: Sequence[int], contents: Sequence[int]) -> Sequence[Sequence[Any]]:
        """Return rows of `COLUMNS` with one of these (time, content) pairs."""

    @abstractmethod
    def _read_openings(self, firsts: Sequence[Utterance]) -> Sequence[Sequence[Any]]:
        """Return rows of `COLUMNS` with the content of one of `firsts`."""

    @abstractmethod
    def _find_first_key(self, stream: Stream, source: str) -> int | None:
        """Return the key of a source's first event in a stream."""

    @abstractmethod
    def _read_stream(self, stream: Stream, source: str) -> Sequence[Sequence[Any]]:
        """Return rows of `COLUMNS` of a source in a stream, by arrival."""

    def find_pairs(self, fresh: Sequence[Event], stored_sessions: Set[str], stored_times: Set[int]) -> list[Pair]:
        """Return the pairs (hidden key, shown key) that fresh events make.

        With each other and with stored ones. `stored_sessions` had events before; `stored_times` are those of `fresh` at
        which others may be stored.
        """
        events = [event for event in fresh if may_be_copied(event)]
        return (
            [*self._pair_same_moments(events, stored_times), *self._pair_same_beginnings(events, stored_sessions)]
            if events
            else []
        )

    def may_pair(self, events: Sequence[Event]) -> bool:
        """Return whether `find_pairs` would read for new events of different times, or find any pair."""
        return any(
            (event.session_id, event.thread) in self._heads
            or (event.session_id, event.thread) not in self._decided
            or COPY_OF in event.metadata
            for event in events
            if may_be_copied(event)
        )

    def _pair_same_moments(self, fresh: Sequence[Event], stored_times: Set[int]) -> Iterator[Pair]:
        counts = Counter(event.timestamp for event in fresh)
        utterances = [
            _fresh_utterance(event) for event in fresh if event.timestamp in stored_times or counts[event.timestamp] > 1
        ]
        copied_keys = {u.copy_of for u in utterances if u.copy_of}
        earlier = [u for u in utterances if u.time_ms in stored_times and (u.is_timed or u.copy_of)]
        rows = self._read_twins([u.time_ms for u in earlier], [u.words[-1] for u in earlier]) if earlier else ()
        # A time that was inferred says something only together with the id.
        candidates = (u for u in (*map(parse_utterance, rows), *utterances) if u.is_timed or u.copy_of or u.key in copied_keys)
        groups: dict[tuple[object, ...], list[Utterance]] = {}
        repeats = Counter[tuple[object, ...]]()
        for u in {u.key: u for u in candidates}.values():
            # What one stream says twice at one moment was said twice.
            moment = (u.time_ms, "") if u.copy_of or u.key in copied_keys else u.moment
            base = (moment, u.words, u.stream)
            groups.setdefault((moment, u.words, repeats[base]), []).append(u)
            repeats[base] += 1
        for group in groups.values():
            if len(group) > 1:
                shown_utterance = min(group, key=lambda u: u.order)
                yield from (
                    (u.key, shown_utterance.key) for u in group if u is not shown_utterance and u.matches(shown_utterance)
                )

    def _pair_same_beginnings(self, fresh: Sequence[Event], stored_sessions: Set[str]) -> Iterator[Pair]:
        streams: dict[Stream, list[Event]] = {}
        for event in fresh:
            streams.setdefault((event.session_id, event.thread), []).append(event)
        opened = [s for s, arrivals in streams.items() if self._is_new(s, arrivals, stored_sessions)]
        self._open_heads(opened, streams)
        for stream in [s for s in streams if s in self._heads]:
            self._heads[stream].add_utterances(map(_fresh_utterance, streams[stream]))
            yield from self._compare_head(stream)
        for stream in list(self._heads)[:-_OPEN_HEADS]:
            del self._heads[stream]

    def _is_new(self, stream: Stream, arrived: Sequence[Event], stored_sessions: Set[str]) -> bool:
        """Return whether a stream begins with `arrived`; asked once for each."""
        if stream in self._decided:
            return False
        self._decided.add(stream)
        first = self._find_first_key(stream, arrived[0].source) if stream[0] in stored_sessions else None
        return first is None or any(event_key(event.event_id) == first for event in arrived)

    def _open_heads(self, opened: Sequence[Stream], streams: Mapping[Stream, Sequence[Event]]) -> None:
        """Open heads of new streams that begin like others."""
        firsts: dict[Stream, Utterance] = {}
        for stream in opened:
            if (first := next((u for u in map(_fresh_utterance, streams[stream]) if _is_compared(u)), None)) is not None:
                firsts[stream] = first
        if not firsts:
            return
        beginnings: dict[tuple[str, str, str, str, int], set[Stream]] = {}
        for u in (*map(parse_utterance, self._read_openings(list(firsts.values()))), *firsts.values()):
            beginnings.setdefault(u.words, set()).add(u.stream)
        for stream, first in firsts.items():
            like = beginnings[first.words] - {stream}
            if len(like) > _MOST_LIKE:
                like = {s for s in like if _names_stream(first.forked_from, s)}
            beginnings_like = {s: self._read_beginning(s, first.source, streams.get(s, ())) for s in sorted(like)}
            candidates = {
                s: entries
                for s, entries in beginnings_like.items()
                if entries and entries[0].matches(first) and _may_be_forks(stream, first, s, entries[0])
            }
            if candidates:
                self._heads[stream] = _StreamHead(candidates=candidates, forked_from=first.forked_from)

    def _read_beginning(self, stream: Stream, source: str, arrived: Iterable[Event]) -> list[Utterance]:
        entries = {u.key: u for u in (*map(parse_utterance, self._read_stream(stream, source)), *map(_fresh_utterance, arrived))}
        return [u for u in entries.values() if _is_compared(u)]

    def _compare_head(self, stream: Stream) -> Iterator[Pair]:
        """Yield pairs of a head with its best partner; close it at a difference."""
        head = self._heads[stream]
        for partner, beginning in head.candidates.items():
            if len(beginning) < len(head.entries) and _common_length(head.entries, beginning) == len(beginning):
                # It may have gone on meanwhile.
                head.candidates[partner] = self._read_beginning(partner, beginning[0].source, ()) or beginning
        lengths = {partner: _common_length(head.entries, beginning) for partner, beginning in head.candidates.items()}
        best = max(sorted(lengths), key=lambda partner: (lengths[partner], self._is_declared(head, stream, partner)))
        length, beginning = lengths[best], head.candidates[best]
        entries = head.entries[:length]
        if self._is_declared(head, stream, best) or sum(map(_is_said, entries)) >= LEAST_SHARED:
            since = head.paired if best == head.partner else 0
            is_original = _names_stream(beginning[0].forked_from, stream)
            is_later = _names_stream(head.forked_from, best) or (not is_original and beginning[0].order < head.entries[0].order)
            matched = zip(entries[since:], beginning[since:], strict=False)
            yield from ((u.key, o.key) if is_later else (o.key, u.key) for u, o in matched)
            head.partner, head.paired = best, length
        if length < len(head.entries):
            del self._heads[stream]

    @staticmethod
    def _is_declared(head: _StreamHead, stream: Stream, partner: Stream) -> bool:
        return _names_stream(head.forked_from, partner) or _names_stream(head.candidates[partner][0].forked_from, stream)


def repeated_ids(pairs: Iterable[Pair], fresh: Sequence[Event]) -> set[EventId]:
    """Return the ids of fresh events that repeat another event."""
    ids = {event_key(event.event_id): event.event_id for event in fresh}
    repeated = {hidden_key if hidden_key in ids else shown_key for hidden_key, shown_key in pairs}
    return {ids[key] for key in repeated if key in ids}


def resolve_pairs(pairs: Iterable[Pair], shown_by_hidden: Mapping[int, int]) -> dict[int, int]:
    """Return the finally shown key of each newly hidden event.

    `shown_by_hidden` are the stored pairs of all events concerned; events that are hidden already are not in the result, but
    what is shown instead of them may be.
    """
    parents = dict[int, int]()

    def root_of(key: int) -> int:
        key = shown_by_hidden.get(key, key)
        while key in parents:
            key = parents[key]
        return key

    for hidden_key, shown_key in pairs:
        if (old := root_of(hidden_key)) != (new := root_of(shown_key)):
            parents[old] = new
    return {key: root_of(key) for key in parents}
