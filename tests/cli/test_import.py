"""`import` and `ingest`: files in, a report out."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from memory_mcp.cli.commands.import_ import SOURCES
from memory_mcp.cli.render import Progress
from memory_mcp.importers.registry import IMPORTERS
from tests.cli.conftest import Cli

TRANSCRIPTS = Path(__file__).parents[1] / "acceptance" / "samples"


def event(text: str, **more: object) -> str:
    return json.dumps({"session_id": "s", "timestamp": "2026-03-01T10:00:00Z", "role": "user", "text": text} | more)


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


def test_every_registered_source_can_be_named() -> None:
    assert set(SOURCES) == set(IMPORTERS)


@pytest.mark.parametrize("source", ["claude-code", "auto"])
def test_transcripts_are_imported_and_reported(cli: Cli, source: str) -> None:
    done = cli("import", source, str(TRANSCRIPTS), "--data-dir", "data", "--json")
    assert done.status == 0
    data = done.data
    assert (data["source"], data["files"], data["known"], data["cut"]) == ("claude-code", 1, 0, False)
    assert data["lines"] == data["lines_used"] + sum(data["skipped"].values())
    assert data["new"] > 0
    assert set(data["seconds"]) == {"read", "redact", "store", "segment+summarise", "roll up"}
    assert data["built"]["events"] == data["new"]
    assert list(data["redacted"].values()) == [1]
    assert data["quotes"]["not JSON"][0]["line"] == 8


def test_the_report_reads_well_and_says_that_it_cut_and_a_second_import_changes_nothing(cli: Cli) -> None:
    first = cli("import", "claude-code", str(TRANSCRIPTS), "--data-dir", "data", "--verbose")
    for part in (
        "Read 1 file, ",
        "Skipped: 1 line",
        "1 not JSON",
        "lantern.jsonl:8: ",
        "Redacted: 1 ",
        "Seconds: read ",
        "The memory now holds",
    ):
        assert part in first.out
    again = cli("import", "claude-code", str(TRANSCRIPTS), "--data-dir", "data", "--json").data
    assert (again["new"], again["files_unchanged"]) == (0, 1)
    cut = cli("import", "claude-code", str(TRANSCRIPTS), "--newest", "3", "--data-dir", "another")
    assert "Events: 3 new" in cut.out
    assert "Only the newest were read" in cut.out


def test_auto_finds_the_users_own_transcripts(cli: Cli, own_home: Path) -> None:
    assert cli("import", "auto", "--data-dir", "data").status == 2
    place = own_home / ".claude" / "projects" / "-home-kim"
    place.mkdir(parents=True)
    (place / "a.jsonl").write_bytes(next(TRANSCRIPTS.rglob("*.jsonl")).read_bytes())
    for words in (("import",), ("import", "auto")):
        refused = cli(*words, "--data-dir", "data")
        assert refused.status == 2
        assert "1 to import" in refused.err
        assert "add --yes" in refused.err
    assert cli("import", "--yes", "--data-dir", "data", "--json").data["new"] > 0
    again = cli("import", "--yes", "--data-dir", "data")
    assert (again.status, again.out) == (0, "")
    assert "All of it is imported already" in again.err


@pytest.mark.parametrize(
    "argv",
    [
        ("chatgtp", "."),
        ("jsonl",),
        ("claude-code", "no-such-folder"),
        ("claude-code", "empty"),
        ("auto", "empty"),
        ("claude-code", "empty", "--newest", "0"),
    ],
)
def test_what_cannot_be_imported_ends_with_status_two(cli: Cli, tmp_path: Path, argv: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    done = cli("import", *argv, "--data-dir", "data")
    assert (done.status, done.out) == (2, "")
    assert not re.match(r"[A-Z_]+: ", done.err)


def test_ingest_reads_standard_input_by_the_same_rules_and_quotes_no_secret(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        event("zebra crossings are safe", id="1"),
        "broken AKIAIOSFODNN7EXAMPLE line",
        event("x", role="usr"),
        event("the last line has no end", id="2"),
    ]
    feed(monkeypatch, "\n".join(lines))
    done = cli("ingest", "-", "--data-dir", "data", "--json")
    assert done.status == 0
    assert (done.data["new"], sum(done.data["skipped"].values()), done.data["path"]) == (2, 2, "stdin")
    assert done.data["quotes"]["not JSON"] == [{"file": "stdin", "line": 2, "text": "broken [REDACTED:aws-access-key] line"}]
    assert "AKIAIOSFODNN7EXAMPLE" not in done.out
    feed(monkeypatch, "\n".join(lines))
    assert cli("ingest", "-", "--data-dir", "data", "--json").data["known"] == 2
    assert cli("search", "zebra", "--data-dir", "data", "--json").data["results"]


def test_ingest_of_nothing_usable_ends_with_status_two(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, "these are\nnot events\n")
    done = cli("ingest", "-", "--data-dir", "data")
    assert done.status == 2
    assert "none of the lines is an event" in done.err


def test_progress_is_plain_and_rare_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("importing") as bar:
        for step in range(1000):
            bar.at(step / 1000, "still going")
    assert len(capsys.readouterr().err.splitlines()) <= 1


def test_files_of_another_client_are_read_as_what_they_are_and_a_path_in_the_place_of_a_source_is_told_so(
    cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    novel = {"type": "hologram", "detail": "words in a block of a new kind"}
    message = {"type": "assistant", "uuid": "n1", "sessionId": "s1", "message": {"role": "assistant", "content": [novel]}}
    transcript = next(TRANSCRIPTS.rglob("*.jsonl")).read_bytes() + json.dumps(message).encode() + b"\n"
    (folder / "a.jsonl").write_bytes(transcript)
    (folder / "b.jsonl").write_text(event("a plain event") + "\n")
    refused = cli("import", "./mixed")
    assert (refused.status, "Write: memory-mcp import auto ./mixed" in refused.err) == (2, True)
    done = cli("import", "claude-code", "mixed", "--data-dir", "data", "--json")
    assert "mixed is of events, one a line, and read as jsonl" in done.err
    assert (done.data["source"], [o["source"] for o in done.data["others"]]) == ("claude-code", ["jsonl"])
    assert done.data["others"][0]["new"] == 1
    assert cli("import", "auto", "mixed", "--data-dir", "data", "--json").data["new"] == 0
    plain = cli("import", "auto", "mixed/b.jsonl", "--data-dir", "another", "--json").data
    assert (plain["source"], plain["new"]) == ("jsonl", 1)
    # What no reader knows is kept, and counted where a person sees it.
    assert done.data["unknown"] == {"hologram": 1}
    (folder / "c.jsonl").write_bytes(transcript)
    assert "1 part of unknown kinds kept" in cli("import", "claude-code", "mixed", "--data-dir", "data").out
    alone = cli("import", "claude-code", "mixed/a.jsonl", "--data-dir", "new")
    assert "Unknown kinds, kept as notes: 1 part: 1 hologram" in alone.out


def test_a_setup_of_which_everything_is_declined_changes_nothing_and_says_so(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "home" / ".claude" / "projects" / "-x"
    kept.mkdir(parents=True)
    (kept / "s.jsonl").write_bytes(next(TRANSCRIPTS.rglob("*.jsonl")).read_bytes())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setattr("memory_mcp.cli.render.can_ask", lambda: True)
    monkeypatch.setattr("memory_mcp.cli.render.ask_consent", lambda _: False)
    done = cli("setup", "--data-dir", "data")
    assert done.status == 0, done.err
    assert "Nothing was changed." in done.err
    assert [path.name for path in (tmp_path / "home").iterdir()] == [".claude"]
