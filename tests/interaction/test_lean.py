"""What an answer costs whoever reads it, whatever the texts in the memory are like."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.ids import EventId, span_grip_id
from memory_mcp.model.sentinel import CLOSE, OPEN
from memory_mcp.requests.lean import LINE
from memory_mcp.storage.values import Scope
from tests.factories import BILLING, SHOP, draft
from tests.fakes import FakeClock
from tests.filled import filled
from tests.interaction.conftest import Door, open_app, tokens

#: Bounds of a default answer, and of a citation with its neighbours in lines, or whose own words are too long for these.
ANSWER, LINED, EXPANDED = 900, 400, 600
LONG = 8_000
#: What is measured is how much is shown, not whether it fits well.
NEAREST = {"min_confidence": 0}
#: What each text is made of, and a question about it.
TEXTS = {
    "prose": (
        "We talked about the ledger at length and went on. ",
        "why did the marmalade lamp fail",
        "The marmalade lamp failed. ",
    ),
    "chinese": ("我们今天讨论了账本的很多细节。", "果酱灯为什么坏了", "果酱灯坏了，因为电线断了。"),
    "japanese": ("今日は帳簿について長く話しました。", "ランプの故障", "ランプの故障は配線が原因でした。"),
    "tool": (
        "drwxr-xr-x  2 root root\t4096 Jan  1 ledger.txt\n",
        "permission denied marmalade.txt",
        "permission denied: marmalade.txt\n",
    ),
    "escapes": ('{"key": "va\\"lue", "path": "C:\\\\ledger"}\n', "marmalade parse error", '"marmalade parse error"\n'),
    "emoji": ("🦀🎉 ledger 👩\u200d🚀 ", "marmalade rocket", "marmalade rocket 👩\u200d🚀 "),
    "one word": ("x" * 997 + " ", "marmalade", "marmalade "),
}


def said(kind: str) -> list[EventDraft]:
    """Six sessions of three long texts each; every one holds what is asked for once, in the middle."""
    filler, _, wanted = TEXTS[kind]
    role = Role.TOOL if kind == "tool" else Role.ASSISTANT
    found = []
    for session in range(6):
        half = "".join(f"{filler}{session}{place} " for place in range(LONG // (2 * len(filler)) + 1))
        own = partial(draft, session=f"{kind}-{session}-" + "7" * 60, project=(SHOP, BILLING)[session % 2])
        at = f"2026-02-{session + 1:02} 10:"
        found += [
            own(f"{session} {filler * 3}", at=f"{at}00", role=Role.USER),
            own(f"{session} {half}{wanted}{half}", at=f"{at}02", role=role, speaker="Dr. " + "Long" * 10),
            own(f"{session} {half}", at=f"{at}04", role=Role.TOOL),
        ]
    return found


#: Japanese is written as Chinese is, and tool output is shortened below.
@pytest.fixture(scope="module", params=[pytest.param(k, marks=[pytest.mark.slow] * (k in ("japanese", "tool"))) for k in TEXTS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def app(kind: str) -> Iterator[App]:
    made = open_app(profile="full", days=None)
    made.write(said(kind), "jsonl")
    made.derivation.run()
    yield made
    made.close()


@pytest.mark.parametrize("project", ["", SHOP])
def test_a_default_answer_costs_at_most_900_tokens_and_quotes_what_matches(app: App, kind: str, project: str) -> None:
    found = Door(app, "auto", project).ok("intelligent_search", query=TEXTS[kind][1], bounds=NEAREST)
    assert tokens(found) <= ANSWER
    assert len(found["results"]) >= (3 if project else 4)
    assert {"origin", "results", "confidence", "explanation"} <= set(found)
    stored = [e.text for e in said(kind)]
    for one in found["results"]:
        quote = one["quote"].removeprefix("…").removesuffix("…")
        assert any(quote in text for text in stored), "what lies between the ellipses is exact"


@pytest.mark.parametrize("budget", [200, pytest.param(500, marks=pytest.mark.slow), 2000])
def test_a_named_budget_holds_and_is_used(app: App, kind: str, budget: int) -> None:
    found = Door(app, "auto").ok("intelligent_search", query=TEXTS[kind][1], token_budget=budget, bounds=NEAREST)
    assert tokens(found) <= budget
    assert found["results"] or budget == 200


def test_a_citation_with_its_surroundings_costs_at_most_600_tokens_and_more_shows_everything_that_was_shortened(
    app: App, kind: str
) -> None:
    door = Door(app, "auto")
    results = door.ok("intelligent_search", query=TEXTS[kind][1], bounds=NEAREST)["results"]
    for one in results:
        found = door.ok("expand_grip", grip_id=one["grip"])
        assert tokens(found) <= EXPANDED
        assert found["verified"] is True
        assert one["quote"].removeprefix("…").removesuffix("…") in found["grip"]["quote"]
        assert found["truncated"] is True
    short = door.ok("expand_grip", grip_id=results[0]["grip"])
    whole = door.ok("expand_grip", grip_id=results[0]["grip"], **short["more"])
    assert not {"truncated", "more"} & set(whole)
    assert whole["grip"] == short["grip"]
    assert tokens(whole) <= short["more"]["token_budget"]
    texts = [e["text"] for name in ("events_before", "excerpt_events", "events_after") for e in whole[name]]
    assert set(texts) <= {e.text for e in said(kind)}
    assert whole["grip"]["quote"] in whole["excerpt_events"][0]["text"]


def test_the_nearest_neighbours_stay_longest_and_tool_output_is_shortened_hardest() -> None:
    with closing(open_app(profile="full", days=None)) as app:
        roles = (Role.USER, Role.TOOL, Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER, Role.USER)
        texts = [f"{n} begins. {'The collation was wrong and nobody saw it. ' * 60}{n} ends." for n in range(7)]
        app.write(
            [draft(t, at=f"2026-02-18 09:0{n}", role=r) for n, (t, r) in enumerate(zip(texts, roles, strict=True))], "jsonl"
        )
        app.derivation.run()
        events = app.storage.events.list_events(Scope(), None, 10)
        grip = span_grip_id(EventId(events[3].event_id), 0, 200)
        door = Door(app, "auto")
        shown = [door.ok("expand_grip", grip_id=grip, token_budget=budget) for budget in (300, 600, 900)]
    for found in shown:
        before, after = (found[name] for name in ("events_before", "events_after"))
        assert found["grip"]["quote"] == texts[3][:200]
        assert found["excerpt_events"][0]["text"].startswith("[the quotation]")
        numbers = [[int(e["text"][0]) for e in events] for events in (before, after)]
        assert numbers == [[0, 1, 2][3 - len(before) :], [4, 5, 6][: len(after)]]
        lengths = {e["role"]: len(e["text"]) for e in (*before, *after)}
        assert lengths.get("tool", 0) < lengths["user"]
    assert len(shown[0]["events_before"]) < 3
    assert re.search(r"0 begins\..*… \[[\d,]+ characters\] ….*0 ends\.", shown[2]["events_before"][0]["text"], re.S)


def test_a_quotation_that_does_not_fit_is_shortened_itself(own: Door) -> None:
    text = "The whole of it is quoted, from end to end. " * 400
    [event_id] = own.ok("ingest_events", events=[_event(text)])["event_ids"]
    found = own.ok("expand_grip", grip_id=span_grip_id(EventId(event_id), 0, len(text.strip())))
    assert tokens(found) <= EXPANDED
    assert found["grip"]["quote"].startswith("The whole of it")
    assert own.ok("expand_grip", grip_id=found["grip"]["grip_id"], **found["more"])["grip"]["quote"] == text.strip()


def _event(text: str) -> dict[str, Any]:
    return {"session_id": "long", "role": "assistant", "timestamp": "2026-02-18T09:00:00Z", "text": text}


def test_equal_quotations_are_shown_once_and_the_page_goes_on_behind_them(own: Door) -> None:
    same = "The heliotrope converter drops every third frame when the buffer wraps."
    for session in range(4):
        own.ok("ingest_events", events=[{**_event(same), "session_id": f"s{session}"}])
    own.ok("ingest_events", events=[{**_event("The heliotrope converter was replaced."), "session_id": "last"}])
    own.app.derivation.run()
    found = own.ok("intelligent_search", query="heliotrope converter")
    quotes = [one["quote"] for one in found["results"]]
    assert sorted(set(quotes)) == sorted(quotes)
    assert same in quotes


def test_what_comes_next_is_told_in_a_line_each_within_the_same_tokens_and_shown_whole_by_the_next_page(own: Door) -> None:
    for number in range(12):
        text = f"Gannet number {number} carried the semaphore to the {'north south east west'.split()[number % 4]} pier. " * 3
        own.ok("ingest_events", events=[{**_event(text), "session_id": f"s{number}"}])
    own.app.derivation.run()
    first = own.ok("intelligent_search", query="gannet semaphore", limit=3)
    assert tokens(first) <= ANSWER
    assert len(first["results"]) == 3
    assert len(first["also"]) >= 3
    lines = [re.fullmatch(rf"(grip:\w{{16}}) 2026-02-18 assistant: .{{1,{LINE}}}", one) for one in first["also"]]
    grips = [line[1] for line in lines if line]
    assert len(grips) == len(first["also"])
    second = own.ok("intelligent_search", query="gannet semaphore", limit=3, cursor=first["next_cursor"])
    assert [r["grip"] for r in second["results"]] == grips[:3]
    assert own.ok("expand_grip", grip_id=grips[0])["verified"]
    [block] = own.call("intelligent_search", query="gannet semaphore", limit=3).content
    assert f"[{grips[0]}]" in getattr(block, "text", "")
    assert "also" not in own.full("intelligent_search", query="gannet semaphore", limit=3)


def test_what_a_reply_replies_to_is_a_line_of_it_and_with_full_detail_a_further_quotation(tmp_path: Path) -> None:
    prompt = "We keep the marmalade lamp on the pier, and its keeper turns it every night at nine, whatever the weather."
    reply = "Then the semaphore has to point to the west."
    said = [draft(prompt, at="2026-02-18 09:00", role=Role.USER), draft(reply, at="2026-02-18 09:01", role=Role.ASSISTANT)]
    with closing(App(filled(tmp_path / "data", said), FakeClock())) as app:
        app.accelerators.catch_up()
        door, query = Door(app, "auto"), {"query": "where does the semaphore point to beside the lamp", "limit": 1}
        [lean], [full] = (ask("intelligent_search", **query)["results"] for ask in (door.ok, door.full))
        [line], [quote] = lean["also"], full["also"]
        assert lean["quote"] == full["quote"] == reply
        assert re.fullmatch(r"grip:\w{16} user: We keep .*…", line)
        assert (door.ok("expand_grip", grip_id=line.split()[0])["grip"]["quote"], quote["quote"]) == (prompt, prompt)


def test_text_only_clients_read_markdown_with_the_words_fenced_as_data(shop: Door) -> None:
    for tool, given in (
        ("intelligent_search", {"query": "refresh token grace window"}),
        ("search_children", {"query": "refresh token"}),
        ("browse_toc", {}),
        ("get_retrieval_status", {}),
    ):
        answer = shop.call(tool, **given)
        [block] = answer.content
        text = getattr(block, "text", "")
        assert not text.lstrip().startswith("{")
        recalled = "origin" in (answer.structured_content or {})
        assert (text.startswith(OPEN), text.endswith(CLOSE)) == (recalled, recalled)
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
