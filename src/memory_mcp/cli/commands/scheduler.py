"""`scheduler`: what is done while nobody waits, when it was done and how it went; run, pause and resume a job."""

import argparse

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, family, leaf, print_result


def add(parsers: Subparsers, about: str) -> None:
    """Add `scheduler` with the subcommands status, run, pause and resume, each run by its own function; `about` is its help."""
    inner = family(parsers, "scheduler", about)
    leaf(inner, "status", run_status, "show every job: schedule, last run and its result, next run")
    for name, run, text in (
        ("run", run_job, "run a job now, paused or not, and show its report"),
        ("pause", run_pause, "let a job rest until it is resumed"),
        ("resume", run_resume, "let a paused job run again; what was due meanwhile runs once"),
    ):
        leaf(inner, name, run, text).add_argument("name", metavar="NAME", help="a job, as status names it")


def run_status(args: argparse.Namespace) -> int:
    """Print every job with its schedule, its last run with the result, and its next; return 0."""
    from memory_mcp.requests.jobs import ListJobs

    data = ask(args, ListJobs(), catch_up=False)
    lines = []
    for job in data["jobs"]:
        state = "running" if job["running"] else "paused" if job["paused"] else f"next {render.second(job['next_run'])}"
        lines += [f"{job['name']:<17} {job['schedule']:<17} {state}", f"    {job['help']}"]
        if job["last_started"]:
            runs = f"{render.plural(job['runs'], 'run')}, {job['failures']:,} failed"
            result = render.one_line(job["last_result"], render.WIDTH)
            lines.append(f"    last {render.second(job['last_started'])}, {job['last_seconds']:.2f} s: {result} ({runs})")
        else:
            lines.append("    never run")
    return print_result(args, data, lines)


def run_job(args: argparse.Namespace) -> int:
    """Run one job at once, paused or not, print its report, and return 0; raises what it raises, InvalidQuery for no job."""
    from memory_mcp.requests.jobs import RunJob

    data = ask(args, RunJob(args.name), catch_up=False)
    return print_result(args, data, [f"{args.name}: {data['report']}"])


def run_pause(args: argparse.Namespace) -> int:
    """Pause one job until it is resumed, and return 0; raise InvalidQuery for an unknown name."""
    from memory_mcp.requests.jobs import PauseJob

    data = ask(args, PauseJob(args.name), catch_up=False)
    line = f"{args.name} is paused. It runs again after: memory-mcp scheduler resume {args.name}"
    return print_result(args, data, [line])


def run_resume(args: argparse.Namespace) -> int:
    """Resume one job, print its next run, and return 0; raise InvalidQuery for an unknown name."""
    from memory_mcp.requests.jobs import ResumeJob

    data = ask(args, ResumeJob(args.name), catch_up=False)
    return print_result(args, data, [f"{args.name} is resumed; next run {render.second(data['next_run'])}"])
