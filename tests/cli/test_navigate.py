"""`navigate`: the loop of layer 2, with its path and evidence in the plan's form."""

import re

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


def test_a_token_budget_leaves_results_out_whole_and_says_so(memory: Cli) -> None:
    data = memory("navigate", "count the anchors", "--max-token-budget", "150", "--json").data
    assert data["bounds"]["max_token_budget"]["used"] <= 150
    assert "max_token_budget" in data["bounds_hit"]
    assert "left out to stay within max_token_budget" in memory("navigate", "count the anchors", "--max-token-budget", "150").text


def test_nothing_relevant_is_said(memory: Cli) -> None:
    done = memory("navigate", "xylophone")
    assert (done.status, "Nothing relevant was found" in done.text) == (0, True)
