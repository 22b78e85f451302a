"""The pipeline over a real store: nothing twice, nothing lost, and resumable at every step."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import InvalidQuery, SourceUnreadable
from memory_mcp.capture import pipeline as pipeline_module
from memory_mcp.capture.gate import Gate
from memory_mcp.capture.log import EventLog
from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.claude_code.reader import ClaudeCodeImporter
from memory_mcp.importers.jsonl import JsonlImporter
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import INFERRED, Event, EventDraft, EventType, Role, Trust
from memory_mcp.model.fencing import fence_text
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.values import Scope, WriteRequest
from tests.ingest.suite import claude_line, jsonl_line, write
from tests.waiting import PATIENCE

SETTINGS = IngestSettings()
CLAUDE = ClaudeCodeImporter(SETTINGS)
JSONL = JsonlImporter(SETTINGS)
DRAFT = EventDraft(session_id="s1", role=Role.USER, type=EventType.USER_MESSAGE, text="hello", timestamp=1_772_442_000_000)


def stored(storage: Storage) -> list[Event]:
    return storage.events.list_events(Scope(), limit=100_000)


def words(storage: Storage) -> list[str]:
    return [event.text for event in stored(storage)]


def append(file: Path, *lines: str, end: str = "\n") -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + end)


def test_an_import_reports_what_it_read_stored_and_left_out(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", claude_line(0), "no json", claude_line(1), '{"type": "progress"}')
    write(tmp_path / "b.jsonl", claude_line(1), claude_line(2))
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert (report.files, report.files_unchanged, report.files_failed) == (2, 0, 0)
    assert (report.lines, report.lines_used, report.skipped) == (6, 4, {"not JSON": 1, "progress": 1})
    assert (report.new, report.known, report.cut) == (3, 1, False)
    assert report.bytes == sum(file.stat().st_size for file in tmp_path.iterdir())
    assert set(report.seconds) == {"read", "redact", "store"}
    assert words(storage) == ["words of 0", "words of 1", "words of 2"]


def test_unchanged_files_are_not_read_again(pipeline: Pipeline, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", claude_line(0))
    write(tmp_path / "torn.jsonl", claude_line(1), '{"type": "user"', end="")
    write(tmp_path / "empty.jsonl", end="")
    write(tmp_path / "nothing.jsonl", '{"type": "progress"}')
    pipeline.import_source(CLAUDE, tmp_path)
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert (report.files, report.files_unchanged, report.lines, report.new, report.known) == (4, 4, 0, 0, 0)


def test_a_grown_file_is_read_from_where_it_ended(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", claude_line(0), claude_line(1)[:40], end="")
    pipeline.import_source(CLAUDE, tmp_path)
    append(file, claude_line(1)[40:], claude_line(2))
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert (report.lines, report.new, report.known) == (2, 2, 0)
    assert words(storage) == ["words of 0", "words of 1", "words of 2"]


def test_a_shrunk_or_rewritten_file_is_read_from_its_start(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", claude_line(0), claude_line(1))
    pipeline.import_source(CLAUDE, tmp_path)
    write(file, claude_line(1))
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert (report.new, report.known) == (0, 1)
    write(file, claude_line(2), claude_line(0), claude_line(1))
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert (report.new, report.known) == (1, 2)
    assert words(storage) == ["words of 0", "words of 1", "words of 2"]


def test_a_grown_array_is_read_from_its_start(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    values = [json.loads(claude_line(n)) for n in range(3)]
    for size in (2, 3):
        (tmp_path / "a.jsonl").write_text(json.dumps(values[:size], indent=1))
        pipeline.import_source(CLAUDE, tmp_path)
    assert words(storage) == ["words of 0", "words of 1", "words of 2"]


def test_batches_are_bounded_and_lose_nothing(
    pipeline: Pipeline, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_module, "BATCH", 7)
    for name in range(5):
        write(tmp_path / f"{name}.jsonl", *map(jsonl_line, range(name * 20, name * 20 + 20)))
    heard: list[tuple[str, float]] = []

    def progress(report: ImportReport, file: Path, fraction: float) -> None:
        heard.append((file.name, fraction))

    report = pipeline.import_source(JSONL, tmp_path, progress)
    assert report.new == 100
    assert words(storage) == [f"words of {n}" for n in range(100)]
    assert [fraction for _, fraction in heard] == sorted(fraction for _, fraction in heard)
    assert heard[-1] == ("4.jsonl", 1.0)
    assert pipeline.import_source(JSONL, tmp_path).files_unchanged == 5


def test_a_missing_time_is_taken_from_a_neighbour_of_the_same_file(
    pipeline: Pipeline, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_module, "BATCH", 3)
    title = json.dumps({"type": "custom-title", "customTitle": "Cart", "sessionId": "s1"})
    summary = json.dumps({"type": "summary", "summary": "Coupons", "leafUuid": "x"})
    late = claude_line(0).replace("2026-03-02", "2026-04-09").replace("00000000-", "10000000-").replace("words of 0", "later")
    write(tmp_path / "a.jsonl", *map(claude_line, range(3)), title)
    write(tmp_path / "b.jsonl", summary, late)
    pipeline.import_source(CLAUDE, tmp_path)
    found = {event.text: event for event in stored(storage)}
    assert found["Cart"].timestamp == found["words of 2"].timestamp + 1
    assert found["Coupons"].timestamp == found["later"].timestamp - 1 > found["Cart"].timestamp
    assert found["Cart"].metadata[INFERRED] == "inferred"
    (tmp_path / "c.jsonl").write_bytes((tmp_path / "b.jsonl").read_bytes())
    assert pipeline.import_source(CLAUDE, tmp_path).new == 0


def test_only_the_newest_are_read_when_that_is_asked(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        first = 20 - 10 * age
        file = write(tmp_path / f"{name}.jsonl", *map(jsonl_line, range(first, first + 10)))
        os.utime(file, (1_000_000 - age, 1_000_000 - age))
    report = pipeline.import_source(JSONL, tmp_path, newest=14)
    assert (report.new, report.cut) == (14, True)
    assert words(storage) == [f"words of {n}" for n in range(16, 30)]
    report = pipeline.import_source(JSONL, tmp_path)
    assert (report.new, report.known, report.cut, report.files_unchanged) == (16, 4, False, 1)
    assert words(storage) == [f"words of {n}" for n in range(30)]
    assert not pipeline.import_source(JSONL, tmp_path, newest=14).cut


def test_what_cannot_be_read_is_counted_and_the_rest_imported(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", claude_line(0))
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "z.jsonl").mkdir()
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert (report.files_failed, report.new) == (1, 1)
    assert report.quotes["unreadable file"][0].file.endswith("gone.jsonl")
    with pytest.raises(SourceUnreadable):
        pipeline.import_source(CLAUDE, tmp_path / "nowhere")


def test_a_file_that_vanishes_while_being_listed_is_counted(pipeline: Pipeline, tmp_path: Path) -> None:
    class Vanishing(ClaudeCodeImporter):
        def iter_files(self, path: Path) -> Iterator[Path]:
            for file in super().iter_files(path):
                yield file
            for file in path.iterdir():
                file.unlink()

    write(tmp_path / "a.jsonl", claude_line(0))
    assert pipeline.import_source(Vanishing(SETTINGS), tmp_path).files_failed == 1


def test_what_the_gate_refuses_is_counted_and_the_mark_moves_on(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    own = json.loads(claude_line(0))
    own["message"]["content"] = fence_text("a memory")
    write(tmp_path / "a.jsonl", json.dumps(own), claude_line(1))
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert (report.dropped, report.new) == ({"own output": 1}, 1)
    assert pipeline.import_source(CLAUDE, tmp_path).files_unchanged == 1


def test_secrets_reach_neither_the_store_nor_the_report(pipeline: Pipeline, storage: Storage, tmp_path: Path) -> None:
    secret = "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"
    write(tmp_path / "a.jsonl", claude_line(0).replace("words", secret), f"broken {secret}")
    report = pipeline.import_source(CLAUDE, tmp_path)
    assert report.redacted == {"github": 1}
    assert words(storage) == ["[REDACTED:github] of 0"]
    assert report.quotes["not JSON"][0].text == "broken [REDACTED:github]"
    # Tools pass the same gate.
    pipeline.store_drafts([replace(DRAFT, text=secret)], "tool")
    pipeline.import_source(JSONL, write(tmp_path / "b.jsonl", jsonl_line(1).replace("words", secret)))
    assert sorted(words(storage)) == ["[REDACTED:github]", "[REDACTED:github] of 0", "[REDACTED:github] of 1"]


_CHILD = """
import sys
from pathlib import Path
from memory_mcp.base.clock import SystemClock
from memory_mcp.capture.log import EventLog
from memory_mcp.capture import pipeline
from memory_mcp.capture.gate import Gate
from memory_mcp.importers.jsonl import JsonlImporter
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.storage.duckdb import open_storage
pipeline.BATCH = 10
storage = open_storage(Path(sys.argv[1]), timezone="UTC")
importing = pipeline.Pipeline(EventLog(storage.events, SystemClock()), storage.outbox, Gate())
importing.import_source(JsonlImporter(IngestSettings()), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("point", ["import.batch_stored", "import.mark_written"])
@pytest.mark.parametrize("visit", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("processes")
def test_a_kill_between_batch_and_mark_loses_and_repeats_nothing(point: str, visit: int, tmp_path: Path) -> None:
    store, source = tmp_path / "store", tmp_path / "source"
    source.mkdir()
    for name in "ab":
        lines = [jsonl_line(n).replace('"m', f'"{name}') for n in range(25)]
        write(source / f"{name}.jsonl", *lines)
    command = [sys.executable, "-c", _CHILD, str(store), str(source)]
    environ = os.environ | {"MEMORY_MCP_FAILPOINT": f"{point}:{visit}"}
    assert subprocess.run(command, env=environ, check=False, timeout=PATIENCE).returncode == -signal.SIGKILL
    for number in range(2):
        opened = open_storage(store, timezone="UTC")
        report = Pipeline(EventLog(opened.events, SystemClock()), opened.outbox, Gate()).import_source(JSONL, source)
        assert opened.events.last_seq() == 50
        assert bool(report.new + report.known) == (number == 0)
        opened.close()


def test_tools_store_all_or_nothing_and_name_what_is_refused(pipeline: Pipeline, storage: Storage) -> None:
    drafts = [DRAFT, replace(DRAFT, text="<private>x</private>"), replace(DRAFT, text="third")]
    with pytest.raises(InvalidQuery, match="event 2 of 3 is refused: empty text"):
        pipeline.store_drafts(drafts, "tool", Trust.AGENT_NOTE, None)
    assert stored(storage) == []
    done = pipeline.store_drafts([drafts[0], drafts[2]], "tool", Trust.AGENT_NOTE, WriteRequest("k1", "answer"))
    assert len(done.new_ids) == 2
    assert {event.trust for event in stored(storage)} == {Trust.AGENT_NOTE}
    assert pipeline.store_drafts(drafts[:1], "tool", Trust.AGENT_NOTE, WriteRequest("k1", "answer")).replayed_answer == "answer"
