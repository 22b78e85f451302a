"""`config`: every setting, its value and where it comes from; the file's path; a check of all of it."""

import argparse
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memory_mcp.cli.commands.base import Subparsers, family, flags_of, leaf, print_result, settings_file, settings_of


def add(parsers: Subparsers, about: str) -> None:
    """Add `config` with the subcommands show, path and check, each with a function of its own; `about` is its help text."""
    inner = family(parsers, "config", about)
    leaf(inner, "show", run_show, "show every setting with its value and where it comes from")
    leaf(inner, "path", run_path, "show where the settings file is looked for")
    leaf(inner, "check", run_check, "check the settings in force")


def run_show(args: argparse.Namespace) -> int:
    """Print every setting with its value, where it comes from, and its help, passwords in addresses hidden; return 0.

    JSON: settings (each {key, value, from, help}) and data_dir. Raises ConfigError for a setting that cannot be used.
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
    """Print the path of the settings file that is used, whether or not it exists; return 0."""
    path = _path(args)
    return print_result(args, {"path": str(path), "exists": path.is_file()}, [str(path)])


def run_check(args: argparse.Namespace) -> int:
    """Check all settings, print those that are not the defaults, and return 0; raise ConfigError for the first wrong one."""
    settings = settings_of(args)
    path = _path(args)
    file_state = "no settings file, defaults are used" if not path.is_file() else "settings file"
    changed = sorted(f"{key} ({origin})" for key, origin in _origins(args).items())
    directory = str(settings.storage.directory)
    data = {"ok": True, "path": str(path), "exists": path.is_file(), "changed": changed, "data_dir": directory}
    lines = [f"ok: {path} ({file_state})", f"data directory: {directory}", *(f"set: {c}" for c in changed)]
    return print_result(args, data, lines)


def _path(args: argparse.Namespace) -> Path:
    """Return the settings file of --config, else the usual one, existing or not; raise ConfigError where --config names none."""
    from memory_mcp.config import config_path

    return settings_file(args) or config_path()


def _origins(args: argparse.Namespace) -> dict[str, str]:
    """Return "file", "env" or "flag" by the dotted name of each setting that one of them gives.

    Of several a flag wins over a variable, and that over the file. Settings that keep their default are left out.
    """
    from memory_mcp.base import foreign_files
    from memory_mcp.config import variables

    path = _path(args)
    values: Mapping[str, Any] = tomllib.loads(foreign_files.read_file(path.resolve()).decode()) if path.is_file() else {}
    origins = dict.fromkeys(_flat(values), "file")
    names = variables()
    origins |= {names[name.upper()]: "env" for name in os.environ if name.upper() in names}
    return origins | dict.fromkeys(flags_of(args), "flag")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all values in nested tables, each after `prefix`, in the tables' order; of empty tables none."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def _format_value(value: Any) -> str:
    """Return a value about as TOML would write it: texts in quotes (nothing escaped), booleans in lower case, else `str`."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
