"""What is known at the point of action: through the tool on a real pipe, through the commands, and in another's scope."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.capture.running import CallerProcess
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.requests.recall_for import RecallFor
from memory_mcp.requests.registry import answer
from memory_mcp.requests.scope import Caller
from memory_mcp.storage.settings import StorageSettings
from tests.factories import BILLING
from tests.interaction.test_stdio import Pipe, start
from tests.toc.helpers import memory, run_sql
from tests.work_cases import AGAIN, ELSEWHERE, ERROR, FIRST, REASON, SECOND, THIRD, call, say, write_lines


@pytest.fixture
def app(kept_in: Callable[[], StorageSettings]) -> App:
    return memory([*FIRST, *SECOND, *THIRD], where=kept_in())


def recall(app: App, caller: Caller = Caller(), **given: str) -> dict[str, Any]:  # noqa: B008 - frozen
    return answer(app, RecallFor(**given), caller)


def told(response: dict[str, Any], about: str) -> list[str]:
    return [statement["text"] for statement in response["statements"] if statement["about"] == about]


def test_an_error_is_told_with_what_ended_it_why_and_what_was_in_vain(app: App) -> None:
    known = recall(app, error=AGAIN)
    assert known["outcome"] == "resolved"
    assert told(known, "seen")[0].startswith("seen 3 times in 2 sessions, 2026-01-12 to 2026-01-20: lib/order.ts(240,11)")
    assert told(known, "ended")[0] == "Edit src/types.ts: total: number;"
    assert told(known, "then")[0].startswith("`CI=1 npm run build` succeeded, 2 min after the last of 2 failures")
    assert told(known, "why") == [REASON]
    assert told(known, "in_vain") == ["`npm install`"]
    for statement in known["statements"]:
        assert app.evidence.expand_grip(statement["grip"]).excerpt
    assert len(json.dumps(known)) < 4 * 400


@pytest.mark.parametrize(
    ("said", "reasons"),
    [
        ("Now let me edit the types file of the cart.", [REASON]),
        ("Now I'll add it there, because the cart reads its fields from that interface.", None),
    ],
)
def test_what_only_announces_a_change_is_not_its_reason(said: str, reasons: list[str] | None) -> None:
    place = next(number for number, each in enumerate(FIRST) if each.text == REASON) + 1
    reason = FIRST[place - 1]
    later = replace(reason, text=said, timestamp=(reason.timestamp or 0) + 5000)
    known = recall(memory([*FIRST[:place], later, *FIRST[place:]]), error=ERROR)
    assert told(known, "why") == (reasons or [said])


def test_an_error_without_an_end_is_told_too_and_an_unknown_one_is_not_seen(app: App) -> None:
    assert recall(app, error=ELSEWHERE)["outcome"] == "unresolved"
    unknown = recall(app, error="Segmentation fault in the frobnicator module")
    assert (unknown["outcome"], unknown["statements"]) == ("not_seen", [])


def lint(number: int, at: str, file: str, finding: str) -> list[EventDraft]:
    """A checker's report, the edit of a file, and the same call without a finding."""
    report = f"{file}:{number}:3: {finding}\n1 issues:\n[lint] ERROR task failed"
    return [
        *call(number, f"{at}:01", "Bash", report, failed=True, command="npm run lint"),
        *call(number + 1, f"{at}:02", "Edit", "ok", files=f"/home/ada/shop/{file}"),
        *call(number + 2, f"{at}:03", "Bash", "[lint] clean", command="npm run lint 2>&1 | tail -5"),
    ]


def test_of_errors_of_one_command_that_each_came_to_an_end_the_one_with_the_same_rare_line_is_told() -> None:
    unused, repeated = "declared and not used: {} (unused)", "string `{}` has 3 occurrences, make it a constant (goconst)"
    app = memory(
        [
            *lint(1, "2026-01-12 09", "cart.go", repeated.format("total")),
            *lint(4, "2026-01-12 10", "order.go", unused.format("sum")),
            *lint(7, "2026-01-12 11", "list.go", unused.format("item")),
        ]
    )
    known = recall(app, error=f"src/user.go:4:1: {repeated.format('name')}\n1 issues:\n[lint] ERROR task failed")
    assert told(known, "seen")[0].startswith("seen once in 1 session, 2026-01-12: cart.go:1:3: string")
    assert told(known, "ended") == ["Edit cart.go: total: number;"]
    ended_by = [f"Edit {file}: total: number;" for file in ("list.go", "order.go")]
    assert told(recall(app, error=f"src/user.go:99:1: {unused.format('user')}\n[lint] ERROR task failed"), "ended") == ended_by
    assert told(recall(app, error=f"src/user.go:99:1: {unused.format('sum')}\n[lint] ERROR task failed"), "ended") == ended_by[1:]


def test_the_success_of_the_very_same_call_ends_an_error_not_one_of_the_same_program_on_something_else() -> None:
    app = memory(
        [
            *call(1, "2026-01-12 09:01", "Bash", ERROR, failed=True, command="cd /home/ada/shop && npm test cart 2>&1"),
            *call(2, "2026-01-12 09:02", "Edit", "ok", files="/home/ada/shop/src/order.ts"),
            *call(3, "2026-01-12 09:03", "Bash", "passed", command="npm test order"),
            *call(4, "2026-01-12 09:04", "Edit", "ok", files="/home/ada/shop/src/types.ts"),
            *call(5, "2026-01-12 09:05", "Bash", "passed", command="npm test cart | tail -3"),
        ]
    )
    known = recall(app, error=AGAIN)
    assert told(known, "ended")[0] == "Edit src/types.ts: total: number;"
    assert told(known, "then") == ["`npm test cart | tail -3` succeeded, 4 min after the failure"]


def test_what_worked_in_the_place_of_a_call_that_always_failed_is_told_for_command_and_error() -> None:
    missing = "bash: python: command not found"
    app = memory(
        [
            *call(1, "2026-01-12 09:01", "Bash", missing, failed=True, command="python tools/seed.py --all"),
            *call(2, "2026-01-12 09:02", "Bash", "done", command="ls tools"),
            *call(3, "2026-01-12 09:03", "Bash", "seeded", command="python3 tools/seed.py --all"),
        ]
    )
    known = recall(app, command="python tools/seed.py")
    assert (known["outcome"], told(known, "works")) == ("works", ["`python3 tools/seed.py --all` worked in its place"])
    assert told(known, "failed") == [f"`python tools/seed.py --all`: {missing}"]
    known = recall(app, error=missing)
    assert (known["outcome"], told(known, "then")) == (
        "resolved",
        ["`python3 tools/seed.py --all` succeeded in its place"],
    )


def test_a_file_is_told_with_what_was_said_of_it_not_with_what_was_printed_listed_or_said_of_another() -> None:
    rule = "Never edit src/cart.ts by hand, it is made from the schema."
    app = memory(
        [
            say("Bring the cart up to date, please, as we said.", "2026-01-12 09:00", Role.USER),
            say(rule, "2026-01-12 09:01", Role.USER),
            *call(1, "2026-01-12 09:02", "Bash", "error: cart.ts must be a module", failed=True, command="tsc src/cart.ts"),
            say("We decided to use lib/cart.ts as the entry of the library.", "2026-01-12 09:03", Role.USER),
            say("Changed:\n- `src/cart.ts` — only adds a total\n- `src/list.ts` — must show it below", "2026-01-12 09:04"),
        ]
    )
    said = [each["text"] for each in recall(app, file="src/cart.ts")["statements"] if each["about"] not in ("changed", "asked")]
    assert said == [rule]
    assert recall(app, file="src")["statements"] == []


def test_a_command_is_told_as_it_works_here_with_what_failed(app: App) -> None:
    known = recall(app, command="npm run build --silent")
    [works] = told(known, "works")
    assert works == "`CI=1 npm run build` in /home/ada/shop, with CI set (1 of 4 calls succeeded, takes about 1.0 s)"
    assert told(known, "failed")[0].startswith("`npm run build`: lib/order.ts(240,11): error TS2339")
    # Of a line that was never called as it is, each program is told.
    forms = told(recall(app, command="npm run build && npm install"), "works")
    assert [text.split("`")[1] for text in forms] == ["CI=1 npm run build", "npm install"]
    assert recall(app, command="psql")["outcome"] == "fails"
    assert recall(app, command="cargo build")["outcome"] == "not_seen"


def test_a_file_is_told_with_what_was_decided_and_the_request_of_its_last_change(app: App) -> None:
    known = recall(app, file="shop/src/types.ts")
    assert told(known, "decision") == ["We decided that types.ts holds every interface of the cart."]
    assert told(known, "changed") == ["Edit src/types.ts: total: number; by claude-code, session s1"]
    assert told(known, "asked") == ["Add a total to the cart, please, and show it below the list."]
    assert told(recall(app, file="other/types.ts"), "changed") == []


def test_a_file_of_the_same_path_in_another_repository_is_another_file(tmp_path: Path) -> None:
    heads = tmp_path / ".git" / "refs" / "heads"
    heads.mkdir(parents=True)
    (heads / "main").write_text(f"{'1' * 40}\n")
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    billing, part = "/home/ada/billing", "/home/ada/shop/packages/a"
    app = memory(
        [
            *call(1, "2026-01-12 09:01", "Edit", "ok", files=f"{tmp_path}/README.md", cwd=str(tmp_path)),
            *call(2, "2026-01-12 09:02", "Edit", "ok", files=f"{tmp_path}/src/tax.ts", cwd=str(tmp_path)),
            *call(3, "2026-01-12 10:01", "Edit", "ok", files=f"{billing}/README.md", cwd=billing, session="s2", project=BILLING),
            *call(4, "2026-01-12 10:02", "Edit", "ok", files=f"{billing}/src/tax.ts", cwd=billing, session="s2", project=BILLING),
            *call(5, "2026-01-12 11:01", "Edit", "ok", files=f"{part}/README.md", cwd=part, session="s3"),
        ]
    )
    here = Caller(connection=CallerProcess(cwd=str(tmp_path)))
    for name in ("README.md", "src/tax.ts"):
        [changed] = told(recall(app, here, file=str(tmp_path / name), scope="all"), "changed")
        assert changed.endswith("session s1"), name


def test_a_file_is_known_by_its_path_in_the_repository_where_a_session_was_carried_from_another_machine(
    tmp_path: Path,
) -> None:
    (tmp_path / "src").mkdir()
    heads = tmp_path / ".git" / "refs" / "heads"
    heads.mkdir(parents=True)
    (heads / "main").write_text(f"{'1' * 40}\n")
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    there = "/Users/eva/work/shop"
    app = memory(
        [
            say("Show the tax in the cart, please.", "2026-01-12 09:00", Role.USER),
            *call(1, "2026-01-12 09:01", "Edit", "ok", files=f"{there}/src/tax.ts", cwd=there),
            *call(2, "2026-01-12 09:02", "Edit", "ok", files=f"{there}/docs/README.md", cwd=there),
            *call(3, "2026-01-12 09:03", "Edit", "ok", files="C:\\work\\shop\\src\\sum.ts", cwd="C:\\work\\shop"),
        ]
    )
    here = Caller(connection=CallerProcess(cwd=str(tmp_path / "src")))
    known = recall(app, here, file=str(tmp_path / "src" / "tax.ts"))
    assert told(known, "changed") == ["Edit src/tax.ts: total: number; by claude-code, session s1"]
    assert told(known, "asked") == ["Show the tax in the cart, please."]
    assert len(told(recall(app, here, file=str(tmp_path / "src" / "sum.ts")), "changed")) == 1
    for other in ("README.md", "lib/src/tax.ts", "tax.ts"):
        assert told(recall(app, here, file=str(tmp_path / other)), "changed") == [], other
    assert told(recall(app, here, file="/elsewhere/src/tax.ts"), "changed") == []


def test_events_that_are_lost_leave_an_answer_without_their_words(app: App) -> None:
    run_sql(app, "DELETE FROM event WHERE type = 'tool_result'")
    assert recall(app, error=AGAIN)["outcome"] == "resolved"
    assert recall(app, command="npm run build")["outcome"] == "works"


def test_a_file_is_followed_through_its_renames(app: App) -> None:
    app.write(
        call(9, "2026-01-13 09:00", "Bash", "(no output)", session="s4", command="git mv src/types.ts src/cart/model.ts"), "test"
    )
    app.derivation.run()
    known = recall(app, file="src/cart/model.ts")
    assert told(known, "decision") == ["We decided that types.ts holds every interface of the cart."]
    assert [text.split(" by ")[0] for text in told(known, "changed")] == [
        "`git mv src/types.ts src/cart/model.ts`",
        "Edit src/types.ts: total: number;",
    ]


def test_a_bound_caller_sees_nothing_of_another_project_and_nothing_given_is_an_error(app: App) -> None:
    bound = Caller(BILLING, locked=True)
    for given in ({"error": AGAIN}, {"command": "npm run build"}, {"file": "src/types.ts"}):
        assert recall(app, bound, **given)["statements"] == []
    assert recall(app, error=AGAIN, project="billing")["outcome"] == "not_seen"
    with pytest.raises(Exception, match="nothing was asked for"):
        recall(app)


@pytest.fixture
def filed(data_dir: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    file = write_lines(tmp_path / "work.jsonl", [*FIRST, *SECOND])
    home = data_dir.parent / "home"
    home.mkdir(exist_ok=True)
    env = {**os.environ, "HOME": str(home), "MEMORY_MCP_STORAGE__DATA_DIR": str(data_dir), "MEMORY_MCP_SERVER__DAEMON": "false"}
    run(env, "ingest", str(file))
    return data_dir, env


def run(env: dict[str, str], *words: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "memory_mcp", *words]
    done = subprocess.run(command, env=env, input=stdin, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_and_the_tool_on_a_pipe_tell_the_same_until_it_is_forgotten(
    filed: tuple[Path, dict[str, str]], pipes: list[Pipe]
) -> None:
    directory, env = filed
    fixed = json.loads(run(env, "fix", "-", "--all", "--json", stdin=AGAIN))
    assert told(fixed, "ended")[0] == "Edit src/types.ts: total: number;"
    assert "works       `CI=1 npm run build` in /home/ada/shop" in run(env, "how", "npm run build", "--all")
    assert "changed     Edit src/types.ts" in run(env, "why", "src/types.ts", "--all")
    pipe = start(pipes, directory)
    pipe.begin("modern")
    assert pipe.call("recall_for", error=AGAIN, scope="all")["structuredContent"] == fixed
    pipe.end("eof")
    run(env, "forget", "--session", "s1", "--yes")
    forgotten = json.loads(run(env, "fix", ERROR, "--all", "--json"))
    assert forgotten["outcome"] == "unresolved"
    assert told(forgotten, "seen")[0].startswith("seen once in 1 session, 2026-01-20")
    assert "changed" not in run(env, "why", "src/types.ts", "--all")
