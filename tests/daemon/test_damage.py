"""Damage of the log and of the file, met by the daemon of the installed command."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp.storage.duckdb import open_storage
from tests.daemon.places import look, needs_proc
from tests.daemon.test_loss import asked, write
from tests.waiting import until

pytestmark = needs_proc

FILE, LOG = "memory.duckdb", "memory.duckdb.wal"


def texts(directory: Path) -> set[str]:
    store = open_storage(directory)
    found = {s.event.text for batch in store.events.iter_all() for s in batch}
    store.close()
    return found


def flip(path: Path, part: float) -> None:
    """Another byte at that part of a file, as high in its word as it can be: which it was cannot be computed."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * part) // 8 * 8 + 7] ^= 0x15
    path.write_bytes(content)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9])
def test_a_damaged_log_costs_one_write_and_every_call_is_answered(place: Place, part: float) -> None:
    said = [f"the {n}th fender needs {n * 7919} looks" for n in range(12)]
    write(place, *said[:6])
    place.stop()
    for one in said[6:]:
        write(place, one, source=f"live{said.index(one)}")
    os.kill(look(place)["pid"], signal.SIGKILL)
    flip(place.directory / LOG, part)
    assert "run: memory-mcp doctor" not in place.run("doctor").stdout.lower()
    found = asked(place, "intelligent_search", query="fender looks")
    assert found["results"]
    status = asked(place, "get_retrieval_status")
    place.stop()
    there = texts(place.directory)
    assert there <= set(said)
    assert len(there) >= len(said) - 1
    if len(there) < len(said):
        assert "damaged/" in status["notices"][0]
        assert status["healthy"] is False


def test_a_damaged_file_is_met_while_it_is_open_and_the_next_daemon_has_what_is_whole(place: Place) -> None:
    source = place.home / "events"
    source.mkdir()
    lines = [
        {"id": str(n), "session_id": f"s{n // 40}", "timestamp": 1_767_225_600_000 + n * 60_000, "role": "user"}
        | {"text": f"fender {n} " + os.urandom(400).hex()}
        for n in range(2500)
    ]
    (source / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    place.ok("import", "jsonl", str(source))
    place.stop()
    before = texts(place.directory)
    flip(place.directory / FILE, 0.35)
    shutil.rmtree(place.directory / "indexes")

    def answered() -> bool:
        return place.run("search", "fender", "--all").returncode == 0 and place.run("admin", "check").returncode in (0, 1)

    until(lambda: answered() and not (place.directory / "salvage.json").exists())
    doctor = place.run("doctor")
    status = asked(place, "get_retrieval_status")
    place.stop()
    there = texts(place.directory)
    assert there <= before
    if there != before:
        assert "fail  acknowledged events" in doctor.stdout
        assert f"{len(before) - len(there):,} acknowledged events are missing" in status["notices"][0]
        # The way back that is told is one.
        place.ok("import", "jsonl", str(source))
        place.stop()
        assert texts(place.directory) == before
