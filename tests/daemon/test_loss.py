"""Acknowledged events that are gone: whoever asks is told, through every door, until a person acknowledges it."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent, TextResourceContents

from bench.place import Place
from memory_mcp.base.errors import StorageLocked
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.lock import SharedLock
from tests.daemon.inside import BARE, SERVED, Beside, Inside
from tests.daemon.places import NO_INDEXES, look, needs_proc, typed
from tests.daemon.test_pump import call, talk
from tests.waiting import PATIENCE, until

pytestmark = needs_proc
PLACES, KIND = NO_INDEXES, Beside

MARK, FILE = "high-water.json", "memory.duckdb"


def write(place: Place, *texts: str, source: str = "tests") -> None:
    """Events, acknowledged one by one."""
    lines = [
        {"id": f"{source}-{text}", "session_id": source, "timestamp": 1_767_225_600_000 + n, "role": "user", "text": text}
        for n, text in enumerate(texts)
    ]
    folder = place.home / source
    folder.mkdir(exist_ok=True)
    (folder / f"{abs(hash(texts))}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    place.ok("import", "jsonl", str(folder))


def is_free(directory: Path) -> bool:
    """Whether no process holds a data directory; one that was killed lets go of it when it has ended."""
    try:
        SharedLock(directory).release()
    except StorageLocked:
        return False
    return True


def kill(place: Place) -> None:
    """End the daemon so that its log stays as it is."""
    os.kill(look(place)["pid"], signal.SIGKILL)
    until(lambda: is_free(place.directory), "the lock of the data directory")


def asked(place: Place, tool: str, **arguments: Any) -> dict[str, Any]:
    async def work(client: Client) -> dict[str, Any]:
        return await call(client, tool, **arguments)

    return talk(place, work)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with three events in its log, whose daemon was killed."""
    with Beside(tmp_path_factory.mktemp("killed"), more=SERVED) as place:
        write(place, "fenders need looks", "ropes need looks", "tides need looks")
        kill(place)
    return place.directory


def put_older_copy(alone: Place) -> None:
    """Take three of five acknowledged events away."""
    file = alone.directory / FILE
    write(alone, "fenders need looks", "ropes need looks")
    shutil.copy(file, alone.root / "older")
    write(alone, "tides need looks", "compasses need looks", "harbours need looks")
    shutil.copy(alone.root / "older", file)


def lose(place: Place, how: str, killed: Path) -> None:
    """Take acknowledged events away while nothing runs."""
    if how == "older copy":
        put_older_copy(Inside(place.root, more=BARE))
        return
    shutil.copytree(killed, place.directory, ignore=shutil.ignore_patterns("*.sock"))
    file, log = place.directory / FILE, place.directory / (FILE + ".wal")
    if how == "another store":
        other = Inside(place.root / "other", more=BARE)
        write(other, "somebody else's words", "and more", "of them", "and yet more", source="foreign")
        shutil.copy(other.directory / FILE, file)
    if how in ("file", "file and log"):
        file.unlink()
    if how in ("log", "file and log", "another store"):
        log.unlink(missing_ok=True)
    if how == "log cut":
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 3])


@pytest.fixture
def alone(tmp_path: Path) -> Place:
    """The same data directory as that of `place`, opened by commands themselves."""
    return Inside(tmp_path, more=BARE)


def status_of(place: Place) -> dict[str, Any]:
    """The state of a memory, as a command tells it."""
    return dict(json.loads(place.ok("retrieval", "status", "--json")))


@pytest.mark.parametrize("how", ["file", "log", "file and log", "log cut", "older copy", "another store"])
@pytest.mark.few(1)
def test_every_kind_of_loss_is_told_until_a_person_acknowledges_it(alone: Place, how: str, killed: Path) -> None:
    lose(alone, how, killed)
    if not (alone.directory / FILE).exists():
        assert "the database file is gone" in alone.run("doctor").stdout
    # What is written afterwards does not hide it, nor does another start.
    write(alone, "buoys need looks", "anchors need looks", "sails need looks", "oars need looks", source="later")
    assert status_of(alone)["healthy"] is False
    shown = json.loads(alone.ok("search", "buoys", "--all", "--json"))
    assert any("acknowledged events are missing" in notice for notice in shown["notices"])
    assert "acknowledged events are missing" in alone.run("timeline").stderr
    assert "fail  acknowledged events" in alone.run("doctor").stdout
    # Nor does it need a daemon that runs.
    assert "acknowledged events" in alone.ok("daemon", "status")
    status, out = typed(alone, "y\n", "admin", "acknowledge-loss")
    assert (status, "Acknowledged" in out) == (0, True), out
    assert ("healthy" in status_of(alone), status_of(alone).get("notices")) == (False, None)
    assert "acknowledged events: all there" in alone.run("doctor").stdout


def test_a_loss_is_told_through_every_door_to_whoever_did_not_ask_too_until_a_person_acknowledges_it(
    place: Place, alone: Place, killed: Path
) -> None:
    lose(place, "file and log", killed)
    payload = {"session_id": "h", "cwd": str(place.home), "source": "startup"}
    start = json.dumps({**payload, "hook_event_name": "SessionStart"})
    # Before anybody opened the store, and after somebody did.
    assert "the file of this memory is gone" in hooked(place, start)
    # What is written afterwards does not hide it, nor does another start.
    write(place, "buoys need looks", "anchors need looks", "sails need looks", "oars need looks", source="later")
    assert "3 acknowledged events of this memory are missing" in hooked(place, start)
    assert "3 acknowledged events" in place.ok("daemon", "status")
    prompt = json.dumps({**payload, "hook_event_name": "UserPromptSubmit", "prompt": "what about zebras and their gearboxes"})
    more = {"MEMORY_MCP_HOOKS__RECALL": "true", "MEMORY_MCP_HOOKS__RECALL_DEADLINE_MS": "60000", "CLAUDE_PROJECT_DIR": "/p"}
    assert "3 acknowledged events" in hooked(place, prompt, **more)

    async def work(client: Client) -> None:
        for tool, arguments in (("intelligent_search", {"query": "buoys"}), ("browse_toc", {}), ("get_retrieval_status", {})):
            found = await call(client, tool, **arguments)
            assert any("acknowledged events are missing" in notice for notice in found["notices"]), (tool, found)
        assert found["healthy"] is False
        made = await call(client, "remember", text="Buoys are painted red.")
        assert made["event_id"]
        assert any("acknowledged events are missing" in notice for notice in made["notices"])
        [status] = (await client.read_resource("memory://status")).contents
        assert isinstance(status, TextResourceContents)
        assert "acknowledged events are missing" in status.text
        shown = (await client.get_prompt("recall", {"topic": "buoys"})).messages[0].content
        assert isinstance(shown, TextContent)
        assert "3 acknowledged events" in shown.text

    talk(place, work)
    # It is stored all the same.
    shown = json.loads(place.ok("search", "painted buoys", "--all", "--json"))
    assert "painted red" in json.dumps(shown["results"])
    assert any("memory-mcp import" in notice for notice in shown["notices"])
    assert "acknowledged events are missing" in place.run("timeline").stderr
    doctor = place.run("doctor")
    assert doctor.returncode == 1
    assert "fail  acknowledged events" in doctor.stdout
    assert "acknowledged events are missing" in (place.directory / "daemon.log").read_text()
    refused = place.run("admin", "acknowledge-loss")
    assert (refused.returncode, "nobody confirmed it" in refused.stderr) == (2, True)
    assert typed(place, "n\n", "admin", "acknowledge-loss")[0] == 2
    status, out = typed(place, "y\n", "admin", "acknowledge-loss")
    assert (status, "Acknowledged" in out) == (0, True), out
    place.stop()
    assert ("healthy" in status_of(alone), status_of(alone).get("notices")) == (False, None)
    assert "acknowledged events: all there" in alone.run("doctor").stdout
    store = open_storage(place.directory)
    [act] = store.audit.list_entries()
    store.close()
    assert (act.action, act.author, act.counts["events"] > 0) == ("acknowledge", "person", True)


def test_what_was_missing_is_not_hidden_by_damage_of_what_says_so(alone: Place) -> None:
    put_older_copy(alone)
    assert status_of(alone)["healthy"] is False
    (alone.directory / "loss.json").write_text('{"noticed_ms": 17')
    status = status_of(alone)
    assert status["healthy"] is False
    assert "what was missing can no longer be said" in status["notices"][0]


def test_a_damaged_mark_is_no_loss(alone: Place, caplog: pytest.LogCaptureFixture) -> None:
    write(alone, "fenders need looks", "ropes need looks")
    said = json.loads((alone.directory / MARK).read_text())
    said["chain"] = f"{int(said['chain'], 16) ^ 0xF0:016x}"
    (alone.directory / MARK).write_text(json.dumps(said))
    assert "healthy" not in status_of(alone)
    assert "high-water.json is damaged" in caplog.text


def hooked(place: Place, payload: str, **more: str) -> str:
    """What a client's hook is answered."""
    environment = place.environment() | more
    done = subprocess.run(
        [*place.command, "hook", "claude-code"],
        env=environment, input=payload, capture_output=True, text=True, cwd=place.home, timeout=PATIENCE, check=True,
    )  # fmt: skip
    return done.stdout


def test_how_many_are_missing_of_what_and_from_when_is_said(alone: Place) -> None:
    put_older_copy(alone)
    notice = status_of(alone)["notices"][0]
    assert notice.startswith("3 acknowledged events are missing (3 of jsonl")
    assert "from 2026-01-01 00:00 UTC up to 2026-01-01 00:00 UTC" in notice


def test_what_is_put_back_ends_the_loss(alone: Place) -> None:
    write(alone, "fenders need looks", "ropes need looks")
    file = alone.directory / FILE
    shutil.move(file, alone.root / "kept")
    assert status_of(alone)["healthy"] is False
    shutil.move(alone.root / "kept", file)
    assert "healthy" not in status_of(alone)


def test_a_mark_of_an_earlier_version_is_understood(alone: Place) -> None:
    write(alone, "fenders need looks", "ropes need looks")
    (alone.directory / MARK).write_text('{"last_seq": 2}')
    assert "healthy" not in status_of(alone)
    assert json.loads((alone.directory / MARK).read_text())["events"] == 2
    (alone.directory / MARK).write_text('{"last_seq": 5}')
    assert "3 acknowledged events are missing" in status_of(alone)["notices"][0]


def test_neither_a_death_nor_a_compaction_is_a_loss_and_a_file_that_is_deleted_while_it_is_open_is_written_anew(
    place: Place, killed: Path
) -> None:
    lose(place, "not at all", killed)
    place.ok("admin", "compact")
    assert "healthy" not in asked(place, "get_retrieval_status")
    write(place, *(f"before {n}" for n in range(40)))
    file = place.directory / FILE
    file.unlink()
    file.with_name(f"{FILE}.wal").unlink(missing_ok=True)
    write(place, *(f"after {n}" for n in range(40)), source="later")
    until(file.exists)
    place.ok("daemon", "stop")
    store = open_storage(place.directory)
    assert store.events.last_seq() == 83
    assert store.loss is None
    store.close()
