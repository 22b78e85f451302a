"""Build and merge parts in child processes, which get units of the store as frames."""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from memory_mcp.base.children import Child, feed
from memory_mcp.indexes.document import Source
from memory_mcp.indexes.generation import PartEntry
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.maker import Finish, Hello, Maker, Merge
from memory_mcp.indexes.part import Kind
from memory_mcp.indexes.shelf import Built

#: Segments up to which a child does not pay, and above which a second one does: starting one takes half a second of CPU.
#: Changes of as few segments are indexed in this process, too (`follow.BULK`).
_FEW, _MANY = 100, 1500


class Workshop:
    """Starts child processes for one index."""

    def __init__(self, index: LiveIndex[Any], options: Mapping[str, Any], budget_mb: int) -> None:
        """Create it; `options` are those of the kind of index, `budget_mb` the megabytes that a maker's documents may fill."""
        self._index = index
        self._options = options
        self._budget_mb = budget_mb

    @contextmanager
    def building(
        self, frames: Iterable[Sequence[Source]], keep_cutoffs: bool, on_progress: Callable[[int], None], segments: int = _MANY
    ) -> Iterator[list[Built]]:
        """Yield the parts of all units of `frames` as the wanted kind of index; sweeps spare them inside the block.

        `on_progress` gets numbers of documents as they are added. More than 1500 `segments` are shared by two child
        processes (if there are two processors), at most 100 are built in this process, else by one child.
        Units older than the index's cutoffs are left out if `keep_cutoffs`. Nothing is added to the index.
        """
        kind, cutoffs = self._index.wanted, self._index.cutoffs if keep_cutoffs else {}
        with ExitStack() as stack:
            if segments <= _FEW:
                maker = Maker(kind, stack.enter_context(self._hello(kind, {}, cutoffs)))
                for frame in frames:
                    on_progress(cast("int", maker.answer(frame)))
                yield cast("list[Built]", maker.answer(Finish()))
                return
            count = min(2, os.cpu_count() or 1) if segments > _MANY else 1
            directory = self._index.home.directory
            children = [stack.enter_context(self._child(kind, cutoffs, directory)) for _ in range(count)]
            for added in feed([children], frames):
                on_progress(added)
            yield [built for parts in _finished(children) for built in parts]

    @contextmanager
    def following(self) -> Iterator[Child]:
        """Yield a child that makes parts of changed units, as the current kind and with its cutoffs (see `built_together`).

        Sweeps spare these parts inside the block only; the child ends with it.
        """
        with self._child(self._index.kind, self._index.cutoffs) as child:
            yield child

    @contextmanager
    def merging(self, entries: Sequence[PartEntry], improve: bool = False) -> Iterator[Built]:
        """Yield one part that a child merged from several on disk; sweeps spare it inside the block only.

        `improve` writes it in the faster form. The index does not use it yet.
        """
        with self._child(self._index.kind, {}) as child:
            yield child.ask(Merge(tuple(entries), improve))

    @contextmanager
    def _child(self, kind: Kind[Any], cutoffs: Mapping[str, int], reuse: Path | None = None) -> Iterator[Child]:
        """Yield a new child process for a kind of index, ended with the block; `reuse` is a folder whose vectors it may reuse."""
        options = {**self._options, **kind.options(reuse)}
        with self._hello(kind, options, cutoffs) as hello, Child("memory_mcp.indexes.child", hello) as child:
            yield child

    @contextmanager
    def _hello(self, kind: Kind[Any], options: Mapping[str, Any], cutoffs: Mapping[str, int]) -> Iterator[Hello]:
        """Yield what a maker starts with; sweeps spare parts with its new prefix inside the block. Creates missing folders."""
        home, token = self._index.home, f"b{uuid.uuid4().hex[:12]}"
        home.prepare()
        home.building.add(token)
        try:
            yield Hello(kind.name, options, str(home.directory), token, self._budget_mb, dict(cutoffs))
        finally:
            home.building.discard(token)


def built_together(children: Sequence[Child], frames: Iterable[Sequence[Source]]) -> list[list[Built]]:
    """Return the parts that each child makes of the same units, by child; the units are read and packed once.

    Waits until all are done. Errors of a child are passed on.
    """
    for _ in feed([[child] for child in children], frames):
        pass
    return _finished(children)


def _finished(children: Sequence[Child]) -> list[list[Built]]:
    """Return the parts of each child, in order of `children`. All are asked to finish before the first is waited for."""
    requests = [child.submit(Finish()) for child in children]
    return [parts.result() for parts in requests]
