"""`export`, `merge` and `sync`: the memory as files, and what other memories have."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.backup import missing_lines, missing_shape, place_of
from memory_mcp.cli.commands.base import Subparsers, as_json, leaf, open_bulk_memory, open_memory, print_result
from memory_mcp.cli.commands.import_ import Work, build
from memory_mcp.cli.mistakes import refuse_command_word, refuse_missing_parent

if TYPE_CHECKING:
    from memory_mcp.cli.bulk import Memory
    from memory_mcp.model.event import EventDraft
    from memory_mcp.upkeep.archive.others import Records
    from memory_mcp.upkeep.archive.reading import Missing


_EXPORT_ASIDE = (
    "JSONL without PATH goes to standard output. Secrets are looked for once more. `import jsonl FILE` and "
    "`import markdown FOLDER` take an export back, and know what they have already. html is one file that shows the time tree, "
    "its quotations and the conversations in any browser, and searches in them; it is not taken back."
)


#: Characters of events that are asked for at once: far below what a line may be long.
_ASKED = 4_000_000
_MERGE_ASIDE = (
    "The same event is there once, under its id; ids of both memories go on to work. What this one says of a project, a label "
    "or a text stays. Merging twice changes nothing."
)
_SYNC_ASIDE = (
    "Each machine adds files of events to a folder of its own and reads the others'. What is forgotten here does not come back "
    "from there; forget it on the other machines, too. With the setting sync.directory it happens by itself."
)


def add_export(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "export", run_export, about, _EXPORT_ASIDE)
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="file (jsonl, html) or folder (markdown) to write")
    parser.add_argument("--format", choices=("jsonl", "markdown", "html"), default="jsonl", help="what to write (jsonl)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the same as FILE --format html")
    parser.add_argument("--project", metavar="P", default="", help="only this project (its identity or the last part of it)")
    parser.add_argument("--agent", metavar="A", default="", help="only what was said with this agent")
    parser.add_argument("--force", action="store_true", help="replace a file that is in the way")
    parser.add_argument("--since", metavar="TIME", help="from then on: 2026-01-30, 2026-01-30T14:00, yesterday, 'last week'")
    parser.add_argument("--until", metavar="TIME", help="up to the end of then")


def run_export(args: argparse.Namespace) -> int:
    if args.html is not None:
        if args.path is not None or args.format != "jsonl":
            raise InvalidQuery("--html names the only file that is written", "memory-mcp export FILE --format html")
        args.path, args.format = args.html, "html"
    path: Path | None = args.path.expanduser() if args.path else None
    _refuse_path(args, path)
    if args.format == "html" and path is not None:
        return _write_html(args, path)
    from memory_mcp.cli.exporting import Export, replacing

    filters = _filters_of(args)
    with open_bulk_memory(args) as memory, render.Progress("exporting") as bar:
        export = Export(memory.carry, filters, lambda done, events: bar.at(done, f"{events:,} events"))
        if args.format == "markdown" and path is not None:
            export.markdown(path, args.force)
        elif path is None:
            export.jsonl(cast("IO[str]", sys.stdout))
        else:
            with replacing(path) as stream:
                export.jsonl(stream)
    done = export.done
    data: dict[str, Any] = {"format": args.format, "path": str(path or "-"), "events": done.events, "files": done.files}
    data |= {"left_out": dict(done.left_out), "redacted": dict(done.redacted)}
    lines = [f"Wrote {render.plural(done.events, 'event')} to {path}" + (f", {done.files:,} days" if done.files else "")]
    if path is not None:
        return print_result(args, data, [*lines, *_removal_lines(data)])
    for line in _removal_lines(data):
        render.err(line)
    return 0


def _write_html(args: argparse.Namespace, path: Path) -> int:
    from memory_mcp.cli.html_export.writing import HtmlExport

    with open_bulk_memory(args) as memory, render.Progress("exporting") as bar:
        export = HtmlExport(memory.carry, _filters_of(args), lambda done, events: bar.at(done, f"{events:,} messages"))
        done = export.write(path)
    counts = (
        f"{render.plural(done['events'], 'message')} in {render.plural(done['segments'], 'segment')} "
        f"on {render.plural(done['days'], 'day')}, {render.size(done['bytes'])}"
    )
    return print_result(args, {"format": "html", "path": str(path), **done}, [f"Wrote {path}: {counts}", *_removal_lines(done)])


def _filters_of(args: argparse.Namespace) -> dict[str, str]:
    return {"project": args.project, "agent": args.agent, "since": args.since or "", "until": args.until or ""}


def _removal_lines(done: dict[str, Any]) -> list[str]:
    lines = [f"Left out: {count:,} {reason}" for reason, count in done["left_out"].items()]
    return lines + [f"Redacted: {count:,} {rule}" for rule, count in done["redacted"].items()]


def _refuse_path(args: argparse.Namespace, path: Path | None) -> None:
    if path is not None:
        refuse_command_word(str(args.path), "export")
        refuse_missing_parent(path)
    if path is None and args.format != "jsonl":
        kind = "folder" if args.format == "markdown" else "file"
        raise InvalidQuery(f"{args.format} needs a {kind}", f"memory-mcp export {kind.upper()} --format {args.format}")
    if path is not None and args.format == "markdown":
        if path.exists() and not path.is_dir():
            raise InvalidQuery(f"{path} is no folder", "Name a folder that exists or is to be made.")
    elif path is not None and (path.is_dir() or ((path.exists() or path.is_symlink()) and not args.force)):
        hint = "Name a file in it." if path.is_dir() else "Name another file, or add --force."
        raise InvalidQuery(f"{path} is there already", hint)


def add_merge(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "merge", run_merge, about, _MERGE_ASIDE)
    parser.add_argument(
        "other", type=Path, metavar="OTHER", help="a data directory that is not in use, a backup, or a folder of them"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would come, and change nothing")


def run_merge(args: argparse.Namespace) -> int:
    """Copy the other memory into this one; 1 if unreadable parts.

    The other memory is only read. Raises InvalidQuery where it is this one.
    """
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.upkeep.archive.others import RECORDS, Records

    other = args.other.expanduser().absolute()
    with open_bulk_memory(args) as memory:
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
    from memory_mcp.capture.gate import Gate
    from memory_mcp.importers.base import ImportReport
    from memory_mcp.storage.duckdb import open_read_only
    from memory_mcp.upkeep.archive.others import RECORDS, iter_slices, parse_drafts

    gate, report, new_count, known_count = Gate(memory.capture), ImportReport(), 0, 0
    with render.Progress("merging") as bar:
        for part in iter_slices(other, open_read_only, missing):
            if part.table in RECORDS:
                rows = (dict(zip(part.columns, row, strict=True)) for row in part.rows)
                records.rows.setdefault(part.table, []).extend(rows)
            if part.table != "event":
                continue
            drafts = [clean for draft in parse_drafts(part) if (clean := gate.clean_draft(draft, report)) is not None]
            fresh = _fresh(memory, drafts)
            added, stored_count = (len(fresh), 0) if dry_run or not fresh else memory.append(fresh, "merge")
            new_count, known_count = new_count + added, known_count + stored_count + len(drafts) - len(fresh)
            bar.at(0.5, f"{new_count:,} new, {known_count:,} known")
    return {"new": new_count, "known": known_count, "left_out": sum(report.dropped.values())}


def _fresh(memory: "Memory", drafts: "list[EventDraft]") -> "list[EventDraft]":
    """Drafts that the memory does not have, not even with other parts redacted; asked in portions."""
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


def add_sync(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "sync", run_sync, about, _SYNC_ASIDE)
    parser.add_argument("folder", nargs="?", default="", metavar="DIR", help="the shared folder (setting sync.directory)")


def run_sync(args: argparse.Namespace) -> int:
    """Exchange events with other machines through the shared folder.

    Raises InvalidQuery for no folder, one inside the data directory, or one that cannot be used.
    """
    from memory_mcp.upkeep.archive.exchange import make_exchange

    refuse_command_word(args.folder, "sync")
    with open_memory(args, catch_up=False) as app:
        folder_name = args.folder or app.settings.sync.directory
        if not folder_name:
            raise InvalidQuery("no folder is named", "memory-mcp sync DIR, or set sync.directory.")
        folder, data_dir = place_of(folder_name), app.settings.storage.directory.absolute()
        if folder.resolve().is_relative_to(data_dir.resolve()):
            raise InvalidQuery("a shared folder cannot lie in the data directory", "Name a folder that other machines see.")
        done = make_exchange(app.storage, data_dir, folder, app.gate, app.append).run()
    lines = [
        f"Wrote {render.plural(done.written, 'event')} for others",
        f"Took in {done.new:,} new of {render.plural(done.machines, 'other machine')}, {done.known:,} known already",
    ]
    if done.waiting:
        lines.append(f"{render.plural(done.waiting, 'file')} not whole yet: the rest is taken in once it is there")
    lines += [f"Refused {file}: not written by this program, or not as it writes them" for file in done.refused]
    return print_result(args, asdict(done), lines)
