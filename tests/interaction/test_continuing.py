"""Going on with a session, and handing one over: as a tool on a real pipe, as a command, and in another's scope."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.model.event import Role
from memory_mcp.requests.continuing import TOKENS, ContinueSession, HandOff
from memory_mcp.requests.plain import tokens_of
from memory_mcp.requests.registry import answer
from memory_mcp.requests.scope import Caller
from tests.factories import BILLING, SHOP, draft
from tests.interaction.test_recall_for import filed, run  # noqa: F401 - fixtures
from tests.interaction.test_stdio import Pipe, start
from tests.toc.helpers import memory
from tests.work_cases import FIRST, THIRD, call, say

COMMITTED = "[main 1a2b3c4] Sum the cart in one place\n 1 file changed"
FAILED = "FAILED tests/test_cart.py::test_total - AssertionError: assert 3 == 4\n1 failed, 8 passed"
LATER = [
    *call(6, "2026-01-12 09:10", "Bash", COMMITTED, command="git commit -am 'Sum the cart in one place'"),
    *call(7, "2026-01-12 09:11", "Bash", FAILED, failed=True, command="pytest -q tests"),
    say('Committed "Sum the cart in one place".', "2026-01-12 09:10"),
    say("The total still misses the discount; next I will subtract it in cart.ts.", "2026-01-12 09:12"),
]


@pytest.fixture
def app() -> App:
    return memory([*FIRST, *LATER, *THIRD])


def of_part(response: dict[str, Any], about: str) -> list[str]:
    return [statement["text"] for statement in response["statements"] if statement["about"] == about]


def test_a_session_is_handed_over_with_its_goal_results_failing_test_files_and_citations(app: App) -> None:
    known = answer(app, HandOff("s1"), Caller())
    assert of_part(known, "goal") == ["Add a total to the cart, please, and show it below the list."]
    assert [text for text in of_part(known, "done") if "in one place" in text] == ["committed Sum the cart in one place"]
    assert of_part(known, "decided") == ["We decided that types.ts holds every interface of the cart."]
    assert of_part(known, "failing") == [f"`pytest -q tests`: {FAILED.splitlines()[0]}"]
    assert of_part(known, "file") == ["src/types.ts"]
    for statement in known["statements"]:
        assert app.evidence.expand_grip(statement["grip"]).excerpt
    assert tokens_of(known, 1.0) <= TOKENS
    app.write(call(8, "2026-01-12 09:20", "Bash", "9 passed", command="pytest -q tests"), "test")
    app.derivation.run()
    assert of_part(answer(app, HandOff("s1"), Caller()), "failing") == []


def test_the_latest_work_is_gone_on_with_and_what_came_before_it_follows(app: App) -> None:
    known = answer(app, ContinueSession(), Caller())
    assert known["session"].startswith("the latest work in all projects, 2026-01-21")
    assert of_part(known, "goal") == ["Connect the biller to its database."]
    assert "asked: Add a total to the cart, please, and show it below the list." in of_part(known, "before")


def test_a_long_session_is_told_within_the_tokens_with_something_of_each_part() -> None:
    talk = [say(f"We decided that part {n} of the cart {'never waits ' * 9}for the network.", f"2026-01-12 10:{n:02}", Role.USER)
            for n in range(40)]  # fmt: skip
    edits = [
        each for n in range(30) for each in call(50 + n, f"2026-01-12 11:{n:02}", "Edit", "ok", files=f"/home/ada/shop/f{n}.ts")
    ]
    known = answer(memory([*FIRST, *talk, *edits, *LATER]), HandOff("s1"), Caller())
    assert 700 <= tokens_of(known, 1.0) <= TOKENS
    assert {"goal", "done", "decided", "failing", "file"} <= {statement["about"] for statement in known["statements"]}


def test_what_was_planned_supposed_or_broken_is_no_result_and_a_refused_call_decides_nothing() -> None:
    refused = {"tool": "Edit", "tool_use_id": "s9-7"}
    app = memory(
        [
            say("hello", "2026-02-01 08:59", Role.USER, "s9"),
            say("Show the discount in the cart, below the total.", "2026-02-01 09:00", Role.USER, "s9"),
            say("Now fix the sum, which no longer counts the discount.", "2026-02-01 09:01", session="s9"),
            say("There are some failing tests that I fixed before.", "2026-02-01 09:02", session="s9"),
            *call(2, "2026-02-01 09:04", "Write", "ok", session="s9", files="/home/ada/shop/src/discount.ts"),
            *call(3, "2026-02-01 09:05", "Write", "ok", session="s9", files="/home/ada/shop/src/scratch.ts"),
            *call(4, "2026-02-01 09:06", "Bash", "(no output)", session="s9", command="rm -f src/scratch.ts"),
            draft("wait, let us talk about this", "2026-02-01 09:07:00", "s9", Role.USER, project=SHOP, metadata=refused),
            say("158.6 npm error Exit handler never called!", "2026-02-01 09:07", Role.USER, "s9"),
            say("Thanks. Show the tax in the cart, too.", "2026-02-01 09:09", Role.USER, "s9"),
            say("Added the tax below the discount. It can be shown:\n- with the total\n- on a line of its own\n\n"
                "Which one do you prefer?", "2026-02-01 09:10", session="s9"),
        ]
    )  # fmt: skip
    known = answer(app, HandOff("s9"), Caller())
    assert of_part(known, "goal") == [
        "Show the discount in the cart, below the total.",
        "last asked: Show the tax in the cart, too.",
    ]
    assert of_part(known, "done") == ["Added the tax below the discount."]
    assert of_part(known, "decided") == []
    assert of_part(known, "file") == ["src/scratch.ts, removed since", "src/discount.ts"]
    assert of_part(known, "next") == ["It can be shown: - with the total - on a line of its own Which one do you prefer?"]


def test_a_file_is_removed_by_its_path_alone_and_a_result_is_left_out_by_whole_names() -> None:
    shop = "/home/ada/shop"
    app = memory(
        [
            say("Rewrite the docs of the shop, please, and tidy up.", "2026-01-12 09:00", Role.USER),
            *call(1, "2026-01-12 09:01", "Edit", "ok", files=f"{shop}/docs/README.md", cwd=shop),
            *call(2, "2026-01-12 09:02", "Bash", "done", command="cd /tmp/x && rm README.md", cwd=shop),
            *call(3, "2026-01-12 09:03", "Edit", "ok", files=f"{shop}/a.py", cwd=shop),
            *call(4, "2026-01-12 09:04", "Bash", "done", command="git rm --cached a.py", cwd=shop),
            *call(5, "2026-01-12 09:05", "Edit", "ok", files=f"{shop}/b.py", cwd=shop),
            *call(6, "2026-01-12 09:06", "Bash", "done", command="rm -rf /tmp/b.py", cwd=shop),
            *call(7, "2026-01-12 09:07", "Edit", "ok", files=f"{shop}/src/c.py", cwd=shop),
            *call(8, "2026-01-12 09:08", "Bash", "done", command="cd src && rm c.py", cwd=shop),
            *call(
                9, "2026-01-12 09:09", "Edit", "String to replace not found", failed=True, files=f"{shop}/src/test.py", cwd=shop
            ),
            say("Fixed the greatest.py loader: it reads the latest.py file now.", "2026-01-12 09:10"),
        ]
    )
    known = answer(app, HandOff("s1"), Caller())
    assert sorted(of_part(known, "file")) == ["a.py", "b.py", "docs/README.md", "src/c.py, removed since"]
    assert of_part(known, "done") == ["Fixed the greatest.py loader: it reads the latest.py file now."]


def test_a_session_that_began_with_a_command_and_failed_is_handed_over_with_both() -> None:
    app = memory(
        [
            say("/init", "2026-02-01 09:00", Role.USER, "s9"),
            *call(
                1, "2026-02-01 09:01", "Write", "Error: permission denied: GUIDE.md", True, "s9", files="/home/ada/shop/GUIDE.md"
            ),
            say("I've created a GUIDE.md for this repository.", "2026-02-01 09:02", session="s9"),
        ]
    )
    known = answer(app, HandOff("s9"), Caller())
    assert [(each["about"], each["text"]) for each in known["statements"]] == [
        ("goal", "/init"),
        ("next", "failed last: Error: permission denied: GUIDE.md"),
    ]


def test_a_bound_caller_is_told_nothing_of_another_project_and_an_empty_memory_says_so(app: App) -> None:
    bound = Caller(BILLING, locked=True)
    assert of_part(answer(app, ContinueSession(), bound), "before") == []
    for request in (HandOff("s1"), ContinueSession("s1")):
        with pytest.raises(Exception, match=f"no session s1 in {BILLING}"):
            answer(app, request, bound)
    assert answer(memory([]), ContinueSession(), Caller())["notices"] == [
        "nothing is recorded of the latest work in all projects"
    ]


def test_the_command_and_the_tool_on_a_pipe_tell_the_same(filed: tuple[Path, dict[str, str]], pipes: list[Pipe]) -> None:  # noqa: F811
    directory, env = filed
    known = json.loads(run(env, "handoff", "s1", "--all", "--json"))
    text = run(env, "handoff", "s1", "--project", SHOP)
    assert "# Handoff: session s1, 2026-01-12" in text
    assert "\n## Files\n- src/types.ts [grip:" in text
    pipe = start(pipes, directory)
    pipe.begin("modern")
    continued = pipe.call("continue_session", session_id="s1", scope="all")["structuredContent"]
    assert continued == known
    pipe.end("eof")
