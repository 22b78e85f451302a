"""`today`: where each project was left off, and which clients recorded in the last 24 hours."""

import datetime as dt
import json
from pathlib import Path

from tests.cli.conftest import Cli, said


def test_a_project_tells_what_was_asked_and_what_came_of_it_with_grips(memory: Cli) -> None:
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
    assert "github.com/acme/harbour" in text
    assert f"decided    {decision['text']}  {decision['grip']}" in text


def test_an_older_project_is_told_when_it_is_named(memory: Cli) -> None:
    [one] = memory("today", "--project", "printer", "--json").data["projects"]
    assert (one["project"], one["last"]) == ("github.com/acme/printer", "2024-05-14T10:00:00+02:00")


def test_a_request_that_nobody_answered_is_the_next_step(cli: Cli, tmp_path: Path) -> None:
    at = dt.datetime(2026, 3, 1, 9, 0, tzinfo=dt.UTC)
    turns = (
        ("user", "Please count the fenders in harbour nine."),
        ("assistant", "There are nine fenders in harbour nine. It is still open whether the tenth one was stolen."),
        ("user", "Please also paint the northern quay wall in yellow."),
    )
    lines = [said("s", at + dt.timedelta(minutes=n), role, text) for n, (role, text) in enumerate(turns)]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli("ingest", "e.jsonl", "--data-dir", "data").status == 0
    [one] = cli("today", "--data-dir", "data", "--json").data["projects"]
    assert one["next_step"]["text"] == "Please also paint the northern quay wall in yellow."
    assert one["next_step"]["label"] == "asked last, not answered"
    assert one["next_step"]["grip"].startswith("grip:")
    assert one["next_step"] not in one.get("open", ())
    assert "next       Please also paint the northern quay wall" in cli("today", "--data-dir", "data").text


def test_clients_of_the_last_day_are_counted_by_the_time_of_their_events(cli: Cli, tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    hours = ((1, "a", "codex", "/one"), (2, "a", "codex", "/one"), (3, "b", "codex", "/two"), (30, "c", "gemini", "/one"))
    lines = [
        {**said(session, now - dt.timedelta(hours=hour), "user", f"Said {hour} hours ago.", project), "agent": agent}
        for hour, session, agent, project in hours
    ]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli("ingest", "e.jsonl", "--data-dir", "data").status == 0
    [client] = cli("today", "--data-dir", "data", "--json").data["clients"]
    assert (client["agent"], client["events"], client["sessions"]) == ("codex", 3, 2)
    assert client["projects"] == ["/one", "/two"]
    [only] = cli("today", "--project", "/two", "--data-dir", "data", "--json").data["clients"]
    assert (only["events"], only["projects"]) == (1, ["/two"])
    assert "codex  3 events in 2 sessions" in cli("today", "--data-dir", "data").text


def test_a_correction_is_no_work_that_was_left_off(cli: Cli, tmp_path: Path) -> None:
    at = dt.datetime.now(dt.UTC) - dt.timedelta(hours=3)
    turns = (
        ("user", "We decided to paint the quay wall in yellow."),
        ("assistant", "Done. The quay wall is yellow, all tests pass."),
    )
    lines = [said("s", at + dt.timedelta(minutes=n), role, text) for n, (role, text) in enumerate(turns)]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli("ingest", "e.jsonl", "--data-dir", "data").status == 0
    [one] = cli("today", "--data-dir", "data", "--json").data["projects"]
    [decision] = one["decisions"]
    corrected = cli(
        "correct", decision["grip"], "We decided to paint the quay wall in blue.", "--data-dir", "data", "--json"
    ).data
    [now] = cli("today", "--data-dir", "data", "--json").data["projects"]
    assert now["left_off"]["session_id"] == "s"
    assert corrected["grip_id"] in [statement["grip"] for statement in now["decisions"]]
