"""The checks, in the order of the report, one line each: a module of this folder and its function `checks`.

A module of `OUTSIDE` is given a Look and runs in the caller's process; one of `INSIDE` is given an Opened and runs where the
store is open: in the daemon, or in the caller's process.
"""

from collections.abc import Iterator
from importlib import import_module

from memory_mcp.cli.checks.base import Check, Look, Opened

OUTSIDE = (
    *("versions", "settings", "command", "clients", "disk", "backups"),
    *("directory", "database", "daemon", "spool", "capture"),
)
INSIDE = ("store", "arrivals", "transcripts", "summarizer")


def outside(look: Look) -> Iterator[Check]:
    """Yield the results of all checks of the caller's side, in the order of `OUTSIDE`; each module is loaded as it comes."""
    for name in OUTSIDE:
        yield from import_module(f"memory_mcp.cli.checks.{name}").checks(look)


def inside(opened: Opened) -> Iterator[Check]:
    """Yield the results of all checks of the store's inside, in the order of `INSIDE`; each module is loaded as it comes."""
    for name in INSIDE:
        yield from import_module(f"memory_mcp.cli.checks.{name}").checks(opened)


def secrets(opened: Opened) -> Iterator[Check]:
    """Yield the results of the check `secrets`, apart from `inside`, since every stored text is read."""
    yield from import_module("memory_mcp.cli.checks.secrets").checks(opened)


def left(look: Look) -> Iterator[Check]:
    """Yield the results of the check `left_secrets`: secrets in the payloads of hooks that are not stored yet."""
    yield from import_module("memory_mcp.cli.checks.left_secrets").checks(look)
