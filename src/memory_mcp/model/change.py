"""Change: one entry of the outbox, read by every follower in sequence order."""

from dataclasses import dataclass
from enum import StrEnum


class ChangeKind(StrEnum):
    """What changed. On disk: do not change the values."""

    EVENTS_APPENDED = "events_appended"
    NODE_PUBLISHED = "node_published"
    SEGMENT_PUBLISHED = "segment_published"
    NODE_DROPPED = "node_dropped"


@dataclass(frozen=True, slots=True)
class Change:
    """`subject` is a node id, or the last event sequence number of an append."""

    seq: int
    kind: ChangeKind
    subject: str
