"""`export`: write the memory as files that `import` takes back, or as one HTML file to read anywhere."""

import argparse
import sys
from pathlib import Path
from typing import IO, Any, cast

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, add_times, filling, leaf, print_result
from memory_mcp.cli.mistakes import refuse_command_word, refuse_missing_parent

_ASIDE = (
    "JSONL without PATH goes to standard output. Secrets are looked for once more. `import jsonl FILE` and "
    "`import markdown FOLDER` take an export back, and know what they have already. html is one file that shows the time tree, "
    "its quotations and the conversations in any browser, and searches in them; it is not taken back."
)


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `export`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "export", run, about, _ASIDE)
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="file (jsonl, html) or folder (markdown) to write")
    parser.add_argument("--format", choices=("jsonl", "markdown", "html"), default="jsonl", help="what to write (jsonl)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the same as FILE --format html")
    parser.add_argument("--project", metavar="P", default="", help="only this project (its identity or the last part of it)")
    parser.add_argument("--agent", metavar="A", default="", help="only what was said with this agent")
    parser.add_argument("--force", action="store_true", help="replace a file that is in the way")
    add_times(parser)


def run(args: argparse.Namespace) -> int:
    """Write the memory, passed through the gate again, to PATH or stdout; return 0."""
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
    with filling(args) as memory, render.Progress("exporting") as bar:
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

    with filling(args) as memory, render.Progress("exporting") as bar:
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
    """Raise InvalidQuery for a path that cannot be written, or that would be replaced without --force."""
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
