"""Documents' keys: 128 bits that lead back to the id, so that an index stores no text.

The highest bit tells a node (1) from a grip (0). A grip's key is its own (`ids.grip_key`). A node's holds 3 bits of level,
28 bits of place in the calendar, 32 bits that tell a project's share from the whole (0), and 64 bits of a segment's key.
"""

import datetime as dt

from memory_mcp.model.calendar import LEVELS, TocLevel, level_of, span_of
from memory_mcp.model.ids import (
    EventId,
    GripId,
    NodeId,
    day_id,
    digest,
    event_key,
    grip_id_from,
    grip_key,
    month_id,
    segment_id,
    segment_key_of,
    week_id,
    year_id,
)

_NODE = 1 << 63
_LEVEL_AT, _PLACE_AT = 60, 32
_PLACE = (1 << 28) - 1
_LOW = (1 << 64) - 1


def grip_doc(grip_id: GripId) -> tuple[int, int]:
    """High and low 64 bits of a grip's document."""
    key, _ = grip_key(grip_id)
    return key >> 64, key & _LOW


def node_doc(node_id: NodeId, project: str | None = None) -> tuple[int, int]:
    """High and low 64 bits of a node's document; with `project` those of that project's share of a period."""
    level = level_of(node_id)
    share = 0 if project is None else 1 + digest("share", project, bits=31)
    key = segment_key_of(node_id)
    place = _day_of_segment(node_id) if level is TocLevel.SEGMENT else span_of(node_id)[0].toordinal()
    return _NODE | LEVELS.index(level) << _LEVEL_AT | place << _PLACE_AT | share, key or 0


def node_of(high: int, low: int) -> NodeId:
    """The node a document stands for."""
    level = LEVELS[(high >> _LEVEL_AT) & 7]
    day = dt.date.fromordinal((high >> _PLACE_AT) & _PLACE)
    if level is TocLevel.SEGMENT:
        return segment_id(day.isoformat(), low)
    if level is TocLevel.DAY:
        return day_id(day.isoformat())
    if level is TocLevel.WEEK:
        return week_id(*day.isocalendar()[:2])
    return month_id(day.year, day.month) if level is TocLevel.MONTH else year_id(day.year)


def grip_of(high: int, low: int) -> GripId:
    """The grip a document stands for."""
    return grip_id_from(high << 64 | low)


def message_name(event_id: EventId) -> int:
    """Return the 64-bit name of a message: the low half of its event's key."""
    return event_key(event_id) & _LOW


def session_name(session_id: str) -> int:
    """Return the 64-bit name of a session."""
    return digest("session", session_id, bits=63)


def _day_of_segment(node_id: NodeId) -> int:
    return dt.date.fromisoformat(node_id.split(":")[2]).toordinal()
