"""`admin overview`: the state of a memory, apart from its layers."""

import datetime as dt
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Told, said
from tests.files import read_files

KEY = "sk-ant-api03-" + "Ab1" * 31 + "AA"


@pytest.fixture
def ask(told: Told) -> Cli:
    """A memory of two clients, one of which wrote a key an hour ago."""
    now = dt.datetime.now(dt.UTC)
    keyed = said("a", now - dt.timedelta(hours=1), "user", f"The key is {KEY}.")
    counted = said("b", now - dt.timedelta(days=3), "user", "Count the fenders.")
    return told([keyed | {"agent": "codex"}, counted | {"agent": "gemini"}])


def test_clients_redactions_and_disk_are_what_the_store_holds(ask: Cli, tmp_path: Path) -> None:
    data = ask("admin", "overview", "--json").data
    assert [(c["agent"], c["events"], c["events_last_day"]) for c in data["clients"]] == [("codex", 1, 1), ("gemini", 1, 0)]
    assert data["redacted"]["total"] == 1 == sum(data["redacted"]["rules"].values())
    assert data["redacted"]["since"][:10] == data["clients"][1]["last"][:10]
    disk = data["disk"]
    held = sum(map(len, read_files(tmp_path / "data").values()))
    # The command's own process leaves the lock and the log of the database behind it.
    assert abs(disk["total"] - held) < 100_000
    assert disk["database"] + disk["database_log"] > 0
    parts = {name: size for name, size in disk.items() if name not in ("indexes", "total", "free")}
    assert disk["total"] == sum(parts.values()) + sum(disk["indexes"].values())
    assert "lost" not in data
    text = ask("admin", "overview").out
    assert "client codex: 1 event, 1 of them in the last 24 hours" in text
    assert "lost: no acknowledged event is missing" in text


def test_pauses_exclusions_and_backups_are_told_and_what_may_leave_the_machine_by_its_setting_nothing_by_default(
    ask: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("pause", "--project", "*", "--for", "2h").status == 0
    assert ask("backup").status == 0
    monkeypatch.setenv("MEMORY_MCP_INGEST__EXCLUDE_PATHS", ".env, ~/private")
    data = ask("admin", "overview", "--json").data
    assert data["outgoing"] == []
    assert [one["project"] for one in data["paused"]] == ["*"]
    assert data["excluded"] == {"paths": [".env", "~/private"]}
    assert data["backups"]["count"] == 1
    assert data["backups"]["last"].startswith(str(dt.datetime.now(dt.UTC).year))
    assert data["disk"]["backups"] > 0
    text = ask("admin", "overview").out
    assert "paused: all projects until 20" in text
    assert "never recorded: path .env\n" in text
    assert "may leave this machine: nothing" in text
    monkeypatch.setenv("MEMORY_MCP_SYNC__DIRECTORY", str(tmp_path / "shared"))
    found = ask("admin", "overview", "--json").data["outgoing"]
    assert [one["setting"] for one in found] == ["sync.directory"]
    monkeypatch.setenv("MEMORY_MCP_SUMMARIZER__COMMAND", "claude -p")
    monkeypatch.setenv("MEMORY_MCP_SERVER__HTTP", "true")
    monkeypatch.setenv("MEMORY_MCP_SERVER__HTTP_HOST", "0.0.0.0")
    found = ask("admin", "overview", "--json").data["outgoing"]
    assert [one["setting"] for one in found] == ["summarizer.command", "server.http_host", "sync.directory"]
    assert found[0]["where"] == "claude -p"
