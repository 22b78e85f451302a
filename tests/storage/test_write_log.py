"""Writes that wait in the log: kept whatever ends the process, stored once, in order, and seen by every read."""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.model.event import Event
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import deferred, open_read_only, open_storage
from memory_mcp.storage.duckdb.events import DuckEvents
from memory_mcp.storage.values import Scope, WriteRequest
from tests.factories import event
from tests.waiting import PATIENCE, together

LOG = "memory.duckdb.writes"
ROOT = Path(__file__).parents[2]
#: Writes one event after the other and says so; reads now and then, which stores what waits.
_WRITER = """
import sys
from pathlib import Path
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.values import Scope, WriteRequest
from tests.storage.test_write_log import numbered
store = open_storage(Path(sys.argv[1]), "Europe/Berlin")
for n in range(int(sys.argv[2]), int(sys.argv[3])):
    store.events.append([numbered(n)], WriteRequest(f"key {n}"))
    print(n, flush=True)
    if n % 7 == 3:
        store.events.list_speakers(Scope())
sys.stdin.read()
"""


def numbered(n: int) -> Event:
    return event(f"event number {n} — größer", at=1_800_000_000_000 + n * 10, session=f"s{n % 3}")


def run_writer(directory: Path, first: int, end: int, kill_after: int | None, point: str = "") -> int:
    """The number behind the last write that was acknowledged to a writer that is killed."""
    words = [sys.executable, "-c", _WRITER, str(directory), str(first), str(end)]
    environment = os.environ | ({VARIABLE: point} if point else {})
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = first
        for line in writer.stdout:
            acknowledged = int(line) + 1
            if acknowledged - first == kill_after:
                writer.kill()
        writer.kill()
    return acknowledged


@contextmanager
def opened(directory: Path) -> Iterator[Storage]:
    store = open_storage(directory, "Europe/Berlin")
    try:
        yield store
    finally:
        store.close()


def arrived(store: Storage) -> list[Event]:
    return [stored.event for batch in store.events.iter_all() for stored in batch]


@pytest.fixture(scope="module")
def killed(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store whose owner was killed with writes in the log: 6 of 17."""
    directory = tmp_path_factory.mktemp("killed") / "data"
    assert run_writer(directory, 0, 17, 17) == 17
    assert (directory / LOG).read_bytes().count(b"\n") == 6
    return directory


@pytest.mark.usefixtures("processes")
def test_whatever_is_acknowledged_is_there_once_and_in_order_however_often_the_process_is_killed(
    data_dir: Path, request: pytest.FixtureRequest
) -> None:
    rng = random.Random(5)
    acknowledged, points = 0, ["", "writes.stored", "writes.before_commit:2", "events.committed:9", "events.before_commit:4"]
    for point in points * (6 if request.config.getoption("--slow") else 1):
        acknowledged = run_writer(data_dir, acknowledged, acknowledged + 40, None if point else rng.randrange(2, 30), point)
        with opened(data_dir) as store:
            events = arrived(store)
            assert store.loss is None
            # One more may have been stored than was acknowledged.
            assert events == [numbered(n) for n in range(len(events))]
            assert acknowledged <= len(events) <= acknowledged + 1
            repeated = store.events.append([numbered(99_999)], WriteRequest(f"key {acknowledged - 1}"))
            assert repeated.replayed_answer == numbered(acknowledged - 1).event_id
            acknowledged = len(events)
        assert not (data_dir / LOG).exists()


def test_a_line_that_was_not_written_to_its_end_is_left_out_and_one_that_is_damaged_is_told(
    killed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = (killed / LOG).read_bytes()
    lines = whole.splitlines(keepends=True)
    damaged = whole[: len(lines[0]) + 40] + b"X" + whole[len(lines[0]) + 41 :]
    contents = {
        "torn": whole + lines[-1][:-9],
        "zeros": whole + bytes(4096),
        "damaged": damaged,
        "other": b"00000000 []\n" + whole,
    }
    for name, content in contents.items():
        caplog.clear()
        copy = tmp_path / name
        shutil.copytree(killed, copy)
        (copy / LOG).write_bytes(content)
        for _ in range(2):
            with opened(copy) as store:
                assert len(arrived(store)) == (16 if name == "damaged" else 17)
                assert (store.loss.events if store.loss else 0) == (name == "damaged")
        assert ("acknowledged writes" in caplog.text) == (name in ("damaged", "other"))
        assert [file.read_bytes() for file in copy.glob(f"damaged/*/{LOG}")] == [content] * (name in ("damaged", "other"))


def test_a_store_that_is_only_read_says_that_writes_wait(killed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(killed, copy)
    looked_at = open_read_only(copy)
    assert (len(arrived(looked_at)), looked_at.loss) == (11, None)
    looked_at.close()
    assert "acknowledged" in caplog.text
    with opened(copy) as store:
        assert len(arrived(store)) == 17


def test_what_waits_is_seen_by_every_read_and_what_may_be_known_is_looked_up(data_dir: Path) -> None:
    with opened(data_dir) as store:
        first = [store.events.append([numbered(n)], WriteRequest(f"key {n}")) for n in range(6)]
        assert [result.new_ids for result in first] == [(numbered(n).event_id,) for n in range(6)]
        assert (data_dir / LOG).stat().st_size
        assert store.events.last_seq() == 6
        assert store.events.find_event(numbered(5).event_id) == numbered(5)
        assert [stored.event for stored in store.events.read_after(3, 9)] == [numbered(n) for n in range(3, 6)]
        assert [change.subject for change in store.outbox.read_after(4, 9)] == ["5", "6"]
        # Neither the same event, nor the same request, nor a copy in another session is new.
        assert store.events.append([numbered(5)]).known_ids == (numbered(5).event_id,)
        assert store.events.append([numbered(7)], WriteRequest("key 5")).replayed_answer == numbered(5).event_id
        copy = event(numbered(4).text, at=numbered(4).timestamp, session="s0", source_id="x")
        assert store.events.append([copy]).new_ids == ()
        store.events.append([numbered(8)])
        assert store.events.list_events(Scope())[-1] == numbered(8)
        assert (data_dir / LOG).stat().st_size == 0
    assert not (data_dir / LOG).exists()


def test_what_was_acknowledged_to_one_thread_is_read_by_it_while_others_write_and_read(data_dir: Path) -> None:
    def write(store: Storage, session: int) -> None:
        for n in range(25):
            one = event(f"{session} says {n}", at=1_800_000_000_000 + n * 100 + session, session=f"s{session}")
            store.events.append([one])
            assert store.events.list_events(Scope(), f"s{session}")[-1] == one

    with opened(data_dir) as store, ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, store, session) for session in range(4)]:
            done.result()
        assert [stored.seq for stored in store.events.read_after(0, 200)] == list(range(1, 101))
        assert len(store.outbox.read_after(0, 200)) == len(store.events.list_events(Scope(), limit=200)) == 100


@pytest.mark.parametrize("trouble", ["deleted", "link", "folder"])
def test_a_write_is_stored_at_once_where_the_log_cannot_be_written(data_dir: Path, tmp_path: Path, trouble: str) -> None:
    with opened(data_dir) as store:
        for n in range(8):
            store.events.append([numbered(n)])
            if n == 5:
                (data_dir / LOG).unlink()
                if trouble == "link":
                    (data_dir / LOG).symlink_to(tmp_path / "outside")
                elif trouble == "folder":
                    (data_dir / LOG).mkdir()
            if n == 6 and trouble != "deleted":
                assert not (tmp_path / "outside").exists()
                (data_dir / LOG).unlink() if trouble == "link" else (data_dir / LOG).rmdir()
        assert arrived(store) == [numbered(n) for n in range(8)]
    with opened(data_dir) as store:
        assert arrived(store) == [numbered(n) for n in range(8)]


def test_lines_that_are_added_while_the_disk_is_waited_for_share_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    syncing, may_end = threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        syncs.append(descriptor)
        syncing.set()
        assert may_end.wait(PATIENCE)

    def add_meanwhile() -> None:
        assert syncing.wait(PATIENCE)
        numbers = [log.add_write([n]) for n in range(5)]
        may_end.set()
        together(*(partial(log.await_sync, number) for number in numbers))

    monkeypatch.setattr(deferred, "_sync", sync)
    log = deferred.WriteLog(tmp_path / LOG)
    together(partial(log.await_sync, log.add_write(["first"])), add_meanwhile)
    assert len(syncs) == 2
    log.close()


def test_writers_at_the_same_time_each_wait_for_the_sync_that_has_their_line(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []

    def sync(descriptor: int) -> None:
        content = os.pread(descriptor, 1 << 20, 0)
        time.sleep(0.02)
        synced.append(content)

    def write(store: Storage, session: int) -> None:
        for n in range(8):
            one = event(f"{session} says {n}", at=1_800_000_000_000 + n * 100 + session, session=f"s{session}")
            assert store.events.append([one]).new_ids == (one.event_id,)
            # On disk in the log, or no longer in it because it is stored.
            text = one.text.encode()
            assert any(text in content for content in synced) or text not in (data_dir / LOG).read_bytes()

    with opened(data_dir) as store, ThreadPoolExecutor(6) as pool:
        for n in range(2):
            store.events.append([numbered(n)])
        monkeypatch.setattr(deferred, "_sync", sync)
        for done in [pool.submit(write, store, session) for session in range(6)]:
            done.result()
        assert synced

        def fail(descriptor: int) -> None:
            raise OSError(f"{descriptor} cannot be synced")

        monkeypatch.setattr(deferred, "_sync", fail)
        store.events.append([numbered(1000)])
        # It was stored at once.
        assert (data_dir / LOG).stat().st_size == 0
    with opened(data_dir) as store:
        assert len(arrived(store)) == 51


def test_a_sync_that_failed_is_not_made_good_by_the_next_though_the_system_tells_it_once(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    syncing, both_logged = threading.Event(), threading.Event()
    add_write = deferred.WriteLog.add_write

    def fail_once(descriptor: int) -> None:
        syncs.append(descriptor)
        if len(syncs) == 1:
            syncing.set()
            assert both_logged.wait(PATIENCE)
            raise OSError("a page was not written")

    def add_and_note(log: deferred.WriteLog, value: Sequence[object]) -> int:
        number = add_write(log, value)
        if syncing.is_set():
            both_logged.set()
        return number

    def write(n: int) -> None:
        store.events.append([numbered(n)])
        # Acknowledged because the database holds it: the log, which may have lost it, is empty.
        assert numbered(n).text.encode() not in (data_dir / LOG).read_bytes()

    with opened(data_dir) as store, ThreadPoolExecutor(1) as pool:
        for n in range(3):
            store.events.append([numbered(n)])
        store.events.list_speakers(Scope())
        monkeypatch.setattr(deferred, "_sync", fail_once)
        monkeypatch.setattr(deferred.WriteLog, "add_write", add_and_note)
        first = pool.submit(write, 3)
        assert syncing.wait(PATIENCE)
        write(4)
        first.result()
        assert len(syncs) == 1
        store.events.append([numbered(5)])
        assert len(syncs) == 2, "the emptied log is used again"
        assert arrived(store) == [numbered(n) for n in range(6)]


def test_a_sync_that_fails_while_a_line_is_added_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = deferred.WriteLog(tmp_path / LOG)
    first, write = log.add_write(["first"]), os.write

    def fail_meanwhile(descriptor: int, line: bytes) -> int:
        with pytest.raises(OSError, match="not written"):
            log.await_sync(first)
        return write(descriptor, line)

    def fail(_: int) -> None:
        raise OSError("a page was not written")

    monkeypatch.setattr(deferred, "_sync", fail)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(os, "write", fail_meanwhile)
        second = log.add_write(["second"])
    monkeypatch.setattr(deferred, "_sync", os.fsync)
    for use in (lambda: log.await_sync(second), lambda: log.add_write(["third"])):
        with pytest.raises(OSError, match="could not be"):
            use()
    log.clear()
    log.await_sync(log.add_write(["third"]))
    assert log.read_writes() == ([["third"]], 0)
    log.close()


def test_only_what_was_synced_can_be_damaged_and_a_power_loss_keeps_any_part_of_the_rest(tmp_path: Path) -> None:
    path, names = tmp_path / LOG, ["first", "second", "third", "fourth"]
    log = deferred.WriteLog(path)
    log.await_sync(log.add_write(["stored"]))
    log.clear()
    log.await_sync(log.add_write([["first"], None]))
    for name in names[1:]:
        log.add_write([[name], None])
    lines = path.read_bytes().splitlines(keepends=True)
    # An older program's lines say nothing of what was synced.
    older = [b"%08x %b\n" % (zlib.crc32(text), text) for text in (f'[["{name}"],null]'.encode() for name in names)]
    for written, lost, damaged in ((lines, 0, 1), (lines, 1, 0), (lines, 2, 0), (lines, 3, 0), (older, 1, 1), (older, 3, 0)):
        path.write_bytes(b"".join(bytes(len(line)) if n == lost else line for n, line in enumerate(written)))
        # The line behind the lost one begins with its zeros.
        kept = [[[name], None] for n, name in enumerate(names) if n not in (lost, lost + 1)]
        assert deferred.WriteLog(path).read_writes() == (kept, damaged)
    log.close()


def test_a_logged_write_for_which_memory_lacked_is_stored_once_what_was_before_is_written_out(
    killed: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(killed, data_dir)
    append, refusals = DuckEvents.append, iter([True, False, True])

    def append_when_there_is_memory(*arguments: Any) -> Any:
        if next(refusals, False):
            raise ResourceExhausted("no memory", "none")
        return append(*arguments)

    monkeypatch.setattr(DuckEvents, "append", append_when_there_is_memory)
    with opened(data_dir) as store:
        assert store.loss is None
        assert arrived(store) == [numbered(n) for n in range(17)]
    assert not list(data_dir.glob("damaged*"))
