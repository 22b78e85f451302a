"""Real clients: the Inspector, the conformance suite, Claude Code and Codex.

CLIENTS_NODE names a directory with their npm packages, CLIENTS_TOOLS one with the scripted models; see `bench/clients.py`.
"""

import os
from pathlib import Path

import pytest

from bench import place
from bench.agents import ASKED, ASKED_AGAIN, BRIEF, LEAN, QUERY, SAID, Turn
from bench.clients import PACKAGES, Node, checks

NODE, TOOLS = os.environ.get("CLIENTS_NODE", ""), os.environ.get("CLIENTS_TOOLS", "")


@pytest.mark.skipif(not NODE, reason="CLIENTS_NODE names no directory with npm packages")
@pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PACKAGES)
def test_a_real_client_is_content(name: str) -> None:
    told = list(checks(Node(Path(NODE)), Path(TOOLS) if TOOLS else None, [name]))
    if all(c.outcome == "skipped" for c in told):
        pytest.skip(told[0].said)
    assert [c for c in told if c.outcome != "ok"] == []


# the judgement itself

GRIP = "grip:1768989600000:0a55dj2pn5vsxxab"


def a_turn() -> Turn:
    shown = {
        "intelligent_search": f"{QUERY} 2026-01-21T10:00:00 {GRIP}",
        "expand_grip": f"2026-01-21T10:02:00 {GRIP} {SAID[1][2]}",
    }
    turn = Turn("claude", connected="memory: memory-mcp - Connected", seen=shown, briefing="Where we left off", found=["quokka"])
    turn.hints = [f"{GRIP} failed here before"]
    turn.second_answer = f"2026-01-21T10:02:00 {GRIP} {SAID[1][2]}\n{ASKED}"
    return turn


def test_a_turn_that_saw_dated_cited_words_is_sound() -> None:
    assert a_turn().failures() == []


@pytest.mark.parametrize(("hints", "failure"), [([], "no hint reached the model"), (["x" * 1000], "a hint of 1000 bytes")])
def test_a_turn_without_a_short_hint_is_a_failure(hints: list[str], failure: str) -> None:
    turn = a_turn()
    turn.hints = hints
    [wrong] = turn.failures()
    assert wrong.startswith(failure)


@pytest.mark.parametrize("tool", LEAN)
def test_an_answer_without_a_date_or_a_grip_or_too_long_is_not(tool: str) -> None:
    for text in ("nothing", f"{GRIP} but undated", "2026-01-21T10:00:00 but uncited"):
        turn = a_turn()
        turn.seen[tool] = text + SAID[1][2]
        assert len(turn.failures()) == 1
    turn = a_turn()
    turn.seen[tool] += "x" * LEAN[tool]
    assert len(turn.failures()) == 1


def test_a_session_that_is_not_found_afterwards_or_a_client_that_is_not_connected_is_a_failure() -> None:
    turn = a_turn()
    turn.lost, turn.connected = ["zebrafish"], "memory: Failed to connect"
    assert turn.failures() == ["not connected: memory: Failed to connect", "not found afterwards: zebrafish"]


@pytest.mark.parametrize("told", ["", "x" * (BRIEF + 1)])
def test_a_later_session_that_is_told_nothing_or_too_much_is_a_failure(told: str) -> None:
    turn = a_turn()
    turn.briefing = told
    assert turn.failures() == [f"a later session was told {len(told)} bytes, not 1 to {BRIEF}"]


@pytest.mark.parametrize("told", ["", "another decision", f"{ASKED_AGAIN}\n{SAID[1][2]}"])
def test_a_second_session_that_is_shown_no_decision_or_a_recorded_question_before_it_is_a_failure(told: str) -> None:
    turn = a_turn()
    turn.second_answer = told
    assert len(turn.failures()) == 1


def test_what_is_not_installed_is_skipped_in_words(tmp_path: Path) -> None:
    found = list(checks(Node(tmp_path), None, list(PACKAGES)))
    assert [c.outcome for c in found] == ["skipped"] * len(PACKAGES)
    assert all("is not installed" in c.said for c in found)
