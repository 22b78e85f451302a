"""Convert drafts to rows of plain JSON values, to send them between processes of this program, and back."""

from collections.abc import Sequence
from typing import Any

from memory_mcp.model.event import EventDraft, EventType, OriginalIdentity, Role, Trust
from memory_mcp.model.ids import EventId

#: Values of a draft that was not stored elsewhere before.
_OWN = 11


def pack_drafts(drafts: Sequence[EventDraft]) -> list[list[Any]]:
    """Return a row for each draft: its 11 fields in order.

    A draft that was stored elsewhere has 3 more: its id, source and trust there.
    """
    return [
        [
            *(d.session_id, d.role.value, d.type.value, d.text, d.timestamp, d.source_id),
            *(d.agent, d.project, d.thread, d.speaker, dict(d.metadata)),
            *([d.original.event_id, d.original.source, d.original.trust] if d.original else ()),
        ]
        for d in drafts
    ]


def unpack_drafts(rows: Sequence[Sequence[Any]]) -> list[EventDraft]:
    """Return the drafts that `pack_drafts` was given.

    Raises ValueError, IndexError or TypeError for anything else.
    """
    return [
        EventDraft(
            *(r[0], Role(r[1]), EventType(r[2]), r[3], r[4], r[5], r[6], r[7], r[8], r[9], dict(r[10])),
            OriginalIdentity(EventId(r[11]), r[12], Trust(r[13]) if r[13] else None) if len(r) > _OWN else None,
        )
        for r in rows
    ]
