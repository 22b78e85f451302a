"""`today`: where each project was left off, and which clients recorded in the last 24 hours."""

import datetime as dt
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from memory_mcp.base.scope import root_commit_of
from tests.cli.conftest import Cli, Told, said


@pytest.mark.usefixtures("processes")
def test_a_project_tells_what_was_asked_and_what_came_of_it_with_grips_an_older_one_when_it_is_named(memory: Cli) -> None:
    data = memory("today", "--json").data
    # The other project's last event is years older than fourteen days that hold anything.
    [one] = data["projects"]
    assert (one["project"], data["scope"], data["clients"]) == ("github.com/acme/harbour", "all projects", [])
    assert one["left_off"]["session_id"] == "jwt"
    assert one["left_off"]["node_id"].startswith("toc:segment:2026-01-30:")
    assert (one["left_off"]["end"], one["left_off"]["agent"]) == ("2026-01-30T14:09:00+01:00", "tests")
    assert one["asked"]["text"].startswith("Debugging the JWT token expiration issue")
    results = [result["text"] for result in one["results"]]
    assert results == ["Fixed: the JWT expiry bug is gone and 14 tests pass.", "The cause is the clock offset in verify_token()."]
    # What was asked last is a decision that was carried out: nothing is open.
    assert not {"next_step", "open"} & set(one)
    [decision] = [d for d in one["decisions"] if d["label"] == "decision"]
    assert decision["text"] == "We decided to fix the refresh token rotation logic and keep HS256."
    for statement in (one["asked"], decision, *one["results"]):
        quote = memory("query", "expand-grip", statement["grip"], "--json").data["grip"]["quote"]
        assert statement["text"].removesuffix("…")[:20] in quote
    text = memory("today").text
    assert text.startswith("harbour  ")
    assert f"decided    {decision['text']}  {decision['grip']}" in text
    [older] = memory("today", "--project", "printer", "--json").data["projects"]
    assert (older["project"], older["last"]) == ("github.com/acme/printer", "2024-05-14T10:00:00+02:00")


def test_clients_of_the_last_day_are_counted_by_the_time_of_their_events(told: Told) -> None:
    now = dt.datetime.now(dt.UTC)
    hours = ((1, "a", "codex", "/one"), (2, "a", "codex", "/one"), (3, "b", "codex", "/two"), (30, "c", "gemini", "/one"))
    ask = told(
        {**said(session, now - dt.timedelta(hours=hour), "user", f"Said {hour} hours ago.", project), "agent": agent}
        for hour, session, agent, project in hours
    )
    [client] = ask("today", "--json").data["clients"]
    assert (client["agent"], client["events"], client["sessions"]) == ("codex", 3, 2)
    assert client["projects"] == ["/one", "/two"]
    [only] = ask("today", "--project", "/two", "--json").data["clients"]
    assert (only["events"], only["projects"]) == (1, ["/two"])
    assert "codex  3 events in 2 sessions" in ask("today").text


def test_a_request_that_nobody_answered_is_the_next_step_and_a_correction_is_no_work_that_was_left_off(told: Told) -> None:
    at = dt.datetime.now(dt.UTC) - dt.timedelta(hours=3)
    turns = (
        ("user", "We decided to paint the quay wall in yellow."),
        ("assistant", "There are nine fenders in harbour nine. It is still open whether the tenth one was stolen."),
        ("user", "Please also count the bollards of the northern quay."),
    )
    ask = told(said("s", at + dt.timedelta(minutes=n), role, text) for n, (role, text) in enumerate(turns))
    [one] = ask("today", "--json").data["projects"]
    assert one["next_step"]["text"] == "Please also count the bollards of the northern quay."
    assert one["next_step"]["label"] == "asked last, not answered"
    assert one["next_step"]["grip"].startswith("grip:")
    assert one["next_step"] not in one.get("open", ())
    assert "next       Please also count the bollards" in ask("today").text
    [decision] = one["decisions"]
    corrected = ask("correct", decision["grip"], "We decided to paint the quay wall in blue.", "--json").data
    [now] = ask("today", "--json").data["projects"]
    assert now["left_off"]["session_id"] == "s"
    assert corrected["grip_id"] in [statement["grip"] for statement in now["decisions"]]


FOUR = {"alex/workspace/cli": "/home/alex/workspace/cli", "sam/workspace/cli": "/srv/sam/workspace/cli"}
FOUR |= {"tools/cli": "/home/sam/tools/cli", "acme/cli": "github.com/acme/cli"}


def line(project: str, number: int, text: str, **metadata: str) -> dict[str, object]:
    """An event in the JSONL form, of a session of its own."""
    at = f"2026-02-0{number}T09:00:00Z"
    return {
        "session_id": f"s{number}",
        "timestamp": at,
        "role": "user",
        "text": text,
        "project": project,
        "agent": "codex",
        "metadata": metadata,
    }


def test_four_projects_of_one_name_are_told_apart_wherever_they_meet(told: Told) -> None:
    text = "We decided that the parser of flags reads {} first."
    memory = told([line(project, number, text.format(number)) for number, project in enumerate(FOUR.values(), 1)])
    for command in (["today"], ["projects"], ["agents"], ["activity", "--since", "2026-01"], ["timeline", "--since", "2026-01"]):
        shown = memory(*command).text
        assert all(re.search(rf"(?<![\w/]){name}(?!\w)", shown) for name in FOUR), (command, shown)
    found = memory("ask", "parser of flags", "--all").text
    assert sum(f"  {name}" in found for name in FOUR) >= 3
    # What is shown is understood, and what may mean several says which.
    for name, project in FOUR.items():
        assert memory("today", "--project", name, "--json").data["scope"] == project
    refused = memory("today", "--project", "cli")
    assert refused.status == 2
    assert all(name in refused.err for name in FOUR)


@pytest.mark.usefixtures("processes")
def test_copies_of_a_repository_are_one_project_by_the_commit_it_begins_with_until_that_is_taken_back(
    told: Told, tmp_path: Path
) -> None:
    def git(*arguments: str) -> None:
        settings = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)

    for name in ("first", "other"):
        git("init", "-q", name)
        git("-C", name, "commit", "-q", "--allow-empty", "-m", f"begin {name}")
    shutil.copytree(tmp_path / "first", tmp_path / "second" / "copy")
    places = [str(tmp_path / name) for name in ("first", "other", "second/copy", "none")]
    # A payload cannot claim the history of another project.
    root = root_commit_of(places[0])
    memory = told([line(p, n, f"Reader {n} is done.", cwd=p, root_commit=root) for n, p in enumerate(places, 1)])
    listed = {one["project"]: one for one in memory("projects", "--json").data["projects"]}
    assert set(listed) == {places[0], places[1], places[3]}
    assert listed[places[0]]["aliases"] == [{"name": places[2], "by": "guess"}]
    shown = memory("projects").text
    assert "copy (a guess)" in shown
    assert memory("projects", "undo", places[2]).status == 0
    assert {one["project"] for one in memory("projects", "--json").data["projects"]} == set(places)
