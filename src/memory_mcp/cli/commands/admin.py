"""`admin`: checks, counts and upkeep of the store."""

import argparse
import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base import extensions, machine
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands import retrieval, upkeep
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_flags,
    answer_request,
    as_json,
    family,
    file_pending,
    leaf,
    open_memory,
    print_result,
    read_request,
    reopen,
)
from memory_mcp.cli.commands.registry import add_foreign_command
from memory_mcp.cli.commands.topics import status_lines
from memory_mcp.model.calendar import TocLevel
from memory_mcp.storage.values import ACKNOWLEDGE

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.storage.values import StoreStats


#: Findings of `check` that are printed.
_SHOWN = 50
#: Months that `stats` lists, and characters of a bar.
_MONTHS, _BAR = 24, 24
#: Indexes that old documents can be left out of, and the one that is made of what they hold.
_INDEXES, _TOPICS = ("bm25", "vector"), "topics"
#: A loss is reported until a person acknowledges it: a program that runs commands cannot restore anything.
_BY_A_PERSON = f"A person types it in a terminal and confirms it: {ACKNOWLEDGE}. It is told until then, and nothing is refused."


def add_admin(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.correct import Audit

    inner = family(parsers, "admin", about)
    leaf(inner, "check", run_check, "check every invariant of the tree (exit status 1 when one is broken)")
    rebuild = leaf(inner, "rebuild-toc", run_rebuild, "derive the whole tree again from the events; ids stay")
    rebuild.add_argument("--timezone", metavar="ZONE", help="count days in this zone from now on, such as Europe/Berlin")
    stats = leaf(inner, "stats", run_stats, "show counts and sizes")
    stats.add_argument("--prometheus", action="store_true", help="as text for Prometheus")
    text = "show clients, redactions, disk, what may leave this machine, what is not recorded, backups"
    leaf(inner, "overview", upkeep.run_overview, text)
    acts = leaf(inner, "audit", run_audit, "list what was done to the memory itself: corrected, retracted, forgotten, restored")
    add_flags(acts, Audit)
    leaf(inner, "compact", run_compact, "rewrite the database file without dead space")
    leaf(inner, "acknowledge-loss", run_acknowledge, "say that it is known which events are missing, so that it is told no more")
    rebuild_index = leaf(
        inner, "rebuild-index", run_rebuild_index, "build the indexes anew from the store; the old ones serve meanwhile"
    )
    rebuild_index.add_argument("--type", default="all", metavar="INDEX", help="bm25, vector, topics or all (all)")
    for name in _INDEXES:
        text = f"leave old documents out of the {name} index; the memory keeps them"
        prune = leaf(inner, f"prune-{name}", run_prune, text, "admin rebuild-index brings them back.")
        prune.add_argument("--age-days", type=int, required=True, metavar="N", help="what ended longer ago")
        prune.add_argument("--level", default="all", metavar="LEVEL", help="segment (with its grips), day, week or all (all)")
        prune.set_defaults(index=name)
    leaf(inner, "index-stats", run_index_stats, "show how the indexes are: health, documents, sizes, upkeep")
    for name, command in extensions.load_all(extensions.ADMIN_COMMANDS).items():
        add_foreign_command(inner, name, command)


def run_check(args: argparse.Namespace) -> int:
    """Check every invariant of the tree; return 1 for any finding.

    All events are filed first; writers of the tree wait meanwhile.
    """
    from memory_mcp.tree.toc.check import check_store

    with open_memory(args, settled=True) as app, app.derivation.publishing:
        findings = check_store(app.storage, app.calendar)
        counts = {"events": app.storage.events.last_seq(), "segments": app.tree.tally().segments}
    data = {"ok": not findings, **counts, "findings": [asdict(finding) for finding in findings]}
    lines = [f"{f.rule}: {f.subject}: {f.detail}" for f in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        lines.append(f"... and {len(findings) - _SHOWN:,} more: {dict(Counter(f.rule for f in findings))}")
    if findings:
        lines.append(f"{render.plural(len(findings), 'finding')}. Next: memory-mcp admin rebuild-toc (events are not touched)")
    else:
        lines.append(f"ok: {counts['events']:,} events in {counts['segments']:,} segments, every invariant holds")
    render.emit(as_json(args), data, lines)
    return 1 if findings else 0


def run_rebuild(args: argparse.Namespace) -> int:
    """Derive the whole tree again from the events, after a backup.

    With another zone a daemon opens the store again.
    """
    from memory_mcp.tree.derive.rebuild_toc import TocRebuild

    with open_memory(args, catch_up=False) as app, app.derivation.publishing, render.Progress("rebuilding") as bar:
        file_pending(app)
        app.backups.back_up_before("the tree was derived again")
        job = TocRebuild(app.storage, app.calendar, app.summarizer, app.settings.toc)
        report = job.run(args.timezone, partial(bar.count, noun="segments"))
        zone = app.storage.timezone
    if args.timezone:
        reopen()
    data = {name: getattr(report, name) for name in ("nodes_changed", "nodes_dropped", "terms_rewritten")}
    data |= {"seconds": round(report.seconds, 3), "timezone": zone}
    changed = f"{render.plural(report.nodes_changed, 'node')} changed, {report.nodes_dropped:,} dropped"
    terms = f"{render.plural(report.terms_rewritten, 'term set')} rewritten"
    return print_result(args, data, [f"Rebuilt in {report.seconds:.2f} s: {changed}, {terms}. Days are counted in {zone}."])


def run_audit(args: argparse.Namespace) -> int:
    from memory_mcp.requests.correct import Audit

    with open_memory(args, catch_up=False) as app:
        data = answer_request(app, read_request(args, Audit))
    lines = [
        f"{act['when'][:16]}  {act['what']:<11} {act['author']:<12} "
        + f"{render.one_line(act.get('subject', ''))}  {render.one_line(act.get('reason', ''))}".rstrip()
        for act in data["acts"]
    ]
    return print_result(args, data, lines or ["nothing was done to the memory itself yet"])


def run_stats(args: argparse.Namespace) -> int:
    from memory_mcp.upkeep.archive.keeper import read_folder

    if args.prometheus:
        return _run_prometheus(args)
    with open_memory(args, catch_up=False) as app:
        stats = app.storage.get_stats()
        iso = app.calendar.format_iso
        backups = read_folder(app.backups.folder) if app.backups.folder else None
        data: dict[str, Any] = {
            "rows": dict(stats.rows),
            "size_bytes": stats.size_bytes,
            "text_bytes": stats.text_bytes,
            "first": iso(stats.first_ms) if stats.first_ms is not None else None,
            "last": iso(stats.last_ms) if stats.last_ms is not None else None,
            "pending": stats.last_seq - stats.derived_to,
            "timezone": stats.timezone,
            "schema_version": stats.schema_version,
            "store_id": stats.store_id,
            "data_dir": str(app.settings.storage.directory),
            "backups": {"count": backups.count if backups else 0, "size_bytes": backups.size_bytes if backups else 0},
            "lost_events": stats.loss.events if stats.loss else None,
            "months": _months(app, stats),
            "levels": {level.value: len(app.storage.toc.list_ids(level)) for level in TocLevel if level is not TocLevel.ROOT},
            "parts": _parts(app.settings.storage.directory),
        }
    lines = [f"{table:<15} {count:>12,}" for table, count in data["rows"].items()]
    ratio = f" ({stats.size_bytes / stats.text_bytes:.1f} x the text)" if stats.text_bytes else ""
    lines.append(f"{'on disk':<15} {render.size(stats.size_bytes):>12}{ratio}, text {render.size(stats.text_bytes)}")
    copies = data["backups"]
    lines.append(f"{'backups':<15} {render.size(copies['size_bytes']):>12}, {copies['count']:,} of them")
    shown_separately = ("rows", "size_bytes", "text_bytes", "backups", "months", "levels", "parts")
    facts = {k: v for k, v in data.items() if k not in shown_separately and v is not None}
    lines += [f"{name.replace('_', ' '):<15} {value}" for name, value in facts.items()]
    lines += _pictures(data, render.draws_blocks())
    return print_result(args, data, lines)


def _months(app: "App", stats: "StoreStats") -> list[dict[str, Any]]:
    """None before the month of the first event; only events in the tree count."""
    if stats.first_ms is None or stats.last_ms is None:
        return []
    first, last = (app.calendar.to_local(ms).date() for ms in (stats.first_ms, stats.last_ms))
    # Months are counted from year 0.
    end = last.year * 12 + last.month
    months = range(max(first.year * 12 + first.month - 1, end - _MONTHS), end + 1)
    begins = [dt.date(month // 12, month % 12 + 1, 1).isoformat() for month in months]
    return [
        {"month": begin[:7], "events": app.storage.toc.tally_days(begin, after, None).events} for begin, after in pairwise(begins)
    ]


def _parts(directory: Path) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for path, state in machine.iter_files(directory):
        top, *below = Path(path).relative_to(directory).parts
        name = top if below else "other"
        if top == "indexes" and below:
            name = below[0]
        elif top.startswith("memory.duckdb"):
            name = "database"
        sizes[name] += state.st_size
    return {name: size for name, size in sizes.most_common() if size}


def _pictures(data: dict[str, Any], blocks: bool) -> Iterator[str]:
    months = data["months"]
    if months:
        counts, most = [m["events"] for m in months], max(months, key=lambda m: m["events"])
        month_counts = ", ".join(f"{m['month']} {m['events']:,}" for m in months if m["events"])
        span = f"{months[0]['month']} to {months[-1]['month']}, most {most['events']:,} in {most['month']}"
        yield f"{'events by month':<15} {f'{render.spark(counts, blocks)}  {span}' if blocks else month_counts}"
    for title, key, format_value in (("level", "levels", "{:,}".format), ("file", "parts", render.size)):
        sizes: dict[str, int] = data[key]
        for name, size in sizes.items():
            drawn = f"  {render.bar(size, max(sizes.values()), _BAR, blocks)}".rstrip() if blocks else ""
            yield f"{title + ' ' + name:<22} {format_value(size):>9}{drawn}"


def _run_prometheus(args: argparse.Namespace) -> int:
    from memory_mcp.service.daemon.gauges import exposition

    with open_memory(args, catch_up=False) as app:
        text = exposition(app)
    for line in text.splitlines():
        render.out(line)
    return 0


def run_compact(args: argparse.Namespace) -> int:
    with open_memory(args, catch_up=False) as app:
        app.backups.back_up_before("the file was rewritten")
        size_before, size_after = app.storage.compact_files()
    lines = [f"Compacted from {render.size(size_before)} to {render.size(size_after)}."]
    return print_result(args, {"before_bytes": size_before, "after_bytes": size_after}, lines)


def run_acknowledge(args: argparse.Namespace) -> int:
    """Record that a person has seen the loss of events.

    Raises InvalidQuery where no person at a terminal confirms it.
    """
    from memory_mcp.model.ledger import AuditEntry

    is_person = render.is_persons(["admin", "acknowledge-loss"])
    with open_memory(args, catch_up=False) as app:
        loss = app.storage.loss
        if loss is not None:
            if not is_person:
                raise InvalidQuery(f"nobody confirmed it: {loss.description}", _BY_A_PERSON)
            counts = {"events": loss.events}
            app.storage.audit.record_entry(
                AuditEntry("acknowledge", app.clock.now_ms(), "person", "loss", loss.damaged_folder, counts)
            )
            app.storage.accept_contents(acknowledge=True)
    line = f"Acknowledged: {loss.description}." if loss else "Nothing is known to be missing."
    return print_result(args, {"acknowledged": loss is not None, "events": loss.events if loss else 0}, [line])


def run_rebuild_index(args: argparse.Namespace) -> int:
    if args.type not in (*_INDEXES, _TOPICS, "all"):
        raise InvalidQuery(f"unknown index: {args.type!r}", f"Indexes are {', '.join(_INDEXES)}, {_TOPICS} and all.")
    with open_memory(args) as app:
        names = [args.type]
        if args.type == "all":
            names = [n for n in _INDEXES if app.accelerators.find_searcher(n) is not None]
            # Last, because segments are compared by what the others hold.
            keeper = app.accelerators.find_topic_keeper()
            names += [_TOPICS] if keeper is not None and (keeper.status().healthy or keeper.is_due()) else []
        # Where none can be built, building one reports why.
        reports = {name: _rebuild(app, name) for name in names or [_INDEXES[0]]}
    lines = []
    for name, report in reports.items():
        took = f"{report['seconds']:.2f} s"
        if "topics" in report:
            of = render.plural(report["documents"], "segment")
            lines.append(f"{name}: {render.plural(report['topics'], 'topic')} in {of}, in {took}")
        else:
            rate = f", {report['documents'] / report['seconds']:,.0f} a second" if report["seconds"] else ""
            lines.append(f"{name}: {render.plural(report['documents'], 'document')} in {took}{rate}")
    return print_result(args, {"rebuilt": reports}, lines)


def _rebuild(app: "App", name: str) -> dict[str, Any]:
    if name == _TOPICS:
        with render.Progress("grouping topics"):
            grouped = app.topics.rebuild_graph()
        report = {"documents": grouped.documents, "seconds": round(grouped.duration_ms / 1000, 3)}
        return {**report, "topics": app.topics.describe_status().topic_count}
    rows = app.storage.get_stats(text=False).rows
    # Periods are also indexed once per project, so there may be more than this in the end.
    expected = max(rows.get("node", 0) + rows.get("grip", 0), 1)
    with render.Progress(f"building {name}") as bar:
        build = app.accelerators.rebuild(name, lambda done: bar.at(min(done / expected, 1.0), f"{done:,} documents"))
    return {"documents": build.documents, "seconds": round(build.duration_ms / 1000, 3)}


def run_prune(args: argparse.Namespace) -> int:
    """Leave old documents out of one index; the memory keeps them.

    Raises InvalidQuery for a bad level or age, LayerUnavailable where there is no such index.
    """
    from memory_mcp.requests.indexes import PruneIndex

    with open_memory(args) as app:
        retrieval.settle(app, args.index)
        data = answer_request(app, PruneIndex(args.index, args.age_days, args.level))
    pruned: dict[str, int] = data["pruned"]
    levels = f" ({', '.join(f'{count:,} {level}' for level, count in pruned.items())})" if pruned else ""
    total = render.plural(sum(pruned.values()), "document")
    line = f"{total} left out of the {args.index} index{levels}. The memory keeps them."
    return print_result(args, data, [line])


def run_index_stats(args: argparse.Namespace) -> int:
    from memory_mcp.requests.indexes import GetTeleportStatus, GetTopicGraphStatus

    with open_memory(args, catch_up=False) as app:
        index_details = answer_request(app, GetTeleportStatus()).get("indexes", {})
        topics = answer_request(app, GetTopicGraphStatus())
        health = {name: status.health.value for name, status in app.accelerators.index_statuses().items()}
        layers = {s.name.value: s for s in app.engine.read_statuses()}
    data: dict[str, Any] = {}
    lines: list[str] = []
    for name in _INDEXES:
        layer = layers[name]
        state = {"enabled": layer.enabled, "healthy": layer.healthy, "health": health.get(name, "unavailable")}
        data[name] = state = state | ({"reason": layer.reason} if layer.reason else {}) | index_details.get(name, {})
        lines.append(f"{name}: {retrieval.state(state['enabled'], state['healthy'], state.get('reason', ''))}")
        lines += retrieval.detail_lines(state) if "size_bytes" in state else ()
    return print_result(args, {"indexes": data | {_TOPICS: topics}}, [*lines, *status_lines(topics)])
