"""browse_toc and search_children in the default profile; the tree's single steps in the full one."""

import itertools
import json
from typing import Any

import pytest

from memory_mcp.model.tokens import estimate_tokens
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door
from tests.requirements import requirement

LEVELS = ["year", "month", "week", "day", "segment"]


def size(value: Any) -> int:
    return estimate_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@requirement("bm25:level-1-orientation", "bm25:level-2-navigation", "contract:disclosure-drill-down", "plan:link-children")
@requirement("contract:philosophy-navigate")
def test_browsing_leads_from_the_years_down_to_a_segment(shop: Door) -> None:
    page = shop.ok("browse_toc")
    assert [c["node_id"] for c in page["children"]] == ["toc:year:2026"]
    seen = []
    while page["children"]:
        seen.append(page["children"][0]["level"])
        page = shop.ok("browse_toc", node_id=page["children"][0]["node_id"])
        assert page["node"]["title"]
    assert seen == LEVELS
    assert page["node"]["bullets"]
    assert all(b["grip_ids"] for b in page["node"]["bullets"])
    found = shop.ok("get_toc_root")
    assert found["node"]["level"] == "root"
    assert [c["node_id"] for c in found["children"]] == ["toc:year:2026"]


@requirement("contract:disclosure-lateral")
def test_a_node_names_its_neighbours_and_parents(shop: Door) -> None:
    node = shop.ok("browse_toc", node_id="toc:day:2026-01-20")["node"]
    assert node["next"] == "toc:day:2026-01-21"
    assert node["parents"] == ["toc:week:2026-W04"]
    assert shop.ok("browse_toc", node_id="toc:day:2026-01-21")["node"]["previous"] == "toc:day:2026-01-20"


def test_children_are_paged_and_a_damaged_cursor_is_refused(shop: Door) -> None:
    whole = shop.ok("browse_toc", node_id="toc:year:2026")["children"]
    first = shop.ok("browse_toc", node_id="toc:year:2026", limit=1)
    second = shop.ok("browse_toc", node_id="toc:year:2026", limit=1, cursor=first["next_cursor"])
    assert first["children"] + second["children"] == whole[:2]
    for cursor in (first["next_cursor"][:-1], "0" + first["next_cursor"][1:] + "x", "nonsense", "💥" * 9):
        text = shop.error("browse_toc", node_id="toc:year:2026", cursor=cursor)
        assert text.startswith("INVALID_ARGUMENT: the cursor is damaged")
    assert shop.error("browse_toc", node_id="toc:month:2026-01", cursor=first["next_cursor"]).startswith("INVALID_ARGUMENT")


@requirement("plan:link-id-formats")
@pytest.mark.parametrize(
    "given", ["toc:month:2026-01", "toc:month:2026:01", "toc:week:2026-W04", "toc:week:2026:W04", "toc:day:2026-01-20"]
)
def test_every_accepted_form_of_an_id_opens_its_node(shop: Door, given: str) -> None:
    assert shop.ok("browse_toc", node_id=given)["node"]["node_id"].replace("-", ":") == given.replace("-", ":")


@requirement("plan:search-children-request", "plan:search-children-response", "plan:search-node-result", "plan:search-match")
@requirement("plan:success-search-children")
def test_search_children_gives_the_specified_shapes(shop: Door) -> None:
    found = shop.ok(
        "search_children",
        query="refresh token",
        parent_id="toc:month:2026-01",
        child_level="segment",
        fields=["title", "bullets"],
        limit=5,
        token_budget=2000,
    )
    assert set(found) == {"origin", "results", "has_more", "scope"}
    best = found["results"][0]
    assert set(best) == {"node_id", "title", "level", "matches", "relevance_score"}
    assert best["level"] == "segment"
    for match in best["matches"]:
        assert match["field"] in ("title", "bullets")
        assert 0 < match["score"] <= 1
        assert match["text"]
    assert any(m.get("grip_ids") for m in best["matches"])


@requirement("plan:algo-root", "plan:drill-down-more-specific", "plan:goal-search-nodes", "contract:layer-2")
def test_a_match_can_be_followed_from_the_years_to_the_segment(shop: Door) -> None:
    parent, levels = "", []
    while True:
        found = shop.ok("search_children", query="grace window", parent_id=parent)
        if not found["results"]:
            break
        levels.append(found["results"][0]["level"])
        parent = found["results"][0]["node_id"]
    assert levels == LEVELS


@requirement("plan:algo-has-more", "plan:algo-limit", "plan:algo-relevance")
def test_has_more_and_the_cursor_continue_where_the_limit_cut(shop: Door) -> None:
    def ask(**more: Any) -> dict[str, Any]:
        return shop.ok("search_children", query="cause decided", child_level="segment", **more)

    whole = ask(limit=50)
    assert whole["has_more"] is False
    scores = [r["relevance_score"] for r in whole["results"]]
    assert scores == sorted(scores, reverse=True)
    first = ask(limit=3)
    assert first["has_more"] is True
    assert len(first["results"]) == 3
    rest = ask(limit=50, cursor=first["next_cursor"])
    assert first["results"] + rest["results"] == whole["results"]


@requirement("plan:goal-token-budget", "plan:risk-token-estimate")
@pytest.mark.parametrize("budget", [150, 400, 1000])
def test_search_children_keeps_to_its_token_budget(shop: Door, budget: int) -> None:
    found = shop.ok("search_children", query="cause decided", child_level="segment", limit=50, token_budget=budget)
    assert sum(size(r) for r in found["results"]) <= budget
    assert found["has_more"] is True
    if not found["results"]:
        assert "raise token_budget" in found["notices"][0]


@requirement("plan:search-or-matching", "plan:algo-only-matching", "plan:algo-no-overlap")
def test_one_word_is_enough_none_is_no_match_and_a_level_above_the_parent_is_refused(shop: Door) -> None:
    assert shop.ok("search_children", query="grace xylophone")["results"]
    found = shop.ok("search_children", query="xylophone")
    assert found["results"] == []
    assert found["has_more"] is False
    assert "scope='all'" in found["notices"][0]
    text = shop.error("search_children", query="token", parent_id="toc:day:2026-01-21", child_level="month")
    assert text.startswith("INVALID_ARGUMENT: month is not below day")


@requirement("plan:segment-position", "plan:segment-overlap", "plan:segment-time-range", "plan:hierarchy-segment")
@requirement("plan:segment-toc")
def test_get_node_shows_a_segment_in_its_context(own: Door) -> None:
    """A message of 16,000 bytes ends a segment; what came two minutes before it is the next one's context."""
    long = {"session_id": "wide", "role": "assistant", "timestamp": "2026-02-17T09:03:00+01:00", "text": "Plan the index. " * 999}
    short = {"session_id": "wide", "role": "user", "timestamp": "2026-02-17T09:01:00+01:00", "text": "Remember the narrow index."}
    own.ok("ingest_events", events=[short, long])
    own.app.derivation.run()
    ids = [c["node_id"] for c in own.ok("get_node", node_id="toc:day:2026-02-17")["children"]]
    assert len(ids) == 2
    found = own.ok("get_node", node_id=ids[1])
    assert [e["text"] for e in found["context"]["before"]] == ["Remember the narrow index."]
    assert [p["level"] for p in found["context"]["parents"]] == ["day", "week", "month", "year"]
    assert found["node"]["start"] == "2026-02-17T09:03:00+01:00"
    assert found["node"]["end"] == "2026-02-17T09:03:00+01:00"
    assert all(b["grip_ids"] for b in found["node"]["bullets"])


@requirement("plan:search-node-request", "plan:search-node-response", "plan:success-search-node", "plan:algo-sorted-matches")
@requirement("plan:goal-token-budget", "plan:algo-not-found")
def test_search_node_gives_the_specified_shape_keeps_to_its_token_budget_and_refuses_an_unknown_node(shop: Door) -> None:
    found = shop.ok("search_node", node_id="toc:day:2026-01-21", query="refresh TOKEN", fields=["title", "bullets"], limit=2)
    assert set(found) == {"origin", "matched", "matches", "node_id", "level"}
    assert found["matched"] is True
    assert found["node_id"] == "toc:day:2026-01-21"
    assert found["level"] == "day"
    scores = [m["score"] for m in found["matches"]]
    assert 0 < len(scores) <= 2
    assert scores == sorted(scores, reverse=True)
    nothing = shop.ok("search_node", node_id="toc:day:2026-01-21", query="xylophone")
    assert (nothing["matched"], nothing["matches"]) == (False, [])
    found = shop.ok("search_node", node_id="toc:month:2026-01", query="refresh token decided cause", token_budget=80)
    assert sum(size(m) for m in found["matches"]) <= 80
    assert shop.error("search_node", node_id="toc:day:1999-01-01", query="x1").startswith("NOT_FOUND: no node toc:day:1999-01-01")


@requirement("bm25:level-4-evidence", "plan:hierarchy-events")
def test_get_events_pages_through_a_session_in_order_reads_a_time_span_and_shortens_what_is_longer_than_the_budget(
    shop: Door,
) -> None:
    whole = shop.ok("get_events", session_id="auth")["events"]
    assert [e["when"] for e in whole] == ["2026-01-21T10:00:00+01:00", "2026-01-21T10:02:00+01:00", "2026-01-21T10:05:00+01:00"]
    assert {"event_id", "session_id", "when", "role", "type", "text"} <= set(whole[0])
    first = shop.ok("get_events", session_id="auth", limit=2)
    rest = shop.ok("get_events", session_id="auth", limit=2, cursor=first["next_cursor"])
    assert first["events"] + rest["events"] == whole
    assert "next_cursor" not in rest
    found = shop.ok("get_events", since="2026-01-20", until="2026-01-20", limit=100)
    assert found["scope"] == SHOP
    assert {e["session_id"] for e in found["events"]} == {"shop-2026-01-20"}
    every = shop.ok("get_events", since="2026-01-20", until="2026-01-20", limit=100, scope="all", token_budget=20000)
    assert {e["session_id"] for e in every["events"]} == {"shop-2026-01-20", "billing-2026-01-20"}
    found = shop.ok("get_events", session_id="auth", token_budget=50)
    assert len(found["events"]) == 1
    assert found["truncated"] is True
    assert shop.ok("get_events", session_id="auth", cursor=found["next_cursor"])["events"]


@requirement("plan:loop-path-and-evidence", "plan:loop-offer-expand", "plan:success-explainable-path", "plan:format-offer-expand")
@requirement("plan:format-evidence-segment", "plan:format-evidence-grips", "plan:success-find-x")
def test_navigate_shows_path_evidence_bounds_and_the_next_step_and_may_start_below_the_root(shop: Door) -> None:
    found = shop.ok("navigate", query="refresh token grace window", limit=3)
    assert found["query"] == "refresh token grace window"
    assert found["path"][0]["label"] == "Root"
    assert all(s["decision"] for s in found["path"])
    best = found["results"][0]
    assert best["id"].startswith("toc:segment:2026-01-21:")
    assert best["quote"]
    assert best["grip_ids"][0] in found["next"]
    assert found["next"].startswith("expand_grip ")
    counted = {"max_depth", "max_nodes_visited", "max_rpc_calls", "max_token_budget", "timeout_ms"}
    assert set(found["bounds"]) == counted | {"beam_width"}
    assert found["bounds"]["max_nodes_visited"]["limit"] == 100
    assert found["bounds"]["max_nodes_visited"]["used"] > 0
    found = shop.ok("navigate", query="decided cause", node_id="toc:day:2026-02-10")
    assert {r["when"][:10] for r in found["results"]} == {"2026-02-10"}


@requirement("policy:bound-max_depth", "policy:bound-beam_width", "plan:loop-budget-exhausted")
def test_navigate_keeps_to_the_bounds_it_is_given(door: Door) -> None:
    found = door.ok("navigate", query="decided cause", bounds={"max_nodes_visited": 2, "beam_width": 3})
    assert found["bounds"]["max_nodes_visited"] == {"limit": 2, "used": 2}
    assert found["bounds"]["beam_width"] == {"limit": 3}
    assert found["bounds_hit"] == ["max_nodes_visited"]
    assert any("there may be more" in n for n in found["notices"])


def test_a_limit_changes_no_order_and_no_bound_is_exceeded(door: Door) -> None:
    for query in ("decided cause", "refresh token grace window", "cent table in January 2026", "what happened last week"):
        ids = {n: [r["grip_ids"] for r in door.ok("navigate", query=query, limit=n)["results"]] for n in (1, 2, 5, 12, 40)}
        for fewer, more in itertools.combinations(ids.values(), 2):
            assert more[: len(fewer)] == fewer, query
        for most in (1, 2, 3, 5):
            found = door.ok("navigate", query=query, limit=40, bounds={"max_nodes_visited": most})
            assert found["bounds"]["max_nodes_visited"]["used"] <= most
            assert sum(step["searched"] for step in found["path"]) <= most
            assert len({r["id"] for r in found["results"] if r["id"].startswith("toc:")}) <= most


def test_browsing_as_another_project_shows_only_that_one(shop: Door) -> None:
    text = json.dumps(shop.ok("browse_toc", node_id="toc:day:2026-01-20", project=BILLING), ensure_ascii=False)
    assert "billing" in text
    assert "src/" not in text
