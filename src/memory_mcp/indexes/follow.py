"""The outbox in, an index that holds what it says out; from the index's own position, and safe to repeat.

Every change names a node; what is indexed of it is read from the store as it is now, so that a change met twice, or
after a later one, comes to the same.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from memory_mcp.children import few_collections
from memory_mcp.failpoints import failpoint
from memory_mcp.indexes import units
from memory_mcp.indexes.base import Position
from memory_mcp.indexes.build import Workshop, built_together
from memory_mcp.indexes.document import Source, unit_of
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.model.calendar import EVERY_DAY
from memory_mcp.model.change import OF_NODES, Change
from memory_mcp.model.ids import NodeId
from memory_mcp.storage.base import Storage

#: Changes read at a time.
BATCH = 2000
#: Segments from which a child process does the work, and changes it gets at most: parts of as many segments are as large
#: as parts get.
BULK, BULK_BATCH = 100, 12_000
#: Name of the deriver's checkpoint: how far events are part of the tree.
_DERIVER = "deriver"


@dataclass(frozen=True, slots=True)
class Pending:
    """What an index has to take in: nodes in the order they changed last, and where it will stand then."""

    nodes: tuple[NodeId, ...]
    position: Position
    #: More changes lie behind these.
    more: bool


def pending(storage: Storage, position: Position, most: int = BATCH) -> Pending:
    """The next changes behind a position, at most so many."""
    # Read first: whatever the deriver had published by then is in the outbox read next.
    derived = storage.outbox.checkpoint(_DERIVER)
    changes = storage.outbox.after(position.outbox, most)
    more = len(changes) == most
    last = changes[-1].seq if changes else position.outbox
    mark = changes[-1].subject if changes else position.mark
    reached = Position(last, position.events if more else max(derived, position.events), mark)
    return Pending(_nodes(changes), reached, more)


def _nodes(changes: Sequence[Change]) -> tuple[NodeId, ...]:
    named = (NodeId(c.subject) for c in changes if c.kind in OF_NODES)
    return tuple(dict.fromkeys(named))


def named(storage: Storage, change: int) -> str:
    """What an outbox entry is about; "" where there is none of that number."""
    found = storage.outbox.after(change - 1, 1) if change else []
    return found[0].subject if found and found[0].seq == change else ""


@dataclass(frozen=True, slots=True)
class Member:
    """An index that follows, and where its bulk work is done."""

    index: LiveIndex[Any]
    workshop: Workshop
    #: Gets units that are done and that there are, while a batch is taken in aside.
    told: Callable[[int, int], None] = lambda _done, _all: None


def follow(storage: Storage, member: Member, let_through: Callable[[], None] = lambda: None) -> bool:
    """Take in one batch of changes; whether more may wait."""
    index = member.index
    since = index.position
    due = pending(storage, since)
    if not due.nodes and due.position == since:
        return False
    if sum(map(units.is_segment, due.nodes)) > BULK:
        return follow_aside(storage, [member], let_through)
    sources, missing = units.read(storage, due.nodes)
    index.apply([unit_of(s) for s in sources], missing, due.position, since)
    # Another generation that took its place meanwhile follows from a position of its own.
    return due.more or index.position != due.position


def follow_aside(storage: Storage, members: Sequence[Member], let_through: Callable[[], None] = lambda: None) -> bool:
    """Take in many changes by child processes, one for each index; whether more may wait.

    The indexes stand at the same position, so that what changed is read once. Being killed here means doing it again.
    """
    since = members[0].index.position
    due = pending(storage, since, BULK_BATCH)
    gone: list[int] = []

    def frames() -> Iterator[list[Source]]:
        for start in range(0, len(due.nodes), units.READ):
            found, missing = units.read(storage, due.nodes[start : start + units.READ])
            gone.extend(missing)
            for first in range(0, len(found), units.FRAME):
                let_through()
                yield found[first : first + units.FRAME]
            for member in members:
                member.told(min(start + units.READ, len(due.nodes)), len(due.nodes))

    with ExitStack() as held:
        held.enter_context(few_collections())
        children = [held.enter_context(member.workshop.following()) for member in members]
        built = built_together(children, frames())
        failpoint("index.built")
        for member, parts in zip(members, built, strict=True):
            member.index.apply([], gone, since, since)
            member.index.adopt(parts, due.position, since)
    return due.more or any(member.index.position != due.position for member in members)


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

    segments = storage.toc.tally(*EVERY_DAY, None).segments
    with workshop.building(units.everything(storage), keep_cutoffs, count, segments) as built:
        failpoint("index.built")
        index.adopt(built, position, cutoffs=None if keep_cutoffs else {})
    return done
