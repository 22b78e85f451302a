"""`admin overview`: clients, redactions, disk, what may leave the machine, pauses, exclusions, backups and losses."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import ask, print_result

#: Rules of redaction that are named.
_NAMED = 6


def run(args: argparse.Namespace) -> int:
    """Print clients, redactions, disk, what may leave the machine, what is not recorded, backups and losses; return 0."""
    from memory_mcp.requests.overview import GetOverview

    data = ask(args, GetOverview())
    return print_result(args, data, map(render.one_line, _lines(data)))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each client and fact of the response; the first six rules of redaction are named."""
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
