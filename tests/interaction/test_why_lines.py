"""Why a line is so: a real repository, its commits, and the sessions that made them."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base import git_run
from memory_mcp.capture.running import CallerProcess
from memory_mcp.model.event import Role
from memory_mcp.requests.recall_for import RecallFor
from memory_mcp.requests.registry import answer
from memory_mcp.requests.scope import Caller
from tests.factories import BILLING, ms
from tests.interaction.test_recall_for import told
from tests.toc.helpers import memory
from tests.work_cases import REASON, call, say

pytestmark = pytest.mark.usefixtures("processes")


def git(folder: Path, *words: str, at: str = "2026-01-12 09:00") -> str:
    day = f"{ms(at) // 1000} +0000"
    who = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "a@x"}
    env = {**os.environ, **who, "GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *words], cwd=folder, env=env, text=True, capture_output=True, check=True)
    return done.stdout


def commit(folder: Path, text: str, subject: str, at: str) -> str:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "cart.py").write_text(text)
    git(folder, "add", ".")
    return git(folder, "commit", "-m", subject, at=at)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first = 1\nlast = 9\n", "Begin the cart", "2026-01-02 09:00")
    return folder


@pytest.fixture
def app(repository: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setattr("memory_mcp.requests.line_history.BUDGET_MS", 20_000)
    file, project = str(repository / "src" / "cart.py"), str(repository)
    printed = commit(repository, "first = 1\ntotal = 2\nlast = 9\n", "Count the total", "2026-01-12 09:10")
    commit(repository, "first = 1\ntotal = 2\nlast = 9\nrounded = 3\n", "Round what is shown", "2026-01-14 09:10")
    return memory(
        [
            say("Show a total below the cart.", "2026-01-12 09:00", Role.USER, "one", project),
            say(REASON, "2026-01-12 09:03", session="one", project=project),
            *call(1, "2026-01-12 09:04", "Edit", "The file has been updated.", False, "one", project, files=file),
            *call(2, "2026-01-12 09:10", "Bash", printed, False, "one", project, command='git commit -am "Count the total"'),
            say("Prices are to be rounded.", "2026-01-14 09:00", Role.USER, "two", project),
            *call(1, "2026-01-14 09:04", "Edit", "The file has been updated.", False, "two", project, files=file),
            say("Something else in another place.", "2026-01-14 09:00", Role.USER, "three", BILLING),
            *call(1, "2026-01-14 09:09", "Edit", "The file has been updated.", False, "three", BILLING, files="/b/src/cart.py"),
        ]
    )


def why(app: App, repository: Path, lines: str, caller: Caller | None = None, file: str = "src/cart.py") -> dict[str, Any]:
    known = caller or Caller(str(repository), connection=CallerProcess(cwd=str(repository)))
    return answer(app, RecallFor(file=file, lines=lines, project=str(repository)), known)


def test_a_line_leads_to_its_commit_session_request_and_reason(app: App, repository: Path) -> None:
    known = why(app, repository, "2")
    [made] = [text for text in told(known, "changed") if text.startswith("commit ")]
    assert made.endswith("of 2026-01-12 by Ada: Count the total; session one")
    assert told(known, "asked")[0] == "Show a total below the cart."
    assert told(known, "why")[0] == REASON


def test_without_a_commit_command_files_and_time_tell_the_session_also_behind_lines_that_are_not_committed(
    app: App, repository: Path
) -> None:
    (repository / "src" / "cart.py").write_text("new = 0\nfirst = 1\ntotal = 2\nlast = 9\nrounded = 3\n")
    assert told(why(app, repository, "5"), "changed")[0].endswith("Round what is shown; session two")
    assert not [text for text in told(why(app, repository, "1"), "changed") if text.startswith("commit ")]


def test_git_is_not_asked_for_callers_from_elsewhere_nor_outside_of_the_projects_repository(
    app: App, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_run, "subprocess", None)
    for caller, file in (
        (Caller(str(repository)), str(repository / "src" / "cart.py")),
        (Caller(str(repository), connection=CallerProcess(cwd=str(tmp_path))), "src/cart.py"),
        (None, "../elsewhere/cart.py"),
    ):
        notices = why(app, repository, "2", caller, file)["notices"]
        assert any("only in a repository that the project is known by" in notice for notice in notices)


def test_what_a_repository_configures_is_not_run(app: App, repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    for name in ("core.fsmonitor", "diff.trap.textconv", "filter.trap.smudge", "filter.trap.clean", "diff.external"):
        git(repository, "config", name, f"touch {trap}; cat")
    (repository / ".gitattributes").write_text("* diff=trap filter=trap\n")
    assert told(why(app, repository, "2"), "changed")
    assert not trap.exists()
