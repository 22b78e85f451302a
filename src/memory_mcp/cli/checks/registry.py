"""The checks, in the order of the report, one line each: a module of this folder and its function `checks`.

A module of `OUTSIDE` is given a Look and runs in the caller's process; one of `INSIDE` is given an Opened and runs where the
store is open: in the daemon, or in the caller's process.
"""

from collections.abc import Iterable, Iterator
from importlib import import_module

from memory_mcp.base import extensions
from memory_mcp.cli.checks.base import Check, Look, Opened

OUTSIDE = (
    *("versions", "settings", "command", "clients", "disk", "backups"),
    *("directory", "daemon", "spool", "capture"),
)
INSIDE = ("store", "arrivals", "transcripts", "summarizer")


def run(names: Iterable[str], subject: Look | Opened) -> Iterator[Check]:
    """Yield the results of the checks of these modules, in order; each module is loaded as it comes.

    `subject` is an Opened for those of `INSIDE` and for `secrets`, which reads every stored text; a Look for those of `OUTSIDE`
    and for `left_secrets`, about payloads of hooks that are not stored yet.
    """
    for name in names:
        yield from import_module(f"memory_mcp.cli.checks.{name}").checks(subject)


def run_outside(look: Look) -> Iterator[Check]:
    """Yield the results of the checks of `OUTSIDE`, then of those of other packages."""
    yield from run(OUTSIDE, look)
    for checks in extensions.load_all(extensions.CHECKS).values():
        yield from checks(look)
