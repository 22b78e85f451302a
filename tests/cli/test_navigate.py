"""`navigate`: the loop of layer 2, with its path and evidence in the plan's form."""

import re

import pytest

from tests.cli.conftest import Cli
from tests.requirements import requirement

QUESTION = "JWT token expiration debugging"


@requirement("plan:cli-navigate", "plan:format-query", "plan:loop-path-and-evidence")
@requirement("plan:format-step-count", "plan:format-step-match", "plan:format-step-reason", "plan:success-explainable-path")
@requirement("plan:format-evidence-segment", "plan:format-evidence-grips", "plan:format-offer-expand", "plan:loop-offer-expand")
def test_the_answer_holds_query_path_with_reasons_evidence_with_grips_and_an_offer_to_expand(memory: Cli) -> None:
    done = memory("navigate", QUESTION)
    assert done.status == 0
    text, lines = done.text, done.text.splitlines()
    assert lines[:4] == ["## Search Path", "", f'Query: "{QUESTION}"', ""]
    steps = re.findall(r"^(\d+)\. \*\*(.+)\*\* - Searched (\d+) (\w+) nodes?$", text, re.M)
    assert [int(s[0]) for s in steps] == list(range(1, len(steps) + 1))
    assert [s[3] for s in steps][:1] == ["year"]
    assert len(steps) >= 2
    below, evidence = text.split("\n1. ", 1)[1].split("## Evidence")
    assert len(re.findall(r'^   - Matched: ".+" \(score: \d\.\d\d\)$', below, re.M)) == len(steps)
    reasons = re.findall(r"^   - (?!Matched)(.+)$", below, re.M)
    assert len(reasons) == len(steps)
    assert any(r.startswith("Drilling into Year 2026 (") for r in reasons)
    assert re.search(r"^\*\*Segment: toc:segment:2026-01-30:[0-9a-z]{12}\*\*$", evidence, re.M)
    quotes = re.findall(r'^- "(.+)" \[(grip:\S+)\]$', evidence, re.M)
    assert quotes
    for quote, grip in quotes:
        expanded = memory("query", "expand-grip", grip, "--json").data
        assert expanded["verified"] is True
        assert " ".join(expanded["grip"]["quote"].split()).startswith(quote.rstrip("…"))
    assert lines[-2] == "Would you like me to expand a grip for the full conversation context?"
    command = re.fullmatch(r"`memory-mcp (query expand-grip grip:\S+)`", lines[-1])
    assert command
    assert memory(*command[1].split()).status == 0


@requirement("plan:cli-navigate-verbose")
def test_verbose_adds_counters_bounds_and_window(memory: Cli) -> None:
    plain, verbose = memory("navigate", QUESTION).text, memory("navigate", QUESTION, "--verbose").text
    assert "max_nodes_visited" not in plain
    for name in ("max_depth", "max_nodes_visited", "max_rpc_calls", "max_token_budget", "timeout_ms", "beam_width"):
        assert name in verbose
    assert "- window: all time" in verbose


def test_json_holds_the_same(memory: Cli) -> None:
    data = memory("navigate", QUESTION, "--json").data
    assert data["origin"] == "recalled-by-memory-mcp"
    assert data["path"][0]["label"] == "Root"
    first = data["results"][0]
    assert (first["session_id"], first["kind"]) == ("jwt", "segment")
    assert first["when"].startswith("2026-01-30T14:")
    assert data["bounds"]["max_nodes_visited"]["used"] > 0


@pytest.mark.parametrize(
    ("flag", "value", "name"),
    [("--max-nodes-visited", 5, "max_nodes_visited"), ("--max-rpc-calls", 1, "max_rpc_calls"), ("--max-depth", 1, "max_depth")],
)
def test_bounds_are_kept_and_reported(memory: Cli, flag: str, value: int, name: str) -> None:
    data = memory("navigate", "anchors in harbour", flag, str(value), "--json").data
    assert data["bounds"][name]["used"] <= data["bounds"][name]["limit"] == value
    if name != "max_depth":  # so small a memory is compared without going down level by level
        assert data["bounds_hit"]
        assert any("stopped by" in n for n in data["notices"])


def test_a_token_budget_leaves_results_out_whole_and_says_so(memory: Cli) -> None:
    data = memory("navigate", "count the anchors", "--max-token-budget", "150", "--json").data
    assert data["bounds"]["max_token_budget"]["used"] <= 150
    assert "max_token_budget" in data["bounds_hit"]
    assert "left out to stay within max_token_budget" in memory("navigate", "count the anchors", "--max-token-budget", "150").text


def test_a_window_binds_the_search_and_a_time_in_the_question_is_one(memory: Cli) -> None:
    inside = memory("navigate", "anchors", "--since", "2025-11-01", "--until", "2025-11-30", "--json").data
    assert inside["results"]
    assert all(r["when"] < "2025-12-01" for r in inside["results"])
    assert inside["window"] == {"since": "2025-11-01T00:00:00+01:00", "until": "2025-12-01T00:00:00+01:00"}
    data = memory("navigate", "which anchors in november 2025", "--json").data
    assert data["window"]["words"] == "november 2025"
    assert all(r["when"][:7] == "2025-11" for r in data["results"])


def test_nothing_relevant_is_said(memory: Cli) -> None:
    done = memory("navigate", "xylophone")
    assert (done.status, "Nothing relevant was found" in done.text) == (0, True)


@pytest.mark.parametrize("argv", [("",), ("x", "--limit", "0"), ("x", "--beam-width", "9"), ("x", "--since", "soonish")])
def test_wrong_requests_end_with_status_two(memory: Cli, argv: tuple[str, ...]) -> None:
    assert memory("navigate", *argv).status == 2
