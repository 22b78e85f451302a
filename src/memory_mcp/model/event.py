"""Event: one message or action in an agent session, as its source recorded it.

Change here: a column of events (the README of `storage` has the other places).
"""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import HASH_MASK, EventId, event_id_from, event_key, hash_parts


class Role(StrEnum):
    """Who speaks. On disk: do not change the values."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class EventType(StrEnum):
    """Kind of event. On disk: do not change the values."""

    SESSION_START = "session_start"
    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    ASSISTANT_STOP = "assistant_stop"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_STOP = "subagent_stop"
    SESSION_END = "session_end"
    NOTE = "note"


class Trust(StrEnum):
    """Who asserted it. On disk: do not change the values.

    Set by the write path, never by the payload.
    """

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    IMPORTED = "imported"
    AGENT_NOTE = "agent_note"


#: Sources that begin so are hooks of a client, which tell what happens while it happens; a transcript of the same
#: session may tell it again. On disk: do not change it.
HOOK = "hook:"
#: Source of what tools write. On disk: do not change it.
TOOL = "tool"

#: Prefix of the metadata keys by which this program marks events; keys from outside that begin so are renamed. On disk.
MARK = "memory-mcp:"
#: Metadata key ("true") of a text in which a client's own model told the conversation so far, to make room. On disk.
RECAP = f"{MARK}compact_summary"
#: Metadata key of what a client recorded besides messages: its kind, such as a title, a notice or an error. On disk.
RECORD = f"{MARK}record"
#: Metadata key of a session's summary: the source id of the message that it belongs to. On disk.
LEAF = f"{MARK}leaf"
#: Metadata key of a person's message in a repository: the commit with which its history begins. Set by the gate. On disk.
ROOT_COMMIT = f"{MARK}root_commit"
#: Metadata key of a message without a time: when its file was written last, UTC milliseconds. On disk.
FILE_TIME = f"{MARK}file_time"
#: Metadata keys of an event with an inferred time ("inferred"), and of what its source said, UTC milliseconds. On disk.
INFERRED, SOURCE_TIME = f"{MARK}time", f"{MARK}source_time_ms"
#: Metadata key ("true") of an event whose id alone says which it is: its words are read whole or in part, or without the client's
#: text around them, as files and versions allow, and the first reading stays. On disk.
WORDS_VARY = f"{MARK}words_vary"
#: Metadata key of an event that tells again, in another session, what an event of the same id tells: that id. On disk.
COPY_OF = f"{MARK}copy_of"
#: Metadata key of the first event of a session that begins with copies of another one: that session. On disk.
FORKED_FROM = f"{MARK}forked_from"
#: Metadata key of an event whose id was taken by another text: that id. On disk.
VARIANT_OF = f"{MARK}variant_of"
#: Metadata key of an event that came from another memory: who published it, set by the server there. Without our prefix, because
#: members have versions of their own; from outside it is renamed as well. On disk.
SHARED_BY = "shared_by"
#: Sources whose metadata users write: a mark without prefix, as earlier versions stored it, is theirs.
_WRITTEN_BY_USERS = frozenset({"jsonl", f"{HOOK}json", "markdown", TOOL})

#: What a role means when a source names no type.
DEFAULT_TYPES = {
    Role.USER: EventType.USER_MESSAGE,
    Role.ASSISTANT: EventType.ASSISTANT_MESSAGE,
    Role.TOOL: EventType.TOOL_RESULT,
    Role.SYSTEM: EventType.NOTE,
}


@dataclass(frozen=True, slots=True)
class OriginalIdentity:
    """Fields of an event in another store that a copy keeps."""

    event_id: EventId
    #: Kind of source it had there.
    source: str
    #: Its trust there, from what only this program writes (stores, archives); None where a payload might claim it.
    trust: Trust | None = None


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event as submitted by an importer or tool, without id and trust."""

    session_id: str
    role: Role
    type: EventType
    text: str
    #: Source time, UTC milliseconds; None when the source has none.
    timestamp: int | None
    #: The source's own id for this message; "" when it has none.
    source_id: str = ""
    agent: str = ""
    project: str = ""
    #: The subagent inside the session; "" is the main thread.
    thread: str = ""
    #: A person's or character's name, where the source has one.
    speaker: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: Set for an event that was stored before, elsewhere.
    original: OriginalIdentity | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A stored event. Immutable; ordered by (timestamp, event_id)."""

    event_id: EventId
    session_id: str
    #: Source time, UTC milliseconds.
    timestamp: int
    type: EventType
    role: Role
    trust: Trust
    text: str
    #: Kind of source: claude-code, jsonl, tool.
    source: str
    source_id: str = ""
    agent: str = ""
    project: str = ""
    thread: str = ""
    speaker: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: The project it was recorded with, where another name stands for that; None where `project` is that.
    recorded_project: str | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the fields: children get thousands, and the default takes half as long again."""
        return Event, _fields_of(self)

    @property
    def order(self) -> tuple[int, str]:
        """Sort key: source time, then id."""
        return (self.timestamp, self.event_id)

    @property
    def stream(self) -> int:
        """Key of its stream (see `stream_key`), by the recorded project."""
        recorded = self.project if self.recorded_project is None else self.recorded_project
        return stream_key(self.session_id, recorded, self.thread)

    def with_display_project(self, project: str) -> "Event":
        """Return the event with a display name for its project.

        Its stream stays that of the recorded name. Call it on an event as recorded: what it returns for an event that has a
        display name already takes that name for the recorded one.
        """
        return self if project == self.project else replace(self, project=project, recorded_project=self.project)


_fields_of = attrgetter(*Event.__slots__)


@dataclass(frozen=True, slots=True)
class ExcludedSession:
    """A session that a search leaves out from a time on."""

    session_id: str
    since_ms: int = 0


def make_carried_draft(event: Event) -> EventDraft:
    """Return a stored event as a draft for another store.

    It keeps its id, source, trust and recorded project.
    """
    return EventDraft(
        session_id=event.session_id,
        role=event.role,
        type=event.type,
        text=event.text,
        timestamp=event.timestamp,
        source_id=event.source_id,
        agent=event.agent,
        project=event.project if event.recorded_project is None else event.recorded_project,
        thread=event.thread,
        speaker=event.speaker,
        metadata=event.metadata,
        original=OriginalIdentity(event.event_id, event.source, event.trust),
    )


def mark_of(event: Event, key: str) -> str:
    """Return the value of a mark such as `RECORD` on an event, or "".

    Marks are also read in the form in which earlier versions stored them.
    """
    value = event.metadata.get(key)
    if value is None and event.source not in _WRITTEN_BY_USERS:
        value = event.metadata.get(key.removeprefix(MARK))
    return value or ""


def note_kind(event: Event) -> str:
    """Return the kind that a note's author gave it, or ""."""
    return event.metadata.get("kind", "") if event.source == TOOL else ""


def is_recap(event: Event) -> bool:
    """Return whether an event is a client's own summary (see `RECAP`)."""
    return mark_of(event, RECAP) == "true"


def may_be_copied(event: Event) -> bool:
    """Return whether an event comes from session files, which clients copy."""
    return event.source != TOOL and not event.source.startswith(HOOK)


def states_time(metadata: Mapping[str, str]) -> bool:
    """Return whether an event's time is its source's, not inferred."""
    # Importers say "time", the log says `INFERRED`.
    return not {INFERRED, FILE_TIME, INFERRED.removeprefix(MARK)} & metadata.keys()


@lru_cache(maxsize=4096)
def stream_key(session_id: str, project: str, thread: str) -> int:
    """Return the 60-bit hash of a session's thread within a project.

    Segments are cut per stream, so none ever mixes two projects, two sessions or a subagent with its caller.
    """
    return hash_parts("stream", session_id, project, thread, bits=60)


def content_hash(text: str) -> int:
    """Return a 60-bit hash of an event's text.

    It distinguishes a repeated message from another message under the same id.
    """
    return hash_parts("content", text, bits=60)


#: Most equal events before it that are tried for an event without an id of its source: their number is part of its id.
_LIKES = 16


def renamed_key(old: int, source: str, previous: Event | EventDraft, changed: Event | EventDraft) -> int:
    """Return the key of an event with changed fields; its time stays.

    An id is a hash of the source's own id, or of the words where it has none: whatever takes words out of a stored event
    gives it another id, and an event that another memory copies in gets the same one.

    Returns `old` if nothing has changed that the id depends on, or if `old` cannot be recomputed from `previous`.
    """
    if previous.source_id:
        return old if previous.source_id == changed.source_id else _with_tail(old, hash_parts(source, changed.source_id))
    stated_time = previous.metadata.get(SOURCE_TIME) or previous.metadata.get(SOURCE_TIME.removeprefix(MARK))
    for time in dict.fromkeys((str(previous.timestamp), "None", stated_time or "None")):
        for count in range(_LIKES):
            if hash_parts(source, previous.session_id, time, previous.role, previous.text, str(count)) == old & HASH_MASK:
                return _with_tail(old, hash_parts(source, changed.session_id, time, changed.role, changed.text, str(count)))
    return old


def rename_draft(previous: EventDraft, changed: EventDraft) -> EventDraft:
    """Return `changed`, an event of another store, under its new id.

    Returns `changed` as it is if it has no id of another store, or if text, session and source id are the same.
    """
    identity = (previous.text, previous.session_id, previous.source_id)
    if previous.original is None or identity == (changed.text, changed.session_id, changed.source_id):
        return changed
    key = renamed_key(event_key(previous.original.event_id), previous.original.source, previous, changed)
    return replace(changed, original=replace(previous.original, event_id=event_id_from(key)))


def _with_tail(old: int, tail: int) -> int:
    return old & ~HASH_MASK | tail
