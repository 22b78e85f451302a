"""Make an event of a row with columns from damaged blocks. Pure.

Nothing is invented. Text, time, stream and origin are checked by hashes. A doubtful value that no hash covers counts for
nothing: it is left empty, and its column is named in the event's metadata.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, TypeVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import DEFAULT_TYPES, MARK, TOOL, Event, EventType, Role, Trust, content_hash, stream_key
from memory_mcp.model.ids import event_id, event_id_from, event_key

T = TypeVar("T")

#: Columns of a row, in the order in which they are read. A value that cannot be read is None.
COLUMNS = (
    *("event_id", "ts", "stream", "session_id", "project", "thread", "source", "source_id", "content", "text"),
    *("agent", "speaker", "type", "role", "trust", "metadata"),
)
#: Metadata key: the columns of this event that were lost with a damaged block. On disk.
SALVAGED = f"{MARK}salvaged"
_HASH_BITS = 80
#: Role, type and trust of an event when they are lost.
_NOBODY = (Role.SYSTEM, EventType.NOTE, Trust.IMPORTED)


@dataclass(frozen=True, slots=True)
class KnownStreams:
    """What undamaged blocks of other tables say of events."""

    #: Session, project and thread of streams.
    streams: Mapping[int, tuple[str, str, str]] = field(default_factory=dict)
    #: The agent of streams that have only one.
    agents: Mapping[int, str] = field(default_factory=dict)


def make_event(row: Mapping[str, Any], doubtful: frozenset[str], known_streams: KnownStreams) -> Event | None:
    """Return the event of a row, or None if too little is certain.

    `row` has a value for each of `COLUMNS`, None where it could not be read; `doubtful` are the columns that lay in damaged
    blocks. Stream, origin and text have to be certain; any other lost value is left empty or lowest, and its column named
    in the metadata.
    """
    where, origin, text = _stream(row, doubtful, known_streams), _origin(row, doubtful), row["text"]
    if where is None or origin is None or not isinstance(text, str):
        return None
    if "text" in doubtful and content_hash(text) != row["content"]:
        return None
    lost: list[str] = []
    key, source, source_id = origin
    if source is None:
        lost += ["source"]
    role, kind, trust = _who(row, doubtful, source or "", lost)
    agent = _plain(row, "agent", doubtful, lost, known_streams.agents.get(stream_key(*where), ""))
    speaker = _plain(row, "speaker", doubtful, lost)
    metadata = _metadata(row, doubtful, lost)
    if lost:
        metadata = {**metadata, SALVAGED: " ".join(lost)}
    return Event(
        event_id=event_id_from(key),
        session_id=where[0],
        timestamp=key >> _HASH_BITS if row["ts"] is None or "ts" in doubtful else row["ts"],
        type=kind,
        role=role,
        trust=trust,
        text=text,
        source=source or "",
        source_id=source_id,
        agent=agent,
        project=where[1],
        thread=where[2],
        speaker=speaker,
        metadata=metadata,
    )


def _stream(row: Mapping[str, Any], doubtful: frozenset[str], known_streams: KnownStreams) -> tuple[str, str, str] | None:
    """Return session, project and thread if certain.

    Certain is what is undoubtful, what hashes to the row's stream, or what undamaged cuts say of an undoubtful stream.
    """
    names, stream = (row["session_id"], row["project"], row["thread"]), row["stream"]
    are_texts = all(isinstance(part, str) for part in names)
    if are_texts and not doubtful & {"session_id", "project", "thread"}:
        return names
    if are_texts and stream is not None and stream_key(*names) == stream:
        return names
    # A doubtful number may be that of another stream.
    return None if stream is None or "stream" in doubtful else known_streams.streams.get(stream)


def _origin(row: Mapping[str, Any], doubtful: frozenset[str]) -> tuple[int, str | None, str] | None:
    """Return key, source and source id; (key, None, "") for no certain source.

    Key and source confirm each other where the key is the hash of time, source and id; a doubtful key also by its time.
    """
    key, ts, source, source_id = (row[name] for name in ("event_id", "ts", "source", "source_id"))
    has_origin = isinstance(source, str) and isinstance(source_id, str) and source_id != ""
    # The id of an event that has one at its source is made of these; of a variant or of one without, of more.
    for time_ms in {t for t in (None if key is None else key >> _HASH_BITS, ts) if t is not None} if has_origin else ():
        with suppress(ValueError, OverflowError, UnicodeEncodeError):
            computed = event_key(event_id(time_ms, source, source_id))
            if (key is None or computed == key or "event_id" in doubtful) and (time_ms == ts or computed == key):
                return computed, source, source_id
    if key is None or ("event_id" in doubtful and (ts is None or key >> _HASH_BITS != ts)):
        return None
    if doubtful & {"source", "source_id"} or not isinstance(source, str) or not isinstance(source_id, str):
        return key, None, ""
    return key, source, source_id


def _who(row: Mapping[str, Any], doubtful: frozenset[str], source: str, lost: list[str]) -> tuple[Role, EventType, Trust]:
    """Return role, type and trust, as far as they confirm each other.

    A role and a type confirm each other where the type is the usual one of the role; a lost one is inferred from the other.
    Without both, all three are lost: system, note, imported. A trust that is not the usual one of the role becomes
    imported. The names of columns whose values are lost are added to `lost`.
    """
    role, kind, trust = _one_of(Role, row["role"]), _one_of(EventType, row["type"]), _one_of(Trust, row["trust"])
    if role and kind and trust and not doubtful & {"role", "type", "trust"}:
        return role, kind, trust
    sure = {name for name, value in (("role", role), ("type", kind), ("trust", trust)) if value and name not in doubtful}
    usual = {value: name for name, value in DEFAULT_TYPES.items()}
    if "role" not in sure:
        stated_role = role if role and kind and DEFAULT_TYPES[role] is kind else None
        role = stated_role or (usual.get(kind) if kind and "type" in sure else None)
    if "type" not in sure and role:
        kind = kind if kind and DEFAULT_TYPES[role] is kind else None
        kind = kind or (DEFAULT_TYPES[role] if "role" in sure else None)
    if role is None or kind is None:
        lost += ["role", "type", "trust"]
        return _NOBODY
    if "trust" not in sure:
        by_role = Trust.AGENT_NOTE if source == TOOL else Trust(role.value) if role is not Role.SYSTEM else Trust.IMPORTED
        if trust is not by_role:
            # What claims less than it might deceives nobody.
            lost += ["trust"]
            trust = Trust.IMPORTED
    return role, kind, trust or Trust.IMPORTED


def _one_of(kind: type[T], value: object) -> T | None:
    with suppress(ValueError):
        return kind(value)  # type: ignore[call-arg]
    return None


def _plain(row: Mapping[str, Any], name: str, doubtful: frozenset[str], lost: list[str], expected: str = "") -> str:
    """Return the text of a column; "" where it is doubtful and not equal to `expected`, and its name is added to `lost`.

    A value that could not be read is `expected`, unless that is empty.
    """
    value = row[name]
    if isinstance(value, str) and (name not in doubtful or value == expected):
        return value
    if value is None and expected:
        return expected
    lost.append(name)
    return ""


def _metadata(row: Mapping[str, Any], doubtful: frozenset[str], lost: list[str]) -> dict[str, str]:
    """Return the metadata of a row; {}, with "metadata" added to `lost`, where they are doubtful (unless "") or no JSON."""
    value = row["metadata"]
    with suppress(ValueError, TypeError):
        parsed = json.loads(value) if value else {}
        if value == "" or (value and "metadata" not in doubtful):
            return dict(parsed)
    lost.append("metadata")
    return {}
