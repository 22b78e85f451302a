"""What comes again: errors, commands that fail first, and instructions in other words; and rules that are written of them."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.requests.friction import GetFriction
from memory_mcp.requests.material import of_week
from memory_mcp.requests.registry import answer
from memory_mcp.requests.scope import Caller, scope_of
from tests.factories import BILLING
from tests.toc.helpers import memory
from tests.work_cases import ELSEWHERE, ERROR, failing_in_sessions, say, write_lines

LINT = (
    "Run the linter before you commit.",
    "always run the linter before committing",
    "you forgot to run the linter before the commit",
)
SAID_AGAIN = [
    LINT,
    ("use pnpm, not npm", "please install with pnpm instead of npm", "don't use npm here, we have pnpm"),
    ("Bitte keine Emojis in Commits", "Commits ohne Emojis", "In Commits kommen keine Emojis vor"),
    ("no uses npm, usa pnpm", "usa siempre pnpm en vez de npm", "pnpm, no npm"),
    (
        "Bitte schreib die Commit-Nachrichten immer auf Englisch.",
        "Commit-Nachrichten nie auf Deutsch, immer englisch schreiben.",
        "Die Commit-Nachrichten müssen auf Englisch geschrieben werden, nicht deutsch.",
    ),
    ("commit and update the changelog", "Commit this, update CHANGELOG.md", "update changelog.md when you are done"),
    ("不要用 npm，用 pnpm", "用 pnpm，别用 npm", "这里不要用 npm"),
]
NOT_RULES = [
    ("Add a dark mode toggle to the page", "Fix the login form of the shop", "Rename the project of the shop"),
    ("Commit this and push", "commit and push please", "now commit, push"),
    (
        "Please commit them first and then start a new Claude session",
        "I then want to start a second claude code and see it's fixed",
        "still reads for the quick reader as if we start a new branch always",
    ),
    ("/review the order page before merging", "/review order page once we merge it", "/review page of orders, never merge"),
    ("Can you run the linter?", "did you run the linter?", "why does the linter not run?"),
    tuple(
        f"Here is our guide ({word}):\n\n```\nAlways run the linter before you {word} anything.\n```"
        for word in ("commit", "push", "merge")
    ),
    ("Never store a total in the ledger of the shop, it is derived",) * 3,
]


NO_COMMENTS = ("Don't add comments to the code.", "Never add comments to code you write.", "Stop adding comments to the code.")
REVOKED = [
    (LINT, "Forget the rule about the linter: do not run the linter before a commit any more."),
    (LINT, "From now on you no longer need to run the linter before you commit."),
    (LINT, "Stop running the linter before each commit, it takes too long."),
    (LINT, "You do not need to run the linter any more."),
    (NO_COMMENTS, "You can add comments to the code again."),
]


def told_in_sessions(sentences: Sequence[str]) -> list[EventDraft]:
    drafts = []
    for day, sentence in enumerate(sentences, 12):
        at, session = f"2026-01-{day} 09:0", f"s{day}"
        drafts += [say("Show the page of orders, sorted by their date.", f"{at}0", Role.USER, session)]
        drafts += [say("It shows them now, the newest first.", f"{at}1", session=session)]
        drafts += [say(sentence, f"{at}2", Role.USER, session), say("Understood.", f"{at}3", session=session)]
    return drafts


def friction(app: App, caller: Caller = Caller(), **given: Any) -> dict[str, Any]:  # noqa: B008 - frozen
    return answer(app, GetFriction(**given), caller)


@pytest.mark.parametrize("sentences", SAID_AGAIN, ids=lambda sentences: sentences[0])
def test_an_instruction_in_other_words_is_known_again_with_a_citation_of_each_session(sentences: Sequence[str]) -> None:
    app = memory(told_in_sessions(sentences))
    [repeated] = friction(app)["instructions"]
    assert (repeated["sessions"], len(repeated["grips"])) == (3, 3)
    assert repeated["text"] in sentences
    for grip in repeated["grips"]:
        assert app.evidence.expand_grip(grip).quote in sentences
    assert friction(memory(told_in_sessions(sentences[:2])))["instructions"] == []


@pytest.mark.parametrize("sentences", NOT_RULES, ids=lambda sentences: sentences[0])
def test_tasks_errands_questions_and_copies_are_no_instructions(sentences: Sequence[str]) -> None:
    assert friction(memory(told_in_sessions(sentences)))["instructions"] == []


@pytest.mark.parametrize(("sentences", "revocation"), REVOKED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_was_taken_back_is_proposed_no_more(sentences: Sequence[str], revocation: str) -> None:
    [repeated] = friction(memory(told_in_sessions(sentences)))["instructions"]
    assert (repeated["sessions"], repeated["text"] in sentences) == (3, True)
    assert friction(memory(told_in_sessions([*sentences, revocation])))["instructions"] == []
    assert friction(memory(told_in_sessions([*sentences, revocation, *sentences[:2]])))["instructions"] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "The linter no longer finds the config; look at the order page.",
        "The CI linter is failing again, run it before you commit.",
        "Make sure the linter is green again before you commit.",
        "Stop forgetting to run the linter before you commit.",
    ],
)
def test_what_only_names_the_same_things_or_asks_again_takes_nothing_back(sentence: str) -> None:
    [repeated] = friction(memory(told_in_sessions([*LINT, sentence])))["instructions"]
    assert repeated["sessions"] >= len(LINT)


@pytest.mark.parametrize(
    "sentences",
    [
        (
            "Never push to main anymore.",
            "Don't push to main any more, always open a pull request.",
            "You must not push to main anymore.",
        ),
        (
            "Always run the tests until everything is green again before you commit.",
            "You must run the tests before committing, until it is all green again.",
            "Never commit before the tests are green again.",
        ),
    ],
    ids=lambda sentences: sentences[0],
)
def test_a_prohibition_from_now_on_and_a_state_to_come_back_to_are_rules(sentences: Sequence[str]) -> None:
    assert [each["sessions"] for each in friction(memory(told_in_sessions(sentences)))["instructions"]] == [3]


def test_corrections_count_in_any_language() -> None:
    words = ("Kör testerna först", "Du ska köra testerna först, tack", "testerna först, kör dem")
    stopped = [say("[Request interrupted by user]", f"2026-01-{day} 09:01", Role.USER, f"s{day}") for day in (12, 13, 14)]
    told = told_in_sessions(words)
    assert friction(memory(told))["instructions"] == []
    [repeated] = friction(memory([*told, *stopped]))["instructions"]
    assert repeated["sessions"] == 3


def test_errors_and_commands_of_three_sessions_are_told_with_what_ended_them_and_the_form_that_works() -> None:
    app = memory([*failing_in_sessions(3), *failing_in_sessions(2, BILLING)])
    told = friction(app, project="shop")
    [error], [command] = told["errors"], told["commands"]
    assert (error["sessions"], error["text"]) == (3, ERROR.splitlines()[0])
    assert error["remedy"]["text"] == "Edit src/cart.ts: total: number;"
    assert (command["sessions"], command["of_sessions"]) == (3, 3)
    assert command["text"].startswith("`npm run build`: src/cart.ts(17,3): error")
    assert command["remedy"]["text"] == "`npm run build --offline`"
    nothing = friction(app, Caller(BILLING, locked=True))
    assert (nothing["errors"], nothing["commands"], nothing["instructions"]) == ([], [], [])
    assert friction(memory())["errors"] == []


def test_the_newest_messages_and_the_runs_of_every_key_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.requests.friction._MESSAGES", 6)
    monkeypatch.setattr("memory_mcp.requests.friction._RUNS", 3)
    earlier = [say(f"Show page {number} of the orders.", f"2026-01-02 09:0{number}", Role.USER, "e") for number in range(9)]
    # Errors that came more often, and later, than the one that came in the first sessions.
    other = [
        dataclasses.replace(each, text=each.text.replace(ERROR, ELSEWHERE), session_id=f"later-{each.session_id}")
        for each in failing_in_sessions(5, month="2026-02")
    ]
    app = memory([*earlier, *told_in_sessions(LINT), *failing_in_sessions(3), *other])
    frictions = friction(app)
    assert [each["sessions"] for each in frictions["instructions"]] == [3]
    assert [each["sessions"] for each in frictions["errors"]] == [5, 3]


def test_the_digest_of_a_week_tells_what_came_again_in_it() -> None:
    app = memory([*failing_in_sessions(3), *told_in_sessions(LINT)])
    scoped = scope_of(app, "", "", Caller())
    lines = of_week(app, "2026-W03", scoped, 800).text.splitlines()
    assert [line.partition(":")[0] for line in lines if "3 sessions" in line] == [
        "- error again, 3 sessions",
        "- fails first, 3 sessions",
        "- you asked again, 3 sessions",
    ]


@pytest.fixture
def home(data_dir: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    events = write_lines(tmp_path / "events.jsonl", [*told_in_sessions(LINT), *failing_in_sessions(3)])
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "MEMORY_MCP_STORAGE__DATA_DIR": str(data_dir),
        "MEMORY_MCP_SERVER__DAEMON": "false",
    }
    run(tmp_path, env, "ingest", str(events))
    return tmp_path, env


def run(folder: Path, env: dict[str, str], *words: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "memory_mcp", *words]
    done = subprocess.run(command, env=env, cwd=folder, text=True, capture_output=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.mark.usefixtures("processes")
def test_a_rule_is_shown_as_a_difference_written_once_and_taken_back_by_the_command(home: tuple[Path, dict[str, str]]) -> None:
    folder, env = home
    file = folder / "AGENTS.md"
    file.write_text("# Shop\n\nKeep it simple.\n")
    assert "asked in 3 sessions" in run(folder, env, "today")
    assert "\n1. " in run(folder, env, "rules", "list", "--all")
    shown = run(folder, env, "rules", "add", "1", "--all")
    assert "+- " in shown
    assert "linter" in shown
    preview = json.loads(run(folder, env, "rules", "add", "1", "--all", "--json"))
    assert (preview["file"], preview["written"]) == (str(file), False)
    add = ("rules", "add", preview["confirm"], "--all")
    # A number may be another rule's by the time it is confirmed.
    assert "citation" in run(folder, env, "rules", "add", "1", "--all", "--yes", status=2)
    file.chmod(0o444)
    assert "read-only" in run(folder, env, *add, "--yes", "--json", status=2)
    file.chmod(0o644)
    assert file.read_text() == "# Shop\n\nKeep it simple.\n"
    assert json.loads(run(folder, env, *add, "--yes", "--json"))["written"] is True
    written = file.read_text()
    assert written.startswith("# Shop\n\nKeep it simple.\n")
    assert written.count("linter") == 1
    unchanged = json.loads(run(folder, env, *add, "--client", "codex", "--yes", "--json"))
    assert (unchanged["difference"], unchanged["written"]) == ([], False)
    # Whatever wording it is proposed in by now.
    file.write_text(written.replace(re.search("^- .*linter.*?(?= <!--)", written, re.M)[0], "- lint it"))  # type: ignore[index]
    reworded = json.loads(run(folder, env, *add, "--yes", "--json"))
    assert (reworded["difference"], reworded["written"]) == ([], False)
    run(folder, env, "rules", "remove", "all", "--yes")
    assert file.read_text() == "# Shop\n\nKeep it simple.\n"
    assert "CLAUDE.md" in run(folder, env, *add, "--client", "claude-code", "--yes")
    run(folder, env, "rules", "remove", preview["confirm"], "--client", "claude-code", "--yes")
    assert not (folder / "CLAUDE.md").exists()


@pytest.mark.usefixtures("processes")
def test_a_link_out_of_the_project_is_written_only_where_it_is_named(home: tuple[Path, dict[str, str]]) -> None:
    folder, env = home
    outside = folder / "bashrc"
    outside.write_text("alias l=ls\n")
    project = folder / "clone"
    project.mkdir()
    (project / "CLAUDE.md").symlink_to(outside)
    add = ("rules", "add", "1", "--project", "shop")
    for client in ((), ("--client", "claude-code")):
        assert str(outside) in run(project, env, *add, *client, status=2)
    assert f"+++ {outside}" in run(project, env, *add, "--file", "CLAUDE.md")
    assert outside.read_text() == "alias l=ls\n"
