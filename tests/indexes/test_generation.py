"""Generations on disk: what CURRENT leads to is used or refused, never half; leftovers go and nothing in use does."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes import files
from memory_mcp.indexes.base import Health, Position
from memory_mcp.indexes.files import FileChecksum
from memory_mcp.indexes.generation import IndexFolder, Manifest, ShardEntry, _compute_checksum
from memory_mcp.indexes.live import LiveIndex
from tests.indexes.helpers import (
    DAMAGES,
    extend,
    files_of,
    filled,
    flip_within,
    found,
    index_at,
    keeper_of,
    made_up,
    reloaded,
    same,
    unit,
)
from tests.requirements import requirement

Change = Callable[[dict[str, Any]], object]

#: What no process of ours writes.
NONSENSE: tuple[Change, ...] = (
    lambda v: v["parts"][0]["files"].pop("units.npys"),
    lambda v: v["parts"][0]["files"].clear(),
    lambda v: v["parts"][0].update(dead="x"),
    lambda v: v["parts"][0].update(dead=[-1]),
    lambda v: v.update(parts={"name": {}}),
    lambda v: v.update(fingerprint=[]),
    lambda v: v.update(position={"outbox": "1", "events": 2}),
)
QUERIES = ("retry queue", "invoice", "tokenStore")
MANIFEST = Manifest(
    number=7,
    store_id="store",
    fingerprint={"format": 1, "forms": {"grip": [0.9, 0.4]}},
    position=Position(12, 34),
    shards=(
        ShardEntry("p1-1", {"a.npys": FileChecksum(3, "d"), "grip/b.npy": FileChecksum(0, "e")}, (0, 4)),
        ShardEntry("b2-1", {}),
    ),
    committed_ms=99,
    cutoffs={"segment": 5},
    pruned={"day": 2},
    pruned_ms=6,
)


def indexed(directory: Path) -> LiveIndex[Any]:
    """Three parts, one of them with a unit that does not count."""
    index = filled(directory, [made_up(20, 1), made_up(3, 2, first=30), made_up(2, 3, first=40)])
    index.apply_units([], [made_up(20, 1)[0].key], Position(9, 9))
    index.commit()
    assert index.status().parts == 3
    return index


def why(index: LiveIndex[Any]) -> str:
    """Why it cannot be used; and that it can neither be asked nor has a position."""
    status = index.status()
    assert (status.health, index.position) == (Health.UNHEALTHY, Position())
    with pytest.raises(IndexUnreadable):
        _ = index.snapshot
    return status.reason


def rewritten(directory: Path, change: Change) -> None:
    """The manifest in force, changed, with a checksum that holds."""
    path = directory / f"{(directory / 'CURRENT').read_text().strip()}.json"
    value = json.loads(path.read_text())["manifest"]
    change(value)
    path.write_text(json.dumps({"checksum": _compute_checksum(value), "manifest": value}))


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    home = IndexFolder(tmp_path / "x")
    assert home.read_current() is None
    home.make_current(MANIFEST)
    assert home.read_current() == MANIFEST
    assert home.next_number() == 8
    assert sorted(p.name for p in home.directory.iterdir()) == ["CURRENT", "gen-000007.json", "parts"]
    assert {p.stat().st_mode & 0o777 for p in files_of(home.directory)} == {0o600}


def test_an_index_that_is_read_again_is_the_same_leftovers_are_swept_and_nothing_in_use_is(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    again = reloaded(tmp_path)
    assert (again.health, again.position, again.snapshot.counts) == (Health.HEALTHY, Position(9, 9), index.snapshot.counts)
    same(again, index, QUERIES)
    assert replace(again.status(), last_commit_ms=0) == replace(index.status(), last_commit_ms=0)
    wanted = files_of(tmp_path)
    (tmp_path / "parts" / "b0123-1").mkdir()
    (tmp_path / "parts" / "b0123-1" / "x").write_text("cut off")
    (tmp_path / "parts" / "p9").mkdir()
    (tmp_path / "gen-000001.json").write_text("{}")
    (tmp_path / "CURRENT.new").write_text("gen-9")
    (tmp_path / "gen-000099.json.new").write_text("{")
    again = reloaded(tmp_path)
    assert files_of(tmp_path) == wanted
    assert sorted(p.name for p in (tmp_path / "parts").iterdir()) == sorted(p.shard.name for p in index.snapshot)
    same(again, index, QUERIES)


def test_files_that_were_not_touched_since_they_were_verified_are_mapped_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = indexed(tmp_path)
    monkeypatch.setattr(files, "_IN_MEMORY", 0)
    with patch.object(files, "_copy_file", wraps=files._copy_file) as copied:
        same(reloaded(tmp_path), index, QUERIES)
        assert copied.call_count == 0
        os.utime(next(path for path in files_of(tmp_path) if path.parent.parent.name == "parts"))
        same(reloaded(tmp_path), index, QUERIES)
        assert copied.call_count > 0
        copied.reset_mock()
        same(reloaded(tmp_path), index, QUERIES)
        assert copied.call_count == 0
    monkeypatch.undo()
    assert all(not live.shard.maps for live in reloaded(tmp_path).snapshot), "small parts are read, so that few files stay open"


ODD: tuple[Callable[[Path], object], ...] = (lambda path: path.write_text('{"CURRENT": 7}'), lambda path: path.write_text("[]"))


@pytest.mark.parametrize("damage", [*DAMAGES, *ODD])
@pytest.mark.few(2)
def test_without_stamps_every_file_is_verified_again(
    tmp_path: Path, damage: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_IN_MEMORY", 0)
    index = indexed(tmp_path)
    damage(tmp_path / "stamps")
    again = reloaded(tmp_path)
    assert again.health is Health.HEALTHY
    same(again, index, QUERIES)


def test_a_mapped_file_that_is_cut_short_is_never_read_behind_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_IN_MEMORY", 0)
    indexed(tmp_path)
    again = reloaded(tmp_path)
    for path in files_of(tmp_path):
        if path.suffix == ".npys":
            os.truncate(path, 0)
    with pytest.raises(IndexUnreadable, match="cut short"):
        found(again, QUERIES[0])
    assert not again.verify_files()


@requirement("bm25:NFR-02.1")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.few(3)
def test_any_damage_to_any_file_is_a_status_and_never_an_exception(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    indexed(tmp_path)
    for path in files_of(tmp_path):
        whole = path.read_bytes()
        if not whole:
            continue
        damage(path)
        if damage is extend and path.name == "CURRENT":
            path.write_bytes(whole + b"x")
        index = index_at(tmp_path)
        index.load(10**9)
        if path.name == "CURRENT" and not path.exists():
            assert index.health is Health.BUILDING
        elif path.name == "CURRENT" and path.is_file() and path.read_text().strip() == whole.decode().strip():
            assert index.health is Health.HEALTHY, "a line's end more or less is the same name"
        else:
            assert why(index), path
        if path.is_dir():
            path.rmdir()
        path.write_bytes(whole)
    assert reloaded(tmp_path).health is Health.HEALTHY


@given(st.integers(0, 2**32))
def test_any_bit_changed_in_a_manifest_is_noticed(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    directory = tmp_path_factory.mktemp("home")
    IndexFolder(directory).make_current(MANIFEST)
    flip_within(directory / "gen-000007.json", seed)
    with pytest.raises(IndexUnreadable):
        IndexFolder(directory).read_current()


NAMES = ("", "gen-1", "gen-000002", "../gen-000001", "gen-000001.json", "gen-000001/../x", "/etc", "gen-٠٠٠٠٠١", "\0", "x" * 9999)


@pytest.mark.parametrize("data", [*(name.encode() for name in NAMES), b"\xff\xfe", b"\x80gen", bytes(range(256))])
def test_current_that_names_no_generation_or_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    indexed(tmp_path)
    (tmp_path / "CURRENT").write_bytes(data)
    assert why(reloaded(tmp_path))


@pytest.mark.parametrize("text", ["", "null", "[]", "1", "{}", '{"manifest": 1, "checksum": ""}', '{"manifest": {}}'])
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    IndexFolder(tmp_path).make_current(MANIFEST)
    (tmp_path / "gen-000007.json").write_text(text)
    with pytest.raises(IndexUnreadable):
        IndexFolder(tmp_path).read_current()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda v: v.update(store_id="another"), "another store"),
        (lambda v: v["fingerprint"].update(tokenizer=-1), "another version"),
        (lambda v: v["fingerprint"].update(more=1), "another version"),
        (lambda v: v["position"].update(outbox=10**10), "further than the store"),
        (lambda v: v.update(number=v["number"] + 1), "another generation"),
        (lambda v: v["parts"][0].update(name="../parts"), "not its own"),
        (lambda v: v["parts"][0].update(name="/etc"), "not its own"),
        (lambda v: v["parts"][0].update(name=""), "not its own"),
        (lambda v: v["parts"][0].update(name="a\n"), "not its own"),
        (lambda v: v["parts"][0]["files"].update({"../../x": [1, ""]}), "not its own"),
        (lambda v: v["parts"][0]["files"].update({"/etc/passwd": [1, ""]}), "not its own"),
        (lambda v: v["parts"][0]["files"].update({"grip/../../x": [1, ""]}), "not its own"),
        (lambda v: v["parts"][0]["files"].update({"..": [1, ""]}), ""),
        (lambda v: v["parts"][0].update(dead=[10**6]), "contradicts"),
    ],
)
def test_a_manifest_that_does_not_fit_is_a_status_with_its_reason(tmp_path: Path, change: Change, reason: str) -> None:
    indexed(tmp_path)
    rewritten(tmp_path, change)
    assert reason in why(reloaded(tmp_path))


@pytest.mark.parametrize("change", NONSENSE)
@pytest.mark.few(3)
def test_nonsense_under_a_checksum_that_holds_is_a_status_too(kept: App, tmp_path: Path, change: Change) -> None:
    keeper = keeper_of(kept.storage, tmp_path)
    keeper.load()
    keeper.rebuild()
    rewritten(tmp_path, change)
    keeper.load()
    assert why(keeper.index)
    keeper.catch_up()
    assert keeper.status().ready


@requirement("bm25:FR-06.3")
def test_a_new_generation_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    before = {p.name for p in (tmp_path / "parts").iterdir()}
    snapshot = index.snapshot
    other = filled(tmp_path / "other", [[unit(0, "osmium")]])
    (made,) = [p.shard for p in other.snapshot]
    (tmp_path / "other" / "parts" / made.name).rename(tmp_path / "parts" / "b1-1")
    from memory_mcp.indexes.shard_store import BuiltShard

    index.adopt_shards([BuiltShard("b1-1", made.files or {})], Position(50, 50))
    assert [p.name for p in (tmp_path / "parts").iterdir()] == ["b1-1"]
    assert "b1-1" not in before
    again = reloaded(tmp_path)
    assert (again.position, found(again, "osmium")[0], found(again, "retry")[0]) == (Position(50, 50), 1, 0)
    assert sum(snapshot.counts.values()) > 5, "a reader keeps what it took"
    assert sum(p.size for p in snapshot) == sum(snapshot.counts.values())


def test_numbers_of_generations_only_rise(tmp_path: Path) -> None:
    index = filled(tmp_path, [])
    numbers = []
    for n in range(5):
        index.apply_units([unit(n, "retry")], [], Position(n, n))
        index.commit()
        numbers.append(index.status().generation)
    assert numbers == sorted(set(numbers))
    assert reloaded(tmp_path).status().generation == numbers[-1]
    (tmp_path / "gen-000500.json").write_text("left by someone")
    again = index_at(tmp_path)
    again.load(10**9)
    again.apply_units([unit(9, "retry")], [], Position(9, 9))
    again.commit()
    assert reloaded(tmp_path).position == Position(9, 9)
