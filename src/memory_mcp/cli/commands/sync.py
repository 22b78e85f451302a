"""`sync`: keep this memory and those of other machines in step through a folder they share."""

import argparse
from dataclasses import asdict

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.backup import place_of
from memory_mcp.cli.commands.base import Subparsers, leaf, opened, print_result
from memory_mcp.cli.mistakes import refuse_command_word

_ASIDE = (
    "Each machine adds files of events to a folder of its own and reads the others'. What is forgotten here does not come back "
    "from there; forget it on the other machines, too. With the setting sync.directory it happens by itself."
)


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `sync`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "sync", run, about, _ASIDE)
    parser.add_argument("folder", nargs="?", default="", metavar="DIR", help="the shared folder (setting sync.directory)")


def run(args: argparse.Namespace) -> int:
    """Write what others lack into the shared folder, read what they wrote, print the counts, and return 0.

    Raises InvalidQuery for no folder, one inside the data directory, or one that cannot be used.
    """
    from memory_mcp.ingest.sources import make_exchange

    refuse_command_word(args.folder, "sync")
    with opened(args, catch_up=False) as app:
        folder_name = args.folder or app.settings.sync.directory
        if not folder_name:
            raise InvalidQuery("no folder is named", "memory-mcp sync DIR, or set sync.directory.")
        folder, data_dir = place_of(folder_name), app.settings.storage.directory.absolute()
        if folder.resolve().is_relative_to(data_dir.resolve()):
            raise InvalidQuery("a shared folder cannot lie in the data directory", "Name a folder that other machines see.")
        done = make_exchange(app.storage, data_dir, folder, app.gate, app.append).run()
    lines = [
        f"Wrote {render.plural(done.written, 'event')} for others",
        f"Took in {done.new:,} new of {render.plural(done.machines, 'other machine')}, {done.known:,} known already",
    ]
    if done.waiting:
        lines.append(f"{render.plural(done.waiting, 'file')} not whole yet: the rest is taken in once it is there")
    lines += [f"Refused {file}: not written by this program, or not as it writes them" for file in done.refused]
    return print_result(args, asdict(done), lines)
