"""What becomes of session files whose client deletes them."""

import json
import os
from pathlib import Path

import pytest

from memory_mcp.capture.finding import summarize_files
from memory_mcp.capture.rescue import DeletionForecast, forecast_deletions
from memory_mcp.importers.marks import Mark, mark_name
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from tests.ingest.suite import claude_line, write

DAY = 86_400_000
NOW = 1_780_000_000_000
CLAUDE = IMPORTERS["claude-code"](IngestSettings())


def aged(file: Path, days: float) -> Path:
    write(file, claude_line(0))
    moment = NOW - round(days * DAY)
    os.utime(file, ns=(moment * 1_000_000, moment * 1_000_000))
    return file


@pytest.mark.parametrize(
    ("told", "days"), [(None, 30), ({}, 30), ({"cleanupPeriodDays": 90}, 90), ([], 30), ({"cleanupPeriodDays": "x"}, 30)]
)
def test_what_goes_soon_is_counted_by_the_clients_own_settings(
    told: object, days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "projects"
    folder.mkdir()
    if told is not None:
        (tmp_path / "settings.json").write_text(json.dumps(told))
    aged(folder / "new.jsonl", 1)
    stored = aged(folder / "old.jsonl", days - 5)
    aged(folder / "older.jsonl", days - 2)
    marks = {mark_name(CLAUDE.name, stored): Mark(0, stored.stat().st_size, "", 0).to_text()}
    [fate] = forecast_deletions([CLAUDE], marks, NOW)
    assert fate == DeletionForecast("claude-code", "Claude Code", 3, 2, days, 2, 1, NOW + 2 * DAY)
    assert summarize_files(CLAUDE, folder, marks).new_files == 2


def test_settings_with_comments_are_read_as_the_client_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    (tmp_path / "projects").mkdir()
    aged(tmp_path / "projects" / "a.jsonl", 1)
    (tmp_path / "settings.json").write_bytes(b'\xef\xbb\xbf{\r\n  // mine\r\n  "cleanupPeriodDays": 90,\r\n}\r\n')
    assert [fate.days for fate in forecast_deletions([CLAUDE], {}, NOW)] == [90]


def test_a_client_with_two_places_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    for place in ("sessions", "archived_sessions"):
        (tmp_path / place).mkdir()
        aged(tmp_path / place / "rollout-a.jsonl", 1)
    codex = IMPORTERS["codex"](IngestSettings())
    assert [(fate.files, fate.new_files) for fate in forecast_deletions([codex], {}, NOW)] == [(2, 2)]


def test_a_session_of_another_client_in_the_folder_is_read_once_and_then_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    codex = IMPORTERS["codex"](IngestSettings())
    (tmp_path / "sessions").mkdir()
    stray = aged(tmp_path / "sessions" / "stray.jsonl", 1)
    marks = {mark_name(CLAUDE.name, stray): Mark(0, stray.stat().st_size, "", 0).to_text()}
    assert [fate.new_files for fate in forecast_deletions([codex], {}, NOW)] == [1]
    assert [fate.new_files for fate in forecast_deletions([codex], marks, NOW)] == [0]
    with stray.open("a", encoding="utf-8") as stream:
        stream.write(claude_line(1) + "\n")
    assert [fate.new_files for fate in forecast_deletions([codex], marks, NOW)] == [1]


def test_nothing_lies_there_and_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert forecast_deletions([CLAUDE], {}, NOW) == []
