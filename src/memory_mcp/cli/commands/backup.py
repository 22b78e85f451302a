"""`backup`: copy the memory while it is in use, list the copies, and check that one is whole."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base import machine
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, caller_directory, leaf, opened, print_result, settings_of
from memory_mcp.cli.mistakes import refuse_command_word, refuse_missing_parent
from memory_mcp.model.calendar import Calendar

if TYPE_CHECKING:
    from memory_mcp.archive.reading import Missing, Verified

#: Damaged parts that are printed.
_SHOWN = 50


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `backup`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "backup", run, about, "Bring it back with: memory-mcp restore. A backup is as private as the memory.")
    text = "a folder, or a file whose name ends in .archive (setting backup.directory; the folder backups in the data directory)"
    parser.add_argument("place", metavar="DEST", nargs="?", default="", help=text)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--list", action="store_true", help="show the backups there are")
    which.add_argument("--verify", action="store_true", help="read the newest one, or DEST, to the end (exit status 1: damaged)")


def place_of(path: str) -> Path:
    """Return a path, with ~ expanded, as a Path below the caller's working directory; an absolute one stays."""
    return caller_directory() / Path(path).expanduser()


def usual_place(args: argparse.Namespace) -> Path:
    """Return the folder of backups that the settings name, else `backups` in the data directory."""
    settings = settings_of(args)
    return settings.backup.folder(settings.storage.directory.absolute())


def run(args: argparse.Namespace) -> int:
    """Make a backup at DEST or in the usual folder, print its counts, and return 0; --list and --verify only read.

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
    with opened(args, catch_up=False) as app:
        backup = app.backups.make("asked for", place_of(args.place) if args.place else None)
    data = asdict(backup) | {"path": str(backup.path)}
    more = f"{render.size(backup.added_bytes)} more on disk"
    lines = [
        f"{backup.path}",
        f"{render.plural(backup.events, 'event')}, {render.size(backup.size_bytes)} ({more})",
        "Beside them: " + ", ".join(f"{count:,} {table.replace('_', ' ')}" for table, count in backup.rows.items()),
    ]
    return print_result(args, data, lines)


def _list(args: argparse.Namespace) -> int:
    """Print the backups of DEST or the usual folder with their sizes; return 0. Raises InvalidQuery for a file."""
    from memory_mcp.archive.backup import backups, size_of

    folder = place_of(args.place) if args.place else usual_place(args)
    if folder.is_file():
        raise InvalidQuery(f"{folder} is a file, not a folder of backups", "Look into it: memory-mcp backup --verify FILE")
    calendar = Calendar("UTC")
    # One that has no size was replaced by a newer one meanwhile.
    listed = [
        {"path": str(b.path), "made": calendar.format_iso(b.at_ms), "store": b.store, "size_bytes": size}
        for b in backups(folder)
        if (size := machine.size_of(b.path))
    ]
    data = {"folder": str(folder), "size_bytes": size_of(folder), "backups": listed}
    lines = [f"{b['made']}  {b['path']}" for b in listed]
    lines.append(f"{render.plural(len(listed), 'backup')} in {folder}, {render.size(size_of(folder))} with the events they share")
    return print_result(args, data, lines)


def _verify(args: argparse.Namespace) -> int:
    """Read DEST, or the newest backup of a folder, to its end and print what is damaged; return 1 when anything is, else 0."""
    from memory_mcp.archive.backup import find
    from memory_mcp.archive.reading import verify

    backup = find(place_of(args.place) if args.place else usual_place(args))
    verified = verify(backup)
    damaged = bool(verified.missing or verified.harmless)
    data = {"path": str(backup.path), "ok": not damaged, **verified_shape(verified)}
    render.emit(as_json(args), data, [str(backup.path), *verified_lines(verified)])
    return 1 if damaged else 0


def verified_shape(verified: "Verified") -> dict[str, Any]:
    """Return as JSON values what reading a backup to its end found; times in the backup's own zone.

    made (ISO time), why, last_seq (number of the last event), rows (counts by table), missing (as `missing_shape`) and
    harmless (texts on damage by which nothing is lost).
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
    """Return each part of a backup that cannot be read as JSON values, in order; times in the calendar's zone.

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
    """Yield a line for each of the first 50 parts that cannot be read, and how many more; times in the calendar's zone."""
    for part in missing[:_SHOWN]:
        rows = "an unknown number of rows" if part.rows < 0 else render.plural(part.rows, "row")
        times = f" from {calendar.format_iso(part.from_ms)} to {calendar.format_iso(part.to_ms)}" if part.to_ms else ""
        sources = f", of {', '.join(part.sources)}" if part.sources else ""
        yield f"damaged: {part.what} in {part.file}: {rows} of {part.table or 'some table'}{times}{sources}"
    if len(missing) > _SHOWN:
        yield f"... and {len(missing) - _SHOWN:,} more"


def verified_lines(verified: "Verified") -> Iterator[str]:
    """Yield when a backup was made, how many events it holds, what of it cannot be read, and whether every row is there."""
    calendar = Calendar(verified.about["timezone"])
    made = calendar.format_iso(verified.about["at_ms"])
    yield f"made {made} ({verified.about['why']}): {verified.rows.get('event', 0):,} events"
    yield from missing_lines(verified.missing, calendar)
    for text in verified.harmless[:_SHOWN]:
        yield f"damaged, and nothing lost by it: {text}"
    if not verified.missing:
        yield "whole: every row is there" if not verified.harmless else "every row is there"
