"""`restore`: replace the memory by a backup. It is built beside the present one, which serves until it is replaced."""

import argparse
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import extensions
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands import daemon
from memory_mcp.cli.commands.backup import place_of, verified_lines, verified_shape
from memory_mcp.cli.commands.base import Subparsers, as_json, leaf, settings_of, wanted
from memory_mcp.cli.mistakes import refuse_command_word
from memory_mcp.service.client import link

if TYPE_CHECKING:
    from memory_mcp.archive.backup import Backup
    from memory_mcp.archive.reading import Verified
    from memory_mcp.config import Settings

#: How long a start of the daemon that is under way is waited for (seconds).
_STARTING = 30.0


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `restore`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "restore", run, about, "Clients stay connected; hooks and imports that wait are stored after it.")
    parser.add_argument("source", metavar="SOURCE", help="a folder of backups, or one backup")
    parser.add_argument("--at", metavar="TIME", default="", help="of a folder, the last backup up to then: 2026-01-30, yesterday")


def run(args: argparse.Namespace) -> int:
    """Verify the backup, build a store from it, put that in place of the present one, and print what was restored.

    The daemon is stopped for it; what was there is kept beside. Returns 1 when a part of the backup is missing, else 0. When
    building fails, what was built is removed and the memory stays. Raises InvalidQuery for a memory in a database.
    """
    from memory_mcp.archive.reading import verify
    from memory_mcp.archive.restore import FRESH, put_in_place

    settings = settings_of(args)
    _require_directory(settings)
    directory = settings.storage.directory.absolute()
    refuse_command_word(args.source, "restore")
    backup = _choose_backup(place_of(args.source), args.at)
    verified = verify(backup)
    try:
        fresh, counts = _build(settings, directory, backup, verified)
    except BaseException:
        # On a full disk it must not stay in the way.
        shutil.rmtree(directory / FRESH, ignore_errors=True)
        raise
    now_ms = time.time_ns() // 1_000_000
    if link.usable():
        which = wanted(args)
        # No other daemon is started between the end of this one and the new store.
        with link.starting(which.directory, time.monotonic() + _STARTING):
            daemon.stop(which)
            former_memory = put_in_place(directory, fresh, now_ms)
    else:
        former_memory = put_in_place(directory, fresh, now_ms)
    data = {
        "path": str(backup.path),
        "restored": counts,
        "kept": str(former_memory) if former_memory else None,
        **verified_shape(verified),
    }
    render.emit(as_json(args), data, _lines(backup, verified, counts, former_memory))
    return 1 if verified.missing else 0


def _require_directory(settings: "Settings") -> None:
    """Raise InvalidQuery for a memory in a database."""
    if not settings.storage.is_in_directory:
        engine = extensions.find(extensions.STORAGE, settings.storage.engine)
        text = "a backup is restored into a data directory, and this memory is in a database"
        raise InvalidQuery(text, engine.restore_hint if engine is not None else "")


def _choose_backup(source: Path, at: str) -> "Backup":
    """Return the backup that `source` is, or the newest in that folder; with `at` the newest up to that time.

    The time is read in the zone of the newest backup. Raises what finding raises where there is none, and
    InvalidQuery for a time that cannot be read.
    """
    from memory_mcp.archive.backup import find
    from memory_mcp.archive.reading import about_of
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.requests.times import Times

    if not at:
        return find(source)
    zone = about_of(find(source))["timezone"]
    return find(source, Times(Calendar(zone), time.time_ns() // 1_000_000).until(at))


def _build(settings: "Settings", directory: Path, backup: "Backup", verified: "Verified") -> tuple[Path, dict[str, int]]:
    """Build the store in a new folder, forgetting again what was forgotten here, with its tree; return (folder, counts).

    The counts: events, segments, lost_events, and tombstones_left if not 0. The restore is recorded in the new store's
    audit log. The folder stays where an error is raised.
    """
    from memory_mcp.app import App
    from memory_mcp.archive import beside, restore
    from memory_mcp.archive.reading import rows_of
    from memory_mcp.ingest.tombstones import Tombstones
    from memory_mcp.model.ledger import AuditEntry
    from memory_mcp.storage.duckdb import SCHEMA, open_storage
    from memory_mcp.tree.derive.derivation import ExecutionMode
    from memory_mcp.tree.derive.rebuild_toc import TocRebuild

    with render.Progress("restoring") as bar:
        fresh, loaded = restore.load(backup, verified, directory, SCHEMA, open_storage, lambda: None)
        app = App(replace(settings, storage=replace(settings.storage, data_dir=str(fresh))))
        foreign = beside.take(directory, rows_of(backup))
        tombstones = Tombstones(directory)
        try:
            if not tombstones.is_empty:
                app.storage.erase_forgotten(tombstones)
                app.derivation.reread()
            app.derivation.run(mode=ExecutionMode.SHARED)
            job = TocRebuild(app.storage, app.calendar, app.summarizer, app.settings.toc)
            job.run(None, partial(bar.count, noun="segments"))
            lost = sum(max(m.rows, 0) for m in verified.missing if m.table == "event")
            counts = {"events": loaded.rows.get("event", 0), "segments": app.tree.tally().segments, "lost_events": lost}
            counts |= {"tombstones_left": foreign} if foreign else {}
            app.storage.audit.record_entry(AuditEntry("restore", app.clock.now_ms(), "person", backup.path.name, "", counts))
            if not tombstones.is_empty:
                app.storage.compact_files()
        finally:
            app.close()
    return fresh, counts


def _lines(backup: "Backup", verified: "Verified", counts: dict[str, int], former_memory: Path | None) -> Iterator[str]:
    """Yield what was restored, what of the backup is missing, and where the former memory is kept."""
    yield f"restored from {backup.path}: {counts['events']:,} events in {counts['segments']:,} segments"
    yield from verified_lines(verified)
    if verified.missing:
        yield "What is missing may come back by importing again (memory-mcp import), or from an older backup (--at)."
    if tombstones_left := counts.get("tombstones_left"):
        yield f"{tombstones_left:,} notes of what was forgotten in that memory cannot be known again here: forget it here, too"
    if former_memory:
        yield f"What was there before is kept in {former_memory}"
