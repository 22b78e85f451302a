"""A data directory that is moved or deleted under a running process: nothing more is acknowledged, and what follows says so."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp.app import App
from memory_mcp.base.errors import StorageMoved
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.service.client import link
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.settings import StorageSettings
from tests.daemon.places import DAEMON, look, needs_proc
from tests.factories import draft
from tests.waiting import until


def replace(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.mkdir()
    (directory / "memory.duckdb").touch()


def empty(directory: Path) -> None:
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace_file(directory: Path) -> None:
    (directory / "other").touch()
    (directory / "other").replace(directory / "memory.duckdb")


def delete(directory: Path) -> None:
    """Delete a directory into which a daemon may still be writing."""
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)


GONE: dict[str, Callable[[Path], object]] = {
    "deleted": delete,
    "moved": lambda directory: directory.rename(directory.with_name("elsewhere")),
    "replaced": replace,
    "emptied": empty,
    "its file replaced": replace_file,
}


def opened_app(directory: Path) -> App:
    return App(Settings(storage=StorageSettings(str(directory), "UTC"), teleport=TeleportSettings(enabled=False)))


@pytest.mark.parametrize("how", GONE)
def test_nothing_is_acknowledged_once_the_store_is_not_in_its_place(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "data"
    app = opened_app(directory)
    app.write([draft("walnut before", 1_790_000_000_000)], "jsonl")
    GONE[how](directory)
    with pytest.raises(StorageMoved, match="stored nowhere"):
        app.write([draft("walnut after", 1_790_000_000_001)], "jsonl")
    with suppress(Exception):
        app.close()


@pytest.mark.parametrize("files", ["memory.duckdb", "memory.duckdb memory.duckdb.wal"])
def test_a_file_that_alone_was_deleted_is_written_anew_before_more_is_acknowledged(tmp_path: Path, files: str) -> None:
    directory = tmp_path / "data"
    app = opened_app(directory)
    app.write([draft("walnut before", 1_790_000_000_000)], "jsonl")
    for name in files.split():
        (directory / name).unlink()
    app.write([draft("walnut after", 1_790_000_000_001)], "jsonl")
    # As a process that is killed right after its answer leaves it.
    shutil.copytree(directory, tmp_path / "left", ignore=shutil.ignore_patterns("lock", "*.sock"))
    app.close()
    for place in (tmp_path / "left", directory):
        store = open_storage(place)
        assert (store.events.last_seq(), store.loss) == (2, None)
        store.close()


@needs_proc
@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_an_empty_memory_where_clients_were_connected_says_so(tmp_path: Path, how: str) -> None:
    with Place(tmp_path / "place", more=DAEMON) as place:
        event = {"session_id": "s", "timestamp": 1_790_000_000_000, "role": "user", "text": "walnut"}
        place.ok("ingest", "-", stdin=json.dumps(event) + "\n")
        pid = look(place)["pid"]
        wanted = link.Wanted(str(place.directory))
        link.reach_daemon(wanted, "mcp", start=False).close()
        wanted.note_identity()
        # While it is open its inode is not given to the new directory, by which it is told apart.
        kept = os.open(place.directory, os.O_RDONLY)
        GONE[how](place.directory)
        until(lambda: not Path(f"/proc/{pid}").exists())
        place.ok("ingest", "-", stdin=json.dumps({**event, "text": "harbor"}) + "\n")
        assert "missing" not in place.ok("query", "events", "--all", "--json")
        link.reach_daemon(wanted, "mcp", start=False).close()
        answer = place.ok("query", "events", "--all", "--json")
        os.close(kept)
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
