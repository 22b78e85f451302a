"""Three real processes (a laptop's, the server's, another laptop's), and each of them killed or cut off in the middle."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.failpoints import VARIABLE
from tests.daemon.inside import BARE, Inside
from tests.daemon.places import DAEMON, said
from tests.share.server import Server
from tests.waiting import until

PROJECT = "github.com/acme/shop"

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
        made.append((Place if more is DAEMON else Inside)(tmp_path / name, idle=60, more=more))
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
    place.settings["MEMORY_MCP_SHARE_KEY"] = "alice-writer"
    assert json.loads(place.ok("share", "to", server.url, "--json"))["member"] == "alice"
    del place.settings["MEMORY_MCP_SHARE_KEY"]
    assert "alice-writer" not in place.ok("share", "status") + place.ok("config", "show")
    refused = place.run("share", "remove", "nothing")
    assert (refused.returncode, "is not shared" in refused.stderr) == (2, True)


@pytest.mark.parametrize("point", ["share.sent", "events.committed"])
def test_a_laptop_that_is_killed_sends_once_more_what_is_known_there(make: Make, server: Server, point: str) -> None:
    """`events.committed` kills the second laptop between what it stored and what it noted."""
    server.start()
    first, second = make("first", BARE), make("second", BARE)
    say(first, "One.", "Two.", "Three.")
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    second.ok("share", "to", server.url, "--key", "bob-writer")
    killed = first if point == "share.sent" else second
    if killed is second:
        first.ok("share", "now")
    killed.settings[VARIABLE] = point
    assert killed.run("share", "now").returncode != 0
    del killed.settings[VARIABLE]
    for place in (first, second, first, second):
        place.ok("share", "now")
    assert held(first) == held(second) == ["One.", "Three.", "Two."]
    assert status(first)["projects"][0]["would_leave"] == 0


def test_a_page_that_was_stored_and_not_noted_is_taken_once(make: Make, server: Server) -> None:
    server.start()
    first, second = make("first", BARE), make("second", {**BARE, VARIABLE: "share.taken"})
    say(first, "One.", "Two.")
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    first.ok("share", "now")
    second.ok("share", "to", server.url, "--key", "bob-writer")
    assert second.run("share", "now").returncode != 0
    del second.settings[VARIABLE]
    second.ok("share", "now")
    assert held(second) == ["One.", "Two."]
    # What came is nobody's to publish again, however it was interrupted.
    second.ok("share", "add", PROJECT)
    assert status(second)["projects"][0]["would_leave"] == 0


@pytest.mark.parametrize("how", ["cut", "events.committed", "events.before_commit"])
def test_a_server_that_ends_around_its_commit_loses_nothing_and_doubles_nothing(make: Make, server: Server, how: str) -> None:
    server.start()
    first, second = make("first", BARE), make("second", BARE)
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
    first, second = make("first", BARE), make("second", BARE)
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


OLD, NEW = "We decided that the parcels are shipped by falcon.", "Parcels travel in a wheelbarrow."


def found(place: Place, text: str) -> list[dict[str, Any]]:
    """The results of a question about the parcels; what was said must be among them."""
    results = json.loads(place.ok("ask", "How are the parcels shipped by falcon?", "--all", "--detail", "full", "--json"))[
        "results"
    ]
    assert text in [one["quote"] for one in results]
    return list(results)


def shared_statement(first: Place, second: Place, server: Server) -> str:
    """The grip of a statement that the first laptop recorded and the second one has."""
    server.start()
    first.ok("ingest", "-", stdin=said(PROJECT, OLD, 9) + said(PROJECT, "The zebrafish tank leaks again.", 10))
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    second.ok("share", "to", server.url, "--key", "bob-reader")
    exchange(first, second)
    assert all("superseded_by" not in one for one in found(second, OLD))
    return str(next(one["grip_ids"][0] for one in found(first, OLD) if one["quote"] == OLD))


def exchange(*places: Place) -> None:
    for place in places:
        place.ok("share", "now")


def test_what_one_laptop_corrected_the_other_one_shows_as_superseded_behind_what_holds_now(make: Make, server: Server) -> None:
    first, second = make("first"), make("second")
    grip = shared_statement(first, second, server)
    new = json.loads(first.ok("correct", grip, NEW, "--reason", "falcons tire", "--json"))["grip_id"]
    exchange(first, second)
    # Once the indexes have it, and no question adds it any more.
    second.ok("admin", "rebuild-index")
    results = found(second, NEW)
    by_quote = {one["quote"]: (at, one) for at, one in enumerate(results)}
    (at, old), (before, now) = by_quote[OLD], by_quote[NEW]
    assert (old["superseded_by"], old["why_superseded"], "superseded_by" in now) == (new, "falcons tire", False)
    assert now["grip_ids"][0] == new
    assert (before < at, now["score"] > old["score"]) == (True, True)
    assert json.loads(second.ok("query", "expand-grip", grip, "--json"))["superseded_by"] == new
    # The other way into a memory says so too.
    day = json.loads(second.ok("query", "node", "2026-01-05", "--all", "--json"))["node"]
    assert [b["superseded_by"] for b in day["bullets"] if "falcon" in b["text"]] == [new]


def test_what_one_laptop_retracted_the_other_one_shows_last(make: Make, server: Server) -> None:
    first, second = make("first"), make("second")
    grip = shared_statement(first, second, server)
    first.ok("retract", grip, "--reason", "it was a dream")
    exchange(first, second)
    results = found(second, OLD)
    assert (results[-1]["quote"], results[-1]["superseded_by"]) == (OLD, "retracted")
    assert (len(results), results[-1]["why_superseded"]) == (2, "it was a dream")
    assert results[-1]["score"] <= results[0]["score"]
