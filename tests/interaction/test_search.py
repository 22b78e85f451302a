"""intelligent_search: what comes back, within which bounds, and why."""

import json
import re
from contextlib import closing
from typing import Any

import pytest
from mcp.types import TextContent

from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, TopicsSettings, VectorSettings
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN
from memory_mcp.model.tokens import estimate_tokens
from tests.factories import BILLING, SHOP
from tests.fakes import FakeClock
from tests.interaction.conftest import Door, open_app
from tests.requirements import requirement

NO_DIRECTORY = "a memory without a directory keeps no index"
GRACE = "refresh token grace window"


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def session_of(door: Door, result: dict[str, Any]) -> str:
    """The session of a lean result, which its citation tells."""
    return str(door.ok("expand_grip", grip_id=result["grip"])["excerpt_events"][0]["session_id"])


def test_a_lean_result_is_a_dated_exact_quotation_with_one_grip_and_nothing_said_twice(shop: Door) -> None:
    best = shop.ok("intelligent_search", query="single-use refresh tokens decision")["results"][0]
    grip = best.pop("grip")
    assert shop.ok("expand_grip", grip_id=grip)["grip"]["quote"] == best["quote"]
    assert best == {
        "when": "2026-01-21T10:02",
        "who": "assistant",
        "quote": "We decided on single-use refresh tokens with a 30 second grace window.",
    }


def test_a_project_stands_once_for_the_results_that_share_it_and_titles_are_left_to_full_detail(door: Door) -> None:
    """A result without a project is of that of the result above; full detail says it of each."""
    lean = door.ok("intelligent_search", query="decided cause", limit=20)["results"]
    full = door.full("intelligent_search", query="decided cause", limit=20)["results"]
    assert len(lean) > 4
    project, shown = "", []
    for one in lean:
        project = one.get("project", project)
        shown.append(project)
    assert shown == [one["project"].rpartition("/")[2] for one in full[: len(lean)]]
    assert not any("title" in one for one in lean)
    assert all(one["title"] for one in full)


@requirement("plan:integration-provenance", "contract:evidence-handling", "contract:anti-pattern-no-provenance")
def test_a_full_result_is_a_dated_exact_quotation_with_everything_to_cite_it(shop: Door) -> None:
    best = shop.full("intelligent_search", query="single-use refresh tokens decision")["results"][0]
    assert best["quote"] == "We decided on single-use refresh tokens with a 30 second grace window."
    assert best["when"] == "2026-01-21T10:02:00+01:00"
    assert {k: best[k] for k in ("kind", "level", "session_id", "project", "agent", "role")} == {
        "kind": "grip",
        "level": "segment",
        "session_id": "auth",
        "project": SHOP,
        "agent": "claude-code",
        "role": "assistant",
    }
    assert best["id"] == best["grip_ids"][0]
    assert best["title"].startswith("2026-01-21 10:00 · ")
    assert best["grip_ids"]
    assert 0 < best["score"] <= 1


@requirement("policy:FR-13", "policy:FR-14", "policy:check-inform", "policy:tier-5", "policy:algorithm-reports")
@requirement("policy:disabled-not-silent", "contract:brainstem-explainability", "contract:anti-pattern-silent-failure")
def test_the_full_explanation_says_tier_method_fallback_and_every_layer_passed_over_and_the_lean_one_nothing_of_it(
    shop: Door,
) -> None:
    why = shop.full("intelligent_search", query=GRACE)["explanation"]
    assert why["tier_used"] == 5
    assert why["method_used"] == "agentic"
    assert why["fallback_occurred"] is True
    assert why["skipped"] == [
        {"layer": "hybrid", "reason": f"bm25: {NO_DIRECTORY}"},
        {"layer": "bm25", "reason": NO_DIRECTORY},
        {"layer": "vector", "reason": NO_DIRECTORY},
    ]
    assert why["bounds_hit"] == []
    assert why["scope"] == SHOP
    assert why["nodes_visited"] > 0
    assert why["rpc_calls"] > 0
    lean = shop.ok("intelligent_search", query=GRACE)
    assert set(lean["explanation"]) <= ({"scope"} if lean["confidence"] != "strong" else set())


@requirement("plan:format-query", "plan:format-step-count", "plan:format-step-reason", "plan:format-step-match")
@requirement("plan:goal-explainable-paths", "contract:explainability-payload")
def test_full_detail_adds_the_path_with_reasons_and_the_parts_of_scores(shop: Door) -> None:
    found = shop.ok("intelligent_search", query=GRACE, detail="full")
    why = found["explanation"]
    assert next(iter(why)) == "query"
    assert why["query"] == GRACE
    assert why["path"]
    for step in why["path"]:
        assert step["label"]
        assert step["searched"] >= 0
        assert step["decision"]
    assert (why["tier_used"], why["mode"]) == (5, "sequential")
    assert sum(step["searched"] for step in why["path"]) == why["nodes_visited"]
    assert any(step.get("matched") and step["score"] > 0 for step in why["path"])
    assert found["results"][0]["score_parts"]
    assert "path" not in shop.ok("intelligent_search", query=GRACE)["explanation"]


def test_the_answer_is_marked_as_recalled_in_both_forms_and_its_text_has_each_quotation_and_its_grip(shop: Door) -> None:
    found = shop.call("intelligent_search", query="single-use refresh tokens decision")
    assert found.structured_content is not None
    [block] = found.content
    assert isinstance(block, TextContent)
    assert found.structured_content["origin"] == MARK
    assert (block.text.splitlines()[0], block.text.splitlines()[-1]) == (OPEN, CLOSE)
    for number, one in enumerate(found.structured_content["results"], 1):
        assert f"**{number}. {one['when'].replace('T', ' ')} · {one['who']}" in block.text
        assert f"\n> {one['quote']}" in block.text
        assert one["grip"] in block.text
    assert "{" not in block.text


@requirement("plan:algo-limit", "plan:risk-large-toc")
@pytest.mark.parametrize("size", [{"limit": 2}, {"limit": 5, "token_budget": 180}], ids=["limit", "budget"])
def test_pages_follow_each_other_without_gaps_or_repeats(shop: Door, size: dict[str, int]) -> None:
    """What the budget had no room for is on the next page."""
    whole = [r["grip"] for r in shop.ok("intelligent_search", query="decided cause", limit=20)["results"]]
    assert len(whole) > 4
    paged: list[str] = []
    cursor = ""
    while True:
        page = shop.ok("intelligent_search", query="decided cause", cursor=cursor, **size)
        assert len(page["results"]) <= 2, "no more than asked for, and than the budget holds"
        paged += [r["grip"] for r in page["results"]]
        cursor = page.get("next_cursor", "")
        if not cursor:
            break
    assert paged == whole


@requirement("policy:bound-max_token_budget", "plan:goal-token-budget", "plan:success-token-efficient")
@requirement("contract:budget-enforcement")
@pytest.mark.parametrize("budget", [120, 300, 500])
def test_results_cost_no_more_than_the_token_budget(shop: Door, budget: int) -> None:
    """Measured on what the agent reads, keys and brackets included."""
    for extra in ({"token_budget": budget}, {"bounds": {"max_token_budget": budget}}):
        found = shop.ok("intelligent_search", query="decided cause", limit=50, **extra)
        assert not found["results"] or estimate_tokens(compact(found)) <= budget
        assert "max_token_budget" in found["explanation"]["bounds_hit"]
        if found["results"]:
            assert found["next_cursor"]
        full = shop.full("intelligent_search", query="decided cause", limit=50, **extra)
        assert sum(estimate_tokens(compact(r)) for r in full["results"]) <= budget


def test_the_smaller_of_budget_and_bound_wins_and_one_too_small_for_anything_says_so(shop: Door) -> None:
    small = shop.ok("intelligent_search", query="decided cause", limit=50, token_budget=300)["results"]
    both = shop.ok("intelligent_search", query="decided cause", limit=50, token_budget=9000, bounds={"max_token_budget": 300})
    assert both["results"] == small
    found = shop.ok("intelligent_search", query=GRACE, token_budget=10)
    assert found["results"] == []
    assert any("raise token_budget" in n for n in found["explanation"]["notices"])
    assert "next_cursor" not in found


@requirement("policy:FR-10", "policy:bound-max_nodes_visited", "policy:bound-max_rpc_calls", "contract:guarantee-respects-bounds")
def test_bounds_are_kept_and_named_when_they_stop_something(shop: Door) -> None:
    few = shop.full("intelligent_search", query="decided cause", bounds={"max_nodes_visited": 3})["explanation"]
    assert few["nodes_visited"] <= 3, "a bound that the caller names is hard"
    assert "max_nodes_visited" in few["bounds_hit"]
    calls = shop.full(
        "intelligent_search", query="decided cause", scope="all", bounds={"max_rpc_calls": 1, "max_nodes_visited": 9}
    )
    assert calls["explanation"]["rpc_calls"] <= 1


@requirement("policy:FR-09", "error:deadline-exceeded", "contract:agentic-timeout-partial", "policy:bound-timeout_ms")
def test_a_search_past_its_deadline_says_so_and_returns_what_it_has(era: str) -> None:
    """Every look at this clock costs a second: there is time for the first days and not for all."""
    with closing(open_app(clock=FakeClock(tick=1.0))) as app:
        found = Door(app, era).ok("intelligent_search", query="decided", timeout_ms=19_000, bounds={"max_nodes_visited": 13})
    assert found["results"]
    assert "timeout_ms" in found["explanation"]["bounds_hit"]
    assert any(n.startswith("Timeout exceeded") for n in found["explanation"]["notices"])


@pytest.mark.parametrize("more", [{"timeout_ms": 1}, {"timeout_ms": 50}, {"mode": "hybrid", "timeout_ms": 20}, {}])
def test_no_deadline_empties_an_answer(shop: Door, more: dict[str, Any]) -> None:
    for words in ("refresh token", "decided cause", "refresh token last week"):
        query = words if more else f"within 5 ms: {words}"
        found = shop.ok("intelligent_search", query=query, scope="all", **more)
        assert found["results"], (query, more)
    assert not shop.ok("intelligent_search", query="xylophone", **(more or {"timeout_ms": 5}))["results"]


@requirement("plan:loop-time-hints")
def test_time_words_become_a_window_and_as_of_moves_now(shop: Door) -> None:
    """The clock stands at Monday 2 March 2026."""
    found = shop.ok("intelligent_search", query="payment freeze last week")
    assert found["explanation"]["window"] == {"since": "2026-02-23T00:00", "until": "2026-03-02T00:00", "words": "last week"}
    first = found["results"][0]
    assert (session_of(shop, first), first.get("outside", False)) == ("release", False)
    assert all(("2026-02-23" <= r["when"][:10] < "2026-03-02") != r.get("outside", False) for r in found["results"])
    assert found["results"][-1]["outside"]
    earlier = shop.ok("intelligent_search", query="refresh token last week", as_of="2026-01-28")
    assert earlier["explanation"]["window"]["since"] == "2026-01-19T00:00"
    assert session_of(shop, earlier["results"][0]) == "auth"


def test_since_and_until_filter_a_date_includes_its_day_and_tz_moves_the_reading_and_the_showing_of_times(shop: Door) -> None:
    inside = shop.ok("intelligent_search", query="refresh token", since="2026-01-21", until="2026-01-21")
    assert session_of(shop, inside["results"][0]) == "auth"
    assert "window" not in inside["explanation"], "the caller knows what it named"
    full = shop.full("intelligent_search", query="refresh token", since="2026-01-21", until="2026-01-21")["explanation"]
    assert (full["window"]["since"][:16], full["window"]["until"][:16]) == ("2026-01-21T00:00", "2026-01-22T00:00")
    outside = shop.ok("intelligent_search", query="refresh token", since="2026-01-22", until="2026-01-23")
    assert outside["results"] == []
    found = shop.full(
        "intelligent_search", query=GRACE, tz="America/New_York", since="2026-01-21T04:00", until="2026-01-21T05:00"
    )
    assert found["results"][0]["when"].startswith("2026-01-21T04:0")
    assert found["results"][0]["when"].endswith("-05:00")
    assert found["explanation"]["window"]["since"] == "2026-01-21T04:00:00-05:00"


@requirement("plan:algo-no-overlap")
def test_nothing_found_is_an_answer_that_names_its_scope_and_min_confidence_leaves_out_what_answers_too_little(
    shop: Door,
) -> None:
    found = shop.ok("intelligent_search", query="xylophone")
    assert found["results"] == []
    searched, empty = found["explanation"]["notices"]
    assert re.fullmatch(r"nothing found: searched agentic and \d+ events", searched)
    assert re.fullmatch(rf"0 of [\d,]+ events in project {SHOP}; scope='all' searches every project", empty)
    assert shop.ok("intelligent_search", query=GRACE, bounds={"min_confidence": 1.0})["results"] == []


@requirement("policy:disabled-inform", "policy:disabled-suggest-enabling", "policy:disabled-show-results")
@requirement("contract:guarantee-respects-configuration")
def test_with_bm25_off_the_answer_says_what_was_used_and_what_enables_it(era: str) -> None:
    with closing(open_app(teleport=TeleportSettings(bm25=IndexSettings(enabled=False)))) as app:
        door = Door(app, era, SHOP)
        found = door.ok("intelligent_search", query=GRACE)
        why = door.full("intelligent_search", query=GRACE)["explanation"]
    assert found["results"]
    assert {"layer": "bm25", "reason": "disabled (teleport.bm25.enabled = false)"} in why["skipped"]
    [notice] = found["explanation"]["notices"]
    assert "BM25 search is not enabled" in notice
    assert "TOC navigation" in notice
    assert "teleport.bm25.enabled = true" in notice


@pytest.mark.parametrize(
    ("teleport", "enabling"),
    [
        (TeleportSettings(enabled=False), "enable with teleport.enabled = true"),
        (
            TeleportSettings(enabled=False, bm25=IndexSettings(enabled=False)),
            "enable with teleport.enabled = true, teleport.bm25.enabled = true",
        ),
    ],
)
def test_what_enables_keywords_again_is_every_setting_that_is_off(era: str, teleport: TeleportSettings, enabling: str) -> None:
    with closing(open_app(teleport=teleport)) as app:
        found = Door(app, era, SHOP).ok("intelligent_search", query=GRACE)
    [notice] = found["explanation"]["notices"]
    assert notice.endswith(enabling)


@requirement("contract:guarantee-never-fails", "contract:fallback-discipline", "contract:philosophy-indexes-optional")
@requirement("policy:check-fall-back", "policy:chain-final-fallback", "policy:FR-08", "bm25:optional", "goal:G4")
def test_with_every_index_off_each_question_is_answered(era: str) -> None:
    off = TeleportSettings(enabled=False, bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False))
    with closing(open_app(teleport=off, topics=TopicsSettings(enabled=False))) as app:
        door = Door(app, era, SHOP)
        for query in (GRACE, "what did we decide", "test_123 FAILED", "src/cart/total.py", "???x", "日本語", '") OR 1=1 --'):
            why = door.ok("intelligent_search", query=query, detail="full")["explanation"]
            assert (why["method_used"], why["fallback_occurred"]) == ("agentic", True)
            assert sorted(s["layer"] for s in why["skipped"]) == ["bm25", "hybrid", "vector"]
        assert door.ok("intelligent_search", query=GRACE)["results"]


def test_both_projects_are_searched_when_the_callers_is_not_known_and_an_agent_keeps_to_its_own_sessions(door: Door) -> None:
    found = door.ok("intelligent_search", query="decided cause", limit=20)
    assert {r["project"] for r in found["results"] if "project" in r} == {name.rpartition("/")[2] for name in (SHOP, BILLING)}
    assert "scope" not in found["explanation"]
    of_codex = door.full("intelligent_search", query="decided cause", agent="codex", limit=20)["results"]
    assert {r["agent"] for r in of_codex} == {"codex"}


def test_what_was_just_written_is_found_before_it_is_filed(era: str) -> None:
    with closing(open_app()) as app:
        door = Door(app, era, SHOP)
        door.ok("remember", text="The staging database is called quokka.")
        found = door.full("intelligent_search", query="quokka")
    [result] = found["results"]
    assert result["kind"] == "event"
    assert result["id"]
    assert result["quote"] == "The staging database is called quokka."
