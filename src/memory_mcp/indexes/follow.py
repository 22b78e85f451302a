"""Keep an index up to date from the outbox, from the index's own position.

A change names a node, which is read from the store as it is now: a change handled twice, or after a later one,
has the same result.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from memory_mcp.base.children import few_collections
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.failpoints import failpoint
from memory_mcp.indexes import units
from memory_mcp.indexes.base import Position
from memory_mcp.indexes.build import ShardBuilder, build_all_shards, build_in_all
from memory_mcp.indexes.document import Source, Unit, unit_of
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.model.calendar import EVERY_DAY
from memory_mcp.model.change import NODE_CHANGES
from memory_mcp.model.ids import NodeId
from memory_mcp.storage.base import Storage

#: Changes read at a time.
BATCH = 2000
#: Segments above which a child process does the work, and most changes it gets, which fill the largest part.
BULK, BULK_BATCH = 100, 12_000
#: Name of the deriver's checkpoint: up to which event the tree is built.
_DERIVER = "deriver"


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changed nodes, each once, and the position after them."""

    nodes: tuple[NodeId, ...]
    position: Position
    #: Whether there are more changes.
    has_more: bool


def read_changes(storage: Storage, position: Position, most: int = BATCH) -> ChangeBatch:
    """Return at most `most` changes after a position.

    The position's number of events is raised to the deriver's checkpoint only if these are the last changes. If
    there are exactly `most`, more are taken to follow.
    """
    # Read first: everything the deriver published up to then is in the outbox read next.
    derived = storage.outbox.get_checkpoint(_DERIVER)
    changes = storage.outbox.read_after(position.outbox, most)
    more = len(changes) == most
    last = changes[-1].seq if changes else position.outbox
    mark = changes[-1].subject if changes else position.mark
    reached = Position(last, position.events if more else max(derived, position.events), mark)
    nodes = dict.fromkeys(NodeId(c.subject) for c in changes if c.kind in NODE_CHANGES)
    return ChangeBatch(tuple(nodes), reached, more)


def change_subject(storage: Storage, change: int) -> str:
    """Return the subject of an outbox entry; "" if there is none."""
    entries = storage.outbox.read_after(change - 1, 1) if change else []
    return entries[0].subject if entries and entries[0].seq == change else ""


@dataclass(frozen=True, slots=True)
class FollowedIndex:
    """An index to keep up to date, and the builder for bulk work."""

    index: LiveIndex[Any]
    builder: ShardBuilder
    #: Called with numbers of units, done and total, during bulk work.
    on_progress: Callable[[int, int], None] = lambda _done, _all: None


class ChangedUnits:
    """Reads the units of changes once for all indexes at one position."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._changes: ChangeBatch | None = None
        self._units: tuple[list[Unit], list[int]] = [], []

    def read(self, changes: ChangeBatch) -> tuple[list[Unit], list[int]]:
        """Return the units of changed nodes as they are now, or were for the index before, and missing keys."""
        if changes != self._changes:
            sources, missing = units.read_units(self._storage, changes.nodes)
            self._changes, self._units = changes, ([unit_of(source) for source in sources], missing)
        return self._units


def follow_changes(
    storage: Storage,
    member: FollowedIndex,
    give_way: Callable[[], object] = lambda: None,
    changed: ChangedUnits | None = None,
) -> bool:
    """Index at most 2000 changes; return whether more may wait.

    With more than 100 changed segments, child processes index up to 12,000 changes instead. The result can be
    searched, but is not committed here. Nothing is indexed if another generation has replaced the index meanwhile.
    """
    index = member.index
    since = index.position
    due = read_changes(storage, since)
    if not due.nodes and due.position == since:
        return False
    if sum(map(units.is_segment, due.nodes)) > BULK:
        return follow_in_children(storage, [member], give_way)
    changed_units, missing = (changed or ChangedUnits(storage)).read(due)
    index.apply_units(changed_units, missing, due.position, since)
    # A generation that replaced it meanwhile has a position of its own.
    return due.has_more or index.position != due.position


def follow_in_children(storage: Storage, members: Sequence[FollowedIndex], give_way: Callable[[], object] = lambda: None) -> bool:
    """Index up to 12,000 changes in children; return whether more wait.

    The indexes must have the same position, so that changes are read once. The shards are committed. If killed, the
    work is repeated. `give_way` is called before each frame of units; while it returns something true, no more is read at once.
    """
    since = members[0].index.position
    due = read_changes(storage, since, BULK_BATCH)
    gone: list[int] = []

    def frames() -> Iterator[list[Source]]:
        start = 0
        while start < len(due.nodes):
            # Reading holds the interpreter's lock for long.
            size = units.FRAME_SIZE if give_way() else units.READ_BATCH
            sources, missing = units.read_units(storage, due.nodes[start : start + size])
            gone.extend(missing)
            for first in range(0, len(sources), units.FRAME_SIZE):
                give_way()
                yield sources[first : first + units.FRAME_SIZE]
            start += size
            for member in members:
                member.on_progress(min(start, len(due.nodes)), len(due.nodes))

    with ExitStack() as stack:
        stack.enter_context(few_collections())
        children = [stack.enter_context(member.builder.start_follower()) for member in members]
        built = build_in_all(children, frames())
        failpoint("index.built")
        for member, shards in zip(members, built, strict=True):
            member.index.apply_units([], gone, since, since)
            member.index.adopt_shards(shards, due.position, since)
    return due.has_more or any(member.index.position != due.position for member in members)


def rebuild_index(
    storage: Storage,
    index: LiveIndex[Any],
    builder: ShardBuilder,
    on_progress: Callable[[int], None],
    give_way: Callable[[], object] = lambda: None,
    keep_cutoffs: bool = True,
) -> int:
    """Build a new generation, committed; return its number of documents.

    `on_progress` gets the documents so far; `give_way` is called before each reading. Without `keep_cutoffs`, documents that
    retention dropped come back.
    """
    position = _find_position(storage)
    counted, done = threading.Lock(), 0

    def count(added: int) -> None:
        nonlocal done
        with counted:
            done += added
            on_progress(done)

    with builder.build_shards(units.iter_all_units(storage, give_way), keep_cutoffs, count, count_segments(storage)) as built:
        failpoint("index.built")
        index.adopt_shards(built, position, cutoffs=None if keep_cutoffs else {})
    return done


def rebuild_together(
    storage: Storage,
    members: Sequence[tuple[LiveIndex[Any], ShardBuilder]],
    on_progress: Callable[[int, int], None],
    give_way: Callable[[], object] = lambda: None,
) -> None:
    """Build new generations of several indexes in children, committed, from units that are read once.

    `on_progress` gets the position of an index in `members` and a number of documents that it has more; `give_way` is
    called before each reading.
    """
    position = _find_position(storage)
    with ExitStack() as stack:
        # Every unit goes to a child of each index: with one each, two processors are in use.
        share = 2 if (os.cpu_count() or 1) > len(members) else 1
        groups = [stack.enter_context(builder.start_builders(share)) for _, builder in members]
        built = build_all_shards(groups, units.iter_all_units(storage, give_way), on_progress)
        failpoint("index.built")
        for (index, _), shards in zip(members, built, strict=True):
            index.adopt_shards(shards, position)


def count_segments(storage: Storage) -> int:
    """Return the number of segments of the tree."""
    return storage.toc.tally_days(*EVERY_DAY, None).segments


def _find_position(storage: Storage) -> Position:
    """Return the position of an index that holds everything there is now."""
    derived = storage.outbox.get_checkpoint(_DERIVER)
    last = storage.toc.current_version()
    return Position(last, derived, change_subject(storage, last))
