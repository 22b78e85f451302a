"""Three real processes (a laptop's, the server's, another laptop's), and each of them killed or cut off in the middle."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.base.failpoints import VARIABLE
from tests.daemon.inside import BARE, SERVED, WORDS, Beside, Inside
from tests.daemon.places import said
from tests.team.sharing.server import Server
from tests.waiting import until

PROJECT = "github.com/acme/shop"

Make = Callable[..., Place]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Laptops by name, without a background process where they are bare."""
    made: list[Place] = []

    def place(name: str, more: dict[str, str] = WORDS) -> Place:
        made.append((Inside if more is BARE else Beside)(tmp_path / name, more=more))
        return made[-1]

    yield place
    for one in made:
        one.stop()


def joined(make: Make, server: Server, *texts: str, key: str = "bob-writer") -> tuple[Place, Place]:
    """A laptop that said this and shares its project, and one that belongs to the team."""
    first, second = make("first", BARE), make("second", BARE)
    told = [{"session_id": f"s{n}", "project": PROJECT, "role": "user", "text": t} for n, t in enumerate(texts)]
    lines = [json.dumps({**one, "timestamp": 1768212000000 + n * 1000}) + "\n" for n, one in enumerate(told)]
    first.ok("ingest", "-", stdin="".join(lines))
    first.ok("share", "to", server.url, "--key", "alice-writer")
    first.ok("share", "add", PROJECT)
    second.ok("share", "to", server.url, "--key", key)
    return first, second


def held(place: Place) -> list[str]:
    """The text of each event of a laptop."""
    return sorted(json.loads(line)["text"] for line in place.ok("export").split("\n") if line)


def status(place: Place) -> dict[str, Any]:
    return dict(json.loads(place.ok("share", "status", "--json")))


OLD, NEW = "We decided that the parcels are shipped by falcon.", "Parcels travel in a wheelbarrow."
SLOW, LEAKS = "The invoices were slow because the ledger lacked an index.", "The zebrafish tank was slow to leak."


def found(place: Place, question: str) -> dict[str, tuple[int, dict[str, Any]]]:
    """The results of a question by what they quote, with their ranks."""
    answer = json.loads(place.ok("ask", question, "--all", "--detail", "full", "--json"))
    return {one["quote"]: (rank, one) for rank, one in enumerate(answer["results"])}


def test_laptop_to_team_to_second_laptop_in_three_commands_and_what_is_corrected_or_retracted_there_is_shown_so(
    make: Make, server: Server
) -> None:
    first, second = make("first", SERVED), make("second")
    first.ok("ingest", "-", stdin="".join(said(PROJECT, text, hour) for hour, text in enumerate((SLOW, OLD, LEAKS), 9)))
    # This as the installed program; the others as it would do them, in this process.
    assert Place.run(first, "share", "to", server.url, "--key", "alice-writer").returncode == 0
    for words in (("add", PROJECT), ("status",)):
        first.ok("share", *words)
    # A key may come by the environment of the command: the background process runs already, without it.
    second.ok("daemon", "start")
    second.settings["MEMORY_MCP_SHARE_KEY"] = "bob-reader"
    assert json.loads(second.ok("share", "to", server.url, "--json"))["member"] == "bob"
    del second.settings["MEMORY_MCP_SHARE_KEY"]
    told = second.ok("share", "status")
    assert "bob-reader" not in told + second.ok("config", "show")
    refused = second.run("share", "remove", "nothing")
    assert (refused.returncode, "is not shared" in refused.stderr) == (2, True)
    # Both background processes do the rest.
    until(lambda: status(first)["projects"][0]["left"] == 3)
    until(lambda: bool(status(second)["came"]))
    assert "alice" in second.ok("share", "status")
    assert "superseded_by" not in found(second, "Why were the invoices slow?")[SLOW][1]

    asked, grips = "How are the parcels shipped by falcon?", [found(first, text)[text][1]["grip_ids"][0] for text in (OLD, SLOW)]
    assert "superseded_by" not in found(second, asked)[OLD][1]
    new = json.loads(first.ok("correct", grips[0], NEW, "--reason", "falcons tire", "--json"))["grip_id"]
    first.ok("retract", grips[1], "--reason", "it was a dream")
    for place in (first, second):
        place.ok("share", "now")
    # Once the indexes have it, and no question adds it any more.
    second.ok("admin", "rebuild-index")
    by_quote = found(second, asked)
    (at, old), (before, now) = by_quote[OLD], by_quote[NEW]
    assert (old["superseded_by"], old["why_superseded"], "superseded_by" in now) == (new, "falcons tire", False)
    assert now["grip_ids"][0] == new
    assert (before < at, now["score"] > old["score"]) == (True, True)
    assert json.loads(second.ok("query", "expand-grip", grips[0], "--json"))["superseded_by"] == new
    # The other way into a memory says so too.
    day = json.loads(second.ok("query", "node", "2026-01-05", "--all", "--json"))["node"]
    assert [b["superseded_by"] for b in day["bullets"] if "falcon" in b["text"]] == [new]
    # What was retracted is shown last.
    by_quote = found(second, "Why were the invoices slow?")
    at, old = by_quote[SLOW]
    assert (at, len(by_quote) > 1, old["superseded_by"]) == (len(by_quote) - 1, True, "retracted")
    assert old["why_superseded"] == "it was a dream"
    assert old["score"] <= min(one["score"] for _, one in by_quote.values())


@pytest.mark.parametrize("point", ["share.sent", "events.committed"])
@pytest.mark.few(1)
def test_a_laptop_that_is_killed_sends_once_more_what_is_known_there(make: Make, server: Server, point: str) -> None:
    """`events.committed` kills the second laptop between what it stored and what it noted."""
    first, second = joined(make, server, "One.", "Two.", "Three.")
    killed = first if point == "share.sent" else second
    if killed is second:
        first.ok("share", "now")
    killed.settings[VARIABLE] = point
    assert killed.run("share", "now").returncode != 0
    del killed.settings[VARIABLE]
    if killed is first:
        first.ok("share", "now")
        # A page that was stored and not noted is taken once.
        second.settings[VARIABLE] = "share.taken"
        assert second.run("share", "now").returncode != 0
        del second.settings[VARIABLE]
    for place in (first, second, first, second):
        place.ok("share", "now")
    assert held(first) == held(second) == ["One.", "Three.", "Two."]
    # What came is nobody's to publish again, however it was interrupted.
    second.ok("share", "add", PROJECT)
    assert [status(place)["projects"][0]["would_leave"] for place in (first, second)] == [0, 0]


@pytest.mark.parametrize("how", ["events.committed", "cut", "events.before_commit"])
@pytest.mark.few(1)
def test_a_server_that_ends_around_its_commit_or_in_a_forgetting_loses_doubles_and_keeps_nothing(
    make: Make, server: Server, how: str
) -> None:
    others = [f"Statement {n}." for n in range(4)]
    first, second = joined(make, server, *others, "The code is tulip-4711 for now.", key="bob-reader")
    server.fail(how)
    told = json.loads(first.ok("share", "now", "--json"))
    if how == "cut":
        # The second try of the same run finds it there.
        assert told["left"] == 5
    else:
        server.wait()
        assert "does not answer" in told["offline"]
        state = status(first)
        assert (bool(state["offline_since"]), state["projects"][0]["would_leave"]) == (True, 5)
        server.start()
        assert json.loads(first.ok("share", "now", "--json"))["left"] == 5
    second.ok("share", "now")
    assert held(second) == held(first)

    first.ok("forget", "--value", "tulip-4711", "--yes")
    server.fail("forget.erased")
    assert "does not answer" in json.loads(first.ok("share", "now", "--json"))["offline"]
    server.wait()
    server.start()
    for place in (first, second):
        place.ok("share", "now")
    assert held(second) == held(first) == [*others, "The code is [forgotten] for now."]
