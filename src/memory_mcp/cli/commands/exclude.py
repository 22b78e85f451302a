"""`exclude`: what is never recorded; add, remove and list, in the settings file and in force at once."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    answered,
    family,
    leaf,
    opened,
    print_result,
    project_typed,
    settings_file,
)
from memory_mcp.errors import ConfigError

_ASIDE = "What is stored already stays until it is forgotten: memory-mcp forget. For a while only: memory-mcp pause."


def add(parsers: Subparsers, about: str) -> None:
    """Arguments of `exclude`."""
    inner = family(parsers, "exclude", about)
    for name, run, text in (
        ("add", run_add, "record nothing more of it"),
        ("remove", run_remove, "record again what was excluded by this pattern"),
    ):
        parser = leaf(inner, name, run, text, aside=_ASIDE if name == "add" else "")
        parser.add_argument("--project", default="", metavar="P", help="a project, as acme/harbour or acme-*")
        parser.add_argument(
            "--path", default="", metavar="P", help="sessions there and tools that name it: ~/private, .env, *.pem"
        )
        parser.add_argument("--tool", default="", metavar="T", help="calls and results of a tool, as mcp__mail__*")
    leaf(inner, "list", run_list, "show what is never recorded")


def run_add(args: argparse.Namespace) -> int:
    """Exclude one pattern."""
    from memory_mcp.requests.excluding import Exclude

    return _changed(args, Exclude)


def run_remove(args: argparse.Namespace) -> int:
    """Remove one pattern."""
    from memory_mcp.requests.excluding import Include

    return _changed(args, Include)


def run_list(args: argparse.Namespace) -> int:
    """List all patterns."""
    from memory_mcp.requests.excluding import ListExcluded

    with opened(args, catch_up=False) as app:
        data = answered(app, ListExcluded())
    return print_result(args, data, _lines(data))


def _changed(args: argparse.Namespace, request: Any) -> int:
    with opened(args) as app:
        named = settings_file(args)
        if named is not None and named.resolve() != app.settings_file.resolve():
            hint = f"memory-mcp daemon restart --config {named} uses the other one."
            raise ConfigError(f"the running daemon uses {app.settings_file}, not {named}", hint)
        data = answered(app, request(project_typed(app, args.project), _placed(args.path), args.tool, "person"))
    return print_result(args, data, _lines(data))


def _placed(path: str) -> str:
    """Return the absolute path of one that is relative to the working directory; other patterns as they are."""
    if path not in (".", "..") and not path.startswith(("./", "../")):
        return path
    session = SESSION.get()
    return str((Path(session.cwd if session else Path.cwd()) / path).resolve())


def _lines(data: dict[str, Any]) -> Iterator[str]:
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
