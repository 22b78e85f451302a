"""`import`: read other clients' histories into the memory, and report what was read, left out and built."""

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from memory_mcp.base import machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, SourceUnreadable
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, leaf, open_bulk_memory
from memory_mcp.cli.import_report import brief_line, holdings_line, report_lines, report_shape, source_lines
from memory_mcp.cli.mistakes import nothing_used, refuse_no_transcript

if TYPE_CHECKING:
    from memory_mcp.capture.finding import FileSummary
    from memory_mcp.cli.bulk import Memory, Upkeep
    from memory_mcp.importers.base import ImportReport


AUTO = "auto"
#: The registered importers; named here because only `app` reads a registry, and held to it by a test.
SOURCES = (
    *("claude-code", "pi", "cline", "antigravity", "deepseek", "goose", "grok", "kimi", "kimi-cli", "codex", "qwen"),
    *("gemini", "copilot", "copilot-chat", "opencode", "cursor", "amp", "continue", "chatgpt", "claude-ai"),
    *("jsonl", "markdown"),
)
#: Share of the whole work that is done once everything is stored (it is filed meanwhile), and of the rest once all of it
#: is filed (measured on real histories).
_STORING, _FILING = 0.75, 0.2
#: Seconds and share of the work before the first estimate; from this many seconds on it is given in minutes.
_ESTIMATE_AFTER, _LEAST_DONE, _A_MINUTE = 1.0, 0.01, 90
#: Less time left than this (seconds) is not told: what every import takes, however small, would belie it.
_LEAST_LEFT = 2.0
#: Files of a source that are looked at to tell whether they are its own at all.
_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class Share:
    """Files that one importer reads."""

    source: str
    #: Files, or a folder whose files the importer lists.
    files: "Path | Sequence[Path]"
    #: Their place, as it is shown.
    place: Path
    #: Bytes of all of its files.
    size: int = 0


def add_import(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "import", run_import, about, "Importing twice changes nothing. Without SOURCE: auto.")
    text = f"{', '.join(SOURCES)}; or {AUTO}: whatever lies at PATH, without PATH whatever is found on this machine"
    parser.add_argument("source", nargs="?", default=AUTO, choices=(AUTO, *SOURCES), metavar="SOURCE", help=text)
    parser.add_argument(
        "path", nargs="?", type=Path, metavar="PATH", help="file or folder; without it, where the client keeps its own"
    )
    parser.add_argument("--newest", type=int, metavar="N", help="only about the N newest events of each source")
    parser.add_argument("--yes", action="store_true", help="import what is found on this machine without asking")
    parser.add_argument("--verbose", action="store_true", help="tell of everything that was left out why, with places")


def run_import(args: argparse.Namespace) -> int:
    """Import what the arguments name, and print a report.

    Without SOURCE and PATH the clients of this machine are looked through. Raises InvalidQuery where an argument is out of range
    or no user can be asked, SourceUnreadable where there is nothing to read or, after the report, nothing of the named source.
    """
    if args.newest is not None and args.newest < 1:
        raise InvalidQuery(f"--newest must be at least 1, not {args.newest}")
    if args.path is not None:
        refuse_no_transcript(args.path.expanduser())
    with open_bulk_memory(args) as app:
        is_search = args.source == AUTO and args.path is None
        shares = _choose_shares(app, args.yes) if is_search else shares_at(app, args.source, args.path)
        if not shares:
            return 0
        data = import_shares(app, shares, args.newest)
        source_reports = [data, *data["others"]]
        foreign = nothing_used(source_reports) and _are_foreign(app, shares)
        question = "" if foreign or as_json(args) else question_for(app)
    lines = told_lines(data, args.verbose)
    lines += [f'Try it: memory-mcp ask "{question}" --all'] if question else []
    render.emit(as_json(args), data, lines)
    if foreign:
        hint = "memory-mcp import auto PATH looks at what it is; memory-mcp import --help lists the sources."
        raise SourceUnreadable(f"nothing in {data['path']} is a {data['source']} transcript", hint)
    return 0


def _are_foreign(app: "Memory", shares: "Sequence[Share]") -> bool:
    from memory_mcp.capture.finding import find_owners

    for share in shares:
        importer = app.importer(share.source)
        files = importer.iter_files(share.files) if isinstance(share.files, Path) else share.files
        if any(owner for _, owner in find_owners([importer], islice(files, _LOOKED_AT))):
            return False
    return True


def import_shares(app: "Memory", shares: "Sequence[Share]", newest: int | None) -> dict[str, Any]:
    """Read, file and index several shares; return the report.

    It is the first share's, with those of the others under "others" and the memory's contents under "built"; the time of filing
    is in the first alone. Raises SourceUnreadable for a share without files.
    """
    with Work(sum(share.size for share in shares)) as work:
        reports = [read_share(app, share, newest, work) for share in shares]
        seconds = build(app, work)
    first, *other_reports = [
        {"source": share.source, "path": str(share.place), **report_shape(report, {} if number else seconds)}
        for number, (share, report) in enumerate(zip(shares, reports, strict=True))
    ]
    return {**first, "others": other_reports, "built": app.holdings()}


def told_lines(data: dict[str, Any], verbose: bool = False) -> list[str]:
    """Return the lines of the report of `import_shares`."""
    if data["others"] and not verbose:
        several = [brief_line(report) for report in (data, *data["others"])]
        return [*several, holdings_line(data["built"]), "--verbose tells what was left out of each, and why"]
    other_lines = [line for other in data["others"] for line in source_lines(other, verbose)]
    return [*other_lines, *report_lines(data, verbose)]


# ---- what there is to read


def shares_at(app: "Memory", source: str, path: Path | None) -> list[Share]:
    """Return what to read for a source at a path.

    Without a path in the source's usual places. Of files only the beginnings are read. Files of other clients go to their own
    importers, which is reported on stderr for a named source. Raises InvalidQuery where the source is unknown or has no usual
    place and no path is given, SourceUnreadable where there is nothing to read.
    """
    from memory_mcp.capture.finding import assign_files, no_files_error
    from memory_mcp.capture.pipeline import mark_prefix

    importers = app.importers()
    importer_name = "" if source == AUTO else source
    places = (path.expanduser(),) if path else app.importer(importer_name).default_paths()
    if not places:
        raise InvalidQuery(f"{source} needs a path", f"memory-mcp import {source} PATH")
    if path is None and not any(path_read.exists() for path_read in places):
        hint = f"Name where it is: memory-mcp import {source} PATH; or see the program work first: memory-mcp try"
        raise SourceUnreadable(f"{source} keeps nothing in its usual place, {places[0]}", hint)
    if path is None:
        places = tuple(path_read for path_read in places if path_read.exists())
    shares = []
    for path_read in places:
        marks = app.marks(mark_prefix(app.importer(importer_name))) if importer_name else {}
        for name, files in assign_files(importers, importer_name, path_read, marks).items():
            shares.append(Share(name, files, path_read, sum(map(machine.size_of, files))))
            if importer_name and name != importer_name:
                title = app.importer(name).title
                are = "is" if len(files) == 1 else "are"
                render.err(f"{render.plural(len(files), 'file')} in {path_read} {are} of {title}, and read as {name}")
    if not shares:
        raise no_files_error(places[0], [i.title for i in importers])
    return shares


def find_histories(app: "Memory") -> "list[FileSummary]":
    """Return a finding for each client's usual place with files."""
    from memory_mcp.capture.finding import summarize_usual_paths

    return summarize_usual_paths(app.importers(), app.marks("import:"))


def _choose_shares(app: "Memory", yes: bool) -> list[Share]:
    findings = find_histories(app)
    if not findings:
        render.err("Looked for the conversations of:")
        for importer in app.importers():
            if paths := importer.default_paths():
                render.err(f"  {importer.title:<22} {_at_home(paths[0])}")
        hint = f"Name a file or folder: memory-mcp import {AUTO} PATH; or see the program work first: memory-mcp try --sample"
        raise SourceUnreadable("nothing to import was found here", hint)
    for line in finding_lines(findings):
        render.err(line)
    shares = shares_of(app, findings)
    if not shares:
        render.err("All of it is imported already.")
    elif not yes:
        if not render.can_ask():
            raise InvalidQuery("nothing was imported: nobody can be asked here", "To import it without a question, add --yes.")
        if not render.ask_consent(f"Import {render.plural(sum(f.new_files for f in findings), 'file')} now?"):
            render.err("Nothing was imported.")
            return []
    return shares


def _at_home(path: Path) -> str:
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def shares_of(app: "Memory", findings: "Sequence[FileSummary]") -> list[Share]:
    """Return the shares of the findings that have new files."""
    return [share for f in findings if f.new_files for share in shares_at(app, f.importer, f.path)]


def finding_lines(findings: "Sequence[FileSummary]") -> Iterator[str]:
    """Yield a heading and a line for each source."""
    yield "Found on this machine:"
    for f in findings:
        days = " to ".join(dict.fromkeys(time.strftime("%Y-%m-%d", time.localtime(ms / 1000)) for ms in (f.oldest, f.newest)))
        new = "imported already" if not f.new_files else f"{f.new_files:,} to import, {render.size(f.new_size)}"
        yield f"  {f.title:<14} {render.plural(f.files, 'file')}, {render.size(f.size)}, {days}: {new}  {f.path}"


# ---- reading and building


class Work:
    """One progress bar over all bytes of an import.

    The time left is measured from its start.
    """

    def __init__(self, size: int, title: str = "importing") -> None:
        self._bar = render.Progress(title)
        self._size, self._read, self._new, self._known = size, 0, 0, 0
        self._began = time.monotonic()
        self._most = 1
        #: Share of the whole that is filing and indexing alone: all of it where nothing is read.
        self._storing = _STORING if size else 0.0

    def __enter__(self) -> "Work":
        self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._bar.__exit__(kind, error, where)

    def show_reading(self, report: "ImportReport", share: float, size: int) -> None:
        """Show the stored share (0..1) of `size` bytes."""
        done = min(self._size, self._read + round(share * size))
        counts = f"{self._new + report.new:,} new, {self._known + report.known:,} known"
        note = f"{render.size(done)} of {render.size(self._size)}, {counts}"
        self._show(self._storing * done / max(self._size, 1), note)

    def end_reading(self, report: "ImportReport", size: int) -> None:
        """Count the bytes and the events of a share as read."""
        self._read += size
        self._new, self._known = self._new + report.new, self._known + report.known

    def show_upkeep(self, upkeep: "Upkeep") -> None:
        """Show what of filing and then of indexing is done."""
        self._most = max(self._most, upkeep.to_file)
        if upkeep.to_index:
            done = _FILING + (1 - _FILING) * upkeep.indexed / upkeep.to_index
            note = f"indexing, {upkeep.indexed:,} of {upkeep.to_index:,}"
        else:
            done = _FILING * (1 - upkeep.to_file / self._most)
            note = f"filing, {upkeep.to_file:,} events left"
        self._show(self._storing + (1 - self._storing) * done, note)

    def _show(self, done: float, note: str) -> None:
        self._bar.at(done, f"{note}{_time_left(self._began, done)}")


def read_share(app: "Memory", share: Share, newest: int | None, work: Work) -> "ImportReport":
    """Import one share; SourceUnreadable when it has no files."""
    report = read(app, share.source, share.files, newest, work, share.size)
    if not report.files:
        hint = f"Name another PATH; known sources: {', '.join(SOURCES)}."
        raise SourceUnreadable(f"no {share.source} files below {share.place}", hint)
    return report


def read(app: "Memory", name: str, files: "Path | Sequence[Path]", newest: int | None, work: Work, size: int) -> "ImportReport":
    """Import files, showing the progress; return the report.

    `newest`: only about so many events. When interrupted, says that what was stored is kept, and raises KeyboardInterrupt.
    """

    def tell(report: "ImportReport", _: Path, done: float) -> None:
        """Show the share that is done."""
        work.show_reading(report, done, size)

    try:
        report = app.run_import(name, files, tell, newest)
    except KeyboardInterrupt:
        render.err("What was stored stays and will be filed and indexed; run the command again for the rest.")
        raise
    work.end_reading(report, size)
    return report


def build(app: "Memory", work: Work) -> dict[str, float]:
    """File and index what was stored; return seconds by stage.

    When interrupted, says that this goes on in the background, and raises KeyboardInterrupt.
    """
    try:
        return app.build(work.show_upkeep)
    except KeyboardInterrupt:
        render.err("Everything is stored; filing and indexing go on in the background.")
        raise


def question_for(app: "Memory") -> str:
    """Return a question that the memory answers; "" for none."""
    texts: list[str] = app.carry("questions", {"count": 1})["questions"]
    return next(iter(texts), "")


def _time_left(began: float, done: float) -> str:
    """Empty in the first second, below 1 %, for less than 2 seconds, and once all is done."""
    spent = time.monotonic() - began
    if spent < _ESTIMATE_AFTER or not _LEAST_DONE <= done < 1:
        return ""
    seconds = spent * (1 - done) / done
    if seconds < _LEAST_LEFT:
        return ""
    return f", about {render.plural(round(seconds / 60), 'minute') if seconds >= _A_MINUTE else f'{seconds:.0f} s'} left"
