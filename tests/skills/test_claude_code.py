"""The real Claude Code answers from memory through the plugin's skill, driven by a scripted model; see `bench/skills.py`.

CLIENTS_NODE names a directory with its npm package, CLIENTS_TOOLS one with the scripted models.
"""

import os
from pathlib import Path

import pytest

from bench import place
from bench.clients import PACKAGES, Node
from bench.skills import MOST, ORDER, SKILL, STATES, Answered, answered, calls_in, recommended, tokens

NODE, TOOLS = os.environ.get("CLIENTS_NODE", ""), os.environ.get("CLIENTS_TOOLS", "")
GRIP = "grip:1768989600000:0a55dj2pn5vsxxab"


@pytest.mark.skipif(not (NODE and TOOLS), reason="CLIENTS_NODE and CLIENTS_TOOLS name no client and no scripted models")
@pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")
@pytest.mark.parametrize("state", STATES)
def test_claude_code_answers_from_memory_through_the_skill(state: str) -> None:
    if not Node(Path(NODE)).has(PACKAGES["claude"]):
        pytest.skip(f"{PACKAGES['claude']} is not installed in {NODE}")
    found = answered(Path(NODE).resolve(), Path(TOOLS).resolve(), state)
    assert found.failures() == []


# the judgement itself


def an_answer() -> Answered:
    seen = {SKILL: "how to", ORDER[0]: "tier 2", ORDER[1]: f"single-use {GRIP}"}
    return Answered(connected="plugin:memory:memory - Connected", offered=ORDER, logged=ORDER, seen=seen, cited=GRIP)


def test_an_answer_that_went_by_the_skill_is_sound() -> None:
    assert an_answer().failures() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"invalid": "no name"}, "not valid: no name"),
        ({"connected": "plugin:memory:memory - Failed"}, "not connected: plugin:memory:memory - Failed"),
        ({"exit_status": 1, "said": "refused"}, "ended with 1: refused"),
        ({"offered": ORDER[:1]}, "not offered: intelligent_search"),
        ({"logged": ORDER[::-1]}, f"called {ORDER[::-1]}, not {ORDER}"),
        ({"logged": ORDER[1:]}, f"called {ORDER[1:]}, not {ORDER}"),
        ({"cited": ""}, "the answer cites '', which the search did not show"),
        ({"cited": "grip:1:0abc"}, "the answer cites 'grip:1:0abc', which the search did not show"),
    ],
)
def test_an_answer_that_did_not_is_told_what_is_missing(change: dict[str, object], said: str) -> None:
    answer = an_answer()
    for name, value in change.items():
        setattr(answer, name, value)
    assert answer.failures() == [said]


def test_a_part_that_the_model_did_not_see_and_parts_that_cost_too_much_are_failures() -> None:
    answer = an_answer()
    del answer.seen[SKILL]
    assert answer.failures() == [f"the model saw nothing of {SKILL}"]
    answer = an_answer()
    answer.seen[SKILL] = "x" * 4 * MOST
    [failure] = answer.failures()
    assert failure.startswith(f"the model saw {sum(answer.cost.values())} tokens, more than {MOST}")


def test_tokens_are_four_bytes_each_rounded_up() -> None:
    assert [tokens(t) for t in ("", "a", "abcd", "abcde", "äöü")] == [0, 1, 1, 2, 2]


def test_calls_are_read_from_the_lines_of_the_log_and_nothing_else() -> None:
    log = (
        "2026-01-21 10:00:00,001 7 memory_mcp.service.daemon.run INFO memory-mcp 0.1.0 listens\n"
        "2026-01-21 10:00:01,001 7 memory_mcp.server.calls INFO get_retrieval_status ok 1.5 ms\n"
        "2026-01-21 10:00:02,001 7 memory_mcp.server.calls INFO intelligent_search INVALID_ARGUMENT 0.1 ms\n"
    )
    assert calls_in(log) == ORDER


def test_the_recommended_call_is_the_first_that_a_skill_writes_out() -> None:
    skill = 'First `f()`, then `g(query="x", limit=5)`, at last `g(limit=9)`.'
    assert recommended(skill, "f") == {}
    assert recommended(skill, "g") == {"query": "x", "limit": 5}
    with pytest.raises(LookupError, match="no call of h"):
        recommended(skill, "h")
