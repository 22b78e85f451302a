"""What other packages add to this program, found by their entry points.

The names in a group, and what each stands for:

    memory_mcp.storage          an engine, by the value of storage.engine: `storage.opening.Engine`
    memory_mcp.settings         a section of the settings: its frozen dataclass
    memory_mcp.commands         a command: `cli.commands.registry.Command`
    memory_mcp.admin_commands   a command below `admin`: the same
    memory_mcp.requests         a request: `requests.registry.Entry`
    memory_mcp.jobs             a job of the scheduler: a function of the App that returns it
    memory_mcp.checks           checks of `doctor`: a function of a `cli.checks.base.Look`
    memory_mcp.outgoing         what leaves this machine: a function of the App that yields `requests.overview.Outgoing`
    memory_mcp.http             by the name of a section that is set: a function of arguments and settings, that serves HTTP and
                                returns the exit status, or None where the section asks for no server of its own
    memory_mcp.variables        a variable beside those of the settings, without its prefix: only its name counts
    memory_mcp.folders          a folder of the data directory: texts of its *.json files are cleaned by forgetting
    memory_mcp.forgotten        by the name of a section that is set: a function of the App, called before anything is removed

Entry points are read only when a name is asked for that this package does not know: that takes 20 to 150 ms, and neither a hook
nor the start of a server may wait for it.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

STORAGE, SETTINGS, COMMANDS, ADMIN_COMMANDS = (
    f"memory_mcp.{name}" for name in ("storage", "settings", "commands", "admin_commands")
)
REQUESTS, JOBS, CHECKS, OUTGOING = (f"memory_mcp.{name}" for name in ("requests", "jobs", "checks", "outgoing"))
HTTP, FORGOTTEN, VARIABLES, FOLDERS = (f"memory_mcp.{name}" for name in ("http", "forgotten", "variables", "folders"))

_DISTRIBUTION = "memory-mcp-tree"
#: Names that an extra of this distribution adds, for the errors where it is missing.
_EXTRAS = {"postgres": "team", "team": "team", "share": "team"}


@cache
def _entry_points() -> "Mapping[str, Mapping[str, EntryPoint]]":
    from importlib import metadata

    points = metadata.entry_points()
    return {group: {point.name: point for point in points.select(group=group)} for group in points.groups}


def names(group: str) -> tuple[str, ...]:
    """Return the names that other packages add to a group."""
    return tuple(_entry_points().get(group, ()))


def find(group: str, name: str) -> Any | None:
    """Return what a name stands for, None if nothing adds it.

    A package that cannot be imported adds nothing. Raises ConfigError if that package lacks a library.
    """
    point = _entry_points().get(group, {}).get(name)
    if point is None:
        return None
    try:
        return point.load()
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if point.module == missing or point.module.startswith(f"{missing}."):
            return None
        raise make_missing_error(error) from None


def load_all(group: str) -> dict[str, Any]:
    """Return everything that other packages add to a group, by name.

    Raises what `find` raises.
    """
    added = {name: find(group, name) for name in names(group)}
    return {name: value for name, value in added.items() if value is not None}


def make_missing_error(error: ModuleNotFoundError) -> ConfigError:
    """Return the error for a missing library of an extra."""
    return ConfigError(f"{error.name} is not installed", f"Install {_DISTRIBUTION}[team].")


def hint_for(name: str) -> str:
    """Return which extra to install for a name that it adds."""
    return f"Install {_DISTRIBUTION}[{_EXTRAS[name]}]." if name in _EXTRAS else ""
