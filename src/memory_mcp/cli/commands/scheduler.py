"""`scheduler`: what is done while nobody waits, when it was done and how it went; run, pause and resume a job."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, family, leaf, opened

if TYPE_CHECKING:
    from memory_mcp.jobs.scheduler import JobStatus
    from memory_mcp.model.calendar import Calendar


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `scheduler`."""
    inner = family(parsers, "scheduler", about)
    leaf(inner, "status", run_status, "show every job: schedule, last run and its result, next run")
    for name, run, text in (
        ("run", run_job, "run a job now, paused or not, and show its report"),
        ("pause", run_pause, "let a job rest until it is resumed"),
        ("resume", run_resume, "let a paused job run again; what was due meanwhile runs once"),
    ):
        leaf(inner, name, run, text).add_argument("name", metavar="NAME", help="a job, as status names it")


def run_status(args: argparse.Namespace) -> int:
    """Every job."""
    with opened(args, catch_up=False) as app:
        statuses = app.scheduler.statuses()
        jobs = [_shape(status, app.calendar) for status in statuses]
    render.emit(as_json(args), {"jobs": jobs}, _lines(jobs))
    return 0


def run_job(args: argparse.Namespace) -> int:
    """Run one job here and now."""
    with opened(args, catch_up=False) as app:
        report = app.scheduler.run_now(args.name)
    data = {"name": args.name, "ok": True, "report": report.words, "counts": dict(report.counts)}
    render.emit(as_json(args), data, [f"{args.name}: {report.words}"])
    return 0


def run_pause(args: argparse.Namespace) -> int:
    """Pause one job."""
    with opened(args, catch_up=False) as app:
        app.scheduler.pause(args.name)
    line = f"{args.name} is paused. It runs again after: memory-mcp scheduler resume {args.name}"
    render.emit(as_json(args), {"name": args.name, "paused": True}, [line])
    return 0


def run_resume(args: argparse.Namespace) -> int:
    """Resume one job."""
    with opened(args, catch_up=False) as app:
        app.scheduler.resume(args.name)
        (found,) = [_shape(s, app.calendar) for s in app.scheduler.statuses() if s.name == args.name]
    data = {"name": args.name, "paused": False, "next_run": found["next_run"]}
    render.emit(as_json(args), data, [f"{args.name} is resumed; next run {_time(found['next_run'])}"])
    return 0


def _shape(status: "JobStatus", calendar: "Calendar") -> dict[str, Any]:
    return {
        "name": status.name,
        "help": status.help,
        "schedule": status.schedule,
        "paused": status.paused,
        "running": status.running,
        "last_started": calendar.iso(status.last_started) if status.last_started is not None else None,
        "last_seconds": status.last_seconds,
        "last_result": status.last_result,
        "next_run": calendar.iso(status.next_run) if status.next_run is not None else None,
        "runs": status.runs,
        "failures": status.failures,
    }


def _lines(jobs: list[dict[str, Any]]) -> Iterator[str]:
    for job in jobs:
        state = "running" if job["running"] else "paused" if job["paused"] else f"next {_time(job['next_run'])}"
        yield f"{job['name']:<17} {job['schedule']:<17} {state}"
        yield f"    {job['help']}"
        if job["last_started"]:
            runs = f"{render.plural(job['runs'], 'run')}, {job['failures']:,} failed"
            result = render.one_line(job["last_result"], render.WIDTH)
            yield f"    last {_time(job['last_started'])}, {job['last_seconds']:.2f} s: {result} ({runs})"
        else:
            yield "    never run"


def _time(iso: str) -> str:
    """A local moment without what is the same in every line."""
    return iso[:19].replace("T", " ")
