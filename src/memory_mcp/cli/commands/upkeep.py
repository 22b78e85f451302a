"""`scheduler`, `spend` and `admin overview`: jobs, the cost of the language model, a summary for the owner."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, family, leaf, print_result

_OFF = "The summarizer is off (summarizer.command is not set): no model is asked."
#: Rules of redaction that are named.
_NAMED = 6


def add_scheduler(parsers: Subparsers, about: str) -> None:
    inner = family(parsers, "scheduler", about)
    leaf(inner, "status", run_status, "show every job: schedule, last run and its result, next run")
    for name, run, text in (
        ("run", run_job, "run a job now, paused or not, and show its report"),
        ("pause", run_pause, "let a job rest until it is resumed"),
        ("resume", run_resume, "let a paused job run again; what was due meanwhile runs once"),
    ):
        leaf(inner, name, run, text).add_argument("name", metavar="NAME", help="a job, as status names it")


def run_status(args: argparse.Namespace) -> int:
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
    """Run one job at once, paused or not.

    Raises what it raises, InvalidQuery for no job.
    """
    from memory_mcp.requests.jobs import RunJob

    data = ask(args, RunJob(args.name), catch_up=False)
    return print_result(args, data, [f"{args.name}: {data['report']}"])


def run_pause(args: argparse.Namespace) -> int:
    from memory_mcp.requests.jobs import PauseJob

    data = ask(args, PauseJob(args.name), catch_up=False)
    line = f"{args.name} is paused. It runs again after: memory-mcp scheduler resume {args.name}"
    return print_result(args, data, [line])


def run_resume(args: argparse.Namespace) -> int:
    from memory_mcp.requests.jobs import ResumeJob

    data = ask(args, ResumeJob(args.name), catch_up=False)
    return print_result(args, data, [f"{args.name} is resumed; next run {render.second(data['next_run'])}"])


def add_spend(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.limits import DAYS

    parser = leaf(parsers, "spend", run_spend, about, aside="Ask for more now: memory-mcp scheduler run improve_summaries")
    parser.add_argument("--days", type=int, default=DAYS.default, metavar="N", help="local days to show, today among them")


def run_spend(args: argparse.Namespace) -> int:
    from memory_mcp.requests.spend import GetSpend

    data = ask(args, GetSpend(args.days), catch_up=False)
    lines = [_OFF]
    if data["provider"] != "extractive":
        due = ", ".join(f"{level['count']:,} {level['level']}{'s' if level['count'] != 1 else ''}" for level in data["due"])
        lines = [
            f"{data['provider']} {data['model']}: {data['spent_today']:,} of {data['daily_tokens']:,} tokens spent today",
            f"Still due:  {due or 'nothing'}",
            f"Last run:   {data['last_run'] or 'none yet'}",
        ]
    for day in data["days"]:
        estimate_note = f" ({day['estimated']:,} of them estimated)" if day["estimated"] else ""
        spent = f"{day['tokens_in']:,} tokens in, {day['tokens_out']:,} out{estimate_note}"
        labels = f" ({day['labels']:,} for labels of topics)" if day["labels"] else ""
        lines.append(f"{day['day']}  {day['model']:<24} {render.plural(day['asked'], 'question')}{labels}, {spent}")
    lines += [f"{failure['outcome']:<9} {failure['count']:>5}  {failure['reason']}" for failure in data["failures"]]
    return print_result(args, data, lines)


def run_overview(args: argparse.Namespace) -> int:
    from memory_mcp.requests.overview import GetOverview

    data = ask(args, GetOverview())
    return print_result(args, data, map(render.one_line, _lines(data)))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    for entry in data["clients"]:
        counts = f"{render.plural(entry['events'], 'event')}, {entry['events_last_day']:,} of them in the last 24 hours"
        yield f"client {entry['agent']}: {counts}, last {render.minute(entry['last'])}"
    redacted = data["redacted"]
    rules = ", ".join(f"{count:,} {rule}" for rule, count in list(redacted["rules"].items())[:_NAMED])
    since = f" in what was said since {redacted['since'][:10]}" if redacted.get("since") else ""
    yield f"secrets redacted: {redacted['total']:,}{since}" + (f" ({rules})" if rules else "")
    if disk := data.get("disk"):
        names = ("database", "database_log", "backups", "spool", "damaged", "models", "log", "other")
        parts = {name: disk[name] for name in names}
        parts |= {f"index {name}": count for name, count in disk.get("indexes", {}).items()}
        sizes = ", ".join(f"{name.replace('_', ' ')} {render.size(count)}" for name, count in parts.items() if count)
        yield f"on disk: {render.size(disk['total'])} ({sizes}); free {render.size(disk['free'])}"
    for entry in data["outgoing"]:
        yield f"may leave this machine: {entry['what']}, {entry['where']} ({entry['setting']})"
    if not data["outgoing"]:
        yield "may leave this machine: nothing"
    for entry in data["paused"]:
        name = "all projects" if entry["project"] == "*" else render.project_name(entry["project"])
        yield f"paused: {name}" + (f" until {render.minute(entry['until'])}" if entry.get("until") else "")
    if data.get("pauses_error"):
        yield f"paused: nothing, for {data['pauses_error']}"
    for kind, values in data["excluded"].items():
        yield from (f"never recorded: {kind.removesuffix('s')} {value}" for value in values)
    backups = data["backups"]
    last = f", the last of {render.minute(backups['last'])}" if backups.get("last") else ""
    daily = "every day" if backups["enabled"] else "only when asked for"
    yield f"backups: {backups.get('count', 0):,}{last}, made {daily}"
    lost = data.get("lost")
    yield f"lost: {lost['told']}; to get them back: {lost['way_back']}" if lost else "lost: no acknowledged event is missing"
