"""expand_grip: from a citation to the words, whatever form the id has."""

import json
from dataclasses import replace
from typing import Any

import pytest

from memory_mcp.base.errors import StorageError
from memory_mcp.model.grip import GripUsage, Supersession
from memory_mcp.model.ids import EventId, span_grip_id
from memory_mcp.model.sentinel import MARK
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.search.policy.rank import RankingSettings
from tests.interaction.conftest import Door
from tests.requirements import requirement

DECISION = "We decided on single-use refresh tokens with a 30 second grace window."


def grip_of(door: Door) -> str:
    return str(door.ok("intelligent_search", query="single-use refresh tokens")["results"][0]["grip"])


@requirement("plan:integration-expand-grip", "plan:link-events", "plan:link-grips", "contract:disclosure-expand-grip")
@requirement("contract:philosophy-grips-prove")
def test_a_cited_grip_shows_its_words_checked_and_in_their_place(shop: Door) -> None:
    found = shop.ok("expand_grip", grip_id=grip_of(shop), before=1, after=1)
    assert found["origin"] == MARK
    assert found["verified"] is True
    assert found["grip"]["quote"] == DECISION
    assert found["grip"]["when"] == "2026-01-21T10:02"
    assert found["grip"]["node_id"].startswith("toc:segment:2026-01-21:")
    assert [e["event_id"] for e in found["excerpt_events"]] == [found["grip"]["event_id_start"]]
    assert [e["when"] for e in found["events_before"]] == ["2026-01-21T10:00"]
    assert [e["when"] for e in found["events_after"]] == ["2026-01-21T10:05"]
    assert [e["session_id"] for e in found["excerpt_events"]] == ["auth"]
    assert "truncated" not in found


@requirement("plan:link-id-formats")
def test_a_grip_resolves_by_its_bare_id_and_by_a_span(shop: Door) -> None:
    whole = shop.ok("expand_grip", grip_id=grip_of(shop))
    assert shop.ok("expand_grip", grip_id=grip_of(shop).rsplit(":", 1)[1])["grip"] == whole["grip"]
    span = span_grip_id(EventId(whole["grip"]["event_id_start"]), 0, 10)
    assert shop.ok("expand_grip", grip_id=span)["grip"]["quote"] == "We decided"


@requirement("plan:goal-token-budget")
def test_context_gives_way_to_the_token_budget_and_the_quotation_does_not(own: Door) -> None:
    long = "The collation was wrong and this sentence goes on about it for a while. " * 40
    base = {"session_id": "long", "role": "user"}
    events = [{**base, "timestamp": f"2026-02-18T09:0{i}:00Z", "text": f"{long} Part {i}."} for i in range(7)]
    event_ids = own.ok("ingest_events", events=events)["event_ids"]
    for budget in (300, 500, 1000):
        found = own.ok("expand_grip", grip_id=span_grip_id(EventId(event_ids[3]), 0, 50), token_budget=budget)
        assert found["grip"]["quote"] == long[:50]
        assert found["truncated"] is True
        assert estimate_tokens(json.dumps(found, ensure_ascii=False, separators=(",", ":"))) <= budget


def test_without_a_budget_the_default_one_holds(own: Door) -> None:
    events: list[dict[str, Any]] = [
        {"session_id": "huge", "role": "tool", "timestamp": f"2026-02-18T09:0{i}:00Z", "text": "row of a table\n" * 2000}
        for i in range(3)
    ]
    event_ids = own.ok("ingest_events", events=events)["event_ids"]
    found = own.ok("expand_grip", grip_id=span_grip_id(EventId(event_ids[1]), 0, 14))
    assert estimate_tokens(json.dumps(found, ensure_ascii=False, separators=(",", ":"))) <= 4000


@pytest.mark.parametrize("distance", [3, 10])
def test_what_surrounds_a_quotation_tells_something_and_bears_on_the_question_that_it_was_shown_for(
    own: Door, distance: int
) -> None:
    request = "The heliotrope converter drops every third frame when its buffer wraps, and nobody has found out why."
    outcome = "It was the heliotrope driver: the converter frame counter overflowed, so the buffer is 64 kB now."
    messages = [("user", request), ("assistant", "Let me look at the log.")]
    for number in range(12):
        if number == distance:
            messages.append(("assistant", f"{outcome} {'Everything else stays as it was. ' * 9}"))
        messages += [
            ("assistant", f"Checking file {number} next."),
            ("assistant", f"Part {number} of the ledger is unremarkable. " * 40),
        ]
    events = [
        {"session_id": "s", "role": role, "timestamp": f"2026-02-18T09:{minute:02}:00Z", "text": text}
        for minute, (role, text) in enumerate(messages)
    ]
    first_id = own.ok("ingest_events", events=events)["event_ids"][0]
    grip = span_grip_id(EventId(first_id), 0, len(request))
    own.app.derivation.run()

    def read_lines() -> list[str]:
        response = own.ok("expand_grip", grip_id=grip)
        assert response["grip"]["quote"] == request
        assert estimate_tokens(json.dumps(response, ensure_ascii=False, separators=(",", ":"))) <= 400
        times = [event["when"] for event in response["events_after"]]
        assert times == sorted(times)
        return [event["text"] for event in response["events_after"]]

    lines = read_lines()
    assert lines
    assert not [line for line in lines if not line.startswith(("Part", "It was"))], "announcements tell nothing"
    assert "Part 0" in lines[0]
    own.ok("intelligent_search", query="why does the heliotrope converter drop frames")
    assert any("64 kB" in line for line in read_lines())
    assert own.ok("expand_grip", grip_id=grip, before=0, after=2)["events_after"][0]["text"] == messages[1][1]


@pytest.mark.parametrize("announcements", [2, 14, 15, 16, 17, 30])
def test_the_nearest_messages_that_tell_something_are_shown_however_many_announce(own: Door, announcements: int) -> None:
    request = "The heliotrope converter drops every third frame when its buffer wraps. " * 30
    messages = [("user", request)]
    messages += [("assistant", f"Checking file {number} next.") for number in range(announcements)]
    messages += [("assistant", f"Part {number} of the ledger is unremarkable. " * 20) for number in range(6)]
    events = [
        {"session_id": "s", "role": role, "timestamp": f"2026-02-18T09:{minute:02}:00Z", "text": text}
        for minute, (role, text) in enumerate(messages)
    ]
    first_id = own.ok("ingest_events", events=events)["event_ids"][0]
    own.app.derivation.run()
    response = own.ok("expand_grip", grip_id=span_grip_id(EventId(first_id), 0, 40))
    assert [event["text"][:6] for event in response["events_after"]] == [f"Part {number}" for number in range(4)]


@pytest.mark.parametrize("given", ["grip:1768986120000:0123456789abcdef", "0123456789abcdef"])
def test_an_unknown_grip_is_not_found(shop: Door, given: str) -> None:
    text = shop.error("expand_grip", grip_id=given)
    assert text.startswith(f"NOT_FOUND: no grip {given}. Take grip ids from search results")


@pytest.mark.parametrize("given", ["", "grip", "grip:x:y", "toc:day:2026-01-21", "💥"])
def test_what_is_no_grip_id_is_invalid(shop: Door, given: str) -> None:
    assert shop.error("expand_grip", grip_id=given).startswith("INVALID_ARGUMENT")


def test_opening_a_grip_is_counted_only_where_the_settings_say_so_and_answered_where_it_cannot_be(
    own: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = own.ok("remember", text="Zirconium goes first, always.")["grip_id"]
    own.ok("expand_grip", grip_id=stored)
    assert own.app.storage.usage.get_usage([stored]) == {}
    own.app.settings = replace(own.app.settings, ranking=RankingSettings(usage=True))
    own.ok("expand_grip", grip_id=stored)
    own.ok("expand_grip", grip_id=stored, token_budget=60)
    now = own.app.clock.now_ms()
    assert own.app.storage.usage.get_usage([stored]) == {stored: GripUsage((now, now))}
    own.ok("intelligent_search", query="zirconium")
    assert len(own.app.storage.usage.get_usage([stored])[stored].times) == 2

    def full(*_: object) -> None:
        raise StorageError("the disk is full", "Free some space.")

    monkeypatch.setattr(own.app.storage.usage, "record_usage", full)
    assert own.ok("expand_grip", grip_id=stored)["grip"]["quote"] == "Zirconium goes first, always."


def test_a_result_that_was_superseded_says_so(own: Door) -> None:
    old = own.ok("remember", text="The palladium port is 8080.")["grip_id"]
    new = own.ok("remember", text="Now it listens on 9090 instead.")["grip_id"]
    own.app.derivation.run()
    [found] = own.ok("intelligent_search", query="palladium port")["results"]
    assert "superseded_by" not in found
    whole = own.ok("expand_grip", grip_id=found["grip"])["grip"]["grip_id"]
    assert whole.rpartition(":")[2] == found["grip"].rpartition(":")[2]
    own.app.storage.superseded.record_supersession(Supersession(whole, new, 1))
    holds, before = own.ok("intelligent_search", query="palladium port")["results"]
    assert (holds["quote"], before["superseded_by"]) == ("Now it listens on 9090 instead.", new)
    assert old.split("-")[0] != new.split("-")[0]
