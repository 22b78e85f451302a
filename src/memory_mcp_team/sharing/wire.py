"""JSON values that a memory and a space of a team's server exchange: events, ids of what is gone, corrections. Pure.

Events have the form of an export, so that one that arrives is the event it was; the trust that it names is not
believed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.importers.jsonl import exported_draft_of, mapping_of
from memory_mcp.model.event import SHARED_BY, EventDraft, Role
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import EventId, GripId, event_id_from, event_key

#: Events of one batch or page, and characters of their texts.
MAX_EVENTS, MAX_CHARS = 500, 2_000_000
#: Ids of gone events, and corrections, of one batch.
MAX_IDS, MAX_CORRECTIONS = 5000, 5000
#: Bytes of a batch that a server reads.
MAX_BODY = 16 * 1024 * 1024
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction or retraction, with the events of its quotations."""

    superseded: Supersession
    old_event: EventId
    new_event: EventId | None = None


def count_chars(draft: EventDraft) -> int:
    """Return about how many characters an event takes."""
    return len(draft.text) + sum(len(key) + len(value) for key, value in draft.metadata.items()) + 300


def events_to_json(drafts: Iterable[EventDraft]) -> list[dict[str, object]]:
    """Return events as JSON values in the form of an export."""
    return [mapping_of(draft) for draft in drafts]


def parse_events(rows: Sequence[Any]) -> tuple[list[EventDraft], int]:
    """Return the events of JSON values, and how many were no events."""
    drafts, wrong = [], 0
    for row in rows:
        try:
            draft = exported_draft_of(row) if isinstance(row, Mapping) else None
        except (InvalidQuery, ValueError):
            draft = None
        if draft is None or draft.original is None:
            wrong += 1
        else:
            drafts.append(draft)
    return drafts, wrong


def mark_publisher(draft: EventDraft, member: str) -> EventDraft:
    """Return an event whose metadata name `member` as its publisher.

    A user's message without a speaker gets that name as its speaker.
    """
    metadata = {**draft.metadata, SHARED_BY: member}
    speaker = draft.speaker or (member if draft.role is Role.USER else "")
    return replace(draft, metadata=metadata, speaker=speaker)


def parse_ids(values: Sequence[Any]) -> list[EventId]:
    """Return the event ids among the first 5000 values."""
    event_ids = []
    for value in values[:MAX_IDS]:
        try:
            event_ids.append(event_id_from(event_key(str(value))))
        except InvalidQuery:
            continue
    return event_ids


def corrections_to_json(corrections: Iterable[Correction]) -> list[dict[str, Any]]:
    """Return corrections as JSON values; times are UTC milliseconds."""
    return [
        {
            "old": correction.superseded.old,
            "new": correction.superseded.new,
            "at": correction.superseded.at_ms,
            "reason": correction.superseded.reason,
            "author": correction.superseded.author,
            "old_event": correction.old_event,
            "new_event": correction.new_event,
        }
        for correction in corrections
    ]


def parse_corrections(rows: Sequence[Any]) -> list[Correction]:
    """Return the corrections among the first 5000 JSON values."""
    corrections = []
    for row in rows[:MAX_CORRECTIONS]:
        try:
            new = GripId(str(row["new"])) if row["new"] else None
            reason = str(row["reason"])[:_LONGEST_REASON]
            superseded = Supersession(GripId(str(row["old"])), new, int(row["at"]), reason, str(row["author"]))
            events = parse_ids([row["old_event"], *([row["new_event"]] if new else [])])
        except (KeyError, TypeError, ValueError):
            continue
        if len(events) == 1 + bool(new):
            corrections.append(Correction(superseded, events[0], events[1] if new else None))
    return corrections
