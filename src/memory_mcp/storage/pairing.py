"""Find messages that both a client's hook and its transcript recorded.

Invariants
1. A pair is one event of a hook and one of another source, in one session; no event is in two pairs.
2. They carry the same tool call or the same id of the source, else the same words (white space aside) by the same role
   in the same thread at most 120 s apart. The nearest in time go together.
3. The longer one is shown; of equally long ones the one stored first.
"""

import json
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import HOOK, MARK, RECAP, Event, EventType, is_recap
from memory_mcp.model.ids import event_key
from memory_mcp.storage.rows import pack

#: How far apart two records of the same words may be (milliseconds).
WINDOW_MS = 120_000
#: How the metadata key of a conversation's summary ends, also of earlier versions. Transcripts put a sentence around it, so its
#: words are not compared.
SUMMARY = RECAP.removeprefix(MARK)


@dataclass(frozen=True, slots=True)
class Message:
    """What pairing compares of one event."""

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


def make_message(event: Event) -> Message:
    """Return what pairing compares of an event being stored."""
    return Message(
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
        summary=is_recap(event),
    )


def escape_json(text: str) -> str:
    """Return a text as spelled inside the quotes of stored metadata."""
    return pack({"": text}).removeprefix('{"":"').removesuffix('"}')


def parse_message(row: Sequence[Any]) -> Message:
    """Return what pairing compares of a stored event, from a row.

    A row has key, time, session, thread, role, type, source, its id there, the escaped id of a tool call, whether it
    is a summary, and the text.
    """
    key, ms, session, thread, role, kind, source, source_id, tool_use_id, summary, text = row
    return Message(
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


def iter_pairs(messages: Sequence[Message]) -> Iterator[tuple[Message, Message]]:
    """Yield pairs (hidden, shown) among events in order of arrival.

    Events of one tool call are paired first, then those with one source id, then those with the same words. Stored events pair
    with fresh ones only: had two of them belonged together, they would be a pair already.
    """
    positions = {t.key: n for n, t in enumerate(messages)}
    free = set(positions)
    for key_of in (_call_key, _source_key, _words_key):
        groups: dict[Hashable, list[Message]] = {}
        for message in messages:
            if (key := key_of(message)) is not None:
                groups.setdefault(key, []).append(message)
        for group in groups.values():
            for message, other in _pair_nearest([t for t in group if t.key in free], WINDOW_MS if key_of is _words_key else None):
                free -= {message.key, other.key}
                first, second = sorted((message, other), key=lambda t: positions[t.key])
                yield (first, second) if len(second.words) > len(first.words) else (second, first)


def _call_key(message: Message) -> Hashable:
    """Return what events of one tool call share; None without its id.

    A call and its result carry the same id; roles tell them apart.
    """
    return (message.session, message.tool_use_id, message.role) if message.tool_use_id else None


def _source_key(message: Message) -> Hashable:
    return (message.session, message.source_id) if message.source_id else None


def _words_key(message: Message) -> Hashable:
    """Return what events with the same words share.

    All summaries count as the same words.
    """
    return message.session, message.thread, message.role, message.call, SUMMARY if message.summary else message.words


def _pair_nearest(messages: Sequence[Message], window: int | None) -> Iterator[tuple[Message, Message]]:
    """Yield pairs of a hook's event and another, nearest in time first.

    Not two that are stored already. With a `window` (ms; words are compared) not two that are farther apart or both
    have the id of a tool call; None for no bound.
    """
    hooks, transcripts = [t for t in messages if t.hook], [t for t in messages if not t.hook]
    near = [
        (abs(h.time_ms - o.time_ms), h.time_ms, h.key, o.key, h, o)
        for h in hooks
        for o in transcripts
        if not (h.stored and o.stored)
        # Words of two calls may be the same; their ids, where both have one, were compared before.
        and (window is None or (abs(h.time_ms - o.time_ms) <= window and not (h.tool_use_id and o.tool_use_id)))
    ]
    used: set[int] = set()
    for *_, hook, other in sorted(near, key=lambda n: n[:4]):
        if not {hook.key, other.key} & used:
            used |= {hook.key, other.key}
            yield hook, other
