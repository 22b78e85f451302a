"""Change: one entry of the outbox, which followers read in sequence order."""

from enum import StrEnum

from memory_mcp.base.dataclass import dataclass


class ChangeKind(StrEnum):
    """Kind of change. On disk: do not change the values."""

    EVENTS_APPENDED = "events_appended"
    NODE_PUBLISHED = "node_published"
    SEGMENT_PUBLISHED = "segment_published"
    NODE_DROPPED = "node_dropped"
    #: An event was forgotten, or has another id since something was taken out of it.
    EVENT_DROPPED = "event_dropped"
    #: Events were numbered anew, from a number on.
    EVENTS_MOVED = "events_moved"


#: Kinds whose subject is a node.
NODE_CHANGES = frozenset((ChangeKind.NODE_PUBLISHED, ChangeKind.SEGMENT_PUBLISHED, ChangeKind.NODE_DROPPED))


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the outbox.

    `subject` is a node id, an event id, the last number of an append, or the first number that is another event's now.
    """

    seq: int
    kind: ChangeKind
    subject: str
