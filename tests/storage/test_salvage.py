"""Damaged bytes anywhere in the log or the file: what comes back is what was stored, and what does not is told."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.base.children import Child
from memory_mcp.base.errors import StorageDamaged
from memory_mcp.model.event import Event
from memory_mcp.model.grip import Supersession
from memory_mcp.storage.duckdb import blocks, logs, open_read_only, open_storage, saved
from tests.factories import event

FILE, LOG = "memory.duckdb", "memory.duckdb.wal"
#: In the file, and then in the log.
EVENTS, LIVE = 5000, 60
#: What DuckDB reads at a time.
STRETCH = 2048

_KILLED = """
import os, sys
from pathlib import Path
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.values import Scope
from tests.storage.test_salvage import live
store = open_storage(Path(sys.argv[1]))
for one in live():
    store.events.append([one])
    # Reading has each stored by itself.
    store.events.list_speakers(Scope())
os._exit(0)
"""


def words(n: int, count: int) -> str:
    made = random.Random(n)
    return f"number {n}: " + " ".join(made.randbytes(4).hex() for _ in range(count))


def live() -> list[Event]:
    return [event(words(n, 20), at=n * 1000, session=f"s{n // 50}") for n in range(EVENTS, EVENTS + LIVE)]


@pytest.fixture(scope="module")
def whole(processes: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Event]]:
    """A store whose owner was killed: a file of several blocks, and a log."""
    directory = tmp_path_factory.mktemp("whole") / "data"
    store = open_storage(directory, "Asia/Tokyo")
    for start in range(0, EVENTS, 1000):
        store.events.append([event(words(n, 60), at=n * 1000, session=f"s{n // 50}") for n in range(start, start + 1000)])
    store.superseded.record_supersession(Supersession("grip:1-a", "grip:1-b", 5, "said later", "somebody"))  # type: ignore[arg-type]
    store.outbox.set_position("import:x", "99")
    store.close()
    subprocess.run([sys.executable, "-c", _KILLED, str(directory)], check=True, cwd=Path(__file__).parents[2])
    stored = {e.event_id: e for e in live()}
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    store = open_storage(copy)
    found = held(store)
    store.close()
    assert len(found) == EVENTS + LIVE
    assert stored.items() <= found.items()
    return directory, found


def held(store: object) -> dict[str, Event]:
    return {s.event.event_id: s.event for batch in store.events.iter_all() for s in batch}  # type: ignore[attr-defined]


def read(directory: Path) -> tuple[dict[str, Event], int]:
    """Everything that a user gets, whose second call meets what the first found out; and how many are said to be missing."""
    for _ in range(2):
        store = open_storage(directory)
        try:
            # Damage is met where it lies, also beside the events.
            store.superseded.list_recorded()
            store.outbox.get_positions("import:")
            return held(store), store.loss.events if store.loss else 0
        except StorageDamaged:
            pass
        finally:
            store.close()
    raise AssertionError("the second opening was to save what is whole")


def mended(directory: Path) -> bool:
    """Whether the right value of every damaged byte can be told."""
    log = (directory / LOG).read_bytes()
    entries = logs.iter_entries(log, len(logs.make_header(directory / FILE)))
    harmed: list[blocks.DamagedBlock | logs.LogEntry] = [
        *blocks.iter_damaged(directory / FILE),
        *(e for e in entries if e.content is None),
    ]
    return all(one.mend for one in harmed)


def places(size: int, count: int, seed: int) -> Iterator[tuple[int, int]]:
    made = random.Random(seed)
    for n in range(count):
        yield size * n // count + made.randrange(size // count), made.randrange(1, 256)


@pytest.mark.parametrize(("name", "count", "at_most"), [(LOG, 2, 1), (FILE, 2, EVENTS + LIVE)])
def test_one_damaged_byte(
    whole: tuple[Path, dict[str, Event]], tmp_path: Path, name: str, count: int, at_most: int, request: pytest.FixtureRequest
) -> None:
    directory, stored = whole
    count *= 6 if request.config.getoption("--slow") else 1
    size = (directory / name).stat().st_size
    for offset, by in places(size, count, 7):
        copy = tmp_path / str(offset)
        shutil.copytree(directory, copy)
        content = bytearray((copy / name).read_bytes())
        content[offset] ^= by
        (copy / name).write_bytes(content)
        allowed = 0 if mended(copy) else at_most
        found, told = read(copy)
        assert found.items() <= stored.items(), offset
        assert told == len(stored) - len(found) <= allowed, offset
        # Nothing is deleted: the damaged part lies there, and the next start finds nothing to do.
        assert any((copy / "damaged").iterdir()), offset
        assert read(copy) == (found, told), offset
        store = open_storage(copy)
        assert store.audit.list_entries()[0].action == "salvage"
        store.close()
        shutil.rmtree(copy)


@pytest.mark.parametrize("damage", ["first", "last checkpoint", "last checkpoint, closed", "checkpoint before", "sizes"])
def test_a_damaged_header_costs_what_the_last_checkpoint_changed_at_most(
    whole: tuple[Path, dict[str, Event]], tmp_path: Path, damage: str
) -> None:
    directory, stored = whole
    shutil.copytree(directory, copy := tmp_path / "data")
    if damage.endswith("closed"):
        open_storage(copy).close()
    content, noise = bytearray((copy / FILE).read_bytes()), random.Random(3).randbytes(blocks.HEADER)
    leading = (blocks.HEADER, 2 * blocks.HEADER)
    before, last = sorted(leading, key=lambda at: logs.read_round(bytes(content[at : at + blocks.HEADER])))
    at = {"first": 0, "checkpoint before": before, "sizes": -1}.get(damage, last)
    if damage == "sizes":
        for start in leading:
            content[start + 40 : start + 48] = noise[:8]
    else:
        content[at : at + blocks.HEADER] = noise
    (copy / FILE).write_bytes(content)
    found, missing = read(copy)
    store = open_storage(copy)
    loss = store.loss
    store.close()
    assert found.items() <= stored.items()
    assert missing == len(stored) - len(found)
    if last == at:
        # There is what the log has, or what the checkpoint before wrote: here all but that.
        assert len(found) == (EVENTS if damage.endswith("closed") else LIVE)
        assert loss
        assert "which may be missing" in loss.description
        assert "memory-mcp restore" in loss.recovery_hint
    else:
        assert (missing, loss) == (0, None)
    assert any((copy / "damaged").iterdir())
    assert read(copy) == (found, missing)


@pytest.mark.parametrize("name", [LOG, FILE])
def test_of_single_damaged_bytes_the_right_value_of_most_is_told(
    whole: tuple[Path, dict[str, Event]], tmp_path: Path, name: str
) -> None:
    """Of two in three, measured; which those are depends on the numbers that a store draws for itself."""
    shutil.copytree(whole[0], copy := tmp_path / "data")
    content = (copy / name).read_bytes()
    count, told = 40, 0
    for offset, by in places(len(content), count, 11):
        (copy / name).write_bytes(content[:offset] + bytes([content[offset] ^ by]) + content[offset + 1 :])
        told += mended(copy)
    assert told >= count // 3


class Killed(BaseException):
    pass


def killed(*_: object) -> None:
    raise Killed


@pytest.mark.parametrize(("column", "once_killed"), [("front", True), ("front", False), ("middle", False), ("end", False)])
@pytest.mark.few(1)
def test_a_stretch_of_a_block_costs_what_is_read_with_it_and_no_more_where_a_salvage_was_killed(
    whole: tuple[Path, dict[str, Event]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, once_killed: bool
) -> None:
    directory, stored = whole
    copy = tmp_path / "data"
    shutil.copytree(directory, copy)
    content = bytearray((copy / FILE).read_bytes())
    block_size = blocks.read_block_size(copy / FILE)
    start = blocks.HEADER * blocks.HEADERS + 3 * block_size
    at = {"front": start + 5000, "middle": start + block_size // 2, "end": start + block_size - 5000}[column]
    content[at : at + 64] = os.urandom(64)
    (copy / FILE).write_bytes(content)
    if once_killed:
        (copy / "salvage.json").write_text(json.dumps({"place": ""}))
        with monkeypatch.context() as patched:
            patched.setattr("memory_mcp.storage.duckdb.store.store_saved", killed)
            with pytest.raises(Killed):
                open_storage(copy)
    found, told = read(copy)
    assert found.items() <= stored.items()
    assert 0 < told == len(stored) - len(found) <= 2 * STRETCH
    # What the log alone held is there, and so is what was written first.
    assert {e.event_id for e in live()} <= found.keys()
    store, sound = open_storage(copy), open_read_only(directory.with_name("copy"))
    assert (store.timezone, store.get_stats().store_id) == ("Asia/Tokyo", sound.get_stats().store_id)
    assert len(store.superseded.list_recorded()) == 1
    # Importing again brings back what is missing: nothing says that it was read.
    assert store.outbox.get_positions("import:") == {}
    store.close()
    sound.close()


def test_the_header_of_a_log_is_known_from_the_file(whole: tuple[Path, dict[str, Event]]) -> None:
    directory, _ = whole
    log, expected = (directory / LOG).read_bytes(), logs.make_header(directory / FILE)
    assert logs.is_whole(log, expected)
    assert all(entry.content is not None for entry in logs.iter_entries(log, len(expected)))
    assert list(blocks.iter_damaged(directory / FILE)) == []


@pytest.mark.slow  # in the short form: test_duckdb.py::test_a_damaged_file_is_set_aside....
def test_a_file_that_cannot_be_opened_is_tried_twice_and_not_for_every_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try begins a process."""
    file = tmp_path / FILE
    file.touch()
    begun: list[str] = []

    class Counted(Child):
        def __init__(self, module: str, hello: object) -> None:
            begun.append(module)
            super().__init__(module, hello)

    monkeypatch.setattr(saved, "Child", Counted)
    assert list(saved.iter_tables(file)) == []
    assert len(begun) == 2
    assert list(saved.iter_events(file)) == []
    assert len(begun) == 4
