"""Backups and restores by the installed command, while real clients write through the daemon."""

import asyncio
import datetime as dt
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench.place import Place
from memory_mcp.base.errors import StorageError
from memory_mcp.storage.archive import TableRows
from memory_mcp.storage.duckdb import open_read_only
from memory_mcp.upkeep.archive.backup import list_backups
from memory_mcp.upkeep.archive.blocks import Archive, write_archive
from memory_mcp.upkeep.archive.frames import Block
from tests.daemon.inside import BARE, Inside
from tests.daemon.places import NO_INDEXES, killed, needs_proc
from tests.daemon.test_pump import call, talk
from tests.waiting import PATIENCE, until

pytestmark = needs_proc
PLACES = NO_INDEXES

WRITERS = 2
#: In the memory that most tests begin with; more than a block of a backup.
EVENTS = 600


class Load:
    """A client whose writers, at once, write one statement after the other until told to stop."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        until(lambda: len(self.acknowledged) >= 2 * WRITERS, "for writers")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def wait(self, beyond: int) -> None:
        """Wait until more than so many statements were acknowledged."""
        until(lambda: len(self.moment()[0]) > beyond, "for more writes")

    def _run(self) -> None:
        async def write(client: Client, writer: int) -> None:
            number = 0
            while not self._stop.is_set():
                text = f"Writer {writer} states number {number} of this run {id(self)}."
                with self._lock:
                    self.sent.add(text)
                await call(client, "remember", text=text)
                with self._lock:
                    self.acknowledged.add(text)
                number += 1

        async def work(client: Client) -> None:
            await asyncio.gather(*(write(client, n) for n in range(WRITERS)))

        talk(self._place, work)

    def moment(self) -> tuple[set[str], set[str]]:
        """What was acknowledged, and sent, up to now."""
        with self._lock:
            return set(self.acknowledged), set(self.sent)


def stored(directory: Path) -> list[tuple[Any, ...]]:
    """Every event of a store that nobody has open, in order of arrival."""
    store = open_read_only(directory)
    try:
        return [(s.seq, s.event.event_id, s.event.trust, s.event.text) for batch in store.events.iter_all() for s in batch]
    finally:
        store.close()


def test_a_restore_keeps_clients_and_what_was_there_and_a_backup_under_load_restores_to_the_acknowledged_state_of_its_moment(
    beside: Place, tmp_path: Path
) -> None:
    place = beside

    async def work(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
        first = await call(client, "remember", text="The lighthouse keeper prefers oil lamps.", pin=True)
        await asyncio.to_thread(place.ok, "backup")
        second = await call(client, "remember", text="The blue valve opens to the left.")
        told = json.loads(await asyncio.to_thread(place.ok, "restore", str(place.directory / "backups"), "--json"))
        found = await call(client, "expand_grip", grip_id=first["grip_id"])
        assert "oil lamps" in json.dumps(found)
        gone = await client.call_tool("expand_grip", {"grip_id": second["grip_id"]})
        assert gone.is_error
        await call(client, "remember", text="The third drawer sticks.")
        status = await call(client, "get_retrieval_status")
        return told, status

    told, status = talk(place, work)
    assert told["restored"]["events"] == 1
    assert (status["store"]["events"], status.get("notices", [])) == (2, [])
    drill(place, tmp_path, 1)
    lasting = [row[3] for row in stored(place.directory)][:2]
    assert lasting == ["The lighthouse keeper prefers oil lamps.", "The third drawer sticks."]
    assert [row[3] for row in stored(Path(told["kept"]))][-1] == "The blue valve opens to the left."
    store = open_read_only(place.directory)
    act, pinned = store.audit.list_entries()[:2]
    store.close()
    assert pinned.action == "pin"
    assert (act.action, act.author, act.counts["events"]) == ("restore", "person", 1)


@pytest.mark.slow
def test_a_backup_under_load_does_so_twenty_times_of_twenty(place: Place, tmp_path: Path) -> None:
    drill(place, tmp_path, 20)


def drill(place: Place, tmp_path: Path, rounds: int) -> None:
    """Backups one after the other under one load; each is restored somewhere else and compared with what clients know."""
    folder = tmp_path / "backups"
    bounds = []
    with Load(place) as load:
        for _ in range(rounds):
            before, _ = load.moment()
            made = json.loads(place.ok("backup", str(folder), "--json"))
            bounds.append((Path(made["path"]), before, load.moment()[1]))
            load.wait(len(before) + WRITERS)
    place.stop()
    whole = stored(place.directory)
    assert len(list_backups(folder)) == rounds
    for number, (path, before, sent) in enumerate(bounds):
        with Inside(tmp_path / f"other{number}", more=BARE) as other:
            told = json.loads(other.ok("restore", str(path), "--json"))
            assert (told["missing"], told["kept"]) == ([], None)
            found = stored(other.directory)
            assert found == whole[: len(found)]
            texts = {row[3] for row in found}
            assert before <= {text for text in texts if text.startswith("Writer ")} <= sent
            assert other.ok("admin", "check")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a memory of some sessions with a backup, which nobody has open."""
    with Inside(tmp_path_factory.mktemp("template"), more=BARE) as made:
        lines = [
            {"text": f"Statement {n} about the bridge.", "role": "user", "session_id": f"s{n // 50}"}
            | {"timestamp": 1768212000000 + n}
            for n in range(EVENTS)
        ]
        (made.root / "all.jsonl").write_text("\n".join(map(json.dumps, lines)))
        made.ok("import", "jsonl", str(made.root / "all.jsonl"))
        made.ok("backup")
        return made.directory


@pytest.fixture
def filled(tmp_path: Path, template: Path) -> Iterator[Place]:
    """A copy of it, whose commands open it themselves."""
    with Inside(tmp_path / "filled", more=BARE) as made:
        shutil.copytree(template, made.directory)
        yield made


@pytest.mark.parametrize("point", ["backup.written", "backup.events_written"])
@pytest.mark.few(1)
def test_a_backup_that_is_killed_leaves_the_others_and_the_next_one_whole(filled: Place, point: str) -> None:
    filled.ok(
        "ingest", "-", stdin=json.dumps({"text": "one more", "role": "user", "session_id": "s", "timestamp": 1768299000000})
    )
    killed(filled, point, "backup")
    for path in [b.path for b in list_backups(filled.directory / "backups")]:
        filled.ok("backup", str(path), "--verify")
    made = json.loads(filled.ok("backup", "--json"))
    assert made["events"] == EVENTS + 1
    filled.ok("backup", "--verify")
    assert not list((filled.directory / "backups").glob(".*"))


@pytest.mark.parametrize("point", ["restore.cleared", "restore.built", "restore.decided", "restore.moved"])
@pytest.mark.few(2)
def test_a_restore_that_is_killed_leaves_the_present_store_or_the_new_one_whole(filled: Place, point: str) -> None:
    backed_up = stored(filled.directory)
    # Committed, and in the log of the file alone.
    later = {"text": "said later", "role": "user", "session_id": "s", "timestamp": 1768299000000}
    killed(filled, "events.committed", "ingest", "-", stdin=json.dumps(later))
    assert (filled.directory / "memory.duckdb.wal").stat().st_size > 0
    killed(filled, point, "restore", str(filled.directory / "backups"))
    if point != "restore.built":
        with pytest.raises(StorageError, match="interrupted"):
            stored(filled.directory)
    status = json.loads(filled.ok("retrieval", "status", "--json"))
    assert ("healthy" in status, status.get("notices")) == (False, None)
    texts = [row[3] for row in stored(filled.directory)]
    assert texts == [*(row[3] for row in backed_up), *(["said later"] if point == "restore.built" else [])]
    # What was there is kept, with its log.
    [kept] = filled.directory.glob("before-restore-*")
    with Inside(filled.root / "kept", more=BARE) as former:
        shutil.copytree(kept, former.directory, ignore=shutil.ignore_patterns("*.writes") if point == "restore.built" else None)
        assert "healthy" not in json.loads(former.ok("retrieval", "status", "--json"))
        assert len(stored(former.directory)) == len(backed_up) + 1
    filled.ok("restore", str(filled.directory / "backups"))
    assert stored(filled.directory) == backed_up
    assert "every invariant holds" in filled.ok("admin", "check")
    assert not (filled.directory / "restoring").exists()


def test_from_a_damaged_backup_all_else_comes_back_and_the_rest_is_named_and_comes_back_from_its_source(
    filled: Place, tmp_path: Path, template: Path
) -> None:
    whole = stored(filled.directory)
    folder = filled.directory / "backups"
    [events] = folder.glob("events-*.archive")
    content = bytearray(events.read_bytes())
    content[len(content) // 2] ^= 1
    events.write_bytes(bytes(content))
    checked = filled.run("backup", "--verify")
    assert checked.returncode == 1
    named = [c["text"] for c in json.loads(filled.run("doctor", "--json").stdout)["checks"] if c["name"] == "backups"]
    assert any(f"{events.name} is damaged" in text and "of jsonl" in text for text in named), named
    done = filled.run("restore", str(folder), "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    [missing] = told["missing"]
    assert 0 < missing["rows"] <= 500
    assert missing["from"].startswith("2026-01-12T10:00:0")
    assert sum(missing["sources"].values()) == missing["rows"]
    found = stored(filled.directory)
    assert len(found) == len(whole) - missing["rows"]
    assert set(found) < set(whole)
    assert "every invariant holds" in filled.ok("admin", "check")
    filled.ok("import", "jsonl", str(template.parent / "all.jsonl"))
    assert {row[1] for row in stored(filled.directory)} == {row[1] for row in whole}
    # Another memory that takes such a backup in says what it could not read.
    with Inside(tmp_path / "other", more=BARE) as other:
        done = other.run("merge", str(folder), "--json")
        assert (done.returncode, json.loads(done.stdout)["missing"]) == (1, [missing])
        assert len(stored(other.directory)) == len(found)


def test_the_last_backup_up_to_a_time_is_restored(filled: Place) -> None:
    [first] = list_backups(filled.directory / "backups")
    early = dt.datetime.fromtimestamp(first.at_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    filled.ok("ingest", "-", stdin=json.dumps({"text": "later", "role": "user", "session_id": "s", "timestamp": 1768299000000}))
    filled.ok("backup")
    told = json.loads(filled.ok("restore", str(filled.directory / "backups"), "--at", early, "--json"))
    assert told["restored"]["events"] == EVENTS
    told = json.loads(filled.ok("restore", str(filled.directory / "backups"), "--json"))
    assert told["restored"]["events"] == EVENTS + 1
    refused = filled.run("restore", str(filled.directory / "backups"), "--at", "2020-01-01")
    assert refused.returncode != 0
    assert "there is no backup from then" in refused.stderr


def test_a_store_that_is_in_use_elsewhere_is_not_replaced(filled: Place) -> None:
    from memory_mcp.storage.lock import DirectoryLock

    lock = DirectoryLock(filled.directory)
    try:
        done = filled.run("restore", str(filled.directory / "backups"))
    finally:
        lock.release()
    assert done.returncode != 0
    assert "in use" in done.stderr
    assert not list(filled.directory.glob("before-restore-*"))


def test_doctor_and_stats_tell_what_backups_take(filled: Place) -> None:
    told = json.loads(filled.run("doctor", "--json").stdout)["checks"]
    [check] = [c for c in told if c["name"] == "backups"]
    assert check["state"] == "ok"
    assert check["text"].startswith("1 backup, ")
    stats = json.loads(filled.ok("admin", "stats", "--json"))
    size = json.loads(filled.ok("backup", "--list", "--json"))["size_bytes"]
    assert stats["backups"] == {"count": 1, "size_bytes": size}


def test_a_store_that_is_restored_elsewhere_records_no_paused_project_and_takes_back_nothing_forgotten(tmp_path: Path) -> None:
    filled = Inside(tmp_path / "filled", more=BARE)
    value = "walnut-8841-harbour"
    line = {"text": f"The code is {value}.", "role": "user", "session_id": "code", "timestamp": 1768299000000}
    filled.ok("ingest", "-", stdin=json.dumps(line))
    filled.ok("pause", "--project", "github.com/acme/secret")
    filled.ok("forget", "--value", value, "--yes")
    filled.ok("backup", str(tmp_path / "usb"))
    with Inside(tmp_path / "elsewhere", more=BARE) as other:
        other.ok("restore", str(tmp_path / "usb"))
        secret = {"text": "Not to be recorded.", "role": "user", "session_id": "s", "project": "github.com/acme/secret"}
        lines = [line | {"session_id": "again"}, secret | {"timestamp": time.time_ns() // 1_000_000}]
        other.run("ingest", "-", stdin="\n".join(map(json.dumps, lines)))
        texts = [row[3] for row in stored(other.directory)]
        assert not any(value in text or "Not to be" in text for text in texts)
        # Twice changes nothing.
        before = [(other.directory / name).read_bytes() for name in ("pauses.json", "tombstones.jsonl")]
        other.ok("resume", "--project", "github.com/acme/secret")
        ended = (other.directory / "pauses.json").read_bytes()
        other.ok("restore", str(tmp_path / "usb"))
        assert (other.directory / "pauses.json").read_bytes() == ended != before[0]
        assert (other.directory / "tombstones.jsonl").read_bytes() == before[1]


def test_a_restore_that_does_not_fit_changes_nothing(filled: Place) -> None:
    [backup] = list_backups(filled.directory / "backups")
    with Archive(backup.path) as archive:
        parts = [p for p in archive if isinstance(p, Block)]
        about = archive.about | {"store_bytes": 1 << 60}
    write_archive(backup.path, [TableRows(p.head.table, p.head.columns, p.rows) for p in parts], about)
    whole = stored(filled.directory)
    refused = filled.run("restore", str(backup.path))
    assert refused.returncode == 3
    assert "MB are free" in refused.stderr
    assert stored(filled.directory) == whole
    assert not (filled.directory / "restoring").exists()
