"""Clients that are followed: their session files are stored while they are written, by the background process."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from tests.daemon.inside import BARE, Inside
from tests.daemon.places import needs_proc
from tests.ingest.suite import claude_line, write
from tests.waiting import until

pytestmark = needs_proc


@pytest.fixture
def place(beside: Place) -> Place:
    return beside


def session(place: Place, name: str = "a.jsonl") -> Path:
    folder = place.home / ".claude" / "projects" / "-home-dev-shop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def stored(place: Place) -> list[str]:
    told: dict[str, Any] = json.loads(place.ok("query", "events", "--all", "--json"))
    return [event["text"] for event in told["events"]]


def wait_for(place: Place, count: int) -> None:
    """Wait until so many events are stored, by the mark that the running process writes."""

    def there() -> bool:
        mark = place.directory / "high-water.json"
        return mark.exists() and json.loads(mark.read_text())["last_seq"] == count

    until(there, f"for {count} events")


def followed(place: Place) -> dict[str, Any]:
    told = json.loads(place.ok("watch", "status", "--json"))
    return {client["name"]: client for client in told["clients"]}


def test_what_a_followed_client_writes_is_stored_by_its_tail_alone_until_following_is_taken_back(place: Place) -> None:
    """Also by the next daemon: who is followed is remembered."""
    file = write(session(place), *map(claude_line, range(2)))
    assert not followed(place)["claude-code"]["followed"]
    told = json.loads(place.ok("watch", "on", "claude-code", "--json"))["clients"]
    assert [(c["name"], c["followed"], c["files"]) for c in told] == [("claude-code", True, 1)]
    wait_for(place, 2)
    assert stored(place) == ["words of 0", "words of 1"]

    with file.open("a", encoding="utf-8") as stream:
        stream.write(claude_line(2) + "\n")
    place.ok("scheduler", "run", "follow_clients")
    wait_for(place, 3)
    write(session(place, "b.jsonl"), claude_line(3))
    wait_for(place, 4)
    assert len(stored(place)) == 4
    until(lambda: followed(place)["claude-code"]["new_files"] == 0, "for the file to be marked as read")

    again = json.loads(place.ok("import", "claude-code", "--json"))
    assert (again["new"], again["lines"], again["files_unchanged"]) == (0, 0, 2)

    place.ok("watch", "on", "all")
    place.ok("daemon", "stop")
    with file.open("a", encoding="utf-8") as stream:
        stream.write(claude_line(4) + "\n")
    place.ok("daemon", "start")
    wait_for(place, 5)
    place.ok("watch", "off", "claude-code")
    with file.open("a", encoding="utf-8") as stream:
        stream.write(claude_line(5) + "\n")
    place.ok("scheduler", "run", "follow_clients")
    assert len(stored(place)) == 5
    assert followed(place)["claude-code"]["new_files"] == 1
    # Nor is one that has no place of its own.
    refused = place.run("watch", "on", "jsonl")
    assert refused.returncode == 2
    assert "cannot be followed" in refused.stderr
    assert "claude-code" in refused.stderr


def transcripts(place: Place) -> dict[str, Any]:
    told = json.loads(place.ok("doctor", "--json"))
    return dict(next(check for check in told["checks"] if check["name"] == "transcripts"))


def test_doctor_tells_which_transcripts_their_client_deletes_before_they_are_imported(tmp_path: Path) -> None:
    place = Inside(tmp_path, more=BARE)
    file = write(session(place), claude_line(0))
    place.ok("ingest", "-", stdin=json.dumps({"session_id": "s", "timestamp": 1, "role": "user", "text": "a store"}))
    fresh = transcripts(place)
    assert (fresh["state"], "1 file, 1 not imported" in fresh["text"]) == ("ok", True)
    old = time.time() - 28 * 86_400
    os.utime(file, (old, old))
    going = transcripts(place)
    assert going["state"] == "warn"
    assert "deletes them after 30 days, 1 in the next days" in going["text"]
    assert "memory-mcp watch on claude-code" in going["next_step"]
    place.ok("import", "claude-code")
    kept = transcripts(place)
    assert (kept["state"], "1 file, all imported" in kept["text"]) == ("ok", True)
