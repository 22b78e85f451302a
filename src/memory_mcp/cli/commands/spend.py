"""`spend`: what the summarizer's language model was asked, what that cost, and what it is still to be asked."""

import argparse

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, ask, leaf, print_result

_OFF = "The summarizer is off (summarizer.command is not set): no model is asked."


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `spend`, which `run` carries out, and its arguments; `about` is its help text."""
    from memory_mcp.requests.limits import DAYS

    parser = leaf(parsers, "spend", run, about, aside="Ask for more now: memory-mcp scheduler run improve_summaries")
    parser.add_argument("--days", type=int, default=DAYS.default, metavar="N", help="local days to show, today among them")


def run(args: argparse.Namespace) -> int:
    """Print what the language model was asked on each of --days days, and what that cost in tokens; return 0."""
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
