"""Parts: what is written is what is read, and every damage to every file is said and nothing else happens."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes import files
from memory_mcp.indexes.bm25 import postings
from memory_mcp.indexes.bm25.kind import Bm25Body, Bm25Kind
from memory_mcp.indexes.files import FileChecksum, FolderContents, write_arrays
from memory_mcp.indexes.shard import TABLES, LiveShard, Shard, build_shard, read_shard, write_shard
from memory_mcp.indexes.snapshot import sorted_keys
from tests.indexes.helpers import DAMAGES, delete, files_of, flip_within, halve, made_up, to_directory, unit
from tests.requirements import requirement

#: Every file of a part.
NAMES = (
    *("nodes.npys", "grips.npys", "units.npys", "strings.json"),
    *(f"{table}/{name}.index.{kind}" for table in ("toc_node", "grip") for name, kind in (("params", "json"), ("vocab", "json"))),
    *(f"{table}/{name}.csc.index.npy" for table in ("toc_node", "grip") for name in ("data", "indices", "indptr")),
    *("toc_node.terms.npys", "grip.terms.npys"),
)


def part(count: int = 12, seed: int = 1) -> Shard[Bm25Body]:
    units = made_up(count, seed)
    kind = Bm25Kind()
    return build_shard(kind, units, [kind.prepare_unit(u) for u in units])


def equal(one: Shard[Bm25Body], other: Shard[Bm25Body]) -> bool:
    """Whether two parts hold the same."""
    tables = [(one.table(t), other.table(t)) for t in TABLES] + [(one.units, other.units)]
    arrays = [(getattr(a, f.name), getattr(b, f.name)) for a, b in tables for f in fields(a)]
    for t in TABLES:
        a, b = one.body.table(t), other.body.table(t)
        arrays += [(getattr(a, n), getattr(b, n)) for n in ("terms", "indptr", "indices", "data")]
        arrays.append((np.array(a.rows), np.array(b.rows)))
    return one.strings == other.strings and all(np.array_equal(a, b) for a, b in arrays)


@pytest.mark.parametrize("count", [0, 1, 12, 200])
@pytest.mark.parametrize("in_memory", [True, False])
def test_what_is_written_is_read_again(tmp_path: Path, count: int, in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_IN_MEMORY", 1 << 30 if in_memory else 0)
    made = part(count)
    told = write_shard(Bm25Kind(), made, tmp_path / "p")
    assert set(told) == {p.relative_to(tmp_path / "p").as_posix() for p in files_of(tmp_path / "p")}
    assert equal(read_shard(Bm25Kind(), tmp_path / "p", told, tmp_path), made)
    assert [p.name for p in tmp_path.iterdir()] == ["p"], "a private copy has no name"


@pytest.mark.parametrize(("short_rows", "width"), [(postings._SHORT_ROWS, 2), (3, 4)])
def test_row_numbers_take_two_bytes_in_the_files_of_tables_that_are_not_large(
    tmp_path: Path, short_rows: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "_SHORT_ROWS", short_rows)
    made = part()
    again = read_shard(Bm25Kind(), tmp_path / "p", write_shard(Bm25Kind(), made, tmp_path / "p"), tmp_path)
    assert equal(again, made)
    for table in TABLES:
        assert again.body.table(table).indices.itemsize == width
        assert again.body.table(table).rows_at(slice(None)).dtype == np.int32


def test_times_of_grips_that_their_keys_begin_with_take_no_room(tmp_path: Path) -> None:
    made = part()
    times = np.arange(len(made.grips)) * 977 + 1_760_000_000_000
    grips = replace(made.grips, hi=times.astype("<u8") << np.uint64(16) | np.uint64(7), start=times, end=times)
    later = replace(grips, start=times + 1, end=times + 1)
    shared = replace(grips, start=times + 1)
    sizes = []
    for name, table in (("key", grips), ("later", later), ("both", shared)):
        told = write_shard(Bm25Kind(), replace(made, grips=table), tmp_path / name)
        assert equal(read_shard(Bm25Kind(), tmp_path / name, told, tmp_path), replace(made, grips=table))
        sizes.append(told["grips.npys"].size)
    assert [size - sizes[0] for size in sizes] == [0, 8 * len(times), 16 * len(times)]


def test_the_files_of_a_part_are_those_expected_and_for_their_owner_alone(tmp_path: Path) -> None:
    told = write_shard(Bm25Kind(), part(), tmp_path / "p")
    assert set(told) <= {*NAMES}
    assert {p.stat().st_mode & 0o777 for p in files_of(tmp_path / "p")} == {0o600}
    assert (tmp_path / "p").stat().st_mode & 0o777 == 0o700


def test_nothing_of_what_was_said_is_in_a_part(tmp_path: Path) -> None:
    kind, said = Bm25Kind(), unit(0, "zirconium palladium", "zirconium osmium")
    write_shard(kind, build_shard(kind, [said], [kind.prepare_unit(said)]), tmp_path / "p")
    held = b"".join(p.read_bytes() for p in files_of(tmp_path / "p"))
    assert b"zirconium" not in held


@requirement("bm25:NFR-02.1")
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_to_any_file_of_a_part_makes_it_unreadable_and_nothing_else(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    told = write_shard(Bm25Kind(), part(), tmp_path / "p")
    for name in told:
        path = tmp_path / "p" / name
        whole = path.read_bytes()
        if not whole and damage in (flip_within, halve):
            continue
        damage(path)
        with pytest.raises(IndexUnreadable, match=path.name):
            read_shard(Bm25Kind(), tmp_path / "p", told, tmp_path)
        if path.is_dir():
            path.rmdir()
        path.write_bytes(whole)
    read_shard(Bm25Kind(), tmp_path / "p", told, tmp_path)


@given(st.integers(0, 2**32))
def test_any_bit_that_is_changed_is_noticed(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("part")
    told = write_shard(Bm25Kind(), part(3, seed), folder / "p")
    name = sorted(told)[seed % len(told)]
    if told[name].size:
        flip_within(folder / "p" / name, seed)
        with pytest.raises(IndexUnreadable):
            read_shard(Bm25Kind(), folder / "p", told, folder)


def test_a_part_that_is_gone_or_a_file_is_unreadable(tmp_path: Path) -> None:
    told = write_shard(Bm25Kind(), part(), tmp_path / "p")
    with pytest.raises(IndexUnreadable):
        read_shard(Bm25Kind(), tmp_path / "other", told, tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexUnreadable):
        read_shard(Bm25Kind(), tmp_path / "file", told, tmp_path)


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_happens_to_files_that_were_read_is_not_felt(
    tmp_path: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_IN_MEMORY", 1 << 30 if in_memory else 0)
    told = write_shard(Bm25Kind(), part(60), tmp_path / "p")
    held = read_shard(Bm25Kind(), tmp_path / "p", told, tmp_path)
    for n, path in enumerate(files_of(tmp_path / "p")):
        if n % 3 == 0:
            path.write_bytes(b"")
        elif n % 3 == 1:
            delete(path)
        else:
            to_directory(path)
    assert equal(held, part(60))


def test_postings_that_contradict_each_other_are_unreadable_though_their_checksums_hold(tmp_path: Path) -> None:
    told = write_shard(Bm25Kind(), part(), tmp_path / "p")
    for name, wrong in (("grip.terms.npys", np.arange(3, dtype=np.uint64)),):
        write_arrays(tmp_path / "p" / name, {"terms": wrong})
    told = files.seal_folder(tmp_path / "p")
    with pytest.raises(IndexUnreadable, match="contradict"):
        read_shard(Bm25Kind(), tmp_path / "p", told, tmp_path)


def test_arrays_come_back_under_their_names_whatever_their_order(tmp_path: Path) -> None:
    arrays = {"b": np.arange(5), "a": np.zeros((0,), dtype="<u8"), "c": np.ones((2, 3), dtype="f4")}
    write_arrays(tmp_path / "x", arrays)
    (size, digest) = (files.seal_folder(tmp_path)["x"].size, files.seal_folder(tmp_path)["x"].digest)
    found = FolderContents(tmp_path, {"x": FileChecksum(size, digest)}, tmp_path).read_arrays("x", ("c", "a", "b"))
    assert {n: (a.dtype, a.tolist()) for n, a in found.items()} == {n: (a.dtype, a.tolist()) for n, a in arrays.items()}


@given(st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
def test_a_part_without_some_units_counts_the_others_and_the_first_stays_as_it_was(gone: set[int], more: set[int]) -> None:
    units = made_up(12, 4)
    kind = Bm25Kind()
    whole = LiveShard(build_shard(kind, units, [kind.prepare_unit(u) for u in units]))
    keys = {i: units[i].key for i in range(12)}
    once = whole.without_units(whole.find_units(sorted_keys([keys[i] for i in gone])))
    twice = once.without_units(once.find_units(sorted_keys([keys[i] for i in more])))
    assert whole.size == sum(u.size for u in units)
    assert twice.size == sum(units[i].size for i in range(12) if i not in gone | more)
    assert twice.dead_units() == sorted(gone | more)
    assert once.dead_units() == sorted(gone)
    assert sorted([*twice.living_units(), *twice.dead_units()]) == list(range(12))
    assert once.find_units(sorted_keys([keys[i] for i in gone])).tolist() == []
    assert whole.find_units(sorted_keys([1 << 40, 2 << 40])).tolist() == []
