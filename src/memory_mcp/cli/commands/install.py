"""`install` and `uninstall`: put this memory into the configurations of clients, and take it out."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from memory_mcp.base import paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError, InvalidQuery, MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.checks.clients import client_statuses
from memory_mcp.cli.commands.base import Subparsers, as_json, leaf, look_of, print_result, settings_file, settings_of
from memory_mcp.install import engine, undo
from memory_mcp.install.base import Client, Environment, Level, Order
from memory_mcp.install.clients import CLIENTS
from memory_mcp.install.command import CONFIG, DATA_DIR, NAME, Server, local_server
from memory_mcp.install.engine import Change
from memory_mcp.install.plugins import plugin_notes
from memory_mcp.install.state import State
from memory_mcp.install.status import is_here

ALL = "all"
#: What was done, as it is printed; and the next step for a running client after `uninstall`.
INSTALLED, UNINSTALLED = "installed", "uninstalled"
_UNTIL_THEN = "start it again: until then it goes on with what it had"
#: What every client takes as a server's name.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
#: Printed in the place of a token, ours or another's in the same file.
_HIDDEN = "<token>"
_BEARER = re.compile(r"(?<=Bearer )[^\s\"'<]+")


@dataclass(slots=True)
class Outcome:
    """What was changed for a client, or why nothing was."""

    client: Client
    changes: Sequence[Change] = ()
    notes: list[str] = field(default_factory=list)
    error: MemoryMcpError | None = None

    @property
    def changed(self) -> bool:
        """Whether any file changes or, in a dry run, would."""
        return any(change.action != "unchanged" for change in self.changes)


def add_install(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "install", run_install, about, "Take it back: memory-mcp uninstall CLIENT")
    names = ", ".join(CLIENTS)
    parser.add_argument("client", nargs="?", choices=(*CLIENTS, ALL), metavar="CLIENT", help=f"{names}, or all that are found")
    add_levels(parser)
    parser.add_argument("--name", metavar="NAME", default=NAME, help=f"what the server is called there ({NAME})")
    parser.add_argument("--http", action="store_true", help="over HTTP with the token, instead of a command that it starts")
    parser.add_argument("--no-hooks", action="store_true", help="the server alone: sessions are not recorded as they happen")
    parser.add_argument("--status", action="store_true", help="show how every client stands, and change nothing")


def add_levels(parser: argparse.ArgumentParser) -> None:
    """Add --user, --project and --dry-run."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--user", dest="level", action="store_const", const=Level.USER, help="for all your projects")
    which.add_argument("--project", dest="level", action="store_const", const=Level.PROJECT, help="for the project here alone")
    parser.add_argument("--dry-run", action="store_true", help="show the changes as a diff, and write nothing")


def run_install(args: argparse.Namespace) -> int:
    """Install for one client or all; or print their status.

    Returns 1 when one of several clients failed. Raises the error of a single one.
    """
    if args.status or not args.client:
        status = run_status(args)
        if not args.status and not as_json(args):
            render.flush()
            render.err(f"Set one up with its name, or all that are found: memory-mcp install {' | '.join((*CLIENTS, ALL))}")
        return status
    machine_state = here()
    order, notes = order_of(args, machine_state)

    def fits(client: Client) -> bool:
        possible = client.list_configs(machine_state, order.level) and (client.takes_addresses or not args.http)
        return bool(possible) and is_here(client, machine_state)

    clients = choose_clients(args.client, fits, "no client that this fits was found here; name the one to prepare for")
    state = State()
    absent = [client for client in clients if not is_here(client, machine_state)]
    work = work_for(order, state, args.dry_run, absent)
    return print_all(args, [run_for_client(client, work) for client in clients], state, INSTALLED, notes)


def work_for(order: Order, state: State, dry_run: bool, absent: Sequence[Client]) -> Callable[[Client], Outcome]:
    """Return the function that installs or plans one client.

    The outcomes of `absent` clients say that they were not found.
    """

    def work(client: Client) -> Outcome:
        changes = engine.plan(client, order, state) if dry_run else engine.install(client, order, state)
        notes = ["it was not found here; this waits for it"] if client in absent else []
        return Outcome(client, changes, [*notes, *plugin_notes(client, order.environment)])

    return work


def here() -> Environment:
    """Return this process's platform, environment, home and working directory."""
    return Environment(sys.platform, os.environ, str(Path.home()), str(Path.cwd()))


def choose_clients(name: str, fits: Callable[[Client], bool], none: str) -> list[Client]:
    """Return the named client, or for "all" those that `fits`.

    Raises InvalidQuery with the message `none` where none fits.
    """
    if name != ALL:
        return [CLIENTS[name]]
    clients = [client for client in CLIENTS.values() if fits(client)]
    if not clients:
        raise InvalidQuery(none, f"Known: {', '.join(CLIENTS)}.")
    return clients


def run_for_client(client: Client, work: Callable[[Client], Outcome]) -> Outcome:
    """Return the outcome of `work`; errors of ours are outcomes."""
    try:
        return work(client)
    except MemoryMcpError as error:
        return Outcome(client, error=error)


def order_of(args: argparse.Namespace, environment: Environment) -> tuple[Order, list[str]]:
    """Return what to install, and notes for the user.

    With --http a missing token is made, except for --dry-run. Raises InvalidQuery where the name, or a project together with
    HTTP, is not possible, ConfigError where the HTTP port changes with every start.
    """
    if not _NAME.fullmatch(args.name):
        raise InvalidQuery(f"the name {args.name!r} would not do for every client", "Use letters, digits, - and _.")
    level = args.level or Level.USER
    data_dir = _path(getattr(args, "data_dir", None) or os.environ.get(DATA_DIR))
    config = settings_file(args) or _path(os.environ.get(CONFIG))
    server, notes = local_server(data_dir, config), []
    if "archive-v0" in Path(server.command).parts:
        notes.append(f"{server.command} lies in the cache of uv, which is emptied now and then: uv tool install keeps it")
    if args.http:
        if level is Level.PROJECT:
            hint = "Leave --project or --http out."
            raise InvalidQuery("the token would lie in a file of the project, which others may read", hint)
        server, notes = _remote(args)
    return Order(environment, server, level, args.name, data_dir, config, not args.no_hooks), notes


def _path(value: str | None) -> Path | None:
    return Path(value).expanduser().absolute() if value else None


def _remote(args: argparse.Namespace) -> tuple[Server, list[str]]:
    from memory_mcp.service.daemon.token import token_of

    settings = settings_of(args)
    if not settings.server.http_port:
        raise ConfigError("server.http_port = 0 is another port with every start", "Set a fixed one.")
    directory = settings.storage.directory
    if args.dry_run and not settings.server.http_token and not Path(paths.token_file(str(directory))).exists():
        token = _HIDDEN
    else:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        token, _ = token_of(settings.server.http_token, directory)
    host = f"[{settings.server.http_host}]" if ":" in settings.server.http_host else settings.server.http_host
    notes = ["the token stands in its configuration: whoever reads that file can read the memory"]
    if not settings.server.http:
        file = paths.config_file() if settings_file(args) is None else settings_file(args)
        notes.append(f"the HTTP door is closed: set http = true below [server] in {file}, then: memory-mcp daemon restart")
    return Server(url=f"http://{host}:{settings.server.http_port}/mcp", token=token), notes


def print_all(args: argparse.Namespace, outcomes: Sequence[Outcome], state: State, verb: str, notes: Iterable[str] = ()) -> int:
    """Print what was done for each client, tokens hidden.

    Returns 1 when one of several failed; raises the error of a single client.
    """
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len(outcomes) == 1 and failed:
        raise type(failed[0])(_hide_tokens(failed[0].message), _hide_tokens(failed[0].hint))
    notes = list(notes)
    data = {"dry_run": bool(args.dry_run), "clients": [_shape(outcome, state) for outcome in outcomes], "notes": notes}
    lines = (_hide_tokens(line) for outcome in outcomes for line in _lines(outcome, state, verb, args.dry_run))
    render.emit(as_json(args), data, [*lines, *(f"note: {note}" for note in notes)])
    return 1 if failed else 0


def _shape(outcome: Outcome, state: State) -> dict[str, Any]:
    return {
        "client": outcome.client.name,
        "title": outcome.client.title,
        "changed": outcome.changed,
        "files": [
            {
                "path": str(change.path),
                "action": change.action,
                "backup": str(state.backup(change.path)) if state.backup(change.path).exists() else "",
                "diff": [_hide_tokens(line) for line in change.diff()],
                "notes": change.notes,
            }
            for change in outcome.changes
        ],
        "notes": outcome.notes,
        "error": _hide_tokens(str(outcome.error)) if outcome.error else "",
    }


def _hide_tokens(text: str) -> str:
    return _BEARER.sub(_HIDDEN, text)


def _lines(outcome: Outcome, state: State, verb: str, dry_run: bool) -> Iterator[str]:
    title = outcome.client.title
    if outcome.error is not None:
        yield f"{title}: nothing was written. {outcome.error.sentence}"
        return
    yield f"{title}: {f'would be {verb}' if dry_run else verb}" if outcome.changed else f"{title}: nothing to change"
    for change in outcome.changes:
        backup = state.backup(change.path)
        backup_note = f" (as it was: {backup})" if change.action != "unchanged" and backup.exists() else ""
        yield f"  {change.path}: {change.action}{backup_note}"
        yield from (f"    {note}" for note in change.notes)
        if dry_run:
            yield from change.diff()
    yield from (f"  {note}" for note in outcome.notes)
    if outcome.changed and not dry_run and (then := outcome.client.then if verb == INSTALLED else _UNTIL_THEN):
        yield f"  next: {then}"


def run_status(args: argparse.Namespace) -> int:
    """Print the status of every client; nothing is written."""
    clients = client_statuses(look_of(args))
    data = {"clients": [{**asdict(client), "configured": client.configured, "recording": client.recording} for client in clients]}
    lines: list[str] = []
    for client in clients:
        state = "configured" if client.configured else "not configured" if client.found else "not found"
        lines.append(f"{client.title} ({client.client}): {state}")
        for server in client.servers:
            broken = "" if server.runs else f"; this command is not there: {client.repair(server)}"
            lines.append(f"  {server.level}: {server.name} in {server.path}: {server.command}{broken}")
        lines += [f"  {line}" for line in (*client.hook_lines(), *client.unreadable)]
        lines += [f"  next: {client.meanwhile}"] if client.untrusted else []
        lines += [f"  {client.doubled}; next: {client.undoubling_command}"] if client.doubled else []
    return print_result(args, data, lines)


def add_uninstall(parsers: Subparsers, about: str) -> None:
    parser = leaf(
        parsers, "uninstall", run_uninstall, about, "What was remembered stays; memory-mcp config check tells where it lies"
    )
    parser.add_argument("client", choices=(*CLIENTS, ALL), metavar="CLIENT", help=f"{', '.join(CLIENTS)}, or all")
    add_levels(parser)


def run_uninstall(args: argparse.Namespace) -> int:
    """Remove from clients' configurations what `install` wrote.

    Returns 1 when one of several clients failed; raises the error of a single one.
    """
    state, machine_state = State(), here()
    levels = [args.level] if args.level else list(Level)

    def work(client: Client) -> Outcome:
        done = undo.plan if args.dry_run else undo.uninstall
        return Outcome(client, done(client, machine_state, levels, state), plugin_notes(client, machine_state))

    outcomes = [run_for_client(client, work) for client in choose_clients(args.client, lambda _: True, "")]
    reported = [outcome for outcome in outcomes if outcome.changed or outcome.error or outcome.notes] or outcomes
    return print_all(args, reported, state, UNINSTALLED)
