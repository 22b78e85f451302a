"""`setup`: make every client found use this memory, import their histories, and answer a first question."""

import argparse
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands import import_
from memory_mcp.cli.commands.base import Subparsers, as_json, leaf, open_bulk_memory
from memory_mcp.cli.commands.install import here, order_of, run_for_client, work_for
from memory_mcp.install.clients import CLIENTS
from memory_mcp.install.command import NAME, executable
from memory_mcp.install.state import State
from memory_mcp.install.status import statuses

if TYPE_CHECKING:
    from memory_mcp.capture.finding import FileSummary


#: Clients that delete their transcripts: what their hooks miss is lost.
_DELETING = ("claude-code",)
#: Tokens of the first answer: what was asked for, and little beside it.
_SHOWN = "250"


def add_setup(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "setup", run_setup, about, "Every step asks first. Take it back: memory-mcp uninstall all")
    parser.add_argument("--yes", action="store_true", help="do all of it without asking")
    parser.add_argument("--newest", type=int, metavar="N", help="import only about the N newest events of each client")


def run_setup(args: argparse.Namespace) -> int:
    """Install, import, follow and ask, each after a question.

    Raises InvalidQuery where no user can be asked.
    """
    if not args.yes and not render.can_ask():
        raise InvalidQuery("setup asks before every step, and nobody can be asked here", "To do all of it, add --yes.")
    installed = _install(args)
    imported, question, findings = _import(args)
    followed = _follow(args, findings)
    data = {"installed": installed, "imported": imported, "followed": followed, "asked": question}
    if as_json(args):
        render.out_json(data)
        return 0
    if not (installed or imported or followed or question):
        render.err("Nothing was changed.")
    if question:
        render.out(f'The memory answers. memory-mcp ask "{question}" --all:')
        render.out()
        render.flush()
        _run(args, "ask", question, "--all", "--limit", "1", "--token-budget", _SHOWN)
    else:
        render.out("The memory holds nothing to ask about yet. See it work on a sample: memory-mcp try --sample")
    render.out()
    for line in _next_lines(installed):
        render.out(line)
    return 0


def _next_lines(installed: Sequence[str]) -> list[str]:
    clients = [CLIENTS[name] for name in installed]
    clients = clients or [CLIENTS[client.client] for client in statuses(here()) if client.found and client.configured]
    steps: dict[str, list[str]] = {}
    for client in clients:
        steps.setdefault(client.then, []).append(client.title)
    restart = "; ".join(f"{', '.join(titles)}: {then}" for then, titles in steps.items())
    return [
        "Look around:  memory-mcp open",
        'Ask anything: memory-mcp ask "..."',
        f"Restart your client: {restart or 'it remembers from its next session on'}",
    ]


def _install(args: argparse.Namespace) -> list[str]:
    clients = [client for client in statuses(here()) if client.found]
    fresh = [client for client in clients if not client.configured or (CLIENTS[client.client].hook_client and not client.hooks)]
    for client in clients:
        plugins = [plugin.name for plugin in CLIENTS[client.client].find_plugins(here())]
        state = "uses this memory already" if client.configured else "found"
        state += f" (plugin {', '.join(plugins)})" if plugins else ""
        state += ", without hooks" if client.configured and client in fresh else ""
        render.err(f"{client.title}: {state}")
    if not clients:
        render.err(f"No client was found here. Known: {', '.join(CLIENTS)}.")
    titles = ", ".join(client.title for client in fresh)
    if not fresh or not (args.yes or render.ask_consent(f"Make {titles} use this memory?")):
        return []
    args.level, args.name, args.http, args.no_hooks, args.dry_run = None, NAME, False, False, False
    order, notes = order_of(args, here())
    work = work_for(order, State(), False, ())
    outcomes = [run_for_client(CLIENTS[client.client], work) for client in fresh]
    for outcome in outcomes:
        render.err(f"{outcome.client.title}: {f'not set up. {outcome.error.sentence}' if outcome.error else 'set up'}")
    for note in notes:
        render.err(f"note: {note}")
    return [outcome.client.name for outcome in outcomes if outcome.error is None]


def _import(args: argparse.Namespace) -> "tuple[dict[str, Any] | None, str, Sequence[FileSummary]]":
    """Return the report (None without an import), a question that the memory answers ("" for none), and what was found."""
    with open_bulk_memory(args) as app:
        findings = import_.find_histories(app)
        for line in import_.finding_lines(findings) if findings else ["No client keeps conversations here yet."]:
            render.err(line)
        shares = import_.shares_of(app, findings)
        if shares and not (args.yes or render.ask_consent("Import them now? The memory answers meanwhile.")):
            shares = []
        if shares:
            data = import_.import_shares(app, shares, args.newest)
            for line in import_.told_lines(data):
                render.err(line)
        else:
            data = None
            with import_.Work(0, "filing") as work:
                import_.build(app, work)
        return data, import_.question_for(app), findings


def _follow(args: argparse.Namespace, findings: "Sequence[FileSummary]") -> list[str]:
    """They are followed by another process (`watch on`), whose failure is not noticed here."""
    titled = {f.importer: f.title for f in findings}
    recording = {client.client for client in statuses(here()) if client.recording}
    names = [name for name in titled if name not in recording or name in _DELETING]
    titles = ", ".join(titled[name] for name in names)
    question = f"Keep storing what {titles} write into their own files, before they delete any?"
    if not names or not (args.yes or render.ask_consent(question)):
        return []
    _run(args, "watch", "on", *names, quiet=True)
    return names


def _run(args: argparse.Namespace, *words: str, quiet: bool = False) -> None:
    command, first = executable()
    same: list[str] = []
    for name in ("data_dir", "config"):
        if value := getattr(args, name, None):
            same += [f"--{name.replace('_', '-')}", value]
    subprocess.run([command, *first, *words, *same], check=False, stdout=subprocess.DEVNULL if quiet else None)
