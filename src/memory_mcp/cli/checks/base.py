"""One line of doctor's report, what a check is given, and the checks in the order of the report.

Change here: add a check, as a function `check_NAME` of a module in this folder that yields `Check`s, and a line in `_MODULES`.

Invariants
1. A check makes no file, folder, store or process, and writes to none.
2. A next step never suggests deleting anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import extensions
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.config import Settings

if TYPE_CHECKING:
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.service.client import link
    from memory_mcp.storage.base import Storage

#: By name, the module of this folder with the function `check_NAME`.
_MODULES = {
    **dict.fromkeys(("versions", "settings", "command", "disk", "directory", "capture"), "installation"),
    **dict.fromkeys(("clients", "arrivals", "transcripts"), "clients"),
    **dict.fromkeys(("store", "summarizer", "backups", "spool"), "store"),
    **dict.fromkeys(("secrets", "left_secrets"), "secrets"),
    "daemon": "daemon",
}
#: Checks that are given a Look, in the caller's process, and those that are given an Opened, where the store is open.
OUTSIDE = (
    *("versions", "settings", "command", "clients", "disk", "backups"),
    *("directory", "daemon", "spool", "capture"),
)
INSIDE = ("store", "arrivals", "transcripts", "summarizer")
#: A failed check ends doctor with exit status 1; a warning does not.
OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    state: str
    name: str
    text: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """The caller's side: its environment, settings and data directory."""

    #: The settings file named by --config; "": the usual one.
    config: str
    #: The data directory in force, whether or not it exists.
    directory: Path
    #: None when they cannot be read, which the check `settings` reports.
    settings: Settings | None
    environ: Mapping[str, str]
    home: Path


@dataclass(frozen=True, slots=True)
class Opened:
    """The open store: the daemon's, or read-only here."""

    storage: "Storage"
    calendar: "Calendar"
    settings: Settings
    now_ms: int


def run_checks(names: Iterable[str], subject: Look | Opened) -> Iterator[Check]:
    """Yield the results of checks, in order; FAIL with the reason for one that cannot be done, as for a damaged store.

    `subject` is an Opened for those of `INSIDE` and for `secrets`, which reads every stored text; a Look for those of `OUTSIDE`
    and for `left_secrets`.
    """
    for name in names:
        try:
            yield from getattr(import_module(f"{__package__}.{_MODULES[name]}"), f"check_{name}")(subject)
        except MemoryMcpError as error:
            yield Check(FAIL, name, error.message, error.hint)


def run_outside_checks(look: Look) -> Iterator[Check]:
    """Yield the checks of `OUTSIDE`, then those of other packages."""
    yield from run_checks(OUTSIDE, look)
    for checks in extensions.load_all(extensions.CHECKS).values():
        yield from checks(look)


def connect_daemon(look: Look) -> "link.Line | None":
    """Return a connection to the daemon; None where none runs."""
    from memory_mcp.service.client import link

    if not link.can_run_daemon():
        return None
    try:
        return link.reach_daemon(link.Wanted(str(look.directory.absolute()), look.config), "rpc", start=False)
    except (OSError, ValueError):
        return None
