"""The outbox in, an index that holds what it says out; from the index's own position, and safe to repeat.

Every change names a node; what is indexed of it is read from the store as it is now, so that a change met twice, or
after a later one, comes to the same.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memory_mcp.failpoints import failpoint
from memory_mcp.indexes import units
from memory_mcp.indexes.base import Position
from memory_mcp.indexes.build import Workshop
from memory_mcp.indexes.document import unit_of
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.model.change import Change, ChangeKind
from memory_mcp.model.ids import NodeId
from memory_mcp.storage.base import Storage

#: Changes read at a time.
BATCH = 2000
#: Segments from which a child process does the work.
BULK = 100
#: A span of days that holds every day.
_ALWAYS = ("0000", "9999-99")
#: Name of the deriver's checkpoint: how far events are part of the tree.
_DERIVER = "deriver"


@dataclass(frozen=True, slots=True)
class Pending:
    """What an index has to take in: nodes in the order they changed last, and where it will stand then."""

    nodes: tuple[NodeId, ...]
    position: Position
    #: More changes lie behind these.
    more: bool


def pending(storage: Storage, position: Position) -> Pending:
    """The next batch behind a position."""
    # Read first: whatever the deriver had published by then is in the outbox read next.
    derived = storage.outbox.checkpoint(_DERIVER)
    changes = storage.outbox.after(position.outbox, BATCH)
    more = len(changes) == BATCH
    last = changes[-1].seq if changes else position.outbox
    mark = changes[-1].subject if changes else position.mark
    reached = Position(last, position.events if more else max(derived, position.events), mark)
    return Pending(_nodes(changes), reached, more)


def _nodes(changes: Sequence[Change]) -> tuple[NodeId, ...]:
    named = (NodeId(c.subject) for c in changes if c.kind is not ChangeKind.EVENTS_APPENDED)
    return tuple(dict.fromkeys(named))


def named(storage: Storage, change: int) -> str:
    """What an outbox entry is about; "" where there is none of that number."""
    found = storage.outbox.after(change - 1, 1) if change else []
    return found[0].subject if found and found[0].seq == change else ""


def follow(storage: Storage, index: LiveIndex[Any], workshop: Workshop, let_through: Callable[[], None] = lambda: None) -> bool:
    """Take in one batch of changes; whether more may wait."""
    since = index.position
    due = pending(storage, since)
    if not due.nodes and due.position == since:
        return False
    segments = [i for i in due.nodes if units.is_segment(i)]
    if len(segments) > BULK:
        rest = [i for i in due.nodes if not units.is_segment(i)]
        gone = _follow_aside(storage, index, workshop, segments, since, let_through)
        sources, missing = units.read(storage, rest)
    else:
        gone = []
        sources, missing = units.read(storage, due.nodes)
    index.apply([unit_of(s) for s in sources], [*gone, *missing], due.position, since)
    # Another generation that took its place meanwhile follows from a position of its own.
    return due.more or index.position != due.position


def _follow_aside(
    storage: Storage,
    index: LiveIndex[Any],
    workshop: Workshop,
    ids: Sequence[NodeId],
    since: Position,
    let_through: Callable[[], None],
) -> list[int]:
    """Segments in bulk; keys of those that are gone. The position stays: being killed here means doing it again."""
    gone: list[int] = []

    def frames() -> Any:
        for start in range(0, len(ids), units.FRAME):
            let_through()
            sources, missing = units.read(storage, ids[start : start + units.FRAME])
            gone.extend(missing)
            yield sources

    built = workshop.following(frames())
    failpoint("index.built")
    index.adopt(built, since, whole=False)
    return gone


def rebuild(
    storage: Storage,
    index: LiveIndex[Any],
    workshop: Workshop,
    told: Callable[[int], None],
    let_through: Callable[[], None] = lambda: None,
    keep_cutoffs: bool = True,
) -> int:
    """Build a whole new generation from the store, and put it in the place of the one there is; documents in it."""
    derived = storage.outbox.checkpoint(_DERIVER)
    last = storage.toc.version()
    position = Position(last, derived, named(storage, last))
    counted, done = threading.Lock(), 0

    def count(added: int) -> None:
        nonlocal done
        with counted:
            done += added
            told(done)
        let_through()

    segments = storage.toc.tally(*_ALWAYS, None).segments
    with workshop.building(units.everything(storage), keep_cutoffs, count, segments) as built:
        failpoint("index.built")
        index.adopt(built, position, whole=True, cutoffs=None if keep_cutoffs else {})
    return done
