"""Three real processes (a laptop's, the server's, another laptop's), and each of them killed or cut off in the middle."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.failpoints import VARIABLE
from tests.daemon.places import DAEMON, said
from tests.share.server import Server
from tests.waiting import until

PROJECT = "github.com/acme/shop"
#: Commands that open the memory themselves.
ALONE = dict.fromkeys(("MEMORY_MCP_SERVER__DAEMON", "MEMORY_MCP_TELEPORT__ENABLED", "MEMORY_MCP_TOPICS__ENABLED"), "false")

Make = Callable[..., Place]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server")
    made.folder.mkdir()
    yield made
    made.kill()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Laptops by name, with a background process or without."""
    made: list[Place] = []

    def place(name: str, more: dict[str, str] = DAEMON) -> Place:
        made.append(Place(tmp_path / name, idle=60, more=more))
        return made[-1]

    yield place
    for one in made:
        one.stop()


def say(place: Place, *texts: str, start: int = 0) -> None:
    told = [{"session_id": f"s{n}", "project": PROJECT, "role": "user", "text": t} for n, t in enumerate(texts, start)]
    lines = [json.dumps({**one, "timestamp": 1768212000000 + n * 1000}) + "\n" for n, one in enumerate(told, start)]
    place.ok("ingest", "-", stdin="".join(lines))


def held(place: Place) -> list[str]:
    """The text of each event of a laptop."""
    return sorted(json.loads(line)["text"] for line in place.ok("export").split("\n") if line)


def status(place: Place) -> dict[str, Any]:
    return dict(json.loads(place.ok("share", "status", "--json")))


def test_laptop_to_team_to_second_laptop_in_three_commands(make: Make, server: Server) -> None:
    server.start()
    first, second = make("first"), make("second")
    first.ok("ingest", "-", stdin=said(PROJECT, "The invoices were slow because the ledger lacked an index.", 9))
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    second.ok("share", "to", server.url, "--key", "bob-reader")
    # Both background processes do the rest.
    until(lambda: status(first)["projects"][0]["left"] == 1)
    until(lambda: bool(status(second)["came"]))
    found = json.loads(second.ok("ask", "Why were the invoices slow?", "--all", "--json"))
    assert "the ledger lacked an index" in json.dumps(found)
    assert "alice" in second.ok("share", "status")


def test_the_key_may_come_by_the_environment_of_the_command(make: Make, server: Server) -> None:
    server.start()
    place = make("first")
    say(place, "Something.")
    # The background process runs already, without it.
    place._settings["MEMORY_MCP_SHARE_KEY"] = "alice-writer"
    assert json.loads(place.ok("share", "to", server.url, "--json"))["member"] == "alice"
    del place._settings["MEMORY_MCP_SHARE_KEY"]
    assert "alice-writer" not in place.ok("share", "status") + place.ok("config", "show")
    refused = place.run("share", "remove", "nothing")
    assert (refused.returncode, "is not shared" in refused.stderr) == (2, True)


@pytest.mark.parametrize("point", ["share.sent", "events.committed"])
def test_a_laptop_that_is_killed_sends_once_more_what_is_known_there(make: Make, server: Server, point: str) -> None:
    """`events.committed` kills the second laptop between what it stored and what it noted."""
    server.start()
    first, second = make("first", ALONE), make("second", ALONE)
    say(first, "One.", "Two.", "Three.")
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    second.ok("share", "to", server.url, "--key", "bob-writer")
    killed = first if point == "share.sent" else second
    if killed is second:
        first.ok("share", "now")
    killed._settings[VARIABLE] = point
    assert killed.run("share", "now").returncode != 0
    del killed._settings[VARIABLE]
    for place in (first, second, first, second):
        place.ok("share", "now")
    assert held(first) == held(second) == ["One.", "Three.", "Two."]
    assert status(first)["projects"][0]["would_leave"] == 0


def test_a_page_that_was_stored_and_not_noted_is_taken_once(make: Make, server: Server) -> None:
    server.start()
    first, second = make("first", ALONE), make("second", {**ALONE, VARIABLE: "share.taken"})
    say(first, "One.", "Two.")
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    first.ok("share", "now")
    second.ok("share", "to", server.url, "--key", "bob-writer")
    assert second.run("share", "now").returncode != 0
    del second._settings[VARIABLE]
    second.ok("share", "now")
    assert held(second) == ["One.", "Two."]
    # What came is nobody's to publish again, however it was interrupted.
    second.ok("share", "add", PROJECT)
    assert status(second)["projects"][0]["would_leave"] == 0


@pytest.mark.parametrize("how", ["cut", "events.committed", "events.before_commit"])
def test_a_server_that_ends_around_its_commit_loses_nothing_and_doubles_nothing(make: Make, server: Server, how: str) -> None:
    server.start()
    first, second = make("first", ALONE), make("second", ALONE)
    say(first, *(f"Statement {n}." for n in range(5)))
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    server.kill()
    server.start(fault="cut" if how == "cut" else "", failpoint="" if how == "cut" else how)
    told = json.loads(first.ok("share", "now", "--json"))
    if how == "cut":
        # The second try of the same run finds it there.
        assert told["left"] == 5
    else:
        server.wait()
        assert "does not answer" in told["offline"]
        assert status(first)["projects"][0]["would_leave"] == 5
        server.start()
        assert json.loads(first.ok("share", "now", "--json"))["left"] == 5
    second.ok("share", "to", server.url, "--key", "bob-reader")
    second.ok("share", "now")
    assert held(second) == held(first)


def test_a_forgetting_that_was_cut_off_is_told_again(make: Make, server: Server) -> None:
    server.start()
    first, second = make("first", ALONE), make("second", ALONE)
    say(first, "The code is tulip-4711 for now.", "Something else.")
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    first.ok("share", "now")
    second.ok("share", "to", server.url, "--key", "bob-reader")
    second.ok("share", "now")
    first.ok("forget", "--value", "tulip-4711", "--yes")
    server.kill()
    server.start(failpoint="forget.erased")
    assert "does not answer" in json.loads(first.ok("share", "now", "--json"))["offline"]
    server.wait()
    server.start()
    first.ok("share", "now")
    second.ok("share", "now")
    assert held(second) == held(first) == ["Something else.", "The code is [forgotten] for now."]
