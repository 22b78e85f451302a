"""Keys of documents: 128 bits that can be turned back into the id.

The highest bit distinguishes a node (1) from a grip (0). A grip's key is its own (`ids.grip_key`). A node's has
3 bits of level, 28 bits of date, 32 bits for a project's share of a period (0: the whole), and 64 bits of a
segment's key.
"""

import datetime as dt
from collections.abc import Iterable
from functools import lru_cache

from memory_mcp.model import ids
from memory_mcp.model.calendar import LEVELS, TocLevel, level_of, span_of
from memory_mcp.model.event import ExcludedSession
from memory_mcp.model.ids import EventId, GripId, NodeId, hash_parts

_NODE = 1 << 63
_LEVEL_AT, _PLACE_AT = 60, 32
_PLACE = (1 << 28) - 1
_LOW = (1 << 64) - 1
#: Node ids whose text form is kept: successive questions find the same segments.
_CACHED_IDS = 4096


def grip_doc(grip_id: GripId) -> tuple[int, int]:
    """Return the high and low 64 bits of a grip's key."""
    key, _ = ids.grip_key(grip_id)
    return key >> 64, key & _LOW


def node_doc(node_id: NodeId, project: str | None = None) -> tuple[int, int]:
    """Return halves of a node's key, or of a share's."""
    level = level_of(node_id)
    share = 0 if project is None else 1 + hash_parts("share", project, bits=31)
    key = ids.segment_key_of(node_id)
    is_segment = level is TocLevel.SEGMENT
    day = dt.date.fromisoformat(node_id.split(":")[2]) if is_segment else span_of(node_id)[0]
    return _NODE | LEVELS.index(level) << _LEVEL_AT | day.toordinal() << _PLACE_AT | share, key or 0


@lru_cache(maxsize=_CACHED_IDS)
def node_of(high: int, low: int) -> NodeId:
    """Return the node id of a key; for a share that of the period."""
    level = LEVELS[(high >> _LEVEL_AT) & 7]
    day = dt.date.fromordinal((high >> _PLACE_AT) & _PLACE)
    if level is TocLevel.SEGMENT:
        return ids.segment_id(day.isoformat(), low)
    if level is TocLevel.DAY:
        return ids.day_id(day.isoformat())
    if level is TocLevel.WEEK:
        return ids.week_id(*day.isocalendar()[:2])
    return ids.month_id(day.year, day.month) if level is TocLevel.MONTH else ids.year_id(day.year)


def grip_of(high: int, low: int) -> GripId:
    """Return the grip id of the halves of a key."""
    return ids.grip_id_from(high << 64 | low)


def message_name(event_id: EventId) -> int:
    """Return a message's name: the low 64 bits of its event's key."""
    return ids.event_key(event_id) & _LOW


def name_excluded(excluded: Iterable[ExcludedSession]) -> frozenset[tuple[int, int]]:
    """Return excluded sessions as `Filters` have them."""
    return frozenset((session_name(session.session_id), session.since_ms) for session in excluded)


def session_name(session_id: str) -> int:
    """Return the 63-bit name of a session."""
    return hash_parts("session", session_id, bits=63)
