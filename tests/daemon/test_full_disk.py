"""A disk that is full while the daemon runs: reading goes on, writing says what to free, and all heals without a restart.

The daemon's own limit on the size of files stands for the disk: the system refuses the same writes at the same places.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp.base.errors import DiskFull
from memory_mcp.capture.tombstones import Tombstones
from memory_mcp.forgetting.copies import ArchiveFiles
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.upkeep.archive.backup import write_to_folder
from tests.daemon.inside import Beside
from tests.daemon.places import NO_INDEXES, look, needs_proc
from tests.daemon.test_commands import lines
from tests.factories import event
from tests.waiting import until

pytestmark = [needs_proc, pytest.mark.skipif(sys.platform != "linux", reason="another process is limited by prlimit")]
#: A module that is compiled while no file may grow would be left by half.
PLACES, KIND = NO_INDEXES | {"PYTHONDONTWRITEBYTECODE": "1"}, Beside


@contextmanager
def full(pid: int, room: int) -> Iterator[None]:
    """No file of the process grows beyond `room` bytes while the block runs."""
    import resource

    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, most))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def test_a_full_disk_is_logged_by_jobs_and_told_to_writers_and_heals_by_itself_without_a_restart(place: Place) -> None:
    said = {"session_id": "s", "role": "user"}
    told = [
        json.dumps({**said, "timestamp": 1_767_225_600_000 + n, "text": f"harbour {os.urandom(900).hex()}"}) for n in range(400)
    ]
    place.ok("ingest", "-", stdin="\n".join(told))
    pid = look(place)["pid"]
    # Room for the log, and for neither a backup nor the file.
    with full(pid, 100_000):
        for job in ("back_up", "housekeeping"):
            assert place.run("scheduler", "run", job).returncode == 3
        assert "harbour" in place.ok("search", "harbour", "--all")
        assert json.loads(place.ok("admin", "stats", "--json"))["rows"]["event"] == 400
    written = (place.directory / "daemon.log").read_text()
    assert "Traceback" not in written
    for job in ("back_up", "housekeeping"):
        [line] = [line for line in written.splitlines() if f"job {job} failed" in line]
        assert "Free space on that disk" in line
    assert "harbour" in place.ok("search", "harbour", "--all")
    place.ok("ingest", "-", stdin=lines(3, "later"))
    place.ok("scheduler", "run", "housekeeping")
    assert json.loads(place.ok("admin", "stats", "--json"))["rows"]["event"] == 403
    # Where nothing can be written, writers are told.
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "h", "prompt": "the otter asks", "cwd": "/tmp"}
    with full(pid, 4096):
        refused = [place.run("ingest", "-", stdin=lines(40, f"more{n}")) for n in range(2)]
        kept = place.run("hook", "claude-code", stdin=json.dumps(prompt))
        assert "harbour" in place.ok("search", "harbour")
        copied = place.run("backup")
        told = json.loads(place.ok("retrieval", "status", "--json"))["notices"]
    for done in refused:
        assert done.returncode == 3, done.stderr
        assert "is full" in done.stderr
        assert "needed to write again" in done.stderr
        assert "leave the data directory as it is" in done.stderr
    assert (copied.returncode, "the backup cannot be written" in copied.stderr) == (3, True)
    assert (kept.returncode, kept.stderr) == (0, "")
    assert any("nothing can be written" in notice for notice in told)
    # The payload that waited in the spool is stored without anybody asking for it, by the same process.
    until(lambda: place.spooled() == 0)
    assert "40 new" in place.ok("ingest", "-", stdin=lines(40, "more0"))
    assert look(place)["pid"] == pid
    assert json.loads(place.ok("retrieval", "status", "--json")).get("notices", []) == []


def test_a_checkpoint_that_fails_leaves_a_store_that_answers_and_goes_on(tmp_path: Path) -> None:
    store = open_storage(tmp_path / "data", "UTC")
    try:
        store.events.append([event(f"number {n} " + "word " * 200, at=1_767_225_600_000 + n) for n in range(400)])
        with full(os.getpid(), 300_000):
            with pytest.raises(DiskFull, match="needed to write again"):
                store.write_checkpoint()
            assert store.get_stats().rows["event"] == 400
            with pytest.raises(DiskFull):
                store.events.append([event("does not fit", at=1_767_225_700_000)])
            assert store.get_stats().no_room
        stored = store.events.append([event("fits again", at=1_767_225_800_000)])
        assert (len(stored.new_ids), store.get_stats().rows["event"]) == (1, 401)
        store.write_checkpoint()
        assert not store.get_stats().no_room
    finally:
        store.close()
    assert not (tmp_path / "data" / "memory.duckdb.probe").exists()


def test_a_write_that_numpy_reports_as_cut_short_is_a_full_disk() -> None:
    assert DiskFull.of(OSError("38980 requested and 19952 written")) is not None
    assert DiskFull.of(OSError("something else")) is None


def test_forgetting_on_a_full_disk_removes_no_backup(tmp_path: Path) -> None:
    store = open_storage(tmp_path / "data", "UTC")
    store.events.append([event(f"number {n} " + os.urandom(90).hex(), at=1_767_225_600_000 + n) for n in range(400)])
    folder = tmp_path / "backups"
    write_to_folder(store, folder, 1_767_225_700_000, "asked for", lambda: None, ())
    store.close()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    tombstones = Tombstones(tmp_path / "data")
    with full(os.getpid(), 200), pytest.raises(DiskFull):
        ArchiveFiles(folder, tombstones).remove_forgotten()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
