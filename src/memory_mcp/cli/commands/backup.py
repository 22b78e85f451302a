"""`backup` and `restore`: copies of the memory, and the memory from a copy."""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base import extensions, machine
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands import daemon
from memory_mcp.cli.commands.base import (
    Subparsers,
    as_json,
    caller_directory,
    leaf,
    open_memory,
    print_result,
    settings_of,
    wanted,
)
from memory_mcp.cli.mistakes import refuse_command_word, refuse_missing_parent
from memory_mcp.model.calendar import Calendar
from memory_mcp.service.client import link

if TYPE_CHECKING:
    from memory_mcp.config import Settings
    from memory_mcp.upkeep.archive.backup import Backup
    from memory_mcp.upkeep.archive.reading import Missing, Verified


#: Damaged parts that are printed.
_SHOWN = 50


#: How long a start of the daemon that is under way is waited for (seconds).
_STARTING = 30.0


def add_backup(parsers: Subparsers, about: str) -> None:
    parser = leaf(
        parsers, "backup", run_backup, about, "Bring it back with: memory-mcp restore. A backup is as private as the memory."
    )
    text = "a folder, or a file whose name ends in .archive (setting backup.directory; the folder backups in the data directory)"
    parser.add_argument("place", metavar="DEST", nargs="?", default="", help=text)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--list", action="store_true", help="show the backups there are")
    which.add_argument("--verify", action="store_true", help="read the newest one, or DEST, to the end (exit status 1: damaged)")


def place_of(path: str) -> Path:
    """Return a path as one below the caller's working directory."""
    return caller_directory() / Path(path).expanduser()


def usual_place(args: argparse.Namespace) -> Path:
    """Return the folder of backups by the settings."""
    settings = settings_of(args)
    return settings.backup.folder(settings.storage.directory.absolute())


def run_backup(args: argparse.Namespace) -> int:
    """Make a backup, or list or verify those there are.

    The words list and verify alone mean these options. Raises StorageError when the backup cannot be written, and InvalidQuery
    for a memory without a directory and for a DEST that is no place.
    """
    if args.place in ("list", "verify"):
        args.list, args.verify, args.place = args.place == "list", args.place == "verify", ""
    if args.list:
        return _list(args)
    if args.verify:
        return _verify(args)
    if args.place:
        refuse_command_word(args.place, "backup")
        refuse_missing_parent(place_of(args.place))
    with open_memory(args, catch_up=False) as app:
        backup = app.backups.make_backup("asked for", place_of(args.place) if args.place else None)
    data = asdict(backup) | {"path": str(backup.path)}
    more = f"{render.size(backup.added_bytes)} more on disk"
    lines = [
        f"{backup.path}",
        f"{render.plural(backup.events, 'event')}, {render.size(backup.size_bytes)} ({more})",
        "Beside them: " + ", ".join(f"{count:,} {table.replace('_', ' ')}" for table, count in backup.rows.items()),
    ]
    return print_result(args, data, lines)


def _list(args: argparse.Namespace) -> int:
    from memory_mcp.upkeep.archive.backup import list_backups, measure_folder

    folder = place_of(args.place) if args.place else usual_place(args)
    if folder.is_file():
        raise InvalidQuery(f"{folder} is a file, not a folder of backups", "Look into it: memory-mcp backup --verify FILE")
    calendar = Calendar("UTC")
    # One that has no size was replaced by a newer one meanwhile.
    listed = [
        {"path": str(b.path), "made": calendar.format_iso(b.at_ms), "store": b.store, "size_bytes": size}
        for b in list_backups(folder)
        if (size := machine.size_of(b.path))
    ]
    data = {"folder": str(folder), "size_bytes": measure_folder(folder), "backups": listed}
    lines = [f"{b['made']}  {b['path']}" for b in listed]
    lines.append(
        f"{render.plural(len(listed), 'backup')} in {folder}, {render.size(measure_folder(folder))} with the events they share"
    )
    return print_result(args, data, lines)


def _verify(args: argparse.Namespace) -> int:
    """Return 1 when anything is damaged."""
    from memory_mcp.upkeep.archive.backup import find_backup
    from memory_mcp.upkeep.archive.reading import verify_backup

    backup = find_backup(place_of(args.place) if args.place else usual_place(args))
    verified = verify_backup(backup)
    damaged = bool(verified.missing or verified.harmless)
    data = {"path": str(backup.path), "ok": not damaged, **verified_shape(verified)}
    render.emit(as_json(args), data, [str(backup.path), *verified_lines(verified)])
    return 1 if damaged else 0


def verified_shape(verified: "Verified") -> dict[str, Any]:
    """Return as JSON values what reading a backup found.

    made (ISO time), why, last_seq (number of the last event), rows (counts by table), missing (as `missing_shape`) and
    harmless (texts on damage by which nothing is lost); times in the backup's own zone.
    """
    calendar = Calendar(verified.about["timezone"])
    return {
        "made": calendar.format_iso(verified.about["at_ms"]),
        "why": verified.about["why"],
        "last_seq": verified.about["last_seq"],
        "rows": verified.rows,
        "missing": missing_shape(verified.missing, calendar),
        "harmless": verified.harmless,
    }


def missing_shape(missing: "Sequence[Missing]", calendar: Calendar) -> list[dict[str, Any]]:
    """Return the unreadable parts of a backup as JSON values.

    file, what, table, rows (None where their number is not known), from and to (ISO times or None), and sources (events
    by source).
    """
    return [
        {
            "file": m.file,
            "what": m.what,
            "table": m.table,
            "rows": m.rows if m.rows >= 0 else None,
            "from": calendar.format_iso(m.from_ms) if m.from_ms else None,
            "to": calendar.format_iso(m.to_ms) if m.to_ms else None,
            "sources": m.sources,
        }
        for m in missing
    ]


def missing_lines(missing: "Sequence[Missing]", calendar: Calendar) -> Iterator[str]:
    """Yield lines about the first 50 parts that cannot be read."""
    for part in missing[:_SHOWN]:
        rows = "an unknown number of rows" if part.rows < 0 else render.plural(part.rows, "row")
        times = f" from {calendar.format_iso(part.from_ms)} to {calendar.format_iso(part.to_ms)}" if part.to_ms else ""
        sources = f", of {', '.join(part.sources)}" if part.sources else ""
        yield f"damaged: {part.what} in {part.file}: {rows} of {part.table or 'some table'}{times}{sources}"
    if len(missing) > _SHOWN:
        yield f"... and {len(missing) - _SHOWN:,} more"


def verified_lines(verified: "Verified") -> Iterator[str]:
    """Yield what reading a backup found, for people."""
    calendar = Calendar(verified.about["timezone"])
    backup_time = calendar.format_iso(verified.about["at_ms"])
    yield f"made {backup_time} ({verified.about['why']}): {verified.rows.get('event', 0):,} events"
    yield from missing_lines(verified.missing, calendar)
    for text in verified.harmless[:_SHOWN]:
        yield f"damaged, and nothing lost by it: {text}"
    if not verified.missing:
        yield "whole: every row is there" if not verified.harmless else "every row is there"


def add_restore(parsers: Subparsers, about: str) -> None:
    parser = leaf(
        parsers, "restore", run_restore, about, "Clients stay connected; hooks and imports that wait are stored after it."
    )
    parser.add_argument("source", metavar="SOURCE", help="a folder of backups, or one backup")
    parser.add_argument("--at", metavar="TIME", default="", help="of a folder, the last backup up to then: 2026-01-30, yesterday")


def run_restore(args: argparse.Namespace) -> int:
    """Build a store from a backup and put it in place.

    The daemon is stopped for it; what was there is kept. Returns 1 when a part of the backup is missing. When building fails,
    what was built is removed and the memory stays. Raises InvalidQuery for a memory in a database.
    """
    from memory_mcp.upkeep.archive.reading import verify_backup
    from memory_mcp.upkeep.archive.restore import discard_new_store, put_in_place

    settings = settings_of(args)
    _require_directory(settings)
    directory = settings.storage.directory.absolute()
    refuse_command_word(args.source, "restore")
    backup = _choose_backup(place_of(args.source), args.at)
    verified = verify_backup(backup)
    try:
        counts = _build(settings, directory, backup, verified)
    except BaseException:
        # On a full disk it must not stay in the way.
        discard_new_store(directory)
        raise
    now_ms = time.time_ns() // 1_000_000
    if link.can_run_daemon():
        which = wanted(args)
        # No other daemon is started between the end of this one and the new store.
        with link.hold_start_lock(which.directory, time.monotonic() + _STARTING):
            daemon.stop(which)
            former_memory = put_in_place(directory, now_ms)
    else:
        former_memory = put_in_place(directory, now_ms)
    data = {
        "path": str(backup.path),
        "restored": counts,
        "kept": str(former_memory) if former_memory else None,
        **verified_shape(verified),
    }
    render.emit(as_json(args), data, _lines(backup, verified, counts, former_memory))
    return 1 if verified.missing else 0


def _require_directory(settings: "Settings") -> None:
    if not settings.storage.is_in_directory:
        engine = extensions.find(extensions.STORAGE, settings.storage.engine)
        text = "a backup is restored into a data directory, and this memory is in a database"
        raise InvalidQuery(text, engine.restore_hint if engine is not None else "")


def _choose_backup(source: Path, at: str) -> "Backup":
    """The time is read in the zone of the newest backup."""
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.requests.times import Times
    from memory_mcp.upkeep.archive.backup import find_backup
    from memory_mcp.upkeep.archive.reading import read_about

    if not at:
        return find_backup(source)
    zone = read_about(find_backup(source))["timezone"]
    return find_backup(source, Times(Calendar(zone), time.time_ns() // 1_000_000).until(at))


def _build(settings: "Settings", directory: Path, backup: "Backup", verified: "Verified") -> dict[str, int]:
    """Return counts; what was forgotten here is forgotten again. The new folder stays where an error is raised."""
    from memory_mcp.app import App
    from memory_mcp.capture.tombstones import Tombstones
    from memory_mcp.model.ledger import AuditEntry
    from memory_mcp.storage.duckdb import SCHEMA, open_storage
    from memory_mcp.tree.derive.derivation import ExecutionMode
    from memory_mcp.tree.derive.rebuild_toc import TocRebuild
    from memory_mcp.upkeep.archive import beside, restore
    from memory_mcp.upkeep.archive.reading import iter_rows

    with render.Progress("restoring") as bar:
        fresh, loaded = restore.load_backup(backup, verified, directory, SCHEMA, open_storage, lambda: None)
        app = App(replace(settings, storage=replace(settings.storage, data_dir=str(fresh))))
        foreign = beside.add_rows(directory, iter_rows(backup))
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
    return counts


def _lines(backup: "Backup", verified: "Verified", counts: dict[str, int], former_memory: Path | None) -> Iterator[str]:
    yield f"restored from {backup.path}: {counts['events']:,} events in {counts['segments']:,} segments"
    yield from verified_lines(verified)
    if verified.missing:
        yield "What is missing may come back by importing again (memory-mcp import), or from an older backup (--at)."
    if tombstones_left := counts.get("tombstones_left"):
        yield f"{tombstones_left:,} notes of what was forgotten in that memory cannot be known again here: forget it here, too"
    if former_memory:
        yield f"What was there before is kept in {former_memory}"
