"""`setup`: make every client found use this memory, import their histories, and answer a first question."""

import argparse
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands import import_
from memory_mcp.cli.commands.base import Subparsers, as_json, filling, leaf
from memory_mcp.cli.commands.install import here, order_of, tried, work_for
from memory_mcp.errors import InvalidQuery
from memory_mcp.install.command import NAME, executable
from memory_mcp.install.registry import CLIENTS
from memory_mcp.install.state import State
from memory_mcp.install.status import statuses

if TYPE_CHECKING:
    from memory_mcp.ingest.finding import Finding

#: Clients that delete their transcripts: what their hooks miss is lost.
_DELETING = ("claude-code",)


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `setup`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "setup", run, about, "Every step asks first. Take it back: memory-mcp uninstall all")
    parser.add_argument("--yes", action="store_true", help="do all of it without asking")
    parser.add_argument("--newest", type=int, metavar="N", help="import only about the N newest events of each client")


def run(args: argparse.Namespace) -> int:
    """Install, import, follow and ask, each after a question unless --yes, and return 0; a step that is refused is left out.

    Raises InvalidQuery where nobody can be asked.
    """
    if not args.yes and not render.can_ask():
        raise InvalidQuery("setup asks before every step, and nobody can be asked here", "To do all of it, add --yes.")
    installed = _install(args)
    imported, topic, found = _import(args)
    followed = _follow(args, found)
    data = {"installed": installed, "imported": imported, "followed": followed, "asked": topic}
    if as_json(args):
        render.out_json(data)
        return 0
    if not (installed or imported or followed or topic):
        render.err("Nothing was changed.")
    if topic:
        render.out(f'The memory answers. memory-mcp ask "{topic}":')
        render.out()
        render.flush()
        _run(args, "ask", topic, "--all", "--limit", "3")
    titles_by_step: dict[str, list[str]] = {}
    for name in installed:
        titles_by_step.setdefault(CLIENTS[name].then, []).append(CLIENTS[name].title)
    for then, titles in titles_by_step.items():
        render.err(f"next, {', '.join(titles)}: {then}")
    return 0


def _install(args: argparse.Namespace) -> list[str]:
    """Set up the found clients that do not use this memory yet, if the user agrees; return the names of those that succeeded.

    Empty where there are none, or the user refuses. A client that fails is reported on stderr, and the others go on.
    """
    found = [one for one in statuses(here()) if one.found]
    fresh = [one for one in found if not one.configured]
    for one in found:
        render.err(f"{one.title}: {'uses this memory already' if one.configured else 'found'}")
    if not found:
        render.err(f"No client was found here. Known: {', '.join(CLIENTS)}.")
    titles = ", ".join(one.title for one in fresh)
    if not fresh or not (args.yes or render.agreed(f"Make {titles} use this memory?")):
        return []
    args.level, args.name, args.http, args.no_hooks, args.dry_run = None, NAME, False, False, False
    order, notes = order_of(args, here())
    work = work_for(order, State(), False, ())
    outcomes = [tried(CLIENTS[one.client], work) for one in fresh]
    for outcome in outcomes:
        render.err(f"{outcome.client.title}: {f'not set up. {outcome.error}' if outcome.error else 'set up'}")
    for note in notes:
        render.err(f"note: {note}")
    return [outcome.client.name for outcome in outcomes if outcome.error is None]


def _import(args: argparse.Namespace) -> "tuple[dict[str, Any] | None, str, Sequence[Finding]]":
    """Import what clients keep here, if the user agrees, else only file what is stored already; return three things.

    The report (None without an import), a topic to ask about ("" for none), and what was found.
    """
    with filling(args) as app:
        found = import_.found_here(app)
        for line in import_.finding_lines(found) if found else ["No client keeps conversations here yet."]:
            render.err(line)
        shares = import_.shares_of(app, found)
        if shares and not (args.yes or render.agreed("Import them now?")):
            shares = []
        if shares:
            data = import_.import_shares(app, shares, args.newest)
            for line in import_.told_lines(data):
                render.err(line)
            built = data["built"]
        else:
            data = None
            import_.build(app)
            built = app.holdings()
    return data, render.one_line(str(built["latest"]).replace('"', ""), 60), found


def _follow(args: argparse.Namespace, found: "Sequence[Finding]") -> list[str]:
    """Follow the found clients that have no hooks on, and those that delete their files, if the user agrees.

    Returns their names as importers; empty where there are none or the user refuses. They are followed by another
    process (`watch on`), whose failure is not noticed here.
    """
    titled = {f.importer: f.title for f in found}
    recording = {one.client for one in statuses(here()) if one.recording}
    names = [name for name in titled if name not in recording or name in _DELETING]
    titles = ", ".join(titled[name] for name in names)
    question = f"Keep storing what {titles} write into their own files, before they delete any?"
    if not names or not (args.yes or render.agreed(question)):
        return []
    _run(args, "watch", "on", *names, quiet=True)
    return names


def _run(args: argparse.Namespace, *words: str, quiet: bool = False) -> None:
    """Run another command of this program on the same memory in another process, its status ignored; `quiet`: no results."""
    command, first = executable()
    same: list[str] = []
    for name in ("data_dir", "config"):
        if value := getattr(args, name, None):
            same += [f"--{name.replace('_', '-')}", value]
    subprocess.run([command, *first, *words, *same], check=False, stdout=subprocess.DEVNULL if quiet else None)
