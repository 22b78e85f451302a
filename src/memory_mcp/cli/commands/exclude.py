"""`exclude`: what is never recorded; add, remove and list, in the settings file and in force at once."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.base.errors import ConfigError
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    answered,
    ask,
    caller_directory,
    family,
    leaf,
    opened,
    print_result,
    project_typed,
    settings_file,
)

_ASIDE = "What is stored already stays until it is forgotten: memory-mcp forget. For a while only: memory-mcp pause."


def add(parsers: Subparsers, about: str) -> None:
    """Add `exclude` with the subcommands add and remove (`run_change`) and list; `about` is its help text."""
    inner = family(parsers, "exclude", about)
    for name, text in (
        ("add", "record nothing more of it"),
        ("remove", "record again what was excluded by this pattern"),
    ):
        parser = leaf(inner, name, run_change, text, aside=_ASIDE if name == "add" else "")
        parser.add_argument("--project", default="", metavar="P", help="a project, as acme/harbour or acme-*")
        parser.add_argument(
            "--path", default="", metavar="P", help="sessions there and tools that name it: ~/private, .env, *.pem"
        )
        parser.add_argument("--tool", default="", metavar="T", help="calls and results of a tool, as mcp__mail__*")
    leaf(inner, "list", run_list, "show what is never recorded")


def run_list(args: argparse.Namespace) -> int:
    """Print all patterns of what is never recorded; return 0."""
    from memory_mcp.requests.excluding import ListExcluded

    data = ask(args, ListExcluded(), catch_up=False)
    return print_result(args, data, _lines(data))


def run_change(args: argparse.Namespace) -> int:
    """Add or remove one pattern, as the subcommand says, in the settings file, print those in force, and return 0.

    A path that begins with . or .. as a folder is resolved in the caller's directory. Raises ConfigError where --config names
    another settings file than the running daemon uses, InvalidQuery where not exactly one possible pattern is given.
    """
    from memory_mcp.requests.excluding import Exclude, Include

    request = Exclude if args.exclude_command == "add" else Include
    path = args.path
    if path in (".", "..") or path.startswith(("./", "../")):
        path = str((caller_directory() / path).resolve())
    with opened(args) as app:
        config_file = settings_file(args)
        if config_file is not None and config_file.resolve() != app.settings_file.resolve():
            hint = f"memory-mcp daemon restart --config {config_file} uses the other one."
            raise ConfigError(f"the running daemon uses {app.settings_file}, not {config_file}", hint)
        data = answered(app, request(project_typed(app, args.project), path, args.tool, "person"))
    return print_result(args, data, _lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each pattern of a response to ListExcluded, Exclude or Include, or that there is none.

    Then how many events stay stored, which variables override the settings file, and where that is, where the response
    says so.
    """
    for kind in ("projects", "paths", "tools"):
        for pattern in data[kind]:
            yield f"never recorded: {kind.removesuffix('s')} {render.one_line(pattern)}"
    if not (data["projects"] or data["paths"] or data["tools"]):
        yield "Nothing is excluded."
    if data.get("stored"):
        yield f"{render.plural(data['stored'], 'event')} of it stay stored; memory-mcp forget --project P takes them out"
    for name in data.get("overridden_by", ()):
        yield f"{name} is set, which goes before {data['settings_file']}"
    if data.get("changed"):
        yield f"Written to {data['settings_file']}; in force from now on."
