"""`admin`, `config`, `doctor`: upkeep and what is in force."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.config import load
from tests.cli.conftest import EVENTS, SESSIONS, Cli, Told, events
from tests.ingest.suite import goose_session


def test_check_and_doctor_find_nothing_in_a_healthy_store_and_end_with_status_one_when_something_is_broken(
    told: Told, tmp_path: Path
) -> None:
    ask = told([*events()][-5:])
    done = ask("admin", "check")
    assert (done.status, done.out.startswith("ok: 5 events in 2 segments")) == (0, True)
    assert ask("admin", "check", "--json").data["findings"] == []
    assert ask("doctor").status == 0
    checks = ask("doctor", "--json").data["checks"]
    # Whether the command is on the PATH is the machine's business.
    assert {c["state"] for c in checks if c["name"] != "command"} == {"ok"}
    names = "versions, free disk, data directory, permissions, writable, daemon, events by hooks, events by imports, lock, store"
    names += ", acknowledged events, time zone, pending, tree"
    assert {c["name"] for c in checks} >= set(names.split(", "))
    app = App(load({}, {"storage.data_dir": str(tmp_path / "data")}))
    app.storage.toc.drop_nodes([app.tree.children("toc:day:2026-01-30")[0]])  # type: ignore[arg-type]
    app.close()
    done = ask("admin", "check")
    assert done.status == 1
    assert "Next: memory-mcp admin rebuild-toc" in done.out
    assert ask("admin", "check", "--json").data["ok"] is False
    assert ask("doctor").status == 1
    assert ask("admin", "rebuild-toc").status == 0
    assert ask("admin", "check").status == 0


def test_rebuilding_keeps_ids_and_may_change_the_zone(told: Told) -> None:
    ask = told([*events()][-5:])
    before = ask("query", "node", "toc:day:2026-01-30", "--json").data
    done = ask("admin", "rebuild-toc", "--timezone", "Asia/Tokyo", "--json")
    assert (done.status, done.data["timezone"]) == (0, "Asia/Tokyo")
    after = ask("query", "node", "toc:day:2026-01-30", "--json").data
    assert [c["node_id"] for c in after["children"]] == [c["node_id"] for c in before["children"]]
    assert after["node"]["start"] == "2026-01-30T00:00:00+09:00"
    assert ask("admin", "rebuild-toc", "--timezone", "Mars/Olympus").status == 2


def test_stats_tell_months_levels_and_files_in_words_and_compact_counts_bytes(cli: Cli, copy: Path) -> None:
    stats = cli("admin", "stats", "--data-dir", str(copy), "--json").data
    assert (stats["rows"]["event"], stats["pending"], stats["timezone"]) == (EVENTS, 0, "Europe/Berlin")
    months = {row["month"]: row["events"] for row in stats["months"]}
    assert (len(months), next(iter(months)), months["2026-01"], months["2025-11"]) == (21, "2024-05", 4, 60)
    assert sum(months.values()) == EVENTS
    assert (stats["levels"]["year"], stats["levels"]["segment"]) == (3, SESSIONS)
    assert stats["parts"]["database"] == stats["size_bytes"]
    lines = cli("admin", "stats", "--data-dir", str(copy)).out.splitlines()
    (told,) = [line for line in lines if line.startswith("events by month")]
    assert told == "events by month 2024-05 1, 2025-11 60, 2025-12 54, 2026-01 4"
    assert f"{'level segment':<22} {SESSIONS:>9}" in lines
    assert any(line.startswith("file database ") for line in lines)
    assert any(line.startswith("event ") for line in lines)
    done = cli("admin", "compact", "--data-dir", str(copy), "--json").data
    assert done["after_bytes"] <= done["before_bytes"]
    assert cli("search", "JWT", "--data-dir", str(copy), "--json").data["results"]


def test_config_show_names_every_origin(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[toc]\ngap_minutes = 45\nmax_tokens = 3000\n")
    monkeypatch.setenv("MEMORY_MCP_TOC__MAX_TOKENS", "2000")
    data = cli("config", "show", "--config", str(file), "--data-dir", "d", "--json").data
    found = {row["key"]: (row["value"], row["from"]) for row in data["settings"]}
    assert found["toc.gap_minutes"] == (45, "file")
    assert found["toc.max_tokens"] == (2000, "env")
    assert found["storage.data_dir"] == ("d", "flag")
    assert found["server.profile"] == ("default", "default")
    assert all(row["help"] for row in data["settings"])
    assert "toc.gap_minutes = 45" in cli("config", "show", "--config", str(file)).out


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://memory:pine4@db.example/m", "postgresql://memory:***@db.example/m"),
        (
            "postgresql://memory@db.example/m?password=pine4&sslmode=require",
            "postgresql://memory@db.example/m?password=***&sslmode=require",
        ),
        ("host=db user=memory password='pine 4'", "host=db user=memory password=***"),
        ("postgresql://memory@db.example/m", "postgresql://memory@db.example/m"),
    ],
)
def test_config_show_keeps_the_password_of_a_database_to_itself(cli: Cli, tmp_path: Path, url: str, shown: str) -> None:
    file = tmp_path / "team.toml"
    file.write_text(f'[storage]\nengine = "postgres"\nurl = "{url}"\n')
    found = {row["key"]: row["value"] for row in cli("config", "show", "--config", str(file), "--json").data["settings"]}
    assert found["storage.url"] == shown
    assert "pine" not in cli("config", "show", "--config", str(file)).out


@pytest.mark.parametrize("text", ['engine = "oracle"', 'engine = "postgres"', "pool = 0"])
def test_config_check_refuses_an_engine_that_cannot_be_opened(cli: Cli, tmp_path: Path, text: str) -> None:
    file = tmp_path / "team.toml"
    file.write_text(f"[storage]\n{text}\n")
    done = cli("config", "check", "--config", str(file))
    assert done.status == 2
    assert done.err.startswith("storage.")


def test_config_path_and_check(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.toml"
    monkeypatch.setenv("MEMORY_MCP_CONFIG", str(file))
    assert cli("config", "path").out == f"{file}\n"
    assert cli("config", "check").out.startswith(f"ok: {file} (no settings file")
    file.write_text("[toc]\ngap_minute = 3\n")
    broken = cli("config", "check")
    assert broken.status == 2
    assert broken.err == "unknown setting: toc.gap_minute. Did you mean toc.gap_minutes?\n"
    assert cli("config", "check", "--config", "none.toml").status == 2


def test_doctor_says_what_is_wrong_and_what_to_do(cli: Cli, copy: Path, tmp_path: Path) -> None:
    fresh = cli("doctor", "--data-dir", str(tmp_path / "none"))
    assert (fresh.status, "does not exist yet" in fresh.out) == (0, True)
    assert not (tmp_path / "none").exists()
    goose = tmp_path / ".local" / "share" / "goose" / "sessions"
    goose.mkdir(parents=True)
    with closing(sqlite3.connect(goose_session(goose, 1))) as con, con:
        con.execute("CREATE TABLE talk_v9 (session_ref, role, body)")
        con.execute("INSERT INTO talk_v9 VALUES ('s', 'user', 'words')")
    copy.chmod(0o755)
    (copy / "high-water.json").write_text(json.dumps({"last_seq": 999}))
    done = cli("doctor", "--data-dir", str(copy))
    assert done.status == 1
    assert "warn  permissions" in done.out
    assert f"fail  acknowledged events: {999 - EVENTS} acknowledged events are missing" in done.out
    assert "warn  transcripts: Goose: its database has a table with conversation that no reader knows: talk_v9" in done.out
    assert all("delete" not in line and "remove" not in line for line in done.out.splitlines())


def test_doctor_reports_settings_that_cannot_be_read(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_MCP_TOC__GAP", "3")
    done = cli("doctor")
    assert (done.status, "fail  settings: unknown variable: MEMORY_MCP_TOC__GAP" in done.out) == (1, True)


def test_doctor_names_who_holds_a_locked_store(cli: Cli, copy: Path) -> None:
    app = App(load({}, {"storage.data_dir": str(copy)}))
    try:
        done = cli("doctor", "--data-dir", str(copy))
    finally:
        app.close()
    assert (done.status, "warn  lock: the data directory" in done.out) == (0, True)
