"""`doctor`: what is well and what is not, each with a next step; it changes nothing and never asks to delete anything."""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp import __version__
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import SESSION, Subparsers, as_json, leaf, settings_of
from memory_mcp.errors import MemoryMcpError, StorageLocked

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.config import Settings

OK, WARN, FAIL = "ok", "warn", "fail"
#: Less free disk than this is worth a warning, bytes.
_LOW_DISK = 1_000_000_000
_NO_DISK = 50_000_000
_OPEN_TO_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    state: str
    name: str
    detail: str
    next_step: str = ""


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `doctor`."""
    leaf(parsers, "doctor", run, about)


def run(args: argparse.Namespace) -> int:
    """All checks; 1 when one of them fails."""
    checks = list(_all(args))
    failed = any(c.state == FAIL for c in checks)
    shapes = [{"state": c.state, "name": c.name, "detail": c.detail, "next_step": c.next_step} for c in checks]
    render.emit(as_json(args), {"ok": not failed, "checks": shapes}, _lines(checks))
    return 1 if failed else 0


def _lines(checks: list[Check]) -> Iterator[str]:
    for check in checks:
        yield f"{check.state:<4}  {check.name}: {check.detail}"
        if check.next_step:
            yield f"      next: {check.next_step}"


def _all(args: argparse.Namespace) -> Iterator[Check]:
    yield Check(OK, "versions", _versions())
    try:
        settings = settings_of(args)
    except MemoryMcpError as error:
        yield Check(FAIL, "settings", error.message, error.hint)
        return
    yield Check(OK, "settings", "read")
    directory = settings.storage.directory
    yield from _disk(directory)
    if not directory.is_dir():
        first = "memory-mcp import claude-code (or try it first: memory-mcp try)"
        yield Check(OK, "data directory", f"{directory} does not exist yet", first)
        return
    yield from _directory(directory)
    if os.access(directory, os.W_OK):
        yield from _store(settings)


def _versions() -> str:
    found = [f"python {sys.version.split()[0]}", f"memory-mcp {__version__}"]
    for name in ("duckdb", "mcp"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} (not installed)")
    return ", ".join(found)


def _disk(directory: Path) -> Iterator[Check]:
    place = next(p for p in (directory, *directory.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    state = OK if free >= _LOW_DISK else WARN if free >= _NO_DISK else FAIL
    yield Check(state, "free disk", render.size(free), "" if state == OK else f"free some space on the disk of {place}")


def _directory(directory: Path) -> Iterator[Check]:
    mode = directory.stat().st_mode & 0o777
    if mode & _OPEN_TO_OTHERS:
        yield Check(WARN, "permissions", f"{directory} is open to others ({mode:o})", f"chmod 700 {directory}")
    else:
        yield Check(OK, "permissions", f"{directory} is yours alone ({mode:o})")
    if os.access(directory, os.W_OK):
        yield Check(OK, "writable", "yes")
    else:
        yield Check(FAIL, "writable", f"{directory} is read-only", f"chmod u+w {directory}, or choose another: --data-dir DIR")


def _store(settings: "Settings") -> Iterator[Check]:
    if (session := SESSION.get()) is not None:
        yield Check(OK, "lock", f"held by the daemon (process {os.getpid()}), which answers")
        session.app.derivation.run()
        with session.app.derivation.publishing:
            yield from _inside(session.app)
        return
    from memory_mcp.app import App

    try:
        app = App(settings)
    except StorageLocked as error:
        yield Check(WARN, "lock", error.message, "for the checks of the store itself, run this again when that has ended")
        return
    except MemoryMcpError as error:
        yield Check(FAIL, "store", error.message, error.hint)
        return
    try:
        yield Check(OK, "lock", "free")
        yield from _inside(app)
    finally:
        app.close()


def _inside(app: "App") -> Iterator[Check]:
    from memory_mcp.toc.check import check

    stats = app.storage.stats()
    events = render.plural(stats.rows.get("event", 0), "event")
    yield Check(OK, "store", f"schema {stats.schema_version}, {events}, {render.size(stats.size_bytes)}")
    lost = stats.extra.get("lost_events")
    if lost:
        restore = "restore a backup of the data directory, or import their sources again"
        yield Check(FAIL, "acknowledged events", f"{lost} that were stored are missing", restore)
    else:
        yield Check(OK, "acknowledged events", "all there")
    yield _summarizer(app)
    yield Check(OK, "time zone", f"days are counted in {stats.timezone}")
    pending = stats.last_seq - stats.derived_to
    if pending:
        waiting = f"{render.plural(pending, 'event')} stored and not yet filed in the tree"
        yield Check(WARN, "pending", waiting, "they are filed by the next search, or by a running server")
    else:
        yield Check(OK, "pending", "every event is filed in the tree")
    findings = check(app.storage, app.calendar)
    if findings:
        detail = f"{render.plural(len(findings), 'finding')}, first: {findings[0].rule}: {findings[0].detail}"
        yield Check(FAIL, "tree", detail, "memory-mcp admin check, then memory-mcp admin rebuild-toc")
    else:
        yield Check(OK, "tree", "every invariant holds")


def _summarizer(app: "App") -> Check:
    from memory_mcp.cli.commands.base import answered
    from memory_mcp.requests.spend import GetSpend

    told = answered(app, GetSpend(1))
    if told["provider"] == "extractive":
        return Check(OK, "summarizer", "extractive: no language model is asked")
    name = app.settings.summarizer.api_key_env
    who = f"{told['provider']} {told['model']}, {told['spent_today']:,} of {told['daily_tokens']:,} tokens spent today"
    if name and not os.environ.get(name):
        return Check(
            WARN, "summarizer", f"{who}; the variable {name} is not set here", f"set {name}, then: memory-mcp daemon restart"
        )
    failed = [one["reason"] for one in told["failures"] if one["outcome"] == "failed"]
    if failed:
        return Check(WARN, "summarizer", f"{who}; {failed[0]}", "memory-mcp spend")
    return Check(OK, "summarizer", who)
