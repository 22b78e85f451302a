"""`import`: someone else's files into the memory, and a report of what was read, left out and built."""

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, filling, leaf
from memory_mcp.errors import InvalidQuery, SourceUnreadable

if TYPE_CHECKING:
    from memory_mcp.cli.bulk import Memory, Upkeep
    from memory_mcp.ingest.base import ImportReport

AUTO = "auto"
#: The registered importers; named here because only `app` reads a registry, and held to it by a test.
SOURCES = (
    "claude-code",
    "pi",
    "cline",
    "antigravity",
    "deepseek",
    "goose",
    "grok",
    "kimi",
    "kimi-cli",
    "codex",
    "qwen",
    "gemini",
    "copilot",
    "copilot-chat",
    "opencode",
    "jsonl",
)
#: Records and files looked at to tell what kind of source a path is.
_SNIFF_RECORDS = 40
_SNIFF_FILES = 50
#: All quotes are shown of a reason that occurred at most so often, else the first.
_FEW = 3
#: Share of the whole work that is done once everything is stored (it is filed meanwhile), and of the rest once all of it
#: is filed (measured on real histories).
_STORING, _FILING = 0.65, 0.2
#: Seconds, and the share of the work, from which an estimate is worth anything; from when on it is told in minutes.
_ESTIMATE_AFTER, _LEAST_DONE, _A_MINUTE = 3.0, 0.02, 90


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `import`."""
    parser = leaf(parsers, "import", run, about, "Importing twice changes nothing.")
    parser.add_argument(
        "source", choices=(AUTO, *SOURCES), metavar="SOURCE", help=f"{', '.join(SOURCES)}, or auto to tell by what lies at PATH"
    )
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="file or folder (claude-code: ~/.claude/projects)")
    parser.add_argument("--newest", type=int, metavar="N", help="only about the N newest events")


def run(args: argparse.Namespace) -> int:
    """Import, derive, report."""
    if args.newest is not None and args.newest < 1:
        raise InvalidQuery(f"--newest must be at least 1, not {args.newest}")
    with filling(args) as app:
        name, path = choose(app, args.source, args.path)
        report = read(app, name, path, args.newest)
        if not report.files:
            raise SourceUnreadable(f"no {name} files below {path}", f"Name another PATH; known sources: {', '.join(SOURCES)}.")
        seconds = build(app)
        data = {"source": name, "path": str(path), **report_shape(report, seconds), "built": app.holdings()}
    render.emit(as_json(args), data, [*report_lines(data), *_what_to_try(data["built"]["latest"])])
    return 0


def _what_to_try(topic: str) -> list[str]:
    """The last line: a question that this memory can answer."""
    words = render.one_line(topic.replace('"', ""), 60)
    return [f'Try it: memory-mcp ask "{words}"'] if words else []


def choose(app: "Memory", source: str, path: Path | None) -> tuple[str, Path]:
    """The importer's name and the path to read; InvalidQuery when they cannot be told."""
    path = path.expanduser() if path else None
    if source != AUTO:
        place = path or next(iter(app.importer(source).default_paths()), None)
        if place is None:
            raise InvalidQuery(f"{source} needs a path", f"memory-mcp import {source} PATH")
        return source, place
    if path is None:
        places = [(n, p) for n in SOURCES for p in app.importer(n).default_paths() if p.exists()]
        if not places:
            raise InvalidQuery("nothing to import was found in the usual places", "Name it: memory-mcp import auto PATH")
        return places[0]
    counts = {name: _sniff(app, name, path) for name in SOURCES}
    best = max(SOURCES, key=lambda n: counts[n])
    if not counts[best]:
        raise SourceUnreadable(f"no transcripts and no events were found in {path}", f"Known sources: {', '.join(SOURCES)}.")
    return best, path


def _sniff(app: "Memory", name: str, path: Path) -> int:
    """Events that an importer finds in the first records of the first file that holds any for it."""
    from memory_mcp.ingest.base import ImportReport

    importer = app.importer(name)
    for file in islice(importer.files(path), _SNIFF_FILES):
        try:
            found = sum(len(r.drafts) for r in islice(importer.read(file, 0, ImportReport()), _SNIFF_RECORDS))
        except OSError:
            continue
        if found:
            return found
    return 0


def read(app: "Memory", name: str, path: Path, newest: int | None) -> "ImportReport":
    """Run the import with its progress on stderr; when it is interrupted, say that what was stored is kept."""
    began = time.monotonic()
    with render.Progress("importing") as bar:

        def tell(report: "ImportReport", file: Path, done: float) -> None:
            left = _left(began, _STORING * done)
            bar.at(_STORING * done, f"{report.new:,} new, {report.known:,} known, {file.name}{left}")

        try:
            return app.run_import(name, path, tell, newest)
        except KeyboardInterrupt:
            render.err("What was stored stays and will be filed and indexed; run the command again for the rest.")
            raise


def build(app: "Memory") -> dict[str, float]:
    """File what was stored in the tree, and see the indexes complete where they are kept; seconds by stage."""
    began = time.monotonic()
    most = 1
    with render.Progress("filing") as bar:

        def tell(now: "Upkeep") -> None:
            nonlocal most
            most = max(most, now.to_file)
            if not now.to_index:
                bar.at(_FILING * (1 - now.to_file / most), f"{now.to_file:,} events to file")
                return
            done = _FILING + (1 - _FILING) * now.indexed / now.to_index
            bar.at(done, f"indexing, {now.indexed:,} of {now.to_index:,}{_left(began, done)}")

        try:
            return app.build(tell)
        except KeyboardInterrupt:
            render.err("Everything is stored; filing and indexing go on in the background.")
            raise


def _left(began: float, done: float) -> str:
    """An estimate of the time that is left, once there is something to estimate from."""
    spent = time.monotonic() - began
    if spent < _ESTIMATE_AFTER or not _LEAST_DONE <= done < 1:
        return ""
    seconds = spent * (1 - done) / done
    return f", about {render.plural(round(seconds / 60), 'minute') if seconds >= _A_MINUTE else f'{seconds:.0f} s'} left"


def report_shape(report: "ImportReport", seconds: dict[str, float]) -> dict[str, Any]:
    """What an import did."""
    quotes = {
        reason: [{"file": q.file, "line": q.line, "text": q.text} for q in several] for reason, several in report.quotes.items()
    }
    return {
        "files": report.files,
        "files_unchanged": report.files_unchanged,
        "files_failed": report.files_failed,
        "lines": report.lines,
        "lines_used": report.lines_used,
        "bytes": report.bytes,
        "new": report.new,
        "known": report.known,
        "cut": report.cut,
        "skipped": dict(report.skipped.most_common()),
        "left_out": dict(report.left_out.most_common()),
        "dropped": dict(report.dropped.most_common()),
        "quotes": quotes,
        "redacted": dict(report.redacted.most_common()),
        "seconds": {k: round(v, 3) for k, v in {**report.seconds, **seconds}.items()},
    }


def report_lines(data: dict[str, Any]) -> Iterator[str]:
    """An import's report for reading."""
    extra = [f"{data[k]:,} {word}" for k, word in (("files_unchanged", "unchanged"), ("files_failed", "unreadable")) if data[k]]
    files = render.plural(data["files"], "file") + (f" ({', '.join(extra)})" if extra else "")
    yield f"Read {files}, {render.plural(data['lines'], 'line')}, from {data['path']} as {data['source']}"
    yield f"Events: {data['new']:,} new, {data['known']:,} known already"
    if data["cut"]:
        yield "Only the newest were read; run again without --newest for the older ones"
    for title, key, noun in (("Skipped", "skipped", "line"), ("Left out", "left_out", "part"), ("Refused", "dropped", "event")):
        if data[key]:
            yield f"{title}: {render.plural(sum(data[key].values()), noun)}"
            for reason, count in data[key].items():
                yield f"  {count:,} {reason}"
                if key == "skipped":
                    few = data["quotes"].get(reason, ())[: count if count <= _FEW else 1]
                    yield from _quote_lines(few, data["path"])
    yield from _quote_lines(data["quotes"].get("unreadable file", ()), data["path"])
    if data["redacted"]:
        yield "Redacted: " + ", ".join(f"{count:,} {rule}" for rule, count in data["redacted"].items())
    yield "Seconds: " + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in data["seconds"].items())
    built = data["built"]
    counts = [render.plural(built[k], k[:-1]) for k in ("events", "sessions", "segments")]
    yield f"The memory now holds {', '.join(counts)} of {render.plural(len(built['projects']), 'project')}"


def _quote_lines(quotes: list[dict[str, Any]], below: str) -> Iterator[str]:
    for quote in quotes:
        place = quote["file"].removeprefix(below).lstrip("/") or Path(below).name
        yield f"    {place}:{quote['line']}: {render.one_line(quote['text'], 80)}"
