"""Files of the vector index, vectors used again, and what happens when the model is another one."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import IndexUnreadable, LayerUnavailable
from memory_mcp.embed.base import Vectors
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.indexes.base import DocType, Filters, Health, Matches, Position
from memory_mcp.indexes.build import ShardBuilder
from memory_mcp.indexes.document import Unit, unit_of
from memory_mcp.indexes.files import FileChecksum
from memory_mcp.indexes.follow import FollowedIndex, follow_changes, rebuild_index
from memory_mcp.indexes.generation import IndexFolder, Manifest, ShardEntry
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.registry import KINDS
from memory_mcp.indexes.shard import LiveShard, Shard, build_shard, merge_shards, read_shard, write_shard
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.units import iter_all_units
from memory_mcp.indexes.vector.kind import VectorBody, VectorKind, open_kind
from memory_mcp.indexes.vector.reuse import LatestRows
from memory_mcp.indexes.vector.rows import VectorRows
from memory_mcp.indexes.vector.search import search_documents
from memory_mcp.indexes.vector.stored import files_of
from tests.factories import SHOP, a_day_of_drafts
from tests.fakes import FakeClock
from tests.indexes.models import WORDS, made_up, snapshot, static_model, unit
from tests.toc.helpers import memory

DRAFTS = a_day_of_drafts("2026-01-12", (SHOP,))
#: What the made-up day talks about.
SPOKEN = sorted({*WORDS, *(w.strip(".,:;!?'\"()`").lower() for d in DRAFTS for w in d.text.split())} - {""})


class Counting(Model2Vec):
    """A model that remembers what it was asked."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return super().embed(texts)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return static_model(tmp_path / "model", words=SPOKEN)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return static_model(tmp_path / "other", seed=1, dimensions=48, words=SPOKEN)


@pytest.fixture
def app() -> Iterator[App]:
    filled = memory(DRAFTS)
    yield filled
    filled.close()


def part(kind: VectorKind, units: Sequence[Unit]) -> Shard[VectorBody]:
    return build_shard(kind, units, [kind.prepare_unit(u) for u in units])


def same(one: VectorBody, another: VectorBody) -> bool:
    pairs = [zip(by_document(one.table(t)), by_document(another.table(t)), strict=True) for t in DocType]
    return all(np.array_equal(a, b) for table in pairs for a, b in table)


def by_document(rows: VectorRows) -> tuple[Any, ...]:
    return rows.codes[rows.row_of], rows.inverse[rows.row_of], rows.digests


def written(kind: VectorKind, home: IndexFolder, units: Sequence[Unit], name: str = "p1") -> dict[str, FileChecksum]:
    """A generation of one part, in force."""
    home.create_folders()
    files = write_shard(kind, part(kind, units), home.shards_path / name)
    home.make_current(Manifest(home.next_number(), "store", kind.fingerprint(), Position(), (ShardEntry(name, files),), 0))
    return files


@pytest.mark.parametrize("units", [[], [unit(1, "login", ["kitten", "zyzzyva"])], made_up(200)], ids=["none", "one", "many"])
def test_a_part_is_read_back_as_it_was_written(model: Path, tmp_path: Path, units: list[Unit]) -> None:
    kind = VectorKind(Model2Vec(model))
    made = part(kind, units)
    files = write_shard(kind, made, tmp_path / "part")
    found = read_shard(VectorKind(Model2Vec(model)), tmp_path / "part", files, tmp_path)
    assert same(found.body, made.body)
    assert len(found.body.grips) == len(found.grips)
    snapshots = [Snapshot.from_shards((LiveShard(p),), Position()) for p in (made, found)]
    query = kind.embedder.embed(["fix the login"])[0]
    assert search_documents(snapshots[0], query, Filters(), 10) == search_documents(snapshots[1], query, Filters(), 10)


def test_any_damage_to_a_file_is_noticed(model: Path, tmp_path: Path) -> None:
    kind = VectorKind(Model2Vec(model))
    files = write_shard(kind, part(kind, made_up(30)), tmp_path / "part")
    assert {*files_of(DocType.NODE)[1:], *files_of(DocType.GRIP)[1:], "embedder.json"} < set(files)
    for name in files:
        path = tmp_path / "part" / name
        whole = path.read_bytes()
        flipped = whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]
        for damaged in (flipped, whole[:-1], whole + b"x", b""):
            path.write_bytes(damaged)
            with pytest.raises(IndexUnreadable):
                read_shard(kind, tmp_path / "part", files, tmp_path)
        path.unlink()
        with pytest.raises(IndexUnreadable, match="missing"):
            read_shard(kind, tmp_path / "part", files, tmp_path)
        path.write_bytes(whole)
    read_shard(kind, tmp_path / "part", files, tmp_path)


def test_a_part_of_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    other = static_model(tmp_path / "same size", seed=1, words=SPOKEN)
    kind = VectorKind(Model2Vec(model))
    files = write_shard(kind, part(kind, made_up(3)), tmp_path / "part")
    with pytest.raises(IndexUnreadable, match="another embedding model"):
        read_shard(VectorKind(Model2Vec(other)), tmp_path / "part", files, tmp_path)


def test_merging_keeps_the_rows_that_count_and_embeds_nothing(model: Path) -> None:
    counting = Counting(model)
    kind = VectorKind(counting)
    units = made_up(40)
    parts = [LiveShard(part(kind, units[:20])), LiveShard(part(kind, units[20:]))]
    parts[0] = parts[0].without_units(np.array([0, 7]))
    kept = part(kind, [u for i, u in enumerate(units) if i not in (0, 7)])
    counting.asked.clear()
    assert same(merge_shards(kind, parts).body, kept.body)
    assert counting.asked == []


def test_a_rebuild_embeds_only_texts_that_are_new(model: Path, tmp_path: Path) -> None:
    home = IndexFolder(tmp_path / "index")
    units = made_up(50)
    written(VectorKind(Model2Vec(model)), home, units)
    counting = Counting(model)
    kind = VectorKind(counting, reuse=home.directory)
    fresh = unit(5000, "kitten garden sunrise", ["login token", units[3].nodes[0].gist])
    made = part(kind, [*units, fresh])
    known = {d.gist for u in units for d in (*u.nodes, *u.grips)}
    assert counting.asked == [t for t in ("kitten garden sunrise", "login token") if t not in known]
    assert same(made.body, part(VectorKind(Model2Vec(model)), [*units, fresh]).body)


def test_a_unit_that_grows_has_only_its_new_texts_embedded(model: Path) -> None:
    counting = Counting(model)
    kind = VectorKind(counting)
    first, grown = unit(1, "kitten garden", ["login token"]), unit(1, "kitten garden", ["login token", "sunrise"])
    part(kind, [first])
    counting.asked.clear()
    made = part(kind, [grown])
    assert counting.asked == ["sunrise"]
    assert same(made.body, part(VectorKind(Model2Vec(model)), [grown]).body)


def test_vectors_of_another_model_or_layout_are_not_used_again(model: Path, other: Path, tmp_path: Path) -> None:
    home = IndexFolder(tmp_path / "index")
    units = made_up(5)
    written(VectorKind(Model2Vec(other)), home, units)
    counting = Counting(model)
    assert same(part(VectorKind(counting, reuse=home.directory), units).body, part(VectorKind(Model2Vec(model)), units).body)
    assert len(counting.asked) == sum(u.size for u in units)


def test_damaged_vectors_are_embedded_anew(model: Path, tmp_path: Path) -> None:
    home = IndexFolder(tmp_path / "index")
    units = made_up(20)
    written(VectorKind(Model2Vec(model)), home, units)
    path = home.shards_path / "p1" / files_of(DocType.GRIP)[1]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    for damage in (lambda: None, lambda: shutil.rmtree(home.shards_path), lambda: (home.directory / "CURRENT").write_text("x")):
        damage()
        counting = Counting(model)
        assert same(part(VectorKind(counting, reuse=home.directory), units).body, part(VectorKind(Model2Vec(model)), units).body)
        assert len(counting.asked) == sum(u.size for u in units)


def test_the_same_model_in_another_folder_is_the_same_kind(model: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(model, tmp_path / "moved"))
    kind = VectorKind(Model2Vec(moved))
    assert kind.find_predecessor(VectorKind(Model2Vec(model)).fingerprint()) is kind


def test_only_a_model_that_is_still_there_and_still_the_same_can_be_a_predecessor(model: Path, other: Path) -> None:
    wanted, old = VectorKind(Model2Vec(other)), VectorKind(Model2Vec(model)).fingerprint()
    found = wanted.find_predecessor(old)
    assert found is not None
    assert found.fingerprint() == old
    for key in ("format", "documents"):
        assert wanted.find_predecessor({**old, key: 0}) is None
    assert wanted.find_predecessor({"embedder": {}}) is None
    assert wanted.find_predecessor({**old, "embedder": {**old["embedder"], "name": "somebody's"}}) is None
    shutil.copy(other / "model.safetensors", model)
    assert wanted.find_predecessor(old) is None
    shutil.rmtree(model)
    assert wanted.find_predecessor(old) is None


def test_without_a_usable_model_there_is_no_kind(tmp_path: Path) -> None:
    with pytest.raises(LayerUnavailable, match="has no config"):
        open_kind({"model": str(tmp_path)})
    with pytest.raises(LayerUnavailable, match="does not exist"):
        KINDS["vector"]({"model": str(tmp_path / "nothing")})


class Kept:
    """An index of a store, in a folder, as a process that starts finds it."""

    def __init__(self, app: App, directory: Path, kind: VectorKind) -> None:
        self.app = app
        self.kind = kind
        self.index: LiveIndex[VectorBody] = LiveIndex(kind, directory, "store", FakeClock())
        folder = str(kind.fingerprint()["embedder"]["folder"])
        self.shard_builder = ShardBuilder(self.index, {"model": folder}, 64)
        self.index.load(app.storage.toc.current_version())

    def rebuild(self) -> None:
        rebuild_index(self.app.storage, self.index, self.shard_builder, lambda _: None)

    def follow(self) -> None:
        while follow_changes(self.app.storage, FollowedIndex(self.index, self.shard_builder)):
            continue

    def search(self, text: str = "rename the login handler") -> Matches:
        found: Snapshot[Any] = self.index.snapshot
        return search_documents(found, found.shards[0].shard.body.embedder.embed([text])[0], Filters(), 10)

    def built_anew(self, kind: VectorKind, text: str = "rename the login handler") -> Matches:
        units = [unit_of(s) for frame in iter_all_units(self.app.storage) for s in frame]
        return search_documents(snapshot(kind, units), kind.embedder.embed([text])[0], Filters(), 10)


def more(app: App, day: str) -> None:
    app.write(a_day_of_drafts(day, (SHOP,)), "test")
    app.derivation.run()


def test_a_child_process_builds_what_this_process_would_and_following_comes_to_the_same(
    app: App, model: Path, tmp_path: Path
) -> None:
    kept = Kept(app, tmp_path / "index", VectorKind(Model2Vec(model)))
    assert kept.index.health is Health.BUILDING
    kept.rebuild()
    assert kept.search() == kept.built_anew(kept.kind)
    assert len(kept.search().best) == 10
    more(app, "2026-01-13")
    kept.follow()
    assert kept.search() == kept.built_anew(kept.kind)
    kept.index.commit()
    again = Kept(app, tmp_path / "index", VectorKind(Model2Vec(model)))
    assert again.index.health is Health.HEALTHY
    assert again.search() == kept.search()


def test_while_another_model_takes_over_the_old_index_serves_and_follows(
    app: App, model: Path, other: Path, tmp_path: Path
) -> None:
    old, new = VectorKind(Model2Vec(model)), VectorKind(Model2Vec(other))
    Kept(app, tmp_path / "index", old).rebuild()
    kept = Kept(app, tmp_path / "index", new)
    assert (kept.index.health, kept.index.is_outdated) == (Health.HEALTHY, True)
    assert kept.search() == kept.built_anew(old)
    more(app, "2026-01-13")
    kept.follow()
    kept.index.commit()
    assert kept.search() == kept.built_anew(old)
    kept.rebuild()
    assert not kept.index.is_outdated
    assert kept.search() == kept.built_anew(new)
    again = Kept(app, tmp_path / "index", new)
    assert (again.index.health, again.index.is_outdated) == (Health.HEALTHY, False)


@pytest.mark.usefixtures("processes")
def test_bulk_that_is_followed_by_a_child_uses_the_model_in_force(
    app: App, model: Path, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = VectorKind(Model2Vec(model))
    Kept(app, tmp_path / "index", old).rebuild()
    kept = Kept(app, tmp_path / "index", VectorKind(Model2Vec(other)))
    more(app, "2026-01-13")
    monkeypatch.setattr("memory_mcp.indexes.follow.BULK", 1)
    kept.follow()
    assert kept.search() == kept.built_anew(old)


def test_an_index_whose_model_is_gone_is_built_again(app: App, model: Path, other: Path, tmp_path: Path) -> None:
    Kept(app, tmp_path / "index", VectorKind(Model2Vec(model))).rebuild()
    shutil.rmtree(model)
    kept = Kept(app, tmp_path / "index", VectorKind(Model2Vec(other)))
    assert kept.index.health is Health.UNHEALTHY
    kept.rebuild()
    assert kept.search() == kept.built_anew(kept.kind)


@pytest.mark.usefixtures("processes")
def test_commits_while_a_new_generation_is_built_leave_it_alone(app: App, model: Path, other: Path, tmp_path: Path) -> None:
    old, new = VectorKind(Model2Vec(model)), VectorKind(Model2Vec(other))
    Kept(app, tmp_path / "index", old).rebuild()
    kept = Kept(app, tmp_path / "index", new)
    more(app, "2026-01-13")

    position = Position(app.storage.toc.current_version(), 0)
    with kept.shard_builder.build_shards(iter_all_units(app.storage), True, lambda _: None) as built:
        more(app, "2026-01-14")
        kept.follow()
        assert kept.index.commit()
        assert kept.search() == kept.built_anew(old)
        kept.index.adopt_shards(built, position)
    kept.follow()
    assert kept.search() == kept.built_anew(new)


def test_rows_embedded_last_are_kept_by_several_threads_at_once() -> None:
    latest = LatestRows()

    def add_many(first: int) -> None:
        for start in range(first, first + 60_000, 400):
            digests = np.arange(start, start + 400, dtype=np.uint64)
            latest.add_rows(VectorRows(np.zeros((1, 8), np.int8), np.ones(1, np.float32), np.zeros(400, np.int64), digests))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(add_many, (0, 1_000_000)))
    finally:
        sys.setswitchinterval(interval)
    last = [np.arange(first + 59_600, first + 60_000, dtype=np.uint64) for first in (0, 1_000_000)]
    assert any(latest.find_rows(digests)[0].all() for digests in last)
