"""Following equals rebuilding: whatever happens to a store, an index that followed answers as one built from scratch.

A failing sequence is kept below as a test of its own, with a name that says what went wrong.
"""

import itertools
import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.indexes import follow as following
from memory_mcp.indexes import units
from memory_mcp.indexes.base import Filters, Health, IndexQuery, Matches, Position
from memory_mcp.indexes.bm25.index import Bm25Index
from memory_mcp.indexes.follow import FollowedIndex, follow_changes, read_changes, rebuild_index
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.settings import requested_cutoffs
from memory_mcp.indexes.shard import IndexKind
from memory_mcp.model.calendar import Calendar, TocLevel
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.exchange import lacks_reply
from memory_mcp.model.ids import segment_id
from memory_mcp.model.toc import TocBullet
from memory_mcp.search.layers.base import LayerName
from memory_mcp.search.layers.teleport import TeleportLayer
from memory_mcp.storage.values import Build
from memory_mcp.tree.toc.check import check_store
from tests.factories import BILLING, SHOP, a_day_of_drafts, draft, ms
from tests.fakes import FakeClock
from tests.indexes.helpers import (
    ALL,
    followed,
    found,
    from_scratch,
    index_at,
    keeper_of,
    merged,
    opened,
    reader_of,
    same,
    serving,
    similar,
)
from tests.requirements import requirement
from tests.toc.helpers import rebuild as rebuild_toc

HOUR = 3_600_000
#: What is said, and asked for.
VOCABULARY = (
    "the retry queue is drained twice because the bank is slow and the cart rounds each line I always prefer tabs "
    "tokenStore applyDiscount src/cart/total.py x86_64 zirconium palladium ERR_TIMEOUT v1.2.3 naïve 日本語"
).split()
QUERIES = (
    *("bank slow the", "tokenStore x86_64 v1.2.3", "token", "applyDiscount cart", "zirconium palladium"),
    *("err_timeout naive 日本", "refined words", "u3 longer"),
)
_CHANGING = ("append", "append", "append", "append late", "append into old", "append long", "tell twice", "derive", "derive")
_OTHER = ("refine", "pin", "rebuild toc", "change timezone", "drop nodes", "commit", "commit", "merge", "reload", "prune")
STEPS = (*_CHANGING, *_OTHER, "follow", "follow", "follow in bulk", "rebuild")
SEQUENCES = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**32)), min_size=3, max_size=16)


class Life:
    """A store and an index that follows it in small batches."""

    def __init__(self, root: Path, kind: IndexKind[Any] | None = None) -> None:
        self.root = root
        self.kind = kind
        self.clock = FakeClock()
        self.app = opened(root / "data", self.clock)
        self.keeper = self._keeper()
        self.stored: list[EventDraft] = []
        self.count = 0
        #: Number of the last event that hides another or is hidden.
        self.last_paired = 0

    def _keeper(self) -> Keeper:
        keeper = keeper_of(self.app.storage, self.root / "index", self.clock, budget_mb=0, kind=self.kind)
        keeper.load()
        if keeper.index.health is not Health.HEALTHY:
            keeper.rebuild()
        return keeper

    @property
    def index(self) -> LiveIndex[Any]:
        return self.keeper.index

    def step(self, name: str, seed: int) -> None:
        getattr(self, "_" + name.replace(" ", "_"))(random.Random(seed))

    def _batch(self, rng: random.Random, begin: int, words: Sequence[int] = (3, 12, 40), session: str = "") -> None:
        session, project = session or rng.choice("abc"), rng.choice([SHOP, BILLING])
        drafts = []
        for n in range(rng.randrange(1, 7)):
            begin += rng.choice([1000, 60_000, 31 * 60_000])
            drafts.append(
                draft(
                    " ".join(rng.choices(VOCABULARY, k=rng.choice(words))),
                    at=begin,
                    session=session,
                    role=rng.choice([Role.USER, Role.ASSISTANT]),
                    kind=EventType.SESSION_END if rng.random() < 0.1 else None,
                    project=project,
                    agent=rng.choice(["codex", "claude-code"]),
                    speaker=rng.choice(["", "Ada", "Bob"]),
                    source_id=f"{self.count}/{n}",
                )
            )
        self.count += 1
        self.app.write(drafts, "test")
        self.stored += drafts

    def _append(self, rng: random.Random) -> None:
        self._batch(rng, ms("2026-02-01 08:00") + self.count * HOUR)

    def _append_late(self, rng: random.Random) -> None:
        self._batch(rng, ms("2025-12-29 08:00") + rng.randrange(1200) * HOUR)

    def _append_into_old(self, rng: random.Random) -> None:
        if self.stored:
            known = rng.choice(self.stored)
            self._batch(rng, (known.timestamp or 0) - 30_000, session=known.session_id)

    def _append_long(self, rng: random.Random) -> None:
        self._batch(rng, ms("2026-02-01 08:00") + self.count * HOUR, words=(2500,))

    def _tell_twice(self, rng: random.Random) -> None:
        """A call that a hook and a transcript tell, one of them at greater length."""
        at, number = ms("2026-01-14 08:00") + self.count * HOUR, self.count
        said = draft(
            " ".join(rng.choices(VOCABULARY, k=8)),
            at=at,
            session=rng.choice("abc"),
            role=Role.TOOL,
            project=rng.choice([SHOP, BILLING]),
            metadata={"tool_use_id": f"u{number}", "exit_status": "0"},
            source_id=f"h{number}",
        )
        longer = replace(said, text=f"{said.text} u{number} longer", source_id=f"t{number}", timestamp=at + 900)
        longer = replace(longer, project=rng.choice([said.project, SHOP, BILLING]))
        tellings = [("hook:claude-code", [said]), ("claude-code", [longer])]
        rng.shuffle(tellings)
        self.app.write(tellings[0][1], tellings[0][0])
        if rng.random() < 0.6:
            self.app.derivation.run()
            self._follow(rng)
        self.app.write(tellings[1][1], tellings[1][0])
        self.count += 1
        self.last_paired = self.app.storage.events.last_seq()

    def _derive(self, rng: random.Random) -> None:
        self.app.derivation.run()

    def _refine(self, rng: random.Random) -> None:
        nodes = [n for n in self.app.storage.toc.iter_nodes() if n.bullets and n.bullets[0].grip_ids]
        if nodes:
            node = rng.choice(nodes)
            bullet = TocBullet("refined words about zirconium", node.bullets[0].grip_ids, project=SHOP, agent="codex")
            title = f"{node.title.split(' · ')[0]} · refined tokenStore {rng.randrange(9)}"
            refined = replace(node, title=title, bullets=(bullet,), author="agent", version=node.version + 1)
            self.app.storage.toc.publish_build(Build(nodes=(refined,)))
            if rng.random() < 0.7:
                self.app.derivation.run()

    def _pin(self, rng: random.Random) -> None:
        nodes = [n.node_id for n in self.app.storage.toc.iter_nodes()]
        if nodes:
            self.app.storage.toc.set_pin(rng.choice(nodes), rng.random() < 0.5, "agent")

    def _rebuild_toc(self, rng: random.Random) -> None:
        self.app.derivation.run()
        rebuild_toc(self.app)

    def _change_timezone(self, rng: random.Random) -> None:
        """Days are counted elsewhere from now on: segments move, periods come and go; the program starts anew."""
        self.app.derivation.run()
        if rng.random() < 0.5:
            followed(self.keeper, self.app.storage)
        other = [
            zone for zone in ("Pacific/Auckland", "America/Los_Angeles", "Europe/Berlin") if zone != self.app.calendar.zone_name
        ]
        rebuild_toc(self.app, rng.choice(other))
        self._reload(rng)

    def _drop_nodes(self, rng: random.Random) -> None:
        """Nodes are lost; now and then the tree is derived again at once."""
        self.app.derivation.run()
        ids = [n.node_id for n in self.app.storage.toc.iter_nodes()]
        if ids:
            self.app.storage.toc.drop_nodes(rng.sample(ids, rng.randrange(1, len(ids) + 1)))
            self._follow(rng)
            self.holds()
            rebuild_toc(self.app)
            self._reload(rng)

    def _commit(self, rng: random.Random) -> None:
        self.index.commit()

    def _merge(self, rng: random.Random) -> None:
        self.index.commit()
        merged(self.index)

    def _reload(self, rng: random.Random) -> None:
        """The process ends, with or without a last commit; both store and index are opened again."""
        if rng.random() < 0.3:
            self.keeper.close()
        self.app.close()
        self.app = opened(self.root / "data", self.clock)
        self.keeper = self._keeper()

    def _prune(self, rng: random.Random) -> None:
        level = rng.choice(["segment", "day", "week", "all"])
        self.index.prune(requested_cutoffs(rng.choice([1, 20, 28, 40, 60]), level, self.clock.now_ms()))

    def _follow(self, rng: random.Random) -> None:
        for _ in range(rng.randrange(1, 6)):
            follow_changes(self.app.storage, FollowedIndex(self.index, self.keeper.shard_builder))

    def _follow_in_bulk(self, rng: random.Random) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(following, "BULK", 0)
            followed(self.keeper, self.app.storage)

    def _rebuild(self, rng: random.Random) -> None:
        self.keeper.rebuild()

    def holds(self) -> None:
        """What was followed equals what is built from scratch, retention included.

        Until the tree is derived, a segment stays indexed as it was derived, while one that is read now lacks copies that
        were hidden since and has events that were stored within it.
        """
        followed(self.keeper, self.app.storage)
        if self._may_change_segments():
            return
        scratch = from_scratch(self.app.storage, self.root / "scratch", self.index.cutoffs, self.kind)
        same(self.index, scratch, QUERIES, ask=similar if self.kind else found)

    def _may_change_segments(self) -> bool:
        """Return whether events that wait for the deriver hide others, are within a segment or answer its last prompt."""
        storage = self.app.storage
        derived = storage.outbox.get_checkpoint("deriver")
        first: dict[int, tuple[int, str]] = {}
        for waiting in storage.events.read_after(derived, ALL):
            event = waiting.event
            first[event.stream] = min(event.order, first.get(event.stream, event.order))
        return derived < self.last_paired or any(
            first[cut.stream] < cut.end or lacks_reply(storage.events.segment_events(cut))
            for cut in storage.toc.iter_cuts()
            if cut.stream in first
        )

    def end(self) -> None:
        self.app.derivation.run()
        self.holds()
        assert check_store(self.app.storage, Calendar(self.app.storage.timezone)) == []
        self.index.commit()
        self.keeper = self._keeper()
        self.holds()


def live(steps: Sequence[tuple[str, int]], each: bool = False, batch: int = 7, kind: IndexKind[Any] | None = None) -> None:
    """A life of these steps, compared at its end or after every step."""
    root = Path(tempfile.mkdtemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "BATCH", batch)
        life = Life(root, kind)
        try:
            for name, seed in steps:
                life.step(name, seed)
                if each:
                    life.holds()
            life.end()
        finally:
            life.app.close()
            shutil.rmtree(root)


@requirement("bm25:FR-02.4", "tele:TELE-03")
@settings(max_examples=3)
@given(SEQUENCES)
def test_an_index_that_followed_equals_one_built_from_scratch(steps: list[tuple[str, int]]) -> None:
    live(steps)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**32)), min_size=5, max_size=40))
def test_an_index_that_followed_through_many_long_sequences_equals_one_built_from_scratch(steps: list[tuple[str, int]]) -> None:
    live(steps, each=len(steps) < 15)


@pytest.fixture(scope="module")
def vector(tmp_path_factory: pytest.TempPathFactory) -> IndexKind[Any]:
    """A vector kind with a tiny model of the words that are said here."""
    from memory_mcp.indexes.registry import KINDS
    from tests.indexes.models import static_model

    words = [w.lower() for w in VOCABULARY if w.isascii() and w.isalpha()]
    return KINDS["vector"]({"model": str(static_model(tmp_path_factory.mktemp("model") / "tiny", words=words))})


@pytest.mark.slow  # in the short form: the keywords above, as following is one for all kinds; test_vector_kind.py.
@pytest.mark.timeout(3600)
@settings(max_examples=100)
@given(SEQUENCES)
def test_a_vector_index_that_followed_many_sequences_equals_one_built_from_scratch(
    vector: IndexKind[Any], steps: list[tuple[str, int]]
) -> None:
    live(steps, kind=vector)


def test_every_operation_once_on_a_store_that_holds_something() -> None:
    begin = [("append", 1), ("append late", 2), ("append into old", 3), ("derive", 0)]
    live([*begin, *[(name, 7) for name in dict.fromkeys(STEPS)]])


def test_dropped_nodes_and_moved_segments_are_followed(tmp_path: Path) -> None:
    app = opened(tmp_path / "data")
    app.write(a_day_of_drafts(), "test")
    app.derivation.run()
    keeper = keeper_of(app.storage, tmp_path / "index")
    keeper.load()
    keeper.rebuild()
    gone = app.storage.toc.list_ids(TocLevel.SEGMENT)[:3]
    app.storage.toc.drop_nodes(gone)
    followed(keeper, app.storage)
    assert not {m.node_id for m in found(keeper.index, "ticket cause")[1]} & set(gone)
    same(keeper.index, from_scratch(app.storage, tmp_path / "scratch"), QUERIES)
    moved = next(c for c in app.storage.toc.iter_cuts() if c.node_id not in gone)
    app.storage.toc.move_segments({moved.key: "2026-01-13"})
    followed(keeper, app.storage)
    shown = {m.node_id for m in found(keeper.index, "ticket cause")[1]}
    assert segment_id("2026-01-13", moved.key) in shown
    assert moved.node_id not in shown
    rebuild_toc(app, "Pacific/Auckland")
    followed(keeper, app.storage)
    shown = {m.node_id for m in found(keeper.index, "ticket cause")[1]}
    assert shown
    assert shown <= {n.node_id for n in app.storage.toc.iter_nodes()}
    app.close()


def test_following_again_without_news_changes_nothing_and_a_batch_that_is_followed_twice_comes_to_the_same(
    kept: App, keeper: Keeper, tmp_path: Path
) -> None:
    followed(keeper, kept.storage)
    snapshot = keeper.index.snapshot
    assert not follow_changes(kept.storage, FollowedIndex(keeper.index, keeper.shard_builder))
    assert keeper.index.snapshot is snapshot
    assert not keeper.index.commit()
    before = keeper.index.position
    kept.write(a_day_of_drafts("2026-01-14"), "test")
    kept.derivation.run()
    followed(keeper, kept.storage)
    after, counts = keeper.index.position, keeper.index.snapshot.counts
    keeper.index.apply_units([], [], before)
    assert keeper.index.position == before
    followed(keeper, kept.storage)
    assert (keeper.index.position, keeper.index.snapshot.counts) == (after, counts)
    same(keeper.index, from_scratch(kept.storage, tmp_path / "scratch"), QUERIES)


def test_the_events_counted_as_held_are_never_ahead_of_the_changes_read(kept: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "BATCH", 3)
    at, seen = Position(), [Position()]
    while (due := read_changes(kept.storage, at)).has_more:
        at = due.position
        seen.append(at)
    assert {p.events for p in seen} == {0}
    assert (due.position.outbox, due.position.events) == (kept.storage.toc.current_version(), kept.storage.events.last_seq())
    assert [p.outbox for p in seen] == sorted({p.outbox for p in seen})


def test_changes_made_while_a_new_generation_is_built_are_in_it_or_followed(kept: App, keeper: Keeper, tmp_path: Path) -> None:
    days = itertools.count(14)

    def meanwhile(done: int) -> None:
        day = next(days)
        if day < 18:
            kept.write(a_day_of_drafts(f"2026-01-{day}"), "test")
            kept.derivation.run()
            follow_changes(kept.storage, FollowedIndex(keeper.index, keeper.shard_builder))

    rebuild_index(kept.storage, keeper.index, keeper.shard_builder, meanwhile)
    followed(keeper, kept.storage)
    same(keeper.index, from_scratch(kept.storage, tmp_path / "scratch"), QUERIES)


def test_a_generation_swapped_in_while_a_batch_is_followed_misses_no_change(
    kept: App, keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Position(kept.storage.toc.current_version(), kept.storage.outbox.get_checkpoint("deriver"))
    building = keeper.shard_builder.build_shards(units.iter_all_units(kept.storage), True, lambda _: None)
    built = building.__enter__()
    kept.write(a_day_of_drafts("2026-01-14"), "test")
    kept.derivation.run()
    followed(keeper, kept.storage)
    kept.write([draft("something about iridium", at="2026-01-20 09:00", session="later")], "test")
    kept.derivation.run()
    read = units.read_units

    def swapped_meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(units, "read_units", read)
        keeper.index.adopt_shards(built, begun)
        return read(*given)

    monkeypatch.setattr(units, "read_units", swapped_meanwhile)
    followed(keeper, kept.storage)
    same(keeper.index, from_scratch(kept.storage, tmp_path / "scratch"), (*QUERIES, "iridium"))


def test_an_event_filed_while_a_search_is_under_way_is_found_by_it(kept: App, keeper: Keeper) -> None:
    kept.write([draft("nobody has said rhodium before", at="2026-01-20 09:00")], "test")

    class FollowsMeanwhile(Bm25Index):
        def search(self, query: IndexQuery) -> Matches:
            answer = super().search(query)
            kept.derivation.run()
            followed(keeper, kept.storage)
            return answer

    layer = TeleportLayer(
        LayerName.BM25, serving(FollowsMeanwhile(keeper)), kept.storage, kept.tree, reader_of(keeper, kept.storage)
    )
    assert layer.teleport(IndexQuery("rhodium", Filters(), 5)).hits != ()


def test_an_event_is_found_before_and_after_it_is_filed_and_once_each_time(kept: App, keeper: Keeper) -> None:
    layer = TeleportLayer(LayerName.BM25, serving(Bm25Index(keeper)), kept.storage, kept.tree, reader_of(keeper, kept.storage))
    kept.write([draft("nobody has said rhodium before", at="2026-01-20 09:00", session="later")], "test")
    (before,) = layer.teleport(IndexQuery("rhodium", Filters(), 5)).hits
    assert before.title == "not yet filed in the tree"
    kept.derivation.run()
    assert [h.event_id for h in layer.teleport(IndexQuery("rhodium", Filters(), 5)).hits] == [before.event_id]
    followed(keeper, kept.storage)
    after = layer.teleport(IndexQuery("rhodium", Filters(), 5)).hits
    assert {h.event_id for h in after} == {before.event_id}
    assert all(h.node_id for h in after)


def test_an_index_of_another_store_is_never_followed(kept: App, keeper: Keeper, tmp_path: Path) -> None:
    other = index_at(tmp_path / "index", "another")
    other.load(10**9)
    assert (other.health, other.status().reason) == (Health.UNHEALTHY, "it belongs to another store")
    assert not follow_changes(kept.storage, FollowedIndex(other, keeper.shard_builder)) or other.health is Health.UNHEALTHY
