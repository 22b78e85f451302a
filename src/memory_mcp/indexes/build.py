"""Build and merge parts in child processes, which get units of the store as frames."""

import os
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from memory_mcp.children import Child, Packed
from memory_mcp.indexes.document import Source
from memory_mcp.indexes.generation import PartEntry
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.maker import Finish, Hello, Maker, Merge
from memory_mcp.indexes.part import Kind
from memory_mcp.indexes.shelf import Built

#: Segments up to which a child does not pay, and above which a second one does: starting one takes half a second of CPU.
#: Changes of as few segments are indexed in this process, too (`follow.BULK`).
_FEW, _MANY = 100, 1500
#: Most frames queued for a child.
_AHEAD = 4


class Workshop:
    """Starts child processes for one index."""

    def __init__(self, index: LiveIndex[Any], options: Mapping[str, Any], budget_mb: int) -> None:
        self._index = index
        self._options = options
        self._budget_mb = budget_mb
        self._tokens: dict[Child, str] = {}

    @contextmanager
    def building(
        self, frames: Iterable[Sequence[Source]], keep_cutoffs: bool, told: Callable[[int], None], segments: int = _MANY
    ) -> Iterator[list[Built]]:
        """Yield the parts of all units of `frames` as the wanted kind of index; sweeps spare them inside the block.

        `told` gets numbers of documents as they are added. Two children share the work of many `segments`; few are built in
        this process.
        """
        cutoffs = self._index.cutoffs if keep_cutoffs else {}
        if segments <= _FEW:
            with self._here(cutoffs) as maker:
                for frame in frames:
                    told(cast("int", maker.answer(frame)))
                yield cast("list[Built]", maker.answer(Finish()))
            return
        count = min(2, os.cpu_count() or 1) if segments > _MANY else 1
        children = [self._child(self._index.wanted, cutoffs, self._index.home.directory) for _ in range(count)]
        try:
            yield _together(children, frames, told)
        finally:
            for child in children:
                self._end(child)

    @contextmanager
    def following(self) -> Iterator[Child]:
        """Yield a child that makes parts of changed units (see `built_together`); sweeps spare them inside the block."""
        child = self._child(self._index.kind, dict(self._index.cutoffs))
        try:
            yield child
        finally:
            self._end(child)

    @contextmanager
    def merging(self, entries: Sequence[PartEntry], improve: bool = False) -> Iterator[Built]:
        """Yield one part merged from several on disk; sweeps spare it inside the block."""
        child = self._child(self._index.kind, {})
        try:
            child.begin()
            yield cast("Built", child.ask(Merge(tuple(entries), improve)))
        finally:
            self._end(child)

    @contextmanager
    def _here(self, cutoffs: Mapping[str, int]) -> Iterator[Maker]:
        home, kind, token = self._index.home, self._index.wanted, _token()
        home.prepare()
        home.building.add(token)
        try:
            yield Maker(kind, Hello(kind.name, {}, str(home.directory), token, self._budget_mb, dict(cutoffs)))
        finally:
            home.building.discard(token)

    def _child(self, kind: Kind[Any], cutoffs: Mapping[str, int], reuse: Path | None = None) -> Child:
        home = self._index.home
        home.prepare()
        token = _token()
        options = {**self._options, **kind.options(reuse)}
        hello = Hello(kind.name, options, str(home.directory), token, self._budget_mb, dict(cutoffs))
        child = Child("memory_mcp.indexes.child", hello)
        self._tokens[child] = token
        home.building.add(token)
        return child

    def _end(self, child: Child) -> None:
        child.end()
        self._index.home.building.discard(self._tokens.pop(child))


def _token() -> str:
    return f"b{uuid.uuid4().hex[:12]}"


def _built(child: Child, frames: Iterable[object], told: Callable[[int], None]) -> list[Built]:
    child.begin()
    for added in child.ask_all(frames):
        told(cast("int", added))
    return cast("list[Built]", child.ask(Finish()))


def built_together(children: Sequence[Child], frames: Iterable[Sequence[Source]]) -> list[list[Built]]:
    """Return the parts that each child makes of the same units, which are read and packed once."""
    queues: list[queue.Queue[Packed | None]] = [queue.Queue(_AHEAD) for _ in children]
    with ThreadPoolExecutor(len(children), "building") as pool:
        running = [
            pool.submit(_built, child, iter(waiting.get, None), lambda _: None)
            for child, waiting in zip(children, queues, strict=True)
        ]
        try:
            for frame in frames:
                packed = Packed.of(frame)
                for waiting, made in zip(queues, running, strict=True):
                    _put(waiting, packed, made)
        except BaseException:
            for child in children:
                child.end()
            raise
        finally:
            for waiting, made in zip(queues, running, strict=True):
                _put(waiting, None, made)
        return [made.result() for made in running]


def _put(waiting: "queue.Queue[Packed | None]", frame: Packed | None, made: "Future[list[Built]]") -> None:
    """Queue a frame unless its consumer has ended."""
    while not made.done():
        with suppress(queue.Full):
            waiting.put(frame, timeout=0.2)
            return


def _together(children: Sequence[Child], frames: Iterable[Sequence[Source]], told: Callable[[int], None]) -> list[Built]:
    """Give each child the next frame when it is ready; an error of one ends all."""
    if len(children) == 1:
        return _built(children[0], frames, told)
    shared = _Shared(frames)
    with ThreadPoolExecutor(len(children), "building") as pool:
        running = [pool.submit(_built, child, shared, told) for child in children]
        try:
            return [built for done in as_completed(running) for built in done.result()]
        except BaseException:
            shared.stop()
            for child in children:
                child.end()
            raise


class _Shared:
    """An iterator shared by threads."""

    def __init__(self, frames: Iterable[Sequence[Source]]) -> None:
        self._frames = iter(frames)
        self._lock = threading.Lock()

    def __iter__(self) -> "_Shared":
        """Return itself."""
        return self

    def __next__(self) -> Sequence[Source]:
        """Return the next frame."""
        with self._lock:
            return next(self._frames)

    def stop(self) -> None:
        """End the iteration for all threads."""
        with self._lock:
            self._frames = iter(())
