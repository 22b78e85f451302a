"""What an import did, as data and as lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render

if TYPE_CHECKING:
    from memory_mcp.importers.base import ImportReport

#: All quotes are shown of a reason that occurred at most so often, else the first.
_FEW = 3
#: Counts by reason: the word for them, their key, and what is counted.
_REASONS = (
    ("Skipped", "skipped", "line"),
    ("Left out", "left_out", "part"),
    ("Unknown kinds, kept as notes", "unknown", "part"),
    ("Refused", "dropped", "event"),
)
#: Reasons named in the one line that tells of all.
_NAMED = 3


def report_shape(report: "ImportReport", seconds: dict[str, float]) -> dict[str, Any]:
    """Return what an import did as JSON values.

    Counts files, files_unchanged, files_failed, lines, lines_used, bytes, new, known, and cut (whether older ones were
    not read); counts by reason, the most frequent first, under skipped, left_out, unknown (kinds kept as notes), dropped and
    redacted (by rule); quotes by reason, each {file, line, text}; seconds by stage, the report's and those of `seconds`,
    rounded to milliseconds.
    """
    quotes = {
        reason: [{"file": q.file, "line": q.line, "text": q.text} for q in several] for reason, several in report.quotes.items()
    }
    counts = ("files", "files_unchanged", "files_failed", "lines", "lines_used", "bytes", "new", "known", "cut")
    return {
        **{name: getattr(report, name) for name in counts},
        **{reasons: dict(getattr(report, reasons).most_common()) for reasons in ("skipped", "left_out", "unknown", "dropped")},
        "quotes": quotes,
        "redacted": dict(report.redacted.most_common()),
        "seconds": {k: round(v, 3) for k, v in {**report.seconds, **seconds}.items()},
    }


def report_lines(data: dict[str, Any], verbose: bool = False) -> Iterator[str]:
    """Yield an import's report and what the memory contains now.

    `data` is what `report_shape` returns with source, path and built (as `holdings_line` takes it).
    """
    yield from source_lines(data, verbose)
    yield holdings_line(data["built"])


def holdings_line(built: dict[str, Any]) -> str:
    """Return one line on what the memory contains."""
    counts = [render.plural(built[k], k[:-1]) for k in ("events", "sessions", "segments")]
    return f"The memory now holds {', '.join(counts)} of {render.plural(len(built['projects']), 'project')}"


def brief_line(data: dict[str, Any]) -> str:
    """Return one line about one source of several."""
    told = [f"{data['new']:,} new", *([f"{data['known']:,} known"] if data["known"] else [])]
    left_out = sum(sum(data[key].values()) for key in ("skipped", "dropped"))
    told += [f"{render.plural(left_out, 'line')} left out"] if left_out else []
    unknown = sum(data["unknown"].values())
    told += [f"{render.plural(unknown, 'part')} of unknown kinds kept"] if unknown else []
    told += [f"{data['files_failed']:,} unreadable"] if data["files_failed"] else []
    told += ["only the newest were read"] if data["cut"] else []
    return f"  {data['source']:<14} {render.plural(data['files'], 'file')}: {', '.join(told)}"


def source_lines(data: dict[str, Any], verbose: bool = False) -> Iterator[str]:
    """Yield what was read of one source, and what was not.

    `data` is what `report_shape` returns, with source and path; `verbose`: with every reason and its places.
    """
    extra = [f"{data[k]:,} {word}" for k, word in (("files_unchanged", "unchanged"), ("files_failed", "unreadable")) if data[k]]
    files = render.plural(data["files"], "file") + (f" ({', '.join(extra)})" if extra else "")
    yield f"Read {files}, {render.plural(data['lines'], 'line')}, from {data['path']} as {data['source']}"
    yield f"Events: {data['new']:,} new, {data['known']:,} known already"
    if data["cut"]:
        yield "Only the newest were read; run again without --newest for the older ones"
    for title, key, noun in _REASONS:
        if data[key]:
            yield from _reason_lines(title, key, noun, data, verbose)
    yield from _quote_lines(data["quotes"].get("unreadable file", ()), data["path"])
    if data["redacted"]:
        yield "Redacted: " + ", ".join(f"{count:,} {rule}" for rule, count in data["redacted"].items())
    yield "Seconds: " + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in data["seconds"].items())


def _reason_lines(title: str, key: str, noun: str, data: dict[str, Any], verbose: bool) -> Iterator[str]:
    reasons: dict[str, int] = data[key]
    total = render.plural(sum(reasons.values()), noun)
    if not verbose:
        few = ", ".join(f"{count:,} {reason}" for reason, count in list(reasons.items())[:_NAMED])
        more = "" if len(reasons) <= _NAMED else f", and {render.plural(len(reasons) - _NAMED, 'other reason')}"
        yield f"{title}: {total}: {few}{more} (--verbose tells all, with places)"
        return
    yield f"{title}: {total}"
    for reason, count in reasons.items():
        yield f"  {count:,} {reason}"
        if key == "skipped":
            yield from _quote_lines(data["quotes"].get(reason, ())[: count if count <= _FEW else 1], data["path"])


def _quote_lines(quotes: list[dict[str, Any]], below: str) -> Iterator[str]:
    for quote in quotes:
        place = quote["file"].removeprefix(below).lstrip("/") or Path(below).name
        yield f"    {place}:{quote['line']}: {render.one_line(quote['text'], 80)}"
