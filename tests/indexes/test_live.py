"""One live index: what is durable when, what a reader keeps, what a failed commit leaves, and who notices damage."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base import machine
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes import shard, shard_store
from memory_mcp.indexes.base import Health, IndexStatus, Position
from memory_mcp.indexes.document import Unit
from memory_mcp.indexes.live import FEW_DOCUMENTS, LiveIndex
from memory_mcp.indexes.shard_store import ShardStore
from tests.fakes import NOON, FakeClock
from tests.indexes.helpers import DAMAGES, files_of, filled, found, index_at, made_up, merged, reloaded, same, unit
from tests.requirements import requirement
from tests.waiting import beside, together

QUERIES = ("retry queue", "invoice", "tokenStore", "osmium")


_put = machine.put


def full_disk(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


#: Where a disk can be full: while a part is written, while it is made durable, while a manifest or CURRENT is put in place.
PLACES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "part": lambda m: m.setattr(shard_store, "write_shard", full_disk),
    "durable": lambda m: m.setattr(os, "fsync", full_disk),
    "manifest": lambda m: m.setattr(machine, "put", full_disk),
    "current": lambda m: m.setattr(machine, "put", _unless_current),
    "rename": lambda m: m.setattr(os, "replace", full_disk),
}


def _unless_current(path: Path, content: bytes) -> None:
    if path.name == "CURRENT":
        full_disk()
    _put(path, content)


def test_a_first_index_is_being_built_until_something_is_adopted(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    assert index.status() == IndexStatus(Health.LOADING, "its files are being read", {"toc_node": 0, "grip": 0})
    index.load(0)
    assert index.status() == IndexStatus(Health.BUILDING, "it is not built yet", {"toc_node": 0, "grip": 0})
    index.apply_units([unit(0, "retry")], [], Position(3, 3))
    assert (index.health, index.position) == (Health.BUILDING, Position())
    assert not index.commit()
    index.adopt_shards([], Position(2, 2))
    assert (index.health, index.position) == (Health.HEALTHY, Position(2, 2))
    assert reloaded(tmp_path).health is Health.HEALTHY


@requirement("bm25:FR-07.4", "bm25:NFR-04.2")
def test_the_status_counts_documents_and_bytes_and_says_when_it_was_committed(tmp_path: Path) -> None:
    clock = FakeClock()
    index = filled(tmp_path, [[unit(0, "retry", "retry now", "queue"), unit(1, "bank")]], clock)
    clock.advance(5)
    index.apply_units([unit(2, "cart", "cart")], [unit(1, "").key], Position(2, 2))
    status = index.status(waiting_changes=4, building=17)
    assert (status.counts, status.documents) == ({"toc_node": 2, "grip": 3}, 5)
    assert (status.behind, status.building, status.last_commit_ms) == (4, 17, NOON)
    assert status.size_bytes == sum(p.stat().st_size for p in files_of(tmp_path / "parts"))
    index.commit()
    assert index.status().last_commit_ms == NOON + 5000


def test_a_few_changes_are_prepared_once_by_the_next_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])
    prepared: list[int] = []
    usual = index.kind.prepare_unit

    def prepare(made: Unit) -> Any:
        prepared.append(made.key)
        return usual(made)

    monkeypatch.setattr(index.kind, "prepare_unit", prepare)
    for number, text in enumerate(("queue", "queue of invoices"), 2):
        index.apply_units([unit(1, text)], [], Position(number, number))
    assert (prepared, index.position) == ([], Position(3, 3))
    assert [found(index, text)[0] for text in ("invoices", "retry", "nothing")] == [1, 1, 0]
    assert prepared == [unit(1, "").key]
    many = made_up(40, first=2)
    index.apply_units(many, [], Position(4, 4))
    assert len(prepared) == 41, "many are not left to a search"
    index.apply_units([unit(0, "late")], [], Position(5, 5))
    index.commit()
    assert found(reloaded(tmp_path), "late")[0] == 1


@pytest.mark.parametrize("is_applied", [False, True], ids=["a change comes", "another prepares it"])
def test_a_searcher_who_is_overtaken_gets_no_position_without_its_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_applied: bool
) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])
    documents = {index.position: 1, Position(9, 9): 2}
    is_stale, rests = False, iter([None])

    def apply() -> None:
        index.apply_units([unit(1, "queue")], [], Position(9, 9))

    def read(_: LiveIndex[Any]) -> bool:
        """Read the mark; at the first time others are faster, before it is read or after."""
        nonlocal is_stale
        was_stale = is_stale
        for _rest in rests:
            if not is_applied:
                apply()
                return was_stale
            assert found(index, "queue")[0] == 1
        return is_stale

    def note(_: LiveIndex[Any], value: bool) -> None:
        nonlocal is_stale
        is_stale = value

    monkeypatch.setattr(LiveIndex, "_is_stale", property(read, note), raising=False)
    if is_applied:
        apply()
    snapshot = index.snapshot
    assert sum(snapshot.counts.values()) == documents[snapshot.position]


def test_a_change_that_cannot_be_prepared_makes_a_search_fail_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])
    with monkeypatch.context() as broken:
        broken.setattr(index.kind, "prepare_unit", full_disk)
        index.apply_units([unit(1, "queue")], [], Position(2, 2))
        with pytest.raises(IndexUnreadable, match="No space left"):
            found(index, "queue")
        assert "No space left" in index.status().last_error
        assert (index.status().ready, "No space left" in index.status().reason) == (False, True)
    assert index.status().ready
    assert found(index, "queue")[0] == 1


def test_no_search_waits_for_the_disk_while_changes_are_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])
    index.apply_units([unit(1, "queue")], [], Position(2, 2))
    write_shard = ShardStore.write_shard

    def search_meanwhile(*arguments: Any) -> Any:
        together(lambda: found(index, "queue"))
        return write_shard(*arguments)

    monkeypatch.setattr(ShardStore, "write_shard", search_meanwhile)
    assert index.commit()
    assert found(index, "queue")[0] == 1


@requirement("bm25:FR-04.3")
def test_changes_are_found_at_once_and_durable_with_the_next_commit(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])
    index.apply_units([unit(1, "osmium", "osmium")], [], Position(5, 5))
    assert found(index, "osmium")[0] == 2
    assert found(reloaded(tmp_path), "osmium")[0] == 0
    assert index.commit()
    assert found(index, "osmium")[0] == 2
    again = reloaded(tmp_path)
    assert (found(again, "osmium")[0], again.position) == (2, Position(5, 5))


def test_a_commit_writes_nothing_when_nothing_changed(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(0, "retry")]])

    def stamps() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in tmp_path.rglob("*")}

    before = stamps()
    assert not index.commit()
    index.apply_units([], [], Position(7, 7))
    assert index.position == Position(7, 7)
    assert not index.commit(), "a position alone is not worth a generation"
    assert stamps() == before
    assert not reloaded(tmp_path).commit()
    assert stamps() == before


def test_a_few_documents_wait_for_more_or_an_hour_before_they_are_committed(tmp_path: Path) -> None:
    clock = FakeClock()
    index = filled(tmp_path, [[unit(0, "retry")]], clock)
    index.apply_units([unit(1, "osmium", "osmium")], [], Position(5, 5))
    clock.advance(60)
    assert not index.commit_due()
    assert found(index, "osmium")[0] == 2
    clock.advance(3600)
    assert index.commit_due()
    assert found(reloaded(tmp_path), "osmium")[0] == 2
    index.apply_units(made_up(FEW_DOCUMENTS, 1), [], Position(6, 6))
    assert index.commit_due(), "many are written at once"
    index.apply_units([], [unit(1, "").key], Position(7, 7))
    assert index.commit_due(), "what is dropped waits for nothing"


def test_applying_the_same_twice_comes_to_the_same(tmp_path: Path) -> None:
    index = filled(tmp_path, [made_up(10, 1)])
    for _ in range(3):
        index.apply_units(made_up(10, 2), [made_up(10, 1)[9].key], Position(2, 2))
    same(index, filled(tmp_path / "other", [made_up(10, 2)]), QUERIES)


@pytest.mark.parametrize("place", PLACES)
def test_a_commit_that_fails_anywhere_loses_nothing_and_the_next_one_makes_it_good(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(tmp_path, [[u] for u in made_up(3, 1)])
    before = reloaded(tmp_path).snapshot.counts
    index.apply_units([unit(50, "osmium", "osmium")], [made_up(3, 1)[0].key], Position(9, 9))
    wanted = index.snapshot.counts
    for _ in range(2):
        with monkeypatch.context() as broken:
            PLACES[place](broken)
            with pytest.raises(OSError, match="No space left"):
                index.commit()
        assert (index.health, index.position, index.snapshot.counts) == (Health.HEALTHY, Position(9, 9), wanted)
        assert index.verify_files()
        assert found(index, "osmium")[0] == 2
        assert index_at_rest(tmp_path) == before
    index.apply_units([unit(51, "iridium")], [], Position(10, 10))
    assert index.commit()
    assert not index.commit()
    again = reloaded(tmp_path)
    assert (again.position, found(again, "osmium")[0], found(again, "iridium")[0]) == (Position(10, 10), 2, 1)
    same(again, index, QUERIES)
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {p.shard.name for p in again.snapshot}


def index_at_rest(directory: Path) -> dict[Any, int]:
    """What another process would read, without sweeping anything."""
    index = index_at(directory)
    index.folder.remove_unused = lambda manifest: None  # type: ignore[method-assign]
    index.load(10**9)
    return index.snapshot.counts


@requirement("bm25:FR-04.3")
def test_a_reader_keeps_what_it_took_across_commits_merges_and_swaps(tmp_path: Path) -> None:
    index = filled(tmp_path, [made_up(30, 1)])
    kept = index.snapshot
    before = _asked(kept)
    for n in range(6):
        index.apply_units(made_up(30, n + 2), [], Position(n, n))
        index.commit()
        merged(index)
        assert _asked(kept) == before
    index.adopt_shards([], Position(99, 99))
    assert _asked(kept) == before
    assert found(index, "retry") == (0, [])


def _asked(snapshot: Any) -> list[Any]:
    from memory_mcp.base.text import query_terms
    from memory_mcp.indexes.base import Filters
    from memory_mcp.indexes.bm25.search import search_documents

    return [search_documents(snapshot, query_terms(q), Filters(), 50) for q in QUERIES]


def test_readers_and_one_writer_at_once_see_whole_states_only(tmp_path: Path) -> None:
    index = filled(tmp_path, [[unit(n, "state0 retry", "state0") for n in range(20)]])

    def read(ended: threading.Event) -> None:
        while not ended.is_set():
            total, best = found(index, "retry")
            assert (total, len(best)) == (20, 20)

    with beside(*[read] * 3):
        for state in range(1, 6):
            index.apply_units([unit(n, f"state{state} retry", f"state{state}") for n in range(20)], [], Position(state, state))
            index.commit()
    same(
        index, filled(tmp_path / "other", [[unit(n, "state5 retry", "state5") for n in range(20)]]), ("retry", "state5", "state4")
    )


@requirement("bm25:NFR-02.1", "bm25:FR-07.3")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_from_outside_is_noticed_whichever_file_it_meets(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    index = filled(tmp_path, [made_up(4, 1)])
    for path in files_of(tmp_path):
        index = reloaded(tmp_path)
        assert index.verify_files()
        whole = path.read_bytes()
        if not whole:
            continue
        damage(path)
        assert not index.verify_files(), path
        assert index.health is Health.UNHEALTHY
        assert "of the index" in index.status().reason
        if path.is_dir():
            path.rmdir()
        path.write_bytes(whole)


def test_a_file_that_was_replaced_by_an_equal_one_or_put_back_in_time_is_noticed(tmp_path: Path) -> None:
    index = filled(tmp_path, [made_up(4, 1)])
    path = files_of(tmp_path / "parts")[0]
    stat, data = path.stat(), bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not index.verify_files()


def test_a_folder_that_is_gone_is_noticed_and_a_commit_into_it_is_none(tmp_path: Path) -> None:
    import shutil

    index = filled(tmp_path / "x", [made_up(4, 1)])
    index.apply_units([unit(50, "osmium")], [], Position(9, 9))
    shutil.rmtree(tmp_path / "x")
    index.commit()
    assert index.status().reason == "files of the index are gone"
    assert not (tmp_path / "x").exists()


def test_files_that_are_gone_before_their_stamps_are_taken_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    index = filled(tmp_path / "x", [made_up(4, 1)])
    index.apply_units([unit(50, "osmium")], [], Position(9, 9))
    monkeypatch.setattr(type(index.folder), "remove_unused", lambda *_: shutil.rmtree(tmp_path / "x"))
    index.commit()
    assert not index.verify_files()
    assert index.status().reason == "files of the index are gone"


def test_what_is_unhealthy_takes_in_nothing_and_a_new_generation_heals_it(tmp_path: Path) -> None:
    index = filled(tmp_path, [made_up(4, 1)])
    files_of(tmp_path / "parts")[0].unlink()
    assert not index.verify_files()
    index.apply_units([unit(50, "osmium")], [], Position(9, 9))
    assert (index.position, index.health) == (Position(), Health.UNHEALTHY)
    index.adopt_shards([], Position(3, 3))
    assert (index.position, index.health, index.status().reason) == (Position(3, 3), Health.HEALTHY, "")
    assert index.verify_files()


@pytest.mark.parametrize("foreign", ["CURRENT", "parts"])
def test_a_folder_in_the_place_of_current_and_a_file_in_that_of_parts_are_healed(tmp_path: Path, foreign: str) -> None:
    if foreign == "CURRENT":
        (tmp_path / foreign).mkdir()
    else:
        (tmp_path / foreign).write_text("x")
    index = reloaded(tmp_path)
    assert not index.status().ready
    index.adopt_shards([], Position(3, 3))
    assert reloaded(tmp_path).position == Position(3, 3)


def test_a_new_generation_that_cannot_be_committed_serves_from_memory_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index: LiveIndex[Any] = filled(tmp_path, [made_up(4, 1)])
    with monkeypatch.context() as broken:
        PLACES["current"](broken)
        with pytest.raises(OSError, match="No space left"):
            index.adopt_shards([], Position(3, 3))
    assert index.verify_files()
    assert index.commit()
    assert reloaded(tmp_path).position == Position(3, 3)


def test_a_merge_that_cannot_be_committed_is_told_and_made_good_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(tmp_path, [[u] for u in made_up(3, 1)])
    index.apply_units([unit(50, "osmium")], [], Position(9, 9))
    index.commit()
    before = index_at_rest(tmp_path)
    with monkeypatch.context() as broken:
        PLACES["current"](broken)
        with pytest.raises(OSError, match="No space left"):
            index.merge_once()
    assert "No space left" in index.status().last_error
    assert index_at_rest(tmp_path) == before
    assert found(index, "osmium")[0] == 1
    index.commit()
    merged(index)
    assert index.status().last_error == ""
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {p.shard.name for p in reloaded(tmp_path).snapshot}


def test_what_changes_while_parts_are_merged_is_in_the_merged_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled(tmp_path, [[u] for u in made_up(3, 1)])
    index.apply_units([unit(50, "osmium", "osmium")], [], Position(4, 4))
    index.commit()
    write = shard.write_shard

    def meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(shard_store, "write_shard", write)
        index.apply_units([unit(50, "iridium")], [made_up(3, 1)[0].key], Position(9, 9))
        return write(*given)

    monkeypatch.setattr(shard_store, "write_shard", meanwhile)
    assert index.merge_once()
    assert (found(index, "osmium"), found(index, "iridium")[0]) == ((0, []), 1)
    wanted = filled(tmp_path / "other", [[*made_up(3, 1)[1:], unit(50, "iridium")]])
    same(index, wanted, (*QUERIES, "iridium"))
    same(reloaded(tmp_path), wanted, (*QUERIES, "iridium"))
