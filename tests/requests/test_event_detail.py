"""get_events and get_node in full: origin, length and quoted spans of events; one event in its thread."""

from typing import Any

from memory_mcp.app import App
from memory_mcp.requests.events import GetEvents
from memory_mcp.requests.nodes import GetNode
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller
from tests.factories import a_small_history, draft


def asked(app: App, request: Any) -> dict[str, Any]:
    return dict(as_json(respond(app, request, Caller())))


def test_an_event_in_full_says_whose_it_is_and_which_of_its_words_are_quoted(app: App) -> None:
    words = "We decided to keep the outbox. " * 40
    told = draft(words, at="2026-01-12 09:00", session="s", project="/shop", agent="codex", metadata={"tool": "x" * 500})
    app.write([told], "test")
    app.derivation.run()
    [event] = asked(app, GetEvents(session_id="s", detail="full", text_limit=30))["events"]
    assert event["text"] == words[:30]
    assert (event["size"], event["project"], event["agent"]) == (len(words), "/shop", "codex")
    assert event["metadata"] == {"tool": "x" * 200}
    for quote in event["quotes"]:
        grip = app.evidence.expand_grip(quote["grip_id"], 0, 0)
        assert grip.quote == words[quote["start"] : quote["end"]]
    assert len(event["quotes"]) > 1


def test_a_long_text_is_read_in_parts_that_join_to_the_whole(app: App) -> None:
    words = "".join(f"line {i} of a long text\n" for i in range(500))
    app.write([draft(words, at="2026-01-12 09:00", session="s")], "test")
    [event] = asked(app, GetEvents(session_id="s"))["events"]
    parts, offset = [], 0
    while offset < len(words):
        one = asked(app, GetEvents(event_id=event["event_id"], offset=offset, text_limit=3000, detail="full"))["events"][0]
        assert one.get("offset", 0) == offset
        parts.append(one["text"])
        offset += len(one["text"])
    assert "".join(parts) == words


def test_neighbours_of_an_event_are_of_its_own_thread(app: App) -> None:
    main = [draft(f"main {i}", at=f"2026-01-12 09:0{i}", session="s") for i in range(5)]
    aside = [draft(f"aside {i}", at=f"2026-01-12 09:0{i}", session="s", thread="sub") for i in range(5)]
    app.write([*main, *aside], "test")
    whole = asked(app, GetEvents(session_id="s", detail="full"))["events"]
    assert {e.get("thread", "") for e in whole} == {"", "sub"}
    middle = next(e for e in whole if e["text"] == "main 2")
    around = asked(app, GetEvents(event_id=middle["event_id"], before=1, after=9))["events"]
    assert [e["text"] for e in around] == ["main 1", "main 2", "main 3", "main 4"]


def test_a_segments_events_are_those_of_the_segment_alone(app: App) -> None:
    app.write(a_small_history(1), "test")
    app.derivation.run()
    day = next(n for n in app.storage.toc.iter_nodes() if n.level == "day")
    children = asked(app, GetNode(day.node_id, detail="full"))["children"]
    assert all(child["projects"] and child["agents"] and child["start"] for child in children)
    for child in children:
        events = asked(app, GetEvents(node_id=child["node_id"], limit=1000, token_budget=200_000, detail="full"))["events"]
        assert len(events) == child["events"]
        assert {e["project"] for e in events} == set(child["projects"])
