"""Check: one line of doctor's report; Look and Opened: the inputs of a check. No check changes anything.

Invariants
1. A check makes no file, folder, store or process, and writes to none.
2. A next step never suggests deleting anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.config import Settings

if TYPE_CHECKING:
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.storage.base import Storage

#: A failed check ends doctor with exit status 1; a warning does not.
OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report; `next_step` is what to do about it, or what to do first."""

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
    """The inside of the store: the daemon's, or opened to be read alone."""

    storage: "Storage"
    calendar: "Calendar"
    settings: Settings
    now_ms: int
