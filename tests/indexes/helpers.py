"""Indexes of real stores and of made-up units: opened, followed, built in this process, asked, damaged."""

import datetime as dt
import pickle
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

from memory_mcp.app import ALONE, App, Callbacks
from memory_mcp.base.children import Child, Packed
from memory_mcp.base.clock import Clock
from memory_mcp.base.text import query_terms
from memory_mcp.config import Settings
from memory_mcp.indexes import units as units_of_store
from memory_mcp.indexes.accelerators import Accelerators
from memory_mcp.indexes.base import DocType, Filters, IndexQuery, Match, Position, Searcher, Visibility
from memory_mcp.indexes.bm25.index import Bm25Index
from memory_mcp.indexes.bm25.kind import Bm25Kind
from memory_mcp.indexes.bm25.search import search_documents
from memory_mcp.indexes.build import ShardBuilder
from memory_mcp.indexes.document import IndexDocument, Source, Unit, unit_of
from memory_mcp.indexes.follow import FollowedIndex, follow_changes
from memory_mcp.indexes.index_reader import IndexReader
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.keys import grip_doc, node_doc
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.maker import ShardMaker
from memory_mcp.indexes.settings import TeleportSettings, VectorSettings
from memory_mcp.indexes.shard import IndexKind
from memory_mcp.indexes.shard_store import BuiltShard
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import EventDraft
from memory_mcp.model.ids import grip_id_from, node_key, segment_id
from memory_mcp.model.toc import MemoryKind
from memory_mcp.storage.base import Storage
from memory_mcp.storage.settings import StorageSettings
from tests.factories import BILLING, SHOP, ms
from tests.fakes import FakeClock
from tests.files import iter_files

#: What every comparison asks for.
FILTERS = (
    Filters(),
    Filters(doc_type=DocType.NODE),
    Filters(doc_type=DocType.GRIP),
    Filters(level=TocLevel.SEGMENT),
    Filters(level=TocLevel.DAY),
    Filters(project=SHOP),
    Filters(project=BILLING, doc_type=DocType.NODE),
    Filters(agent="codex"),
    Filters(speaker="ada"),
    Filters(kind=MemoryKind.PREFERENCE),
    Filters(window=TimeWindow(ms("2026-01-12 00:00"), ms("2026-01-20 09:10"))),
    Filters(window=TimeWindow(ms("2026-02-01 08:00"), ms("2026-02-01 10:30")), project=SHOP),
)
#: More than any store of a test holds.
ALL = 5000
ONLY_BM25 = TeleportSettings(vector=VectorSettings(enabled=False))


class Here(ShardBuilder):
    """A ShardBuilder that works in this process: the same parts, half a second sooner. Counts the generations it builds."""

    built = 0

    @contextmanager
    def build_shards(
        self, frames: Iterable[Sequence[Source]], keep_cutoffs: bool, told: Callable[[int], None], segments: int = 0
    ) -> Iterator[list[BuiltShard]]:
        self.built += 1
        with super().build_shards(frames, keep_cutoffs, told, 1) as made:
            yield made

    @contextmanager
    def _start_child(self, kind: IndexKind[Any], cutoffs: Mapping[str, int], reuse: Path | None = None) -> Iterator[Child]:
        with self._reserve_names(kind, {}, cutoffs) as hello:
            yield cast("Child", InProcess(ShardMaker(kind, hello).answer_request))


class InProcess:
    """A child that is none: the same work at once, and everything through the same frames."""

    def __init__(self, answer: Callable[[object], object]) -> None:
        self._answer = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def submit(self, request: object) -> "Future[object]":
        made: Future[object] = Future()
        try:
            packed = request if isinstance(request, Packed) else Packed.of(request)
            made.set_result(pickle.loads(Packed.of(self._answer(pickle.loads(packed)))))
        except Exception as error:
            made.set_exception(error)
        return made

    def ask(self, request: object) -> object:
        return self.submit(request).result()


def opened(
    directory: Path, clock: Clock | None = None, teleport: TeleportSettings = ONLY_BM25, callbacks: Callbacks = ALONE
) -> App:
    """A memory whose keyword index is switched on and nobody tends."""
    settings = Settings(storage=StorageSettings(str(directory), "Europe/Berlin"), teleport=teleport)
    return App(settings, clock or FakeClock(), callbacks=callbacks)


def fill_indexed(directory: Path, drafts: Iterable[EventDraft], teleport: TeleportSettings = ONLY_BM25, *, topics: bool) -> Path:
    """Write a memory with its indexes, and its topics if wanted, and leave it at rest; return its directory."""
    app = opened(directory, teleport=teleport)
    app.write(list(drafts), "test")
    app.derivation.run()
    app.accelerators.catch_up()
    if topics:
        app.topics.rebuild_graph()
    app.close()
    return directory


def index_at(
    directory: Path, store_id: str = "store", clock: Clock | None = None, kind: IndexKind[Any] | None = None
) -> LiveIndex[Any]:
    """An index in a folder, not loaded; of keywords, if not said otherwise."""
    return LiveIndex(kind or Bm25Kind(), directory, store_id, clock or FakeClock())


def keeper_of(
    storage: Storage, directory: Path, clock: Clock | None = None, budget_mb: int = 50, kind: IndexKind[Any] | None = None
) -> Keeper:
    """An index over a store, built in this process; of keywords, if not said otherwise."""
    index = index_at(directory, storage.get_stats(text=False).store_id, clock, kind)
    return Keeper(storage, index, Here(index, {}, budget_mb))


def followed(keeper: Keeper, storage: Storage) -> None:
    """Every change taken in."""
    while follow_changes(storage, FollowedIndex(keeper.index, keeper.shard_builder)):
        continue


def from_scratch(
    storage: Storage, directory: Path, cutoffs: Mapping[str, int] | None = None, kind: IndexKind[Any] | None = None
) -> LiveIndex[Any]:
    """An index of what the store holds now, in a folder of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    keeper = keeper_of(storage, directory, kind=kind)
    keeper.load()
    keeper.index.cutoffs = dict(cutoffs or {})
    keeper.rebuild()
    return keeper.index


def units_in(storage: Storage) -> list[Unit]:
    """Everything there is to index."""
    return [unit_of(source) for frame in units_of_store.iter_all_units(storage) for source in frame]


def found(index: LiveIndex[Any], text: str, filters: Filters | None = None, limit: int = ALL) -> tuple[int, list[Match]]:
    """What a keyword index answers: how many documents hold something of the query, and the best."""
    matches = search_documents(index.snapshot, query_terms(text), filters or Filters(), limit)
    return matches.total, list(matches.best)


def similar(index: LiveIndex[Any], text: str, filters: Filters | None = None, limit: int = ALL) -> tuple[int, list[Match]]:
    """What a vector index answers."""
    from memory_mcp.indexes.vector.index import VectorIndex

    matches = VectorIndex(cast("Keeper", SimpleNamespace(index=index))).search(IndexQuery(text, filters or Filters(), limit))
    return matches.total, list(matches.best)


Ask = Callable[[LiveIndex[Any], str, Filters], tuple[int, list[Match]]]
Answer = tuple[int, list[tuple[object, ...]], list[tuple[float, float]]]


def answers(
    index: LiveIndex[Any], queries: Iterable[str], filters: Sequence[Filters] = FILTERS, ask: Ask = found
) -> dict[tuple[str, Filters], Answer]:
    """Totals, documents in order and their scores, rounded, by query and filters."""
    told: dict[tuple[str, Filters], Answer] = {}
    for query in queries:
        for one in filters:
            total, best = ask(index, query, one)
            ids: list[tuple[object, ...]] = [
                (m.doc_type, m.node_id, m.grip_id, m.node_key, m.start_ms, m.best_grip) for m in best
            ]
            told[query, one] = (total, ids, [(round(m.raw, 6), round(m.score, 6)) for m in best])
    return told


def same(
    one: LiveIndex[Any], other: LiveIndex[Any], queries: Iterable[str], filters: Sequence[Filters] = FILTERS, ask: Ask = found
) -> None:
    """Both hold the same documents, and answer every query alike."""
    assert one.snapshot.counts == other.snapshot.counts
    asked = list(queries)
    wanted = answers(other, asked, filters, ask)
    differing = {key: (got, wanted[key]) for key, got in answers(one, asked, filters, ask).items() if got != wanted[key]}
    assert differing == {}


# made-up units

WORDS = (
    "retry queue bank slow cart rounds lines invoice tokenStore login handler payment refund ledger accents search index "
    "lock font theme image outbox VAT Norway discount checkout src/cart/total.py applyDiscount x86_64 café naïve"
).split()
START = ms("2026-01-12 09:00")
HOUR = 3_600_000


def document(key: tuple[int, int], kind: DocType, words: Sequence[str], start: int, end: int, project: str) -> IndexDocument:
    """One document."""
    return IndexDocument(
        key=key,
        doc_type=kind,
        level=TocLevel.SEGMENT,
        start_ms=start,
        end_ms=end,
        project=project,
        visible=Visibility.ALWAYS,
        agents=("claude-code",),
        speakers=(),
        kind="",
        words=tuple(words),
        gist=" ".join(words),
    )


def unit(number: int, text: str, *quotes: str, project: str = SHOP) -> Unit:
    """A segment, an hour after the one before, with a grip per quote a minute apart."""
    start = START + number * HOUR
    day = dt.datetime.fromtimestamp(start / 1000, dt.UTC).date().isoformat()
    node_id = segment_id(day, number + 1)
    node = document(node_doc(node_id), DocType.NODE, (text, *quotes), start, start + HOUR // 2, project)
    grips = []
    for n, quote in enumerate(quotes):
        at = start + n * 60_000
        own = grip_id_from(at << 80 | number << 16 | n)
        grips.append(document(grip_doc(own), DocType.GRIP, (quote,), at, at, project))
    return Unit(node_key(node_id), TocLevel.SEGMENT, node.end_ms, (node,), tuple(grips))


def of_messages(one: Unit, messages: Sequence[int], roles: Sequence[str] = (), asks: Sequence[int] = ()) -> Unit:
    """Return a unit whose grips were cut from messages of these names; its key names its session."""
    said = zip(one.grips, messages, roles or ["user"] * len(messages), asks or [0] * len(messages), strict=True)
    grips = tuple(replace(g, message=message, role=role, question_share=share) for g, message, role, share in said)
    return replace(one, grips=grips, session=one.key)


def in_messages(units: Iterable[Unit], seed: int) -> list[Unit]:
    """Return units whose grips were cut from messages at random, some of which ask."""
    rng = random.Random(seed)
    told = []
    for one in units:
        first = one.key << 8 & (1 << 63) - 1
        names = [first + 1]
        for _ in one.grips[1:]:
            names.append(names[-1] + rng.randrange(2))
        roles = {n: rng.choice(("user", "assistant", "tool")) for n in names}
        shares = [rng.choice((0, 0, 100, 255)) for _ in one.grips]
        names = names[: len(one.grips)]
        told.append(of_messages(one, names, [roles[n] for n in names], shares))
    return told


def made_up(count: int, seed: int = 1, first: int = 0) -> list[Unit]:
    """Units of random words."""
    rng = random.Random(seed)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randrange(1, 14)))

    return [
        unit(first + i, text(), *(text() for _ in range(rng.randrange(6))), project=rng.choice([SHOP, BILLING]))
        for i in range(count)
    ]


def filled(directory: Path, groups: Iterable[Sequence[Unit]], clock: Clock | None = None) -> LiveIndex[Any]:
    """An index on disk, one commit per group; small parts are merged as they come."""
    index = index_at(directory, clock=clock)
    index.adopt_shards([], Position())
    for n, group in enumerate(groups, start=1):
        index.apply_units(group, [], Position(n, n))
        index.commit()
        merged(index)
    return index


def merged(index: LiveIndex[Any]) -> None:
    """Every merge that is due carried out."""
    while index.merge_once():
        continue


def reloaded(directory: Path, last_change: int = 10**9) -> LiveIndex[Any]:
    """The same folder read by another process, as it were."""
    index = index_at(directory)
    index.load(last_change)
    return index


# damage


def flip(path: Path, at: int | None = None) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    place = len(data) // 2 if at is None else at
    data[place] ^= 0x10
    path.write_bytes(bytes(data))


def flip_within(path: Path, seed: int) -> None:
    """Change one bit somewhere."""
    size = path.stat().st_size
    if size:
        flip(path, random.Random(seed).randrange(size))


def truncate(path: Path) -> None:
    """Lose the last byte."""
    path.write_bytes(path.read_bytes()[:-1])


def halve(path: Path) -> None:
    """Lose half of it."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def extend(path: Path) -> None:
    """Gain one byte."""
    path.write_bytes(path.read_bytes() + b"\0")


def delete(path: Path) -> None:
    """Lose it."""
    path.unlink()


def to_directory(path: Path) -> None:
    """A directory in its place."""
    path.unlink()
    path.mkdir()


DAMAGES: tuple[Callable[[Path], None], ...] = (flip, truncate, halve, extend, delete, to_directory)


def files_of(directory: Path) -> list[Path]:
    """Every file below a folder that an index is read from, in order."""
    return sorted(p for p in iter_files(directory) if p.name != "stamps")


def serving(searcher: Searcher) -> Accelerators:
    """Accelerators with this index alone."""
    return cast(Accelerators, SimpleNamespace(find_searcher=lambda _: searcher))


def reader_of(keeper: Keeper, storage: Storage) -> IndexReader:
    """What a keyword index shows."""
    return IndexReader(lambda: Bm25Index(keeper), storage.outbox, storage.events.last_seq)
