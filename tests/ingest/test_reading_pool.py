"""Files read by child processes and handed over in files: the same store and report as read here, whoever reads."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.foreign_files import NotAFile
from memory_mcp.capture import handover, pipeline, reading_pool
from memory_mcp.capture.exclusions import CaptureRules
from memory_mcp.capture.gate import Gate
from memory_mcp.capture.log import EventLog
from memory_mcp.capture.reading_pool import ChildSetup, ReadingPool
from memory_mcp.importers.base import Importer, ImportReport
from memory_mcp.importers.claude_code.reader import ClaudeCodeImporter
from memory_mcp.importers.jsonl import JsonlImporter
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import open_storage
from tests.ingest.suite import claude_line, jsonl_line, write

CLAUDE, JSONL = ClaudeCodeImporter(IngestSettings()), JsonlImporter(IngestSettings())
DRAFT = EventDraft(session_id="s1", role=Role.USER, type=EventType.USER_MESSAGE, text="hello", timestamp=1_772_442_000_000)


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of every sort, read in many groups by child processes."""
    monkeypatch.setattr(pipeline, "GROUP_BYTES", 2_000)
    monkeypatch.setattr(reading_pool, "_MUCH", 1)
    monkeypatch.setattr(reading_pool, "_MOST_WAITING", 2)
    source = tmp_path / "source"
    source.mkdir()
    for n in range(12):
        several = [claude_line(30 * n + i) for i in range(30)]
        write(source / f"{n:02d}.jsonl", *several, "no json", f'{{"type": "odd {n}"}}', '{"type": "progress"}')
    title = json.dumps({"type": "custom-title", "customTitle": "Cart", "sessionId": "s1"})
    write(source / "20.jsonl", claude_line(5), claude_line(900), title)
    write(source / "21.jsonl", claude_line(901).replace("words", "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"))
    write(source / "22.jsonl", claude_line(902), '{"torn', end="")
    return source


def told(report: ImportReport) -> tuple[object, ...]:
    """A report without its seconds."""
    names = [name for name in ImportReport.__slots__ if name != "seconds"]
    return tuple((name, getattr(report, name)) for name in names)


def held(storage: Storage) -> tuple[object, ...]:
    """Everything an import stores."""
    events = [(s.seq, s.event) for batch in storage.events.iter_all() for s in batch]
    return events, storage.outbox.get_positions("import:")


def handed_over(importer: Importer, source: Path, storage: Storage, spool: Path, newest: int | None = None) -> ImportReport:
    """As the two processes of an import do it: one reads by children, one stores."""
    report, log = ImportReport(), EventLog(storage.events, SystemClock())
    token = handover.ImportClaim(spool)
    tasks = pipeline.list_tasks(importer, source, storage.outbox.get_positions(pipeline.mark_prefix(importer)), newest, report)
    with ReadingPool(ChildSetup(importer, token.folder, token.name, CaptureRules()), tasks) as reading:
        for _, part in reading.iter_steps():
            if part.name:
                name, each = handover.read_slices(spool, part.name)
                for piece in each:
                    stored = log.append(piece.drafts, name)
                    report.new, report.known = report.new + len(stored.new_ids), report.known + len(stored.known_ids)
                    storage.outbox.set_positions(piece.marks) if piece.marks else None
            if part.report is not None:
                report.add_report(part.report)
    token.release_files()
    pipeline.finish_report(report, Gate())
    return report


@pytest.mark.parametrize("newest", [45, None])
@pytest.mark.few(1)
def test_children_give_what_reading_here_gives(many: Path, storage: Storage, tmp_path: Path, newest: int | None) -> None:
    for n, file in enumerate(sorted(many.iterdir())):
        os.utime(file, (n, n))
    other = open_storage(None, timezone="UTC")
    here = pipeline.Pipeline(EventLog(other.events, SystemClock()), other.outbox, Gate())
    there = handed_over(CLAUDE, many, storage, tmp_path / "spool", newest)
    assert told(there) == told(here.import_source(CLAUDE, many, newest=newest))
    assert held(storage) == held(other)
    assert there.new > 40
    again = handed_over(CLAUDE, many, storage, tmp_path / "spool", newest)
    assert told(again) == told(here.import_source(CLAUDE, many, newest=newest))
    assert held(storage) == held(other)
    assert list((tmp_path / "spool" / "import").iterdir()) == []
    other.close()


def test_a_small_import_is_read_without_children(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_pool, "Child", None)
    source = write(tmp_path / "a.jsonl", *map(jsonl_line, range(30)))
    assert handed_over(JSONL, source, storage, tmp_path / "spool").new == 30


def test_a_report_of_parts_keeps_the_bounds_of_one() -> None:
    whole, parts = ImportReport(), ImportReport()
    for n in range(12):
        part = ImportReport()
        for report in (whole, part):
            for i in range(20):
                report.skip_record(f"reason {10 * n + i}", "file", i, "words")
        parts.add_report(part)
    assert told(parts) == told(whole)
    assert whole.skipped["other reasons"] > 0


def test_files_are_private_and_named_here_alone(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    token = handover.ImportClaim(spool)
    writer = handover.SliceWriter(token.folder, token.name, 0, "jsonl")
    writer.append([DRAFT], "jsonl")
    writer.set_positions({"import:jsonl:x": "1"})
    writer.flush()
    [name] = writer.complete_files
    file = token.folder / name
    assert [stat.S_IMODE(p.stat().st_mode) for p in (file, token.folder, spool)] == [0o600, 0o700, 0o700]
    source, each = handover.read_slices(spool, name)
    [piece] = each
    assert (source, piece.drafts, piece.marks) == ("jsonl", [DRAFT], {"import:jsonl:x": "1"})
    for bad in ("../memory.duckdb", f"{name}.new", "", f"/{name}", f"{name}/", f"{token.name}.lock", f"x{name}"):
        with pytest.raises(InvalidQuery):
            handover.read_slices(spool, bad)
    link = f"{name[:-1]}9"
    (token.folder / link).symlink_to(file)
    with pytest.raises(NotAFile):
        handover.read_slices(spool, link)


def test_only_files_of_imports_that_have_ended_are_swept(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    token = handover.ImportClaim(spool)
    for stem in (token.name, "f" * 32):
        writer = handover.SliceWriter(token.folder, stem, 0, "jsonl")
        writer.append([DRAFT], "jsonl")
        writer.flush()
    (token.folder / f"{'e' * 32}.lock").touch()
    # A lock is told from another holder's only in another thread or process.
    swept: list[int] = []
    sweeping = threading.Thread(target=lambda: swept.append(handover.sweep_files(spool)))
    sweeping.start()
    sweeping.join()
    assert swept == [1]
    assert sorted(p.name.partition("-")[0] for p in token.folder.iterdir()) == [token.name, f"{token.name}.lock"]
    token.release_files()
    assert list(token.folder.iterdir()) == []
    assert handover.sweep_files(tmp_path / "nowhere") == 0
