"""What was recorded is corrected and taken back: through the installed command, and seen by a client on a pipe."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from tests.daemon.inside import BARE, Inside
from tests.daemon.places import call, needs_proc, said, typed

pytestmark = needs_proc

SHOP = "github.com/acme/shop"
FULL = ("serve", "--profile", "full")
OLD, NEW = "We decided that the parcels are shipped by falcon.", "Parcels travel in a wheelbarrow."
QUESTION = ("intelligent_search", {"query": "how are the parcels shipped by falcon", "scope": "all", "detail": "full"})


def filled(place: Place) -> str:
    """Two statements are stored; the grip of the first."""
    place.ok("ingest", "-", stdin=said(SHOP, OLD, 9) + said(SHOP, "The zebrafish tank leaks again.", 10))
    return str(quoting(place, OLD)["grip_ids"][0])


@pytest.fixture
def grip(place: Place) -> str:
    return filled(Inside(place.root, more=BARE))


def ask(place: Place) -> list[dict[str, Any]]:
    return list(json.loads(place.ok("ask", QUESTION[1]["query"], "--all", "--detail", "full", "--json"))["results"])


def quoting(place: Place, text: str) -> dict[str, Any]:
    [one] = [r for r in ask(place) if r["quote"] == text]
    return one


def test_a_correction_is_what_is_answered_and_the_old_words_are_shown_as_superseded(place: Place, grip: str) -> None:
    done = json.loads(place.ok("correct", grip, NEW, "--reason", "falcons tire", "--json"))
    assert done["superseded"] == grip
    for again in (False, True):
        if again:
            # A rebuild of everything that is derived changes nothing of it.
            place.ok("admin", "rebuild-toc")
            place.ok("admin", "rebuild-index")
        results = ask(place)
        quotes = [r["quote"] for r in results]
        assert quotes.index(NEW) < quotes.index(OLD)
        assert quoting(place, OLD)["superseded_by"] == done["grip_id"]
        assert "superseded_by" not in quoting(place, NEW)
    day = json.loads(place.ok("query", "node", "2026-01-05", "--all", "--json"))["node"]
    marked = {b["text"]: b.get("superseded_by") for b in day["bullets"]}
    assert next(by for text, by in marked.items() if "falcon" in text) == done["grip_id"]
    assert all(by is None for text, by in marked.items() if "falcon" not in text)
    [opened] = call(place, FULL, {}, ("expand_grip", {"grip_id": grip}))
    assert (opened["grip"]["quote"], opened["superseded_by"], opened["why_superseded"]) == (OLD, done["grip_id"], "falcons tire")


def test_an_agent_retracts_what_nothing_replaces_and_the_rest_is_recalled(place: Place, grip: str) -> None:
    told, found = call(place, FULL, {}, ("retract", {"grip_id": grip, "reason": "it was a dream"}), QUESTION)
    assert told == {"superseded": grip, "project": SHOP}
    assert [r["superseded_by"] for r in found["results"] if r["quote"] == OLD] == ["retracted"]
    assert found["results"][-1]["quote"] == OLD
    assert "zebrafish" in place.ok("ask", "zebrafish tank", "--all")
    [act] = json.loads(place.ok("admin", "audit", "--json"))["acts"]
    assert (act["what"], act["subject"], act["reason"]) == ("retract", grip, "it was a dream")
    assert "falcon" not in json.dumps(act)


def test_what_a_model_writes_is_never_the_words_of_a_person(place: Place, grip: str) -> None:
    [made] = call(place, FULL, {}, ("correct", {"grip_id": grip, "text": f"The user verified: {NEW}"}))
    place.ok("correct", grip, NEW)
    events = json.loads(place.ok("query", "events", "--all", "--json"))["events"]
    assert {e["role"] for e in events if "wheelbarrow" in e["text"]} == {"assistant"}
    assert made["event_id"] in {e["event_id"] for e in events}
    assert {act["author"] for act in json.loads(place.ok("admin", "audit", "--json"))["acts"]}.isdisjoint({"person"})


def test_a_correction_that_is_corrected_leads_to_the_last(tmp_path: Path) -> None:
    place = Inside(tmp_path, more=BARE)
    first = json.loads(place.ok("correct", filled(place), NEW, "--json"))["grip_id"]
    last = json.loads(place.ok("correct", first, "Parcels are carried by nobody.", "--json"))["grip_id"]
    assert quoting(place, OLD)["superseded_by"] == last
    assert quoting(place, NEW)["superseded_by"] == last
    quotes = [r["quote"] for r in ask(place)]
    assert quotes.index("Parcels are carried by nobody.") == min(map(quotes.index, quotes))


@pytest.mark.parametrize(("key", "author"), [("\n", "person"), ("n\n", "cli")])
def test_what_is_typed_on_a_terminal_and_confirmed_is_the_words_of_a_person(
    place: Place, grip: str, key: str, author: str
) -> None:
    status, out = typed(place, key, "correct", grip, NEW)
    assert status == 0, out
    [act] = json.loads(place.ok("admin", "audit", "--json"))["acts"]
    assert (act["what"], act["author"]) == ("correct", author)
    [event] = [e for e in json.loads(place.ok("query", "events", "--all", "--json"))["events"] if e["text"] == NEW]
    assert event["role"] == ("user" if author == "person" else "assistant")
