"""Archive files: whole blocks come back as they were, and damage costs one block at most and is named."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.storage.archive import TableRows
from memory_mcp.upkeep.archive import frames
from memory_mcp.upkeep.archive.blocks import Archive, rewrite_archive, write_archive
from memory_mcp.upkeep.archive.frames import Block, Damaged

COLUMNS = ("seq", "event_id", "ts", "source", "text", "extra")
ABOUT = {"store": "abc", "last_seq": 40}


def rows_of(first: int, count: int) -> list[list[Any]]:
    """Rows as the store has them: numbers beyond 64 bits, bytes, half of a pair of surrogates."""
    made = range(first, first + count)
    return [[n, (n << 80) + 7, 1000 * n, f"s{n % 2}", f"word {n} " + "\ud83d" * (n % 3), bytes([n, 255])] for n in made]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of five blocks in two tables."""
    monkeypatch.setattr(frames, "MAX_ROWS", 10)
    target = tmp_path / "one.archive"
    write_archive(
        target, [TableRows("event", COLUMNS, rows_of(1, 40)), TableRows("pin", ("target", "at_ms"), [["grip:1", 5]])], ABOUT
    )
    return target


def read(path: Path) -> tuple[dict[int, list[Any]], list[Damaged]]:
    """Rows of events by their numbers, and what is damaged."""
    rows: dict[int, list[Any]] = {}
    damaged: list[Damaged] = []
    with Archive(path) as archive:
        for one in archive:
            if isinstance(one, Damaged):
                damaged.append(one)
            elif one.head.table == "event":
                rows |= {row[0]: row for row in one.rows}
    return rows, damaged


def test_what_was_written_comes_back_as_it_was(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read(path) == ({row[0]: row for row in rows_of(1, 40)}, [])
    with Archive(path) as archive:
        assert archive.about == ABOUT
        heads = [part.head for part in archive if isinstance(part, Block)]
    assert [(h.table, h.rows, h.first, h.last) for h in heads[:2]] == [("event", 10, 1, 10), ("event", 10, 11, 20)]
    assert (heads[1].from_ms, heads[1].to_ms, heads[1].sources) == (11_000, 20_000, {"s0": 5, "s1": 5})
    assert frames.xor_hex(h.ids for h in heads) == frames.xor_hex(f"{row[1]:x}" for row in rows_of(1, 40))


def test_a_byte_that_is_wrong_costs_one_block_wherever_it_lies_and_is_named(path: Path) -> None:
    whole, wanted = path.read_bytes(), {row[0]: row for row in rows_of(1, 40)}
    lost_somewhere = 0
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        rows, damaged = read(path)
        assert damaged, at
        assert all(wanted[seq] == row for seq, row in rows.items()), at
        missing = sorted(set(wanted) - set(rows))
        named = [d.head for d in damaged if d.lost and d.head]
        assert len(named) == (1 if missing or named else 0)
        if missing:
            lost_somewhere += 1
            assert missing == list(range(named[0].first, named[0].last + 1)), at
            assert named[0].sources == {"s0": 5, "s1": 5}
        with Archive(path) as archive:
            assert archive.about == ABOUT
    assert lost_somewhere > 12


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_of_a_file_that_ends_early_the_rest_comes_back(path: Path, share: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    rows, damaged = read(path)
    wanted = {row[0]: row for row in rows_of(1, 40)}
    assert rows == {seq: wanted[seq] for seq in rows}
    assert list(rows) == list(range(1, len(rows) + 1))
    assert len(rows) % 10 == 0
    assert damaged
    assert any(d.lost for d in damaged) or rows == wanted


def test_without_index_and_head_the_block_is_told_by_its_neighbours(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    at = whole.find(b'"first":11')
    whole[at] ^= 1
    whole[-200] ^= 1
    path.write_bytes(bytes(whole))
    rows, damaged = read(path)
    assert list(rows) == [*range(1, 11), *range(21, 41)]
    (gap,) = [d for d in damaged if d.lost]
    assert gap.head is None
    before, behind = gap.between
    assert before is not None
    assert behind is not None
    assert (before.last, behind.first) == (10, 21)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"hello", os.urandom(100_000)):
        other = tmp_path / "other"
        other.write_bytes(content)
        with pytest.raises(ValueError, match="no archive"):
            Archive(other)


def test_a_row_left_out_by_rewriting_is_gone_from_the_file_and_nothing_else(path: Path) -> None:
    def keep(table: str, row: dict[str, Any]) -> dict[str, Any] | None:
        if table == "event" and row["seq"] == 13:
            return None
        return row | {"text": "other"} if table == "event" and row["seq"] == 14 else row

    assert rewrite_archive(path, keep)
    rows, damaged = read(path)
    assert damaged == []
    assert list(rows) == [n for n in range(1, 41) if n != 13]
    assert rows[14][4] == "other"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_rewriting_that_changes_nothing_leaves_the_file(path: Path) -> None:
    before = path.stat().st_ino, path.read_bytes()
    assert not rewrite_archive(path, lambda table, row: row)
    assert (path.stat().st_ino, path.read_bytes()) == before


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def batches() -> Any:
        yield TableRows("event", COLUMNS, rows_of(1, 40))
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_archive(tmp_path / "one.archive", batches(), ABOUT)
    assert list(tmp_path.iterdir()) == []


def test_a_long_text_ends_a_block(tmp_path: Path) -> None:
    long = [[n, n, n, "s", "x" * frames.MAX_BYTES, b""] for n in range(1, 4)]
    heads = write_archive(tmp_path / "one.archive", [TableRows("event", COLUMNS, long)], ABOUT)
    assert [head.rows for head in heads] == [1, 1, 1]
    with Archive(tmp_path / "one.archive") as archive:
        assert sum(len(one.rows) for one in archive if isinstance(one, Block)) == 3
