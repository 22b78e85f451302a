"""`watch`: choose the clients whose session files the background process reads while they are written."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, family, leaf, opened, print_result
from memory_mcp.cli.mistakes import nearest

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Every client that has files on this machine.
ALL = "all"


def add(parsers: Subparsers, about: str) -> None:
    """Add `watch` with the subcommands status, and on and off (`run_change`); `about` is its help text."""
    inner = family(parsers, "watch", about)
    leaf(inner, "status", run_status, "show which clients are followed, and what there is of each")
    for name, text in (
        ("on", "store what these clients write as they write it, beginning with what is there already"),
        ("off", "follow these clients no longer; what was stored stays"),
    ):
        parser = leaf(inner, name, run_change, text)
        parser.add_argument("clients", nargs="+", metavar="CLIENT", help=f"a source, as status names it, or {ALL}")


def run_status(args: argparse.Namespace) -> int:
    """Print every client that can be followed, whether it is, and what there is of it; return 0."""
    with opened(args, catch_up=False) as app:
        clients = status_of(app)
    return print_result(args, {"clients": clients}, _lines(clients))


def run_change(args: argparse.Namespace) -> int:
    """Follow the named clients from now on, or no longer, as the subcommand says, print their state, and return 0.

    "all" is every client with files here, for off every one. The job that follows runs soon. Raises InvalidQuery
    for one that cannot be followed, and nothing is changed.
    """
    from memory_mcp.ingest.following import set_followed

    on = args.watch_command == "on"
    with opened(args, catch_up=False) as app:
        clients_by_name = {client["name"]: client for client in status_of(app)}
        names = args.clients
        if ALL in names:
            names = [name for name, client in clients_by_name.items() if not on or client["files"]]
        for name in names:
            if name not in clients_by_name:
                near = nearest(name, list(clients_by_name))
                hint = f"Did you mean {near}? " if near else ""
                hint += f"These can be: {', '.join(clients_by_name)}. Other files are read by: memory-mcp import auto PATH"
                raise InvalidQuery(f"{name!r} cannot be followed", hint)
        set_followed(app.storage.outbox, names, on)
        if on:
            app.scheduler.hasten("follow_clients")
        clients = [client for client in status_of(app) if client["name"] in names]
    return print_result(args, {"clients": clients}, _lines(clients))


def status_of(app: "App") -> list[dict[str, Any]]:
    """Return the state of each client that keeps session files in usual places, as JSON values; nothing is read of them.

    name, title, followed, places (paths), files, and new_files and new_bytes, those not stored yet.
    """
    from memory_mcp.ingest.finding import summarize_files
    from memory_mcp.ingest.following import followed_names

    followed, marks = followed_names(app.storage.outbox), app.storage.outbox.get_positions("import:")
    clients = []
    for importer in app.importers():
        if places := importer.default_paths():
            client: dict[str, Any] = {"name": importer.name, "title": importer.title, "followed": importer.name in followed}
            findings = [summarize_files(importer, path, marks) for path in places if path.exists()]
            client |= {"places": [str(path) for path in places], "files": sum(f.files for f in findings)}
            client |= {"new_files": sum(f.new_files for f in findings), "new_bytes": sum(f.new_size for f in findings)}
            clients.append(client)
    return clients


def _lines(clients: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each client of `status_of`: whether it is followed, its files, those not stored yet, its first place."""
    for client in clients:
        what = "nothing there"
        if client["files"]:
            what = f"{render.plural(client['files'], 'file')}, {client['new_files']:,} not stored yet"
        yield f"{client['name']:<14} {'followed' if client['followed'] else '-':<9} {what}  {client['places'][0]}"
