"""Does it still hold: statements about code with what their repository says since, through requests, the tool and the command."""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base import git_changes, git_run
from memory_mcp.base.git_changes import CommitEdits
from memory_mcp.base.scope import project_of
from memory_mcp.capture.running import CallerProcess
from memory_mcp.model.event import SHARED_BY, EventDraft, Role, Trust
from memory_mcp.requests.recall_for import RecallFor
from memory_mcp.requests.registry import answer
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest
from memory_mcp.requests.today import GetToday
from memory_mcp.storage.values import Scope
from memory_mcp.tree.outcomes import repository
from memory_mcp.tree.outcomes.mentions import Mention, find_mentions, find_region
from memory_mcp.tree.toc.later_changes import LaterChanges
from tests.factories import ms
from tests.interaction.test_recall_for import run, told
from tests.interaction.test_stdio import Pipe, start
from tests.interaction.test_why_lines import git
from tests.toc.helpers import memory
from tests.work_cases import call, say

CART = "first = 1\n\n\ndef total(prices):\n    everything = sum(prices)\n    return everything\n\n\nlast = 9\n"
TOTAL = "We decided that `total` in src/cart.py adds up without rounding."


def commit(folder: Path, files: dict[str, str | None], subject: str, at: str) -> str:
    """Commit these contents, None to delete; return the commit's name."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink() if text is None else file.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject, at=at)
    return git(folder, "rev-parse", "HEAD").strip()[:10]


@pytest.fixture
def folder(tmp_path: Path, processes: None) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    files = {"src/cart.py": CART, "src/till.py": "def pay():\n    return 1\n", "a/util.py": "one = 1\n", "b/util.py": "two = 2\n"}
    commit(folder, {**files}, "Begin", "2026-01-02 09:00")
    return folder


def remember(
    folder: Path,
    *statements: str,
    at: str = "2026-01-12 09:05",
    trust: Trust | None = None,
    marks: Mapping[str, str] | None = None,
) -> App:
    """A memory of a session in that folder, with time enough to ask git on a busy machine."""
    drafts: list[EventDraft] = [say("What is to be kept?", "2026-01-12 09:00", Role.USER, "one", str(folder))]
    for number, text in enumerate(statements):
        drafts.append(say(text, f"{at[:-1]}{number}", session="one", project=str(folder)))
    app = memory()
    app.later_changes = LaterChanges(app.storage, app.calendar, 20_000, 20.0)
    app.write([replace(each, metadata={"cwd": str(folder), **(marks or {})}) for each in drafts], "test", trust)
    app.derivation.run()
    return app


def ask(app: App, folder: Path, caller: Caller | None = None) -> dict[str, str]:
    """What each statement is shown with by a search."""
    here = caller or Caller(str(folder), connection=CallerProcess(cwd=str(folder)))
    found = answer(app, SearchRequest(query="decided never always", limit=20, detail="full"), here)["results"]
    return {one["quote"]: one.get("since", "") for one in found}


def test_renames_deletions_changes_and_reversals_are_told_with_their_commit(folder: Path) -> None:
    till = "We decided that till.py stays the only place that takes money."
    names = "We must never rename util.py, others import it."
    app = remember(folder, TOTAL, till, names)
    assert set(ask(app, folder).values()) == {""}

    commit(folder, {"src/cart.py": CART.replace("last = 9", "last = 10")}, "Something else", "2026-01-13 09:00")
    assert ask(app, folder)[TOTAL] == ""
    changed = commit(folder, {"src/cart.py": CART.replace("sum(prices)", "round(sum(prices))")}, "Round", "2026-01-14 09:00")
    commit(folder, {"src/cart.py": CART.replace("sum(prices)", "round(sum(prices))") + "more = 1\n"}, "More", "2026-01-15 09:00")
    assert ask(app, folder)[TOTAL] == f"total of src/cart.py changed ({changed}, 2026-01-14)"

    (folder / "lib").mkdir()
    git(folder, "mv", "src/till.py", "lib/till.py")
    commit(folder, {}, "Move it", "2026-01-16 09:00")
    git(folder, "mv", "lib/till.py", "lib/register.py")
    moved = commit(folder, {}, "Move it again", "2026-01-17 09:00")
    assert ask(app, folder)[till] == f"src/till.py is now lib/register.py ({moved}, 2026-01-17)"
    gone = commit(folder, {"lib/register.py": None, "b/util.py": None}, "Drop it", "2026-01-18 09:00")
    since = ask(app, folder)
    assert since[till] == f"src/till.py was deleted ({gone}, 2026-01-18)"
    # Which of two files was meant is not known.
    assert since[names] == ""


def test_what_was_committed_for_it_is_no_later_change_and_its_reversal_is_one_until_that_is_reversed(folder: Path) -> None:
    app = remember(folder, TOTAL)
    own = commit(folder, {"src/cart.py": CART.replace("everything", "all_of_it")}, "Name it", "2026-01-12 10:00")
    assert ask(app, folder)[TOTAL] == ""
    git(folder, "revert", "--no-edit", own, at="2026-01-20 09:00")
    back = git(folder, "rev-parse", "HEAD").strip()
    assert ask(app, folder)[TOTAL] == f"the change was reverted ({back[:10]}, 2026-01-20)"
    git(folder, "revert", "--no-edit", back, at="2026-01-21 09:00")
    assert ask(app, folder)[TOTAL] == ""
    # The same by hand.
    by_hand = commit(folder, {"src/cart.py": CART}, "As it was", "2026-01-22 09:00")
    assert ask(app, folder)[TOTAL] == f"the change was reverted ({by_hand}, 2026-01-22)"


def test_a_change_that_its_session_made_and_others_committed_days_later_is_its_own(folder: Path) -> None:
    app = remember(folder, TOTAL)
    file, project = str(folder / "src" / "cart.py"), str(folder)
    app.write(call(1, "2026-01-12 09:20", "Edit", "The file has been updated.", False, "one", project, files=file), "test")
    app.derivation.run()
    commit(folder, {"src/cart.py": CART.replace("everything", "all_of_it")}, "Work of the week", "2026-01-16 17:00")
    assert ask(app, folder)[TOTAL] == ""
    later = commit(folder, {"src/cart.py": CART.replace("everything", "nothing")}, "Other work", "2026-01-17 17:00")
    assert later in ask(app, folder)[TOTAL]


def test_a_file_is_recalled_by_its_names_and_its_statements_say_where_it_is_as_today_and_its_page_do(folder: Path) -> None:
    app = remember(folder, TOTAL)
    git(folder, "mv", "src/cart.py", "src/basket.py")
    moved = commit(folder, {}, "Call it a basket", "2026-01-16 09:00")
    note = f"src/cart.py is now src/basket.py ({moved}, 2026-01-16)"
    here = Caller(str(folder), connection=CallerProcess(cwd=str(folder)))
    for name in ("src/basket.py", "src/cart.py"):
        [statement] = [one for one in answer(app, RecallFor(file=name), here)["statements"] if one["about"] == "decision"]
        assert statement["since"] == note
    assert len(json.dumps(answer(app, RecallFor(file="src/basket.py"), here))) < 4 * 400
    today = answer(app, GetToday(), here)["projects"]
    assert [one["since"] for project in today for one in project.get("decisions", ())] in ([], [note])


def test_only_repositories_that_the_project_was_recorded_in_are_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = remember(folder, TOTAL, trust=Trust.IMPORTED)
    shared = remember(folder, TOTAL, marks={SHARED_BY: "eve"})
    elsewhere = Caller(str(folder), connection=CallerProcess(cwd=str(tmp_path)))
    app = remember(folder, TOTAL)
    trap = tmp_path / "ran"
    for name in ("core.fsmonitor", "diff.trap.textconv", "filter.trap.smudge", "filter.trap.clean", "diff.external"):
        git(folder, "config", name, f"touch {trap}; cat")
    commit(folder, {".gitattributes": "* diff=trap filter=trap\n"}, "A trap", "2026-01-15 09:00")
    trap.unlink(missing_ok=True)
    git(folder, "rm", "-q", "src/cart.py")
    commit(folder, {}, "Drop it", "2026-01-16 09:00")
    trap.unlink(missing_ok=True)
    # From elsewhere on this machine, and from the network: the directory is the event's own.
    for caller in (elsewhere, Caller(str(folder))):
        assert "was deleted" in ask(app, folder, caller)[TOTAL]
    assert not trap.exists()
    # The directory of what was sent or shared is one that anybody may name.
    for caller in (elsewhere, Caller(str(folder))):
        assert [ask(memory_of, folder, caller)[TOTAL] for memory_of in (sent, shared)] == ["", ""]
    app.later_changes = LaterChanges(app.storage, app.calendar, 0)
    monkeypatch.setattr(git_run, "subprocess", None)
    assert ask(app, folder)[TOTAL] == ""


def test_an_answer_does_not_wait_longer_than_it_may_and_knows_it_the_next_time(folder: Path) -> None:
    app = remember(folder, TOTAL)
    git(folder, "rm", "-q", "src/cart.py")
    commit(folder, {}, "Drop it", "2026-01-16 09:00")
    app.later_changes = LaterChanges(app.storage, app.calendar, 1, 20.0)
    quick, since = ask(app, folder)[TOTAL], ""
    assert quick == ""
    for _ in range(2000):
        since = since or ask(app, folder)[TOTAL]
        if since:
            break
    assert "was deleted" in since


def test_what_cannot_be_read_is_not_read_at_every_answer_and_old_statements_do_not_hide_newer_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = remember(folder, TOTAL)
    pay = "We decided that `pay` in src/till.py returns one."
    app.write([replace(say(pay, "2023-01-12 09:00", session="old", project=str(folder)), metadata={"cwd": str(folder)})], "test")
    app.derivation.run()
    monkeypatch.setattr(repository, "time", SimpleNamespace(time=lambda: ms("2026-02-01 09:00") / 1000))
    since_times: list[int] = []

    def list_recent(tree: str, head: str, paths: Any, ends: Any, since_ms: int, deadline: float) -> list[CommitEdits] | None:
        since_times.append(since_ms)
        is_recent = not (paths or ends) or since_ms > ms("2025-01-01 09:00")
        return git_changes.list_changes(tree, head, paths, ends, since_ms, deadline) if is_recent else None

    monkeypatch.setattr(repository, "list_changes", list_recent)
    git(folder, "rm", "-q", "src/cart.py", "src/till.py")
    commit(folder, {}, "Drop them", "2026-01-16 09:00")
    first_answer = ask(app, folder)
    count = len(since_times)
    assert "was deleted" in first_answer[TOTAL]
    assert (first_answer[pay], ask(app, folder), len(since_times)) == ("", first_answer, count)

    monkeypatch.setattr(git_changes, "_LIST", 3)
    monkeypatch.setattr(git_run, "subprocess", processes := CountedProcesses())
    commit(folder, {"more.py": "more = 1\n"}, "More", "2026-01-17 09:00")
    assert [ask(app, folder)[TOTAL] for _ in range(3)] == [""] * 3
    assert processes.count == 1
    commit(folder, {"more.py": "more = 2\n"}, "More", "2026-01-18 09:00")
    app.later_changes.close()
    assert (ask(app, folder)[TOTAL], processes.count) == ("", 1)


@pytest.mark.parametrize(
    "path", ["..", "../..", ".", "x" * 300, "a\0b.py", "\ud800.py", "/nowhere/x.py", f"src/{'y' * 300}/z.py"]
)
def test_any_path_may_be_asked_for_names(folder: Path, path: str) -> None:
    app = remember(folder, TOTAL)
    absolute = (str(folder / path),) if "\0" not in path else ()
    for name in (path, *absolute):
        assert app.later_changes.list_names(name, None, str(folder)) == []
    git(folder, "mv", "src/cart.py", "src/basket.py")
    commit(folder, {}, "Call it a basket", "2026-01-16 09:00")
    for known in ("src/cart.py", "src/../src/cart.py", str(folder / "src" / "cart.py")):
        names = app.later_changes.list_names(known, None, str(folder))
        assert names == (["src/basket.py"] if ".." not in known else [])


def test_git_reads_what_is_asked_whole_takes_names_as_they_are_and_fetches_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = b"0" * 40 + b"\n"
    git_answer = git_run.ask_git(folder, ["cat-file", "--batch"], time.monotonic() + 60, missing * 5000)
    assert git_answer is not None
    assert git_answer.count(b"missing") == 5000
    assert git_run.ask_git(folder, ["no-such-command"], time.monotonic() + 60, missing * 5000) is None
    git(folder, "mv", "src/cart.py", ":!cart.py")
    commit(folder, {}, "An odd name", "2026-01-16 09:00")
    head = git(folder, "rev-parse", "HEAD").strip()
    changes = git_changes.list_changes(str(folder), head, [":!cart.py", "src/cart.py"], [], 0, time.monotonic() + 60)
    assert changes is not None
    assert [change.edits[-1].path for change in changes] == ["src/till.py", ":!cart.py"]

    clone, trap = tmp_path / "clone", tmp_path / "fetched"
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", folder.as_uri(), str(clone))
    git(clone, "config", "protocol.ext.allow", "always")
    git(clone, "config", "remote.origin.url", f"ext::touch {trap}")
    # As a git that is too old for it.
    monkeypatch.delitem(git_run._SAFE, "GIT_NO_LAZY_FETCH")
    git_changes.read_texts(str(clone), [f"{head}:src/till.py"], time.monotonic() + 60)
    assert not trap.exists()


class CountedProcesses:
    """The module `subprocess` that counts processes."""

    PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL

    def __init__(self) -> None:
        self.count = 0

    def Popen(self, *words: Any, **options: Any) -> Any:  # noqa: N802 - as there
        self.count += 1
        return subprocess.Popen(*words, **options)


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("Keep a/b.py:12-20 as it is.", [Mention("a/b.py", (12, 20))]),
        ("lines 3 to 5 of ./x.go, not https://x.org/a.html", [Mention("x.go", (3, 5))]),
        ("call app.run() with `cfg.toml`, e.g. /abs/dir/File.ts", [Mention("cfg.toml"), Mention("/abs/dir/File.ts")]),
        ("version 1.2.3 of the thing", []),
    ],
)
def test_files_and_lines_are_read_from_a_statement(text: str, mentions: list[Mention]) -> None:
    assert [one for one in find_mentions(text) if one.path != "e.g"] == mentions


def test_a_region_is_what_a_statement_names() -> None:
    text = CART + "\nLIMIT = 5\n\n\ndef other():\n    return LIMIT\n"
    by_name = find_region("`total` in cart.py", Mention("cart.py"), text)
    assert by_name is not None
    assert by_name.changed_in(text.replace("last = 9", "last = 8")) is None
    assert by_name.changed_in("\n\n" + text) is None
    assert by_name.changed_in(text.replace("sum", "max")) == "total"
    by_line = find_region("cart.py", Mention("cart.py", (9, 9)), text)
    assert by_line is not None
    assert (by_line.changed_in(text), by_line.changed_in(text.replace("= 9", "= 8"))) == (None, "")
    assert find_region("nothing of that is in cart.py", Mention("cart.py"), text) is None


def test_the_tool_on_a_pipe_and_the_command_tell_it_unless_the_setting_is_off(
    folder: Path, data_dir: Path, pipes: list[Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = remember(folder, TOTAL)
    events = [
        {"id": event.event_id, "session_id": "one", "timestamp": event.timestamp, "role": event.role, "type": event.type,
         "text": event.text, "project": project_of(str(folder)), "agent": "claude-code", "metadata": dict(event.metadata)}
        for event in app.storage.events.list_events(Scope())
    ]  # fmt: skip
    git(folder, "mv", "src/cart.py", "src/basket.py")
    moved = commit(folder, {}, "Call it a basket", "2026-01-16 09:00")
    note = f"src/cart.py is now src/basket.py ({moved}, 2026-01-16)"
    file = data_dir.parent / "work.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    home = data_dir.parent / "home"
    home.mkdir(exist_ok=True)
    env = {**os.environ, "HOME": str(home), "MEMORY_MCP_STORAGE__DATA_DIR": str(data_dir), "MEMORY_MCP_SERVER__DAEMON": "false"}
    env["MEMORY_MCP_RETRIEVAL__REPOSITORY_MS"] = "5000"
    run(env, "ingest", str(file))
    shown = run(env, "why", str(folder / "src" / "basket.py"), "--all")
    assert f"since: {note}" in shown
    assert "since:" not in run({**env, "MEMORY_MCP_RETRIEVAL__REPOSITORY_MS": "0"}, "why", "src/cart.py", "--all")
    for budget, expected in (("5000", [note]), ("0", [])):
        monkeypatch.setenv("MEMORY_MCP_RETRIEVAL__REPOSITORY_MS", budget)
        pipe = start(pipes, data_dir)
        pipe.begin("modern")
        known: dict[str, Any] = pipe.call("recall_for", file="src/cart.py", scope="all")["structuredContent"]
        assert told(known, "decision") == [TOTAL.replace("`", "")]
        assert [one["since"] for one in known["statements"] if "since" in one] == expected
        pipe.end("eof")
