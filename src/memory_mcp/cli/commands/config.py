"""`config` and `doctor`: the settings with their origin, and a check of the installation and the store."""

import argparse
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    as_json,
    family,
    flags_of,
    leaf,
    look_of,
    print_result,
    settings_file,
    settings_of,
)

if TYPE_CHECKING:
    from memory_mcp.cli.checks.base import Check


def add_config(parsers: Subparsers, about: str) -> None:
    inner = family(parsers, "config", about)
    leaf(inner, "show", run_show, "show every setting with its value and where it comes from")
    leaf(inner, "path", run_path, "show where the settings file is looked for")
    leaf(inner, "check", run_check, "check the settings in force")


def run_show(args: argparse.Namespace) -> int:
    """Print every setting with its value, origin and help.

    Passwords in addresses are hidden. Raises ConfigError for a setting that cannot be used.
    """
    from memory_mcp.config import iter_keys, shown_value

    settings = settings_of(args)
    origins = _origins(args)
    rows, assignments = [], {}
    for key, item in iter_keys():
        value = shown_value(settings, key, item)
        rows.append({"key": key, "value": value, "from": origins.get(key, "default"), "help": item.metadata.get("help", "")})
        assignments[key] = f"{key} = {_format_value(value)}"
    width = max(map(len, assignments.values()))
    lines = [f"{assignments[row['key']]:<{width}}  [{row['from']}]  {row['help']}".rstrip() for row in rows]
    return print_result(args, {"settings": rows, "data_dir": str(settings.storage.directory)}, lines)


def run_path(args: argparse.Namespace) -> int:
    path = _path(args)
    return print_result(args, {"path": str(path), "exists": path.is_file()}, [str(path)])


def run_check(args: argparse.Namespace) -> int:
    """Print the settings that are not defaults; ConfigError if wrong."""
    settings = settings_of(args)
    path = _path(args)
    file_state = "no settings file, defaults are used" if not path.is_file() else "settings file"
    changed = sorted(f"{key} ({origin})" for key, origin in _origins(args).items())
    directory = str(settings.storage.directory)
    data = {"ok": True, "path": str(path), "exists": path.is_file(), "changed": changed, "data_dir": directory}
    lines = [f"ok: {path} ({file_state})", f"data directory: {directory}", *(f"set: {c}" for c in changed)]
    return print_result(args, data, lines)


def _path(args: argparse.Namespace) -> Path:
    from memory_mcp.config import config_path

    return settings_file(args) or config_path()


def _origins(args: argparse.Namespace) -> dict[str, str]:
    """Of several a flag wins over a variable, and that over the file."""
    from memory_mcp.base import foreign_files
    from memory_mcp.config import variables

    path = _path(args)
    values: Mapping[str, Any] = tomllib.loads(foreign_files.read_file(path.resolve()).decode()) if path.is_file() else {}
    origins = dict.fromkeys(_flat(values), "file")
    names = variables()
    origins |= {names[name.upper()]: "env" for name in os.environ if name.upper() in names}
    return origins | dict.fromkeys(flags_of(args), "flag")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def add_doctor(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "doctor", run_doctor, about, "It changes nothing by looking, and starts nothing.")
    parser.add_argument("--store", action="store_true", help="look into the store alone")
    parser.add_argument("--secrets", action="store_true", help="read all stored texts again and count the secrets in them")


def run_doctor(args: argparse.Namespace) -> int:
    """Print all checks; return 1 when one of them fails."""
    from contextlib import nullcontext
    from dataclasses import asdict

    from memory_mcp.cli.checks.base import FAIL, INSIDE, Opened, run_checks

    session = SESSION.get()
    if session is None:
        checks = list(_run_all_checks(args))
    else:
        app = session.app
        opened = Opened(app.storage, app.calendar, app.settings, app.clock.now_ms())
        # Writers of the tree wait, but not for the check of secrets: it reads every text, which may take minutes.
        with nullcontext() if args.secrets else app.derivation.publishing:
            checks = list(run_checks(("secrets",) if args.secrets else INSIDE, opened))
    failed = any(c.state == FAIL for c in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:<4}  {check.name}: {check.text}")
        lines += [f"      next: {check.next_step}"] if check.next_step else []
    render.emit(as_json(args), {"ok": not failed, "checks": [asdict(check) for check in checks]}, lines)
    return 1 if failed else 0


def _run_all_checks(args: argparse.Namespace) -> "Iterator[Check]":
    from memory_mcp.cli.checks.base import run_checks, run_outside_checks
    from memory_mcp.cli.checks.daemon import check_inside

    look = look_of(args)
    if args.secrets:
        yield from run_checks(("left_secrets",), look)
    elif not args.store:
        yield from run_outside_checks(look)
    yield from check_inside(look, secrets=args.secrets)
