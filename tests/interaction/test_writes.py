"""What agents add: notes, events, better summaries, pins. Secrets never arrive, and nothing is stored twice."""

import json
from typing import Any

from memory_mcp.model.event import Trust
from memory_mcp.model.ids import EventId
from memory_mcp.model.sentinel import MARK
from memory_mcp.server.caller import CALLER, Caller
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door
from tests.requirements import requirement

NOTE = "Always run the linter before a commit in this project."


def count(door: Door) -> int:
    return int(door.app.storage.events.last_seq())


def test_a_note_is_an_event_of_the_agents_own_session_and_its_grip_resolves_at_once_and_after_it_is_filed(own: Door) -> None:
    """The clock stands at 2 March 2026, 13:00 in Berlin."""
    made = own.ok("remember", text=NOTE, kind="procedure")
    event = own.app.storage.events.find_event(EventId(made["event_id"]))
    assert event is not None
    assert event.text == NOTE
    assert event.session_id == "notes:claude-code:2026-03-02"
    assert (event.agent, event.project, event.role, event.type) == ("claude-code", SHOP, "assistant", "note")
    assert event.trust is Trust.AGENT_NOTE
    assert event.metadata["kind"] == "procedure"
    for _ in range(2):
        found = own.ok("expand_grip", grip_id=made["grip_id"])
        assert (found["grip"]["quote"], found["verified"]) == (NOTE, True)
        own.app.derivation.run()
    assert own.ok("intelligent_search", query="linter before commit")["results"][0]["quote"] == NOTE
    # A long one is quoted up to a whole word.
    made = own.ok("remember", text="lengthy reasoning " * 100)
    quote = own.ok("expand_grip", grip_id=made["grip_id"], before=0, after=0)["grip"]["quote"]
    assert 400 < len(quote) <= 600
    assert quote.endswith(("lengthy", "reasoning"))


def test_the_same_key_gives_the_same_ids_and_writes_nothing(own: Door) -> None:
    first = own.ok("remember", text=NOTE, idempotency_key="k1")
    stored = count(own)
    assert own.ok("remember", text=NOTE, idempotency_key="k1") == first
    assert own.ok("remember", text="Something else entirely.", idempotency_key="k1") == first
    assert count(own) == stored
    own.app.derivation.run()
    assert own.ok("remember", text=NOTE, idempotency_key="k1") == first
    assert own.ok("remember", text=NOTE, idempotency_key="k2") != first


def relayed(own: Door, work: Any) -> Any:
    """What a client gets that comes through a relay of ours."""
    before = CALLER.set(Caller(relayed=True))
    try:
        return own.run(work)
    finally:
        CALLER.reset(before)


def test_what_is_sent_again_by_a_relay_is_applied_once_and_gets_the_first_answer_again(own: Door) -> None:
    async def twice(client: Any) -> list[Any]:
        key: Any = {"memory-mcp/key": "pump-1/17"}
        return [(await client.call_tool("remember", {"text": NOTE}, meta=key)).structured_content for _ in range(2)]

    first, second = relayed(own, twice)
    assert first == second
    once, again = own.run(twice)
    assert once != again, "a key that no relay of ours has set counts for nothing"
    said = [
        {"session_id": "again", "timestamp": 1_767_225_600_000 + n, "role": "user", "text": f"Sent twice {n}."} for n in range(3)
    ]

    async def ingested_twice(client: Any) -> list[Any]:
        key: Any = {"memory-mcp/key": "pump-1/18"}
        return [(await client.call_tool("ingest_events", {"events": said}, meta=key)).structured_content for _ in range(2)]

    first, second = relayed(own, ingested_twice)
    assert first == second
    assert first["stored"] == 3


def test_a_secret_in_a_note_or_a_summary_is_redacted_before_it_is_stored(own: Door) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    made = own.ok("remember", text=f"The deploy key is {secret}; rotate it monthly.")
    found = own.ok("expand_grip", grip_id=made["grip_id"])
    assert secret not in json.dumps(found)
    assert "[REDACTED:" in found["grip"]["quote"]
    assert found["verified"] is True
    node_id, grips = segment_of(own)
    own.ok("refine_summary", node_id=node_id, title="Keys", bullets=[{"text": f"Uses {secret}.", "grip_ids": grips}])
    assert secret not in json.dumps(own.ok("browse_toc", node_id=node_id))


def test_what_the_memory_itself_said_is_not_stored_again(own: Door) -> None:
    answer = own.call("intelligent_search", query="refresh token").content[0].text  # type: ignore[union-attr]
    stored = count(own)
    assert own.error("remember", text=f'{{"origin": "{MARK}", "results": []}}').startswith(
        "INVALID_ARGUMENT: event 1 of 1 is refused: own output"
    )
    assert own.error("remember", text=answer).startswith("INVALID_ARGUMENT")
    assert count(own) == stored


def test_a_note_may_be_pinned_and_belong_to_another_project(own: Door) -> None:
    made = own.ok("remember", text=NOTE, project="billing", pin=True)
    event = own.app.storage.events.find_event(EventId(made["event_id"]))
    assert event is not None
    assert event.project == BILLING
    assert made["grip_id"] in own.app.storage.toc.list_pins()


def events(**changes: Any) -> list[dict[str, Any]]:
    one = {"session_id": "s9", "timestamp": "2026-02-01T10:00:00Z", "role": "user", "text": "Use ports above 9000.", "id": "m1"}
    return [one | changes, {**one, "id": "m2", "role": "assistant", "text": "Ports above 9000 it is."}]


@requirement("plan:hierarchy-events")
def test_ingested_events_are_stored_once_and_found_and_too_many_at_once_are_refused(own: Door) -> None:
    first = own.ok("ingest_events", events=events())
    assert (first["stored"], first["known"], len(first["event_ids"])) == (2, 0, 2)
    again = own.ok("ingest_events", events=events())
    assert (again["stored"], again["known"]) == (0, 2)
    event = own.app.storage.events.find_event(EventId(first["event_ids"][0]))
    assert event is not None
    assert (event.project, event.agent, event.source_id, event.trust) == (SHOP, "claude-code", "m1", Trust.IMPORTED)
    own.app.derivation.run()
    assert own.ok("intelligent_search", query="ports above 9000")["results"]
    assert own.error("ingest_events", events=events() * 251).startswith("RESOURCE_EXHAUSTED: 502 events at once")


def test_one_bad_event_refuses_all_and_is_named_and_an_empty_note_is_refused(own: Door) -> None:
    stored = count(own)
    for change, expected in (
        ({"role": "wizard"}, "unknown role 'wizard'"),
        ({"timestamp": "noonish"}, "invalid timestamp"),
        ({"text": ""}, "text is empty"),
        ({"sesion": "s"}, "unknown field 'sesion'"),
    ):
        refused = own.error("ingest_events", events=events(**change))
        assert refused.startswith(f"INVALID_ARGUMENT: event 1 of 2: {expected}")
        assert "Nothing was stored." in refused
    for text in ("", "   ", "\n"):
        assert own.error("remember", text=text).startswith("INVALID_ARGUMENT: the text is empty")
    assert count(own) == stored


def segment_of(door: Door, query: str = "single-use refresh tokens") -> tuple[str, list[str]]:
    best = door.full("intelligent_search", query=query)["results"][0]
    return door.ok("expand_grip", grip_id=best["grip_ids"][0])["grip"]["node_id"], best["grip_ids"]


def test_a_refined_summary_is_marked_as_the_agents_stays_reaches_the_periods_above_it_and_they_may_be_refined_too(
    own: Door,
) -> None:
    node_id, grips = segment_of(own)
    bullets = [{"text": "Single use.", "grip_ids": grips}]
    made = own.ok("refine_summary", node_id=node_id, title="Refresh tokens rotate", bullets=bullets)
    assert (made["node_id"], made["author"]) == (node_id, "agent")
    own.ok("ingest_events", events=events(session_id="auth", timestamp="2026-01-21T09:06:00Z", id="late", text="And audit it."))
    own.app.derivation.run()
    node = own.ok("browse_toc", node_id=node_id)["node"]
    assert node["title"] == "2026-01-21 10:00 · Refresh tokens rotate"
    assert node["bullets"] == [{"text": "Single use.", "grip_ids": grips}]
    assert node["author"] == "agent"
    bullet = {"text": "Zanzibar rotation adopted.", "grip_ids": grips}
    own.ok("refine_summary", node_id=node_id, title="Zanzibar rotation", bullets=[bullet])
    assert "Zanzibar" in json.dumps(own.ok("browse_toc", node_id="toc:day:2026-01-21"))
    own.ok("refine_summary", node_id="toc:day:2026-01-21", title="Token day", bullets=[{"text": "Rotation.", "grip_ids": grips}])
    assert own.ok("browse_toc", node_id="toc:day:2026-01-21", scope="all")["node"]["title"] == "Wed 21 Jan 2026 · Token day"


def test_a_bullet_without_proof_in_its_own_node_is_refused(own: Door) -> None:
    node_id, _ = segment_of(own)
    _, elsewhere = segment_of(own, "release train")
    assert "bullets is empty" in own.error("refine_summary", node_id=node_id, title="x1", bullets=[])
    for grips, expected in (
        ([], "bullets.0.grip_ids is empty"),
        (["grip:1768986120000:0123456789abcdef"], "no grip grip:1768986120000:"),
        (["xyz"], "not a grip id: 'xyz'"),
        (elsewhere, f"lies outside {node_id}"),
    ):
        bullets = [{"text": "No proof.", "grip_ids": grips}]
        assert expected in own.error("refine_summary", node_id=node_id, title="x1", bullets=bullets)


def test_pins_hold_nodes_and_grips_until_they_are_let_go(own: Door) -> None:
    node_id, grips = segment_of(own)
    for target in (node_id, grips[0]):
        assert own.ok("pin", id=target) == {"id": target, "pinned": True}
    assert own.ok("browse_toc", node_id=node_id)["node"]["pinned"] is True
    own.ok("pin", id=node_id, on=False)
    assert "pinned" not in own.ok("browse_toc", node_id=node_id)["node"]
    assert own.error("pin", id="toc:day:1999-01-01").startswith("NOT_FOUND")
    assert own.error("pin", id="toc:root").startswith("INVALID_ARGUMENT")
