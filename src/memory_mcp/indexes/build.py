"""Build and merge shards in child processes, which get units as frames."""

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from memory_mcp.base.children import Child, feed
from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.indexes.document import Source
from memory_mcp.indexes.generation import ShardEntry
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.maker import FinishRequest, MakerSetup, MergeRequest, ShardMaker
from memory_mcp.indexes.shard import IndexKind
from memory_mcp.indexes.shard_store import BuiltShard

#: Segments up to which a child does not pay, and above which a second one does: starting one takes half a second of CPU.
#: Changes of as few segments are indexed in this process, too (`follow.BULK`).
_FEW, _MANY = 100, 1500


class ShardBuilder:
    """Starts child processes for one index."""

    def __init__(self, index: LiveIndex[Any], options: Mapping[str, Any], budget_mb: int) -> None:
        """`budget_mb` is what a maker's documents may fill, in megabytes."""
        self._index = index
        self._options = options
        self._budget_mb = budget_mb

    @contextmanager
    def build_shards(
        self, frames: Iterable[Sequence[Source]], keep_cutoffs: bool, on_progress: Callable[[int], None], segments: int = _MANY
    ) -> Iterator[list[BuiltShard]]:
        """Yield the shards of all units, safe from removal inside.

        `on_progress` gets numbers of documents as they are added. More than 1500 `segments` are shared by two child
        processes (if there are two processors), at most 100 are built in this process, else by one child. Units older
        than the index's cutoffs are left out if `keep_cutoffs`. Nothing is added to the index.
        """
        kind, cutoffs = self._index.target_kind, self._index.cutoffs if keep_cutoffs else {}
        with ExitStack() as stack:
            if segments <= _FEW:
                maker = ShardMaker(kind, stack.enter_context(self._reserve_names(kind, {}, cutoffs)))
                for frame in frames:
                    on_progress(cast("int", maker.answer_request(frame)))
                yield cast("list[BuiltShard]", maker.answer_request(FinishRequest()))
                return
            count = min(2, os.cpu_count() or 1) if segments > _MANY else 1
            children = stack.enter_context(self.start_builders(count, keep_cutoffs))
            for _, added in feed([children], frames):
                on_progress(added)
            yield [built for shards in _finish_all(children) for built in shards]

    @contextmanager
    def start_builders(self, count: int, keep_cutoffs: bool = True) -> Iterator[list[Child]]:
        """Yield `count` children that make shards of a new generation."""
        kind, cutoffs = self._index.target_kind, self._index.cutoffs if keep_cutoffs else {}
        with ExitStack() as stack:
            directory = self._index.folder.directory
            yield [stack.enter_context(self._start_child(kind, cutoffs, directory)) for _ in range(count)]

    @contextmanager
    def start_follower(self) -> Iterator[Child]:
        """Yield a child that makes shards of changed units (`build_in_all`)."""
        with self._start_child(self._index.kind, self._index.cutoffs) as child:
            yield child

    @contextmanager
    def merge_shards(self, entries: Sequence[ShardEntry], improve: bool = False) -> Iterator[BuiltShard]:
        """Yield a shard that a child merged; not in use yet."""
        with self._start_child(self._index.kind, {}) as child:
            yield child.ask(MergeRequest(tuple(entries), improve))

    @contextmanager
    def _start_child(self, kind: IndexKind[Any], cutoffs: Mapping[str, int], reuse: Path | None = None) -> Iterator[Child]:
        options = {**self._options, **kind.child_options(reuse)}
        with self._reserve_names(kind, options, cutoffs) as hello, Child("memory_mcp.indexes.child", hello) as child:
            yield child

    @contextmanager
    def _reserve_names(
        self, kind: IndexKind[Any], options: Mapping[str, Any], cutoffs: Mapping[str, int]
    ) -> Iterator[MakerSetup]:
        folder, token = self._index.folder, f"b{uuid.uuid4().hex[:12]}"
        folder.create_folders()
        folder.protected_prefixes.add(token)
        try:
            yield MakerSetup(kind.name, options, str(folder.directory), token, self._budget_mb, dict(cutoffs))
        finally:
            folder.protected_prefixes.discard(token)


def build_in_all(children: Sequence[Child], frames: Iterable[Sequence[Source]]) -> list[list[BuiltShard]]:
    """Return shards each child makes of the same units, packed once."""
    for _ in feed([[child] for child in children], frames):
        pass
    return _finish_all(children)


def build_all_shards(
    groups: Sequence[Sequence[Child]], frames: Iterable[Sequence[Source]], on_progress: Callable[[int, int], None]
) -> list[list[BuiltShard]]:
    """Return the shards that each group of children makes of the same units, packed once.

    `on_progress` gets the index of a group and a number of documents it has added.
    """
    for index, added in feed(groups, frames):
        on_progress(index, added)
    built = iter(_finish_all([child for group in groups for child in group]))
    return [[shard for _ in group for shard in next(built)] for group in groups]


def _finish_all(children: Sequence[Child]) -> list[list[BuiltShard]]:
    requests = [child.submit(FinishRequest()) for child in children]
    return [shards.result() for shards in requests]


#: Seconds between two checks whether a waiting build is still wanted.
_CHECK_SECS = 0.2


class BuildSlots:
    """A semaphore for builds; a thread must not ask for a second turn."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def wait_turn(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn and keep it until the block ends.

        `is_over` is called every .2 seconds meanwhile; raises LayerUnavailable once it is true.
        """
        while not self._free.acquire(timeout=_CHECK_SECS):
            if is_over():
                raise LayerUnavailable("the memory is being closed", "Ask again once it is open.")
        try:
            yield
        finally:
            self._free.release()


#: Builds of indexes from the whole store; two at once do no harm on a machine of few cores.
BUILDS = BuildSlots(2)
#: Groupings of topics, which no caller waits for.
GROUPINGS = BuildSlots(1)
