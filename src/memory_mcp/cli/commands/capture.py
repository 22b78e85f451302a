"""`pause`, `resume`, `exclude`, `hook`, `ingest` and `watch`: what is recorded, and how it comes in."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base import machine
from memory_mcp.base.errors import ConfigError, InvalidQuery, SourceUnreadable
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_flags,
    answer_request,
    as_json,
    ask,
    caller_directory,
    family,
    leaf,
    open_bulk_memory,
    open_memory,
    print_result,
    project_typed,
    read_request,
    settings_file,
    settings_of,
)
from memory_mcp.cli.commands.import_ import Work, build, read
from memory_mcp.cli.import_report import report_lines, report_shape
from memory_mcp.cli.mistakes import nearest, refuse_no_transcript
from memory_mcp.service.client import hook

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.cli.bulk import Memory
    from memory_mcp.importers.base import ImportReport
    from memory_mcp.model.event import EventDraft


_MEANT = "a project's name, its last parts, or '*' for all (default: that of the working directory)"


_EXCLUDE_ASIDE = "What is stored already stays until it is forgotten: memory-mcp forget. For a while only: memory-mcp pause."
_HOOK_ASIDE = (
    "The payload is kept in the spool of the data directory and stored by the daemon. The exit status is always 0. At the "
    "start of a session, and with hooks.recall = true at each prompt, what is remembered is answered in the client's form."
)
_FORM = (
    'One JSON object a line: "session_id", "timestamp", "role" and "text"; "id", "speaker", "type", "agent", "project", '
    '"thread" and "metadata" are optional.'
)
#: Events that are stored at once.
_BATCH = 500
_STDIN = "stdin"
#: Every client that has files on this machine.
ALL = "all"


def add_pause(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.capturing import PauseCapture

    parser = leaf(parsers, "pause", run_pause, about, "What is said meanwhile is never recorded, also not by an import later on.")
    project_option(parser)
    add_flags(parser, PauseCapture)


def project_option(parser: argparse.ArgumentParser) -> None:
    """Add --project; "" is that of the working directory."""
    parser.add_argument("--project", default="", metavar="NAME", help=_MEANT)


def run_pause(args: argparse.Namespace) -> int:
    """Pause the recording of a project, or of all ("*").

    Raises InvalidQuery for a duration that cannot be read, and where no project is known.
    """
    from memory_mcp.requests.capturing import PauseCapture

    with open_memory(args) as app:
        status = print_state(
            args, answer_request(app, read_request(args, PauseCapture, project=project_typed(app, args.project), by="person"))
        )
    if not settings_of(args).storage.is_in_directory:
        render.err("On this machine alone: other machines and servers with this memory go on recording.")
    return status


def print_state(args: argparse.Namespace, data: dict[str, Any]) -> int:
    """Print whether projects are recorded now."""
    name = "all projects" if data["project"] == "*" else data["project"]
    lines = [f"{name}: recorded again"]
    if data["paused"]:
        until = f"until {data['until']}" if data.get("until") else "until: memory-mcp resume"
        lines = [f"{name}: not recorded {until}"]
    other_projects = [other for other in data.get("all_paused", ()) if other != data["project"]]
    if other_projects:
        lines.append(f"Also paused: {', '.join('all projects' if other == '*' else other for other in other_projects)}")
    return print_result(args, data, lines)


def add_resume(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "resume", run_resume, about, "What was said during the pause stays unrecorded.")
    project_option(parser)


def run_resume(args: argparse.Namespace) -> int:
    from memory_mcp.requests.capturing import ResumeCapture

    with open_memory(args) as app:
        return print_state(args, answer_request(app, ResumeCapture(project_typed(app, args.project), "person")))


def add_exclude(parsers: Subparsers, about: str) -> None:
    inner = family(parsers, "exclude", about)
    for name, text in (
        ("add", "record nothing more of it"),
        ("remove", "record again what was excluded by this pattern"),
    ):
        parser = leaf(inner, name, run_change_exclude, text, aside=_EXCLUDE_ASIDE if name == "add" else "")
        parser.add_argument("--project", default="", metavar="P", help="a project, as acme/harbour or acme-*")
        parser.add_argument(
            "--path", default="", metavar="P", help="sessions there and tools that name it: ~/private, .env, *.pem"
        )
        parser.add_argument("--tool", default="", metavar="T", help="calls and results of a tool, as mcp__mail__*")
    leaf(inner, "list", run_list, "show what is never recorded")


def run_list(args: argparse.Namespace) -> int:
    """Print all patterns of what is never recorded; return 0."""
    from memory_mcp.requests.excluding import ListExcluded

    data = ask(args, ListExcluded(), catch_up=False)
    return print_result(args, data, _exclude_lines(data))


def run_change_exclude(args: argparse.Namespace) -> int:
    """Add or remove one pattern in the settings file.

    A path that begins with . or .. as a folder is resolved in the caller's directory. Raises ConfigError where --config names
    another settings file than the running daemon uses, InvalidQuery where not exactly one possible pattern is given.
    """
    from memory_mcp.requests.excluding import Exclude, Include

    request = Exclude if args.exclude_command == "add" else Include
    path = args.path
    if path in (".", "..") or path.startswith(("./", "../")):
        path = str((caller_directory() / path).resolve())
    with open_memory(args) as app:
        config_file = settings_file(args)
        if config_file is not None and config_file.resolve() != app.settings_file.resolve():
            hint = f"memory-mcp daemon restart --config {config_file} uses the other one."
            raise ConfigError(f"the running daemon uses {app.settings_file}, not {config_file}", hint)
        data = answer_request(app, request(project_typed(app, args.project), path, args.tool, "person"))
    return print_result(args, data, _exclude_lines(data))


def _exclude_lines(data: dict[str, Any]) -> Iterator[str]:
    for kind in ("projects", "paths", "tools"):
        for pattern in data[kind]:
            yield f"never recorded: {kind.removesuffix('s')} {render.one_line(pattern)}"
    if not (data["projects"] or data["paths"] or data["tools"]):
        yield "Nothing is excluded."
    if data.get("stored"):
        yield f"{render.plural(data['stored'], 'event')} of it stay stored; memory-mcp forget --project P takes them out"
    for name in data.get("overridden_by", ()):
        yield f"{name} is set, which goes before {data['settings_file']}"
    if data.get("changed"):
        yield f"Written to {data['settings_file']}; in force from now on."


def add_hook(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "hook", run_hook, about, _HOOK_ASIDE)
    parser.add_argument("client", metavar="CLIENT", nargs="?", default="", help=f"who tells it: {' or '.join(hook.CLIENTS)}")


def run_hook(args: argparse.Namespace) -> int:
    """Store the payload on standard input; the status is always 0."""
    options = {"--data-dir": getattr(args, "data_dir", None), "--config": getattr(args, "config", None)}
    return hook.main([args.client, *(word for name, value in options.items() if value for word in (name, value))])


def add_ingest(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "ingest", run_ingest, about, _FORM)
    parser.add_argument("file", metavar="FILE", help="file or folder of events, or - for standard input")


def run_ingest(args: argparse.Namespace) -> int:
    """Store the events of FILE or standard input.

    Raises SourceUnreadable for a file of another kind, and, after the report, when no line could be used.
    """
    from memory_mcp.capture.gate import FORGOTTEN

    if args.file != "-":
        refuse_no_transcript(Path(args.file).expanduser())
    with open_bulk_memory(args) as app:
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
    """By the rules for files, through a temporary file, in batches of 500."""
    from memory_mcp.capture.gate import Gate
    from memory_mcp.importers.base import ImportReport, Quote

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
    if batch:
        new_count, known_count = app.append(batch, "jsonl")
        report.new += new_count
        report.known += known_count
        batch.clear()


def add_watch(parsers: Subparsers, about: str) -> None:
    inner = family(parsers, "watch", about)
    leaf(inner, "status", run_status, "show which clients are followed, and what there is of each")
    for name, text in (
        ("on", "store what these clients write as they write it, beginning with what is there already"),
        ("off", "follow these clients no longer; what was stored stays"),
    ):
        parser = leaf(inner, name, run_change_watch, text)
        parser.add_argument("clients", nargs="+", metavar="CLIENT", help=f"a source, as status names it, or {ALL}")


def run_status(args: argparse.Namespace) -> int:
    with open_memory(args, catch_up=False) as app:
        clients = status_of(app)
    return print_result(args, {"clients": clients}, _watch_lines(clients))


def run_change_watch(args: argparse.Namespace) -> int:
    """Follow the named clients from now on, or no longer.

    "all" is every client with files here, for off every one. Raises InvalidQuery for one that cannot be followed, and nothing
    is changed.
    """
    from memory_mcp.capture.following import set_followed

    on = args.watch_command == "on"
    with open_memory(args, catch_up=False) as app:
        clients_by_name = {client["name"]: client for client in status_of(app)}
        names = args.clients
        if ALL in names:
            names = [name for name, client in clients_by_name.items() if not on or client["files"]]
        for name in names:
            if name not in clients_by_name:
                near = nearest(name, list(clients_by_name))
                hint = f"Did you mean {near}? " if near else ""
                hint += f"These can be: {', '.join(clients_by_name)}. Other files are read by: memory-mcp import auto PATH"
                raise InvalidQuery(f"{name!r} cannot be followed", hint)
        set_followed(app.storage.outbox, names, on)
        if on:
            app.scheduler.hasten("follow_clients")
        clients = [client for client in status_of(app) if client["name"] in names]
    return print_result(args, {"clients": clients}, _watch_lines(clients))


def status_of(app: "App") -> list[dict[str, Any]]:
    """Return the state of each client with session files.

    name, title, followed, places (paths), files, and new_files and new_bytes, those not stored yet.
    """
    from memory_mcp.capture.finding import summarize_files
    from memory_mcp.capture.following import followed_names

    followed, marks = followed_names(app.storage.outbox), app.storage.outbox.get_positions("import:")
    clients = []
    for importer in app.importers():
        if places := importer.default_paths():
            client: dict[str, Any] = {"name": importer.name, "title": importer.title, "followed": importer.name in followed}
            findings = [summarize_files(importer, path, marks) for path in places if path.exists()]
            client |= {"places": [str(path) for path in places], "files": sum(f.files for f in findings)}
            client |= {"new_files": sum(f.new_files for f in findings), "new_bytes": sum(f.new_size for f in findings)}
            clients.append(client)
    return clients


def _watch_lines(clients: list[dict[str, Any]]) -> Iterator[str]:
    for client in clients:
        what = "nothing there"
        if client["files"]:
            what = f"{render.plural(client['files'], 'file')}, {client['new_files']:,} not stored yet"
        yield f"{client['name']:<14} {'followed' if client['followed'] else '-':<9} {what}  {client['places'][0]}"
