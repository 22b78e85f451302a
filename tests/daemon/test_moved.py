"""A data directory that is moved or deleted under a running process: nothing more is acknowledged, and what follows says so."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp.app import App
from memory_mcp.client import link
from memory_mcp.config import Settings
from memory_mcp.errors import StorageMoved
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.storage.settings import StorageSettings
from tests.daemon.places import DAEMON, look, needs_proc
from tests.factories import draft
from tests.waiting import until


def replace(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.mkdir()
    (directory / "memory.duckdb").touch()


GONE: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "moved": lambda directory: directory.rename(directory.with_name("elsewhere")),
    "replaced": replace,
    "its file deleted": lambda directory: (directory / "memory.duckdb").unlink(),
}


@pytest.mark.parametrize("how", GONE)
def test_nothing_is_acknowledged_once_the_store_is_not_in_its_place(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "data"
    app = App(Settings(storage=StorageSettings(str(directory), "UTC"), teleport=TeleportSettings(enabled=False)))
    app.write([draft("walnut before", 1_790_000_000_000)], "jsonl")
    GONE[how](directory)
    with pytest.raises(StorageMoved, match="stored nowhere"):
        app.write([draft("walnut after", 1_790_000_000_001)], "jsonl")
    with suppress(Exception):
        app.close()


@needs_proc
@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_an_empty_memory_where_clients_were_connected_says_so(tmp_path: Path, how: str) -> None:
    with Place(tmp_path / "place", more=DAEMON) as place:
        event = {"session_id": "s", "timestamp": 1_790_000_000_000, "role": "user", "text": "walnut"}
        place.ok("ingest", "-", stdin=json.dumps(event) + "\n")
        pid = look(place)["pid"]
        wanted = link.Wanted(str(place.directory))
        link.reach(wanted, "mcp", start=False).close()
        wanted.note_identity()
        GONE[how](place.directory)
        until(lambda: not Path(f"/proc/{pid}").exists())
        place.ok("ingest", "-", stdin=json.dumps({**event, "text": "harbor"}) + "\n")
        assert "missing" not in place.ok("query", "events", "--all", "--json")
        link.reach(wanted, "mcp", start=False).close()
        answer = place.ok("query", "events", "--all", "--json")
        assert "harbor" in answer
        assert "is missing" in answer


def test_a_client_keeps_the_first_directory_that_it_met(tmp_path: Path) -> None:
    wanted = link.Wanted(str(tmp_path / "data"))
    wanted.note_identity()
    assert wanted.first_identity == []
    (tmp_path / "data").mkdir()
    wanted.note_identity()
    first = wanted.first_identity
    (tmp_path / "data").rename(tmp_path / "old")
    (tmp_path / "data").mkdir()
    wanted.note_identity()
    assert wanted.first_identity == first != []
