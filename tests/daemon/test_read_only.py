"""A data directory that may only be read: commands and clients read it, and whoever writes is told."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from mcp import ClientSession, stdio_client

from bench.place import Place
from memory_mcp.base.errors import StorageLocked
from memory_mcp.storage.lock import DirectoryLock, SharedLock
from tests.daemon.inside import BARE, WORDS, Beside, Inside
from tests.daemon.places import needs_proc
from tests.daemon.test_capture import BEFORE
from tests.factories import draft
from tests.fakes import FakeClock
from tests.files import iter_entries
from tests.indexes.helpers import opened

pytestmark = [needs_proc, pytest.mark.skipif(sys.platform != "linux", reason="made read-only by modes or by a mount")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Beside(tmp_path, more=WORDS) as made:
        yield made


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """By modes, or for root, who is above them, by a mount; skips where neither can be had."""
    if os.geteuid() != 0:
        folders = [directory, *(path for path, state in iter_entries(directory) if stat.S_ISDIR(state.st_mode))]
        for folder in folders:
            folder.chmod(0o500)
        try:
            yield
        finally:
            for folder in folders:
                folder.chmod(0o700)
        return
    for words in (("--bind", str(directory), str(directory)), ("-o", "remount,ro,bind", str(directory))):
        if subprocess.run(["mount", *words], capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.mark.anyio
async def test_a_read_only_directory_is_read_by_commands_and_clients_and_says_so_to_writers(place: Place) -> None:
    with closing(opened(place.directory, FakeClock())) as app:
        app.write([draft("The kettle was descaled before.")], "test")
        app.derivation.run()
        app.accelerators.catch_up()
    with read_only(place.directory):
        assert "before" in place.ok("query", "events", "--all")
        assert "before" in place.ok("ask", "kettle descaled")
        assert "the data directory is read-only: nothing is stored" in place.ok("retrieval", "status")
        paused = place.run("pause", "--project", "*")
        assert (paused.returncode, "read-only" in paused.stderr) == (1, True)
        assert place.run("ingest", "-", stdin=BEFORE.replace("before", "after")).returncode != 0
        async with stdio_client(place.server()) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            found = await client.call_tool("get_events", {"scope": "all"})
            assert not found.is_error
            assert "before" in str(found.structured_content)
            event = {"session_id": "y", "role": "user", "text": "after", "timestamp": "2026-01-01T00:00:00Z"}
            refused = await client.call_tool("ingest_events", {"events": [event]})
            assert refused.is_error
            assert "is read-only" in refused.content[0].text  # type: ignore[union-attr]
            assert "Make it writable" in refused.content[0].text  # type: ignore[union-attr]
    Inside(place.root, more=BARE).ok("ingest", "-", stdin=BEFORE.replace("before", "after"))


def test_a_read_only_snapshot_made_of_hard_links_is_read(tmp_path: Path) -> None:
    place = Inside(tmp_path, more=BARE)
    place.ok("ingest", "-", stdin=BEFORE)
    (place.root / "snapshot").hardlink_to(place.directory / "memory.duckdb")
    with read_only(place.directory):
        assert "before" in place.ok("query", "events", "--all")


@pytest.mark.anyio
async def test_any_number_of_clients_read_a_directory_that_is_read_only(place: Place) -> None:
    """Nobody holds it alone, and an event that was not filed before is found by every layer."""
    with closing(opened(place.directory, FakeClock())) as app:
        app.write([draft("The walnut fell.")], "test")
    with read_only(place.directory):
        for words in (("search", "--query", "walnut", "--all"), ("ask", "walnut", "--all"), ("query", "events", "--all")):
            assert "The walnut fell." in place.ok(*words)
        async with (
            stdio_client(place.server()) as first,
            stdio_client(place.server()) as second,
            ClientSession(*first) as one,
            ClientSession(*second) as two,
        ):
            for client in (one, two):
                await client.initialize()
            for client in (one, two, one):
                for tool, key in (("intelligent_search", "query"), ("search_children", "query"), ("navigate", "query")):
                    found = await client.call_tool(tool, {key: "walnut", "scope": "all"})
                    assert not found.is_error, found.content
                    assert "The walnut fell." in str(found.structured_content)
            assert "The walnut fell." in place.ok("query", "events", "--all")


def test_readers_share_the_lock_and_only_a_living_writer_is_named(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).release()
    note = tmp_path / "owner.json"
    note.write_text(json.dumps({"pid": 2**22 - 3, "command": "memory-mcp serve", "kind": "alone"}))
    first, second = SharedLock(tmp_path), SharedLock(tmp_path)
    with pytest.raises(StorageLocked) as refused:
        DirectoryLock(tmp_path)
    assert "memory-mcp serve" not in str(refused.value)
    for lock in (first, second):
        lock.release()
    writer = DirectoryLock(tmp_path)
    with pytest.raises(StorageLocked, match=str(os.getpid())):
        SharedLock(tmp_path)
    writer.release()
    SharedLock(tmp_path).release()
