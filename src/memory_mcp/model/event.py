"""Event: one thing said or done in an agent session, as its source recorded it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from memory_mcp.model.ids import EventId, digest


class Role(StrEnum):
    """Who speaks. On disk: do not change the values."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class EventType(StrEnum):
    """What kind of moment it is. On disk: do not change the values."""

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
    """Who asserted it; set by the write path, never by the payload. On disk: do not change the values."""

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
#: Metadata key of an event that came from a team: the member who published it, set by the server. Without our prefix, because
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
class Carried:
    """Fields of an event in another store that are kept when it is copied to this one."""

    event_id: EventId
    #: Kind of source it had there.
    source: str
    #: Its trust there, from what only this program writes (stores, archives); None where a payload might claim it.
    trust: Trust | None = None


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event as an importer or a tool submits it: without id and trust."""

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
    carried: Carried | None = None


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

    @property
    def order(self) -> tuple[int, str]:
        """Sort key: source time, then id."""
        return (self.timestamp, self.event_id)

    @property
    def stream(self) -> int:
        """The stream this event belongs to (see `stream_key`), by the project it was recorded with."""
        recorded = self.project if self.recorded_project is None else self.recorded_project
        return stream_key(self.session_id, recorded, self.thread)

    def shown_as(self, project: str) -> "Event":
        """Return the event with a project's display name; the stream it belongs to stays that of the recorded name.

        The same object if it has that name. Call it on an event as recorded: what it returns for an event that has a
        display name already takes that name for the recorded one.
        """
        return self if project == self.project else replace(self, project=project, recorded_project=self.project)


@dataclass(frozen=True, slots=True)
class Excluded:
    """A session that a search leaves out, from a moment on (UTC milliseconds)."""

    session_id: str
    since_ms: int = 0


def carried(event: Event) -> EventDraft:
    """Return a stored event as a draft for another store, which keeps its id, source and trust, under its recorded project."""
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
        carried=Carried(event.event_id, event.source, event.trust),
    )


def mark_of(event: Event, key: str) -> str:
    """Return the value of one of our marks, such as `RECORD`, on an event, "" without it; also as earlier versions stored it."""
    value = event.metadata.get(key)
    if value is None and event.source not in _WRITTEN_BY_USERS:
        value = event.metadata.get(key.removeprefix(MARK))
    return value or ""


def note_kind(event: Event) -> str:
    """Return the kind that the author of a note gave it; "" for none, and for an event of another source."""
    return event.metadata.get("kind", "") if event.source == TOOL else ""


def is_recap(event: Event) -> bool:
    """Return whether an event is a summary of the conversation by the client's own model (see `RECAP`)."""
    return mark_of(event, RECAP) == "true"


def may_be_copied(event: Event) -> bool:
    """Return whether an event comes from files of sessions, which clients copy: not from a hook or a tool."""
    return event.source != TOOL and not event.source.startswith(HOOK)


def states_time(metadata: Mapping[str, str]) -> bool:
    """Return whether an event's time is its source's own, by its metadata, and not inferred."""
    # Importers say "time", the log says `INFERRED`.
    return not {INFERRED, FILE_TIME, INFERRED.removeprefix(MARK)} & metadata.keys()


@lru_cache(maxsize=4096)
def stream_key(session_id: str, project: str, thread: str) -> int:
    """Return the 60-bit hash of one session's thread within one project, by which its stream is known.

    Segments are cut per stream, so none ever mixes two projects, two sessions or a subagent with its caller.
    """
    return digest("stream", session_id, project, thread, bits=60)


def content_hash(text: str) -> int:
    """Return a 60-bit hash of a text, which tells a repeated message from another message under the same id."""
    return digest("content", text, bits=60)
