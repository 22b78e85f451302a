"""`merge`: copy what another memory holds into this one; the other is only read."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.backup import missing_lines, missing_shape
from memory_mcp.cli.commands.base import Subparsers, as_json, filling, leaf
from memory_mcp.cli.commands.import_ import Work, build

if TYPE_CHECKING:
    from memory_mcp.archive.others import Records
    from memory_mcp.archive.reading import Missing
    from memory_mcp.cli.bulk import Memory
    from memory_mcp.model.event import EventDraft

#: Characters of events that are asked for at once: far below what a line may be long.
_ASKED = 4_000_000
_ASIDE = (
    "The same event is there once, under its id; ids of both memories go on to work. What this one says of a project, a label "
    "or a text stays. Merging twice changes nothing."
)


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `merge`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "merge", run, about, _ASIDE)
    parser.add_argument(
        "other", type=Path, metavar="OTHER", help="a data directory that is not in use, a backup, or a folder of them"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would come, and change nothing")


def run(args: argparse.Namespace) -> int:
    """Copy what the other memory holds into this one, print the counts, and return 0; 1 when a part could not be read.

    With --dry-run nothing is changed. The other memory is only read. Raises InvalidQuery where it is this one.
    """
    from memory_mcp.archive.others import RECORDS, Records
    from memory_mcp.model.calendar import Calendar

    other = args.other.expanduser().absolute()
    with filling(args) as memory:
        own_directory = memory.settings.storage.directory.absolute()
        if other == own_directory or (other.exists() and own_directory.exists() and other.samefile(own_directory)):
            raise InvalidQuery("that is this memory itself", "Name another data directory, or a backup of another one.")
        records = Records()
        missing: list[Missing] = []
        counts = _events(memory, other, records, missing, args.dry_run)
        names = {table: records.rows.get(table, []) for table in ("project_alias", "project_split")}
        counts_taken = memory.carry("rules", {**names, "dry_run": args.dry_run})
        if not args.dry_run:
            with Work(0, "filing") as work:
                build(memory, work)
            author = "person" if sys.stdin.isatty() else "command"
            noted: dict[str, Any] = {"events": counts["new"], "author": author, "subject": other.name}
            counts_taken |= memory.carry("records", noted | {table: records.rows.get(table, []) for table in RECORDS})
    data: dict[str, Any] = {"other": str(other), "dry_run": args.dry_run, **counts, "beside": counts_taken}
    data["missing"] = missing_shape(missing, Calendar("UTC"))
    would = "would come" if args.dry_run else "new"
    lines = [f"{counts['new']:,} events {would}, {counts['known']:,} known already"]
    lines += [f"{counts['left_out']:,} left out (forgotten here, or nothing to store)"] if counts["left_out"] else []
    lines += [f"{count:,} {name}" for name, count in counts_taken.items() if count]
    lines += missing_lines(missing, Calendar("UTC"))
    render.emit(as_json(args), data, lines)
    return 1 if missing else 0


def _events(memory: "Memory", other: Path, records: "Records", missing: "list[Missing]", dry_run: bool) -> dict[str, int]:
    """Store the events that are not known, or with `dry_run` count them; return the counts new, known and left_out.

    Rows of small tables are collected in `records`, parts that cannot be read in `missing`. Events pass the gate
    first.
    """
    from memory_mcp.archive.others import RECORDS, drafts_in, slices_of
    from memory_mcp.ingest.base import ImportReport
    from memory_mcp.ingest.gate import Gate
    from memory_mcp.storage.duckdb import look_at

    gate, report, new_count, known_count = Gate(memory.capture), ImportReport(), 0, 0
    with render.Progress("merging") as bar:
        for part in slices_of(other, look_at, missing):
            if part.table in RECORDS:
                rows = (dict(zip(part.columns, row, strict=True)) for row in part.rows)
                records.rows.setdefault(part.table, []).extend(rows)
            if part.table != "event":
                continue
            drafts = [clean for draft in drafts_in(part) if (clean := gate.clean_draft(draft, report)) is not None]
            fresh = _fresh(memory, drafts)
            added, stored_count = (len(fresh), 0) if dry_run or not fresh else memory.append(fresh, "merge")
            new_count, known_count = new_count + added, known_count + stored_count + len(drafts) - len(fresh)
            bar.at(0.5, f"{new_count:,} new, {known_count:,} known")
    return {"new": new_count, "known": known_count, "left_out": sum(report.dropped.values())}


def _fresh(memory: "Memory", drafts: "list[EventDraft]") -> "list[EventDraft]":
    """Return the drafts that the memory does not hold, not even with other parts redacted, in their order; asked in portions."""
    fresh: list[EventDraft] = []
    part: list[EventDraft] = []
    size = 0
    for number, draft in enumerate(drafts):
        part.append(draft)
        size += len(draft.text)
        if size > _ASKED or number == len(drafts) - 1:
            names = ("session_id", "timestamp", "role", "text")
            event_values = [
                {"event_id": draft.original.event_id if draft.original else "", **{name: getattr(draft, name) for name in names}}
                for draft in part
            ]
            known_numbers = set(memory.carry("known", {"events": event_values})["known"])
            fresh += [draft for n, draft in enumerate(part) if n not in known_numbers]
            part, size = [], 0
    return fresh
