"""`ingest`: store events in the project's own JSONL form, from a file or from standard input."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import machine
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, filling, leaf
from memory_mcp.cli.commands.import_ import Work, build, read
from memory_mcp.cli.import_report import report_lines, report_shape
from memory_mcp.cli.mistakes import refuse_no_transcript

if TYPE_CHECKING:
    from memory_mcp.cli.bulk import Memory
    from memory_mcp.ingest.base import ImportReport
    from memory_mcp.model.event import EventDraft

_FORM = (
    'One JSON object a line: "session_id", "timestamp", "role" and "text"; "id", "speaker", "type", "agent", "project", '
    '"thread" and "metadata" are optional.'
)
#: Events that are stored at once.
_BATCH = 500
_STDIN = "stdin"


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `ingest`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "ingest", run, about, _FORM)
    parser.add_argument("file", metavar="FILE", help="file or folder of events, or - for standard input")


def run(args: argparse.Namespace) -> int:
    """Store the events of FILE or standard input, file them in the tree, print a report, and return 0.

    Raises SourceUnreadable for a file of another kind, and, after the report, when no line could be used.
    """
    from memory_mcp.ingest.gate import FORGOTTEN

    if args.file != "-":
        refuse_no_transcript(Path(args.file).expanduser())
    with filling(args) as app:
        path = Path(args.file).expanduser()
        size = 0 if args.file == "-" else machine.size_of(path)
        with Work(size) as work:
            report = _from_stdin(app) if args.file == "-" else read(app, "jsonl", path, None, work, size)
            seconds = build(app, work)
        source_path = _STDIN if args.file == "-" else args.file
        data = {"source": "jsonl", "path": source_path, **report_shape(report, seconds), "built": app.holdings()}
    render.emit(as_json(args), data, report_lines(data, verbose=True))
    refused = report.skipped or set(report.dropped) - {FORGOTTEN}
    if refused and not (report.new or report.known):
        raise SourceUnreadable("none of the lines is an event", _FORM)
    return 0


def _from_stdin(app: "Memory") -> "ImportReport":
    """Copy standard input to a temporary file, store its events in batches of 500 by the rules for files; return the report."""
    from memory_mcp.ingest.base import ImportReport, Quote
    from memory_mcp.ingest.gate import Gate

    report, gate = ImportReport(files=1), Gate(app.capture)
    with tempfile.NamedTemporaryFile(prefix="memory-mcp-ingest-", suffix=".jsonl") as copy:
        while chunk := sys.stdin.buffer.read(1 << 20):
            copy.write(chunk)
        copy.write(b"\n")
        copy.flush()
        batch: list[EventDraft] = []
        for step in app.importer("jsonl").read_file(Path(copy.name), 0, report):
            report.bytes = step.offset
            batch += [clean for draft in step.drafts if (clean := gate.clean_draft(draft, report)) is not None]
            if len(batch) >= _BATCH:
                _store(app, batch, report)
        _store(app, batch, report)
    hidden = ImportReport()
    report.quotes = {
        reason: [Quote(_STDIN, q.line, gate.redact_text(q.text, hidden)) for q in several]
        for reason, several in report.quotes.items()
    }
    return report


def _store(app: "Memory", batch: "list[EventDraft]", report: "ImportReport") -> None:
    """Store a batch, add its counts of new and known to the report, and empty it; nothing for an empty one."""
    if batch:
        new_count, known_count = app.append(batch, "jsonl")
        report.new += new_count
        report.known += known_count
        batch.clear()
