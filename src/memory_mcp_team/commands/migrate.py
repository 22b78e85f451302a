"""`admin migrate-to`: copy the whole memory into another engine's store; the one that is copied is not changed."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from memory_mcp.base import failpoints
from memory_mcp.base.errors import InvalidQuery, StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.cli import render
from memory_mcp.cli.commands.backup import place_of
from memory_mcp.cli.commands.base import Subparsers, leaf, open_memory, print_result

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.config import Settings
    from memory_mcp.upkeep.archive.moving import CopyResult

_ENGINES = ("postgres", "duckdb")
failpoints.declare(
    {
        "migrate.copied": "every row is in the store that a memory is copied to, nothing of it is derived",
        "migrate.derived": "the tree is derived in the store that a memory is copied to, nothing says that it is complete",
    }
)


def add(parsers: Subparsers, about: str) -> None:
    """Add `admin migrate-to`."""
    aside = "Killed in the middle, the same command goes on. Run again, it copies what came meanwhile."
    parser = leaf(parsers, "migrate-to", run, about, aside)
    parser.add_argument(
        "engine", choices=_ENGINES, help="postgres (a space of a tenant in a database) or duckdb (a data directory)"
    )
    parser.add_argument("--url", metavar="URL", default="", help="address of the database (setting storage.url)")
    parser.add_argument("--tenant", metavar="T", default="", help="the tenant, made if there is none (setting storage.tenant)")
    parser.add_argument("--space", metavar="S", default="", help="the space, made if there is none (setting storage.space)")
    parser.add_argument("--to", metavar="DIR", default="", help="with duckdb: the data directory to make")


def _report_progress(bar: render.Progress, done: int, total: int) -> None:
    bar.at(done / max(total, 1), f"{done:,} events")


def run(args: argparse.Namespace) -> int:
    """Copy the memory into another engine's store.

    Run again it goes on, and copies what came meanwhile. Raises StorageError if the copy is not sound.
    """
    from memory_mcp.model.ledger import AuditEntry
    from memory_mcp.tree.derive.derivation import ExecutionMode
    from memory_mcp.tree.derive.rebuild_toc import TocRebuild
    from memory_mcp.tree.toc.check import check_store
    from memory_mcp.upkeep.archive import moving

    with open_memory(args, settled=True) as app, render.Progress("copying") as bar:
        target = _make_target(app.settings, args)
        with closing(_open_target(target)) as copy, copy.derivation.publishing:
            copied = moving.copy_memory(app.storage, copy.storage, partial(_report_progress, bar))
            copy.storage.accept_contents()
        failpoint("migrate.copied")
        # Its days are counted in the zone of the memory from now on.
        with closing(_open_target(target)) as copy, copy.derivation.publishing:
            copy.derivation.run(mode=ExecutionMode.SHARED)
            job = TocRebuild(copy.storage, copy.calendar, copy.summarizer, copy.settings.toc)
            job.run(None, partial(bar.count, noun="segments"))
            segments = copy.tree.tally().segments
            failpoint("migrate.derived")
            moving.require_prints(copied, copy.storage)
            if findings := check_store(copy.storage, copy.calendar):
                text = f"the copy is not sound: {findings[0].rule}: {findings[0].subject}: {findings[0].detail}"
                raise StorageError(text, "Run memory-mcp admin check on the memory; nothing of it was changed.")
            subject, counts = copy.settings.storage.engine, {"events": copied.last_seq}
            copy.storage.audit.record_entry(AuditEntry("migrate", copy.clock.now_ms(), "person", subject, "", counts))
            copy.storage.accept_contents(acknowledge=True)
            moving.mark_complete(copy.storage)
        tombstones_left = _copy_tombstones(app, target)
        later = app.storage.events.last_seq() - copied.last_seq
    rows = {table: count for table, count in sorted(copied.rows.items()) if count}
    data = {"engine": args.engine, "rows": rows, "new_events": copied.new, "segments": segments, "came_meanwhile": later}
    data |= {"tombstones_left": tombstones_left} if tombstones_left else {}
    return print_result(args, data, _iter_lines(copied, segments, later, tombstones_left, target))


def _make_target(settings: "Settings", args: argparse.Namespace) -> "Settings":
    storage = settings.storage
    if args.engine == "duckdb":
        if not args.to or args.url or args.tenant or args.space:
            raise InvalidQuery("a data directory to make is not named", "Say: memory-mcp admin migrate-to duckdb --to DIR")
        return replace(settings, storage=replace(storage, engine="duckdb", data_dir=str(place_of(args.to).absolute())))
    if args.to or not (url := args.url or storage.url):
        raise InvalidQuery("no database is named", "Say: memory-mcp admin migrate-to postgres --url postgresql://USER@HOST/NAME")
    tenant, space = args.tenant or storage.tenant, args.space or storage.space
    return replace(settings, storage=replace(storage, engine="postgres", url=url, tenant=tenant, space=space))


def _open_target(target: "Settings") -> "App":
    from memory_mcp.app import App

    return App(target, in_memory=target.storage.engine == "postgres")


def _copy_tombstones(app: "App", target: "Settings") -> int:
    """Copy tombstones and pauses; return how many are left."""
    from memory_mcp.upkeep.archive import beside

    rows = beside.read_rows(app.settings.storage.directory, app.storage.tombstones)
    if target.storage.engine == "duckdb":
        return beside.add_rows(target.storage.directory, rows)
    with closing(_open_target(target)) as copy:
        return beside.add_rows(None, rows, copy.storage.tombstones)


def _iter_lines(copied: "CopyResult", segments: int, later: int, tombstones_left: int, target: "Settings") -> Iterator[str]:
    other = sum(count for table, count in copied.rows.items() if table != "event")
    yield f"copied {copied.last_seq:,} events ({copied.new:,} by this run) in {segments:,} segments and {other:,} other rows"
    yield "Counts and prints of the copy are those of the memory, and every invariant holds. The memory was not changed."
    if tombstones_left:
        yield f"{tombstones_left:,} notes of what was forgotten cannot be known there: forget it there, too"
    if later:
        yield f"{render.plural(later, 'event')} came meanwhile: run the same command again"
    storage = target.storage
    yield "To use the copy, set these in the settings file, then: memory-mcp daemon restart"
    yield "  [storage]"
    yield f'  engine = "{storage.engine}"'
    if storage.engine == "duckdb":
        yield f'  data_dir = "{storage.directory}"'
    else:
        yield "  url = (the address that was given)"
        yield f'  tenant = "{storage.tenant}"'
        yield f'  space = "{storage.space}"'
