"""One event a line, in the project's own JSONL form; `draft_of` reads the same form for tools and `ingest`.

Invariants
1. A line gives exactly one event or one named reason.
2. Unknown fields, roles and types are refused by name: guessing would lose what was meant.
3. Files alone may name the `event_id` and the `source` an event had in the store it was exported from (`mapping_of`), so
   that it is the same event again; its trust follows from its role and source, never from what the file says.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.storable import storable
from memory_mcp.importers.base import Growth, ImportReport, ReadStep
from memory_mcp.importers.client_importer import ClientImporter
from memory_mcp.importers.json_records import first_values, iter_records, parse_time
from memory_mcp.model.calendar import FIRST_MS, LATEST_MS
from memory_mcp.model.event import DEFAULT_TYPES, MARK, SHARED_BY, EventDraft, EventType, OriginalIdentity, Role
from memory_mcp.model.ids import event_id_from, event_key
from memory_mcp.redact.redact import strip_private

FIELDS = ("session_id", "timestamp", "role", "text", "id", "speaker", "type", "agent", "project", "thread", "metadata")
_NEEDED = frozenset(("session_id", "timestamp", "role", "text"))
_FORM = "An event has session_id, timestamp, role and text; id, speaker, type, agent, project and metadata are optional."
_SHOWN = 40
#: What only an exported event has.
_EXPORTED = ("event_id", "source")
_SOURCE = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,60}")
#: Bits of an event id after its time.
_HASH_BITS = 80


class JsonlImporter(ClientImporter):
    """Reads files of events, one a line."""

    name = "jsonl"
    title = "events, one a line"
    growth = Growth.APPENDED
    endings = (".jsonl", ".ndjson")

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        return file.suffix in self.endings and any(value.keys() >= _NEEDED for value in first_values(beginning))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each line after the byte offset."""
        for record in iter_records(file, offset):
            report.lines += 1
            drafts: tuple[EventDraft, ...] = ()
            if record.error:
                report.skip_record(record.error, file, record.line, record.quote)
            else:
                try:
                    drafts = (exported_draft_of(record.value),)
                    report.lines_used += 1
                except InvalidQuery as error:
                    report.skip_record(error.message, file, record.line, record.quote)
            yield ReadStep(drafts, record.offset)


def mapping_of(draft: EventDraft) -> dict[str, object]:
    """Return a draft as a mapping for JSON.

    With the names of `FIELDS`, and event_id and source of a carried one. Empty fields (but session, time, role and text) and a
    type that the role implies are left out.
    """
    shape: dict[str, object] = {
        "session_id": draft.session_id,
        "timestamp": draft.timestamp,
        "role": draft.role.value,
        "text": draft.text,
        "id": draft.source_id,
        "speaker": draft.speaker,
        "type": "" if draft.type is DEFAULT_TYPES[draft.role] else draft.type.value,
        "agent": draft.agent,
        "project": draft.project,
        "thread": draft.thread,
        "metadata": dict(draft.metadata),
        "event_id": draft.original.event_id if draft.original else "",
        "source": draft.original.source if draft.original else "",
    }
    return {name: value for name, value in shape.items() if value or name in _NEEDED}


def exported_draft_of(mapping: Mapping[str, object]) -> EventDraft:
    """Return the draft of an exported event, with its own id.

    Raises InvalidQuery for a value that `draft_of` refuses, for an id without a source or the reverse, for a source of another
    form, and for an id that is none or whose time is not the event's.
    """
    stored_id = _optional_text(mapping, "event_id")
    draft = draft_of({name: value for name, value in mapping.items() if name not in _EXPORTED})
    source = _optional_text(mapping, "source")
    if not stored_id and not source:
        return draft
    # What was exported holds our own marks.
    draft = replace(draft, metadata=_parse_metadata(mapping))
    if not stored_id or not source:
        raise InvalidQuery("event_id and source go together", "Leave both out of what was not exported.")
    key = event_key(stored_id)
    if draft.timestamp is None or key >> _HASH_BITS != max(0, draft.timestamp):
        raise InvalidQuery("event_id is not of the event's time", "Leave event_id and source out of what was not exported.")
    if not _SOURCE.fullmatch(source):
        raise InvalidQuery("invalid source", "Leave event_id and source out of what was not exported.")
    return replace(draft, original=OriginalIdentity(event_id_from(key), source))


def draft_of(mapping: Mapping[str, object]) -> EventDraft:
    """Return the draft of an event in this form.

    Raises InvalidQuery, naming the field, for an unknown, missing or wrong one.
    """
    for name in mapping:
        if name not in FIELDS:
            near = get_close_matches(str(name), FIELDS, n=1)
            raise InvalidQuery(f"unknown field {_quote_name(name)}", f"Did you mean {near[0]}? {_FORM}" if near else _FORM)
    role = _parse_role(mapping)
    return EventDraft(
        session_id=_required_text(mapping, "session_id"),
        timestamp=_parse_event_time(mapping),
        role=role,
        type=_parse_type(mapping, role),
        text=_required_text(mapping, "text"),
        source_id=_optional_text(mapping, "id"),
        speaker=_optional_text(mapping, "speaker"),
        agent=_optional_text(mapping, "agent"),
        project=_optional_text(mapping, "project"),
        thread=_optional_text(mapping, "thread"),
        metadata={_escape_key(key): value for key, value in _parse_metadata(mapping).items()},
    )


def _escape_key(key: str) -> str:
    """Return a metadata key, with "~" before one like our marks."""
    if key.isidentifier() and key != SHARED_BY:
        return key
    bare = strip_private(storable(key))
    return f"~{key}" if bare.startswith(MARK) or bare == SHARED_BY else key


def _parse_role(mapping: Mapping[str, object]) -> Role:
    name = _required_text(mapping, "role").strip().lower()
    try:
        return Role(name)
    except ValueError:
        hint = f'Roles are {", ".join(Role)}; a person\'s name belongs in "speaker".'
        raise InvalidQuery(f"unknown role {_quote_name(name)}", hint) from None


def _parse_type(mapping: Mapping[str, object], role: Role) -> EventType:
    name = _optional_text(mapping, "type").strip().lower()
    if not name:
        return DEFAULT_TYPES[role]
    try:
        return EventType(name)
    except ValueError:
        raise InvalidQuery(f"unknown type {_quote_name(name)}", f"Types are {', '.join(EventType)}.") from None


def _parse_event_time(mapping: Mapping[str, object]) -> int:
    value = mapping.get("timestamp")
    if value is None:
        raise InvalidQuery("timestamp is missing", _FORM)
    time_ms = parse_time(value)
    if time_ms is not None and not FIRST_MS <= time_ms < LATEST_MS:
        raise InvalidQuery(f"timestamp is out of range: {_quote_name(value)}", "Give a time from the year 1000 to 9998.")
    if time_ms is None:
        raise InvalidQuery("invalid timestamp", "Use ISO 8601 (2026-01-30T12:00:00Z) or epoch milliseconds.")
    return time_ms


def _required_text(mapping: Mapping[str, object], name: str) -> str:
    value = _optional_text(mapping, name)
    if not value.strip():
        raise InvalidQuery(f"{name} is missing" if mapping.get(name) is None else f"{name} is empty", _FORM)
    return value


def _optional_text(mapping: Mapping[str, object], name: str) -> str:
    value = mapping.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and name in ("id", "session_id"):
        return str(value)
    raise InvalidQuery(f"{name} is not a text", _FORM)


def _parse_metadata(mapping: Mapping[str, object]) -> dict[str, str]:
    value = mapping.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidQuery("metadata is not an object", "It maps names to texts.")
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
    return {str(k): v if isinstance(v, str) else dump(v) for k, v in value.items() if v is not None}


def _quote_name(name: object) -> str:
    return repr(str(name)[:_SHOWN])
