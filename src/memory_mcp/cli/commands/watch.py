"""`watch`: whose session files the background process reads while they are written."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, family, leaf, opened, print_result
from memory_mcp.errors import InvalidQuery

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Every client that has files on this machine.
ALL = "all"


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `watch`."""
    inner = family(parsers, "watch", about)
    leaf(inner, "status", run_status, "show which clients are followed, and what there is of each")
    for name, run, text in (
        ("on", run_on, "store what these clients write as they write it, beginning with what is there already"),
        ("off", run_off, "follow these clients no longer; what was stored stays"),
    ):
        parser = leaf(inner, name, run, text)
        parser.add_argument("clients", nargs="+", metavar="CLIENT", help=f"a source, as status names it, or {ALL}")


def run_status(args: argparse.Namespace) -> int:
    """Every client that can be followed."""
    with opened(args, catch_up=False) as app:
        clients = status_of(app)
    return print_result(args, {"clients": clients}, _lines(clients))


def run_on(args: argparse.Namespace) -> int:
    """Follow some clients from now on."""
    return _set(args, True)


def run_off(args: argparse.Namespace) -> int:
    """Follow some clients no longer."""
    return _set(args, False)


def _set(args: argparse.Namespace, on: bool) -> int:
    from memory_mcp.ingest.following import agree

    with opened(args, catch_up=False) as app:
        names = _named(app, args.clients, on)
        agree(app.storage.outbox, names, on)
        if on:
            app.scheduler.hasten("follow_clients")
        clients = [client for client in status_of(app) if client["name"] in names]
    return print_result(args, {"clients": clients}, _lines(clients))


def _named(app: "App", words: list[str], on: bool) -> list[str]:
    """Names of clients; InvalidQuery for one that has no place of its own."""
    known = {client["name"]: client for client in status_of(app)}
    if ALL in words:
        return [name for name, client in known.items() if not on or client["files"]]
    for word in words:
        if word not in known:
            hint = f"These can be: {', '.join(known)}. Other files are read by: memory-mcp import auto PATH"
            raise InvalidQuery(f"{word!r} cannot be followed", hint)
    return words


def status_of(app: "App") -> list[dict[str, Any]]:
    """What can be followed: whether it is, and what lies there."""
    from memory_mcp.ingest.finding import look
    from memory_mcp.ingest.following import agreed

    followed, marks = agreed(app.storage.outbox), app.storage.outbox.marks("import:")
    clients = []
    for importer in app.importers():
        places = importer.default_paths()
        found = [look(importer, place, marks) for place in places if place.exists()]
        if places:
            clients.append(
                {
                    "name": importer.name,
                    "title": importer.title,
                    "followed": importer.name in followed,
                    "places": [str(place) for place in places],
                    "files": sum(f.files for f in found),
                    "new_files": sum(f.new_files for f in found),
                    "new_bytes": sum(f.new_size for f in found),
                }
            )
    return clients


def _lines(clients: list[dict[str, Any]]) -> Iterator[str]:
    for client in clients:
        what = "nothing there"
        if client["files"]:
            what = f"{render.plural(client['files'], 'file')}, {client['new_files']:,} not stored yet"
        yield f"{client['name']:<14} {'followed' if client['followed'] else '-':<9} {what}  {client['places'][0]}"
