"""`scheduler`: what is done while nobody waits, when it was done and how it went; run, pause and resume a job."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, answered, family, leaf, opened, print_result


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
    from memory_mcp.requests.jobs import ListJobs

    data = _asked(args, ListJobs())
    return print_result(args, data, _lines(data["jobs"]))


def run_job(args: argparse.Namespace) -> int:
    """Run one job here and now."""
    from memory_mcp.requests.jobs import RunJob

    data = _asked(args, RunJob(args.name))
    return print_result(args, data, [f"{args.name}: {data['report']}"])


def run_pause(args: argparse.Namespace) -> int:
    """Pause one job."""
    from memory_mcp.requests.jobs import PauseJob

    data = _asked(args, PauseJob(args.name))
    line = f"{args.name} is paused. It runs again after: memory-mcp scheduler resume {args.name}"
    return print_result(args, data, [line])


def run_resume(args: argparse.Namespace) -> int:
    """Resume one job."""
    from memory_mcp.requests.jobs import ResumeJob

    data = _asked(args, ResumeJob(args.name))
    return print_result(args, data, [f"{args.name} is resumed; next run {_time(data['next_run'])}"])


def _asked(args: argparse.Namespace, request: object) -> dict[str, Any]:
    with opened(args, catch_up=False) as app:
        return answered(app, request)


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
