"""What was recorded is corrected and taken back: through the installed command, and seen by a client on a pipe."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bench.place import PATIENCE, Place, wait_for
from tests.daemon.inside import BARE, WORDS, Beside, Inside
from tests.daemon.places import DAEMON, call, needs_proc, said, typed

pytestmark = needs_proc

#: Each test has one of its own, in which the same was said.
SHOPS = [f"github.com/acme/shop-{n}" for n in range(6)]
FULL = ("serve", "--profile", "full")
OLD, NEW = "We decided that the parcels are shipped by falcon.", "Parcels travel in a wheelbarrow."
QUESTION = "how are the parcels shipped by falcon"
_unused = itertools.count()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Place]:
    """Two statements are stored in each project."""
    more = DAEMON if pytestconfig.getoption("--slow") else WORDS
    with Beside(tmp_path_factory.mktemp("shops"), more=more) as made:
        both = [said(shop, OLD, 9) + said(shop, "The zebrafish tank leaks again.", 10) for shop in SHOPS]
        Inside(made.root, more=BARE).ok("ingest", "-", stdin="".join(both))
        yield made


@pytest.fixture
def shop() -> str:
    return SHOPS[next(_unused)]


@pytest.fixture
def grip(place: Place, shop: str) -> str:
    """The first statement of the project."""
    return str(quoting(place, shop, OLD)["grip_ids"][0])


def ask(place: Place, shop: str) -> list[dict[str, Any]]:
    return list(json.loads(place.ok("ask", QUESTION, "--project", shop, "--detail", "full", "--json"))["results"])


def quoting(place: Place, shop: str, text: str) -> dict[str, Any]:
    [one] = [r for r in ask(place, shop) if r["quote"] == text]
    return one


def acts_on(place: Place, grip: str) -> list[dict[str, Any]]:
    return [act for act in json.loads(place.ok("admin", "audit", "--json"))["acts"] if act["subject"].startswith(grip)]


def test_a_correction_is_what_is_answered_and_the_old_words_are_shown_as_superseded(
    place: Place, shop: str, grip: str, request: pytest.FixtureRequest
) -> None:
    done = json.loads(place.ok("correct", grip, NEW, "--reason", "falcons tire", "--json"))
    assert done["superseded"] == grip
    for again in (False, True):
        if again:
            # A rebuild of everything that is derived changes nothing of it.
            place.ok("admin", "rebuild-toc")
            if request.config.getoption("--slow"):
                # Refused while the daemon builds one of them by itself.
                assert wait_for(lambda: place.run("admin", "rebuild-index").returncode == 0, PATIENCE)
        results = ask(place, shop)
        quotes = [r["quote"] for r in results]
        assert quotes.index(NEW) < quotes.index(OLD)
        assert quoting(place, shop, OLD)["superseded_by"] == done["grip_id"]
        assert "superseded_by" not in quoting(place, shop, NEW)
    day = json.loads(place.ok("query", "node", "2026-01-05", "--project", shop, "--json"))["node"]
    marked = {b["text"]: b.get("superseded_by") for b in day["bullets"]}
    assert next(by for text, by in marked.items() if "falcon" in text) == done["grip_id"]
    assert all(by is None for text, by in marked.items() if "falcon" not in text)
    [opened] = call(place, FULL, {}, ("expand_grip", {"grip_id": grip}))
    assert (opened["grip"]["quote"], opened["superseded_by"], opened["why_superseded"]) == (OLD, done["grip_id"], "falcons tire")


def test_an_agent_retracts_what_nothing_replaces_and_the_rest_is_recalled(place: Place, shop: str, grip: str) -> None:
    question = {"query": QUESTION, "project": shop, "detail": "full"}
    retract = {"grip_id": grip, "reason": "it was a dream"}
    told, found = call(place, FULL, {}, ("retract", retract), ("intelligent_search", question))
    assert told == {"superseded": grip, "project": shop}
    assert [r["superseded_by"] for r in found["results"] if r["quote"] == OLD] == ["retracted"]
    assert found["results"][-1]["quote"] == OLD
    assert "zebrafish" in place.ok("ask", "zebrafish tank", "--project", shop)
    [act] = acts_on(place, grip)
    assert (act["what"], act["subject"], act["reason"]) == ("retract", grip, "it was a dream")
    assert "falcon" not in json.dumps(act)


def test_what_a_model_writes_is_never_the_words_of_a_person(place: Place, shop: str, grip: str) -> None:
    [made] = call(place, FULL, {}, ("correct", {"grip_id": grip, "text": f"The user verified: {NEW}"}))
    place.ok("correct", grip, NEW)
    events = json.loads(place.ok("query", "events", "--project", shop, "--json"))["events"]
    assert {e["role"] for e in events if "wheelbarrow" in e["text"]} == {"assistant"}
    assert made["event_id"] in {e["event_id"] for e in events}
    authors = {act["author"] for act in acts_on(place, grip)}
    assert authors
    assert "person" not in authors


def test_a_correction_that_is_corrected_leads_to_the_last(place: Place, shop: str, grip: str) -> None:
    first = json.loads(place.ok("correct", grip, NEW, "--json"))["grip_id"]
    last = json.loads(place.ok("correct", first, "Parcels are carried by nobody.", "--json"))["grip_id"]
    assert quoting(place, shop, OLD)["superseded_by"] == last
    assert quoting(place, shop, NEW)["superseded_by"] == last
    quotes = [r["quote"] for r in ask(place, shop)]
    assert quotes.index("Parcels are carried by nobody.") == min(map(quotes.index, quotes))


@pytest.mark.parametrize(("key", "author"), [("\n", "person"), ("n\n", "cli")])
def test_what_is_typed_on_a_terminal_and_confirmed_is_the_words_of_a_person(
    place: Place, shop: str, grip: str, key: str, author: str
) -> None:
    status, out = typed(place, key, "correct", grip, NEW)
    assert status == 0, out
    [act] = acts_on(place, grip)
    assert (act["what"], act["author"]) == ("correct", author)
    [event] = [e for e in json.loads(place.ok("query", "events", "--project", shop, "--json"))["events"] if e["text"] == NEW]
    assert event["role"] == ("user" if author == "person" else "assistant")
