"""Compares the settings of a running daemon with the settings file as it is now and with a caller's variables.

Invariants
1. The file is read again only after it changed.
2. A file that cannot be used changes nothing: the settings of the start stay in force.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from memory_mcp.base import paths
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.config import PREFIX, Settings, iter_keys, load, value_of

#: The setting that every caller may have of its own.
_PROFILE = "SERVER__PROFILE"


class State(NamedTuple):
    """How the settings file differs from the start's settings."""

    #: Names of settings that have another value.
    changed: tuple[str, ...] = ()
    #: Why the file cannot be used; "" where it can.
    unusable: str = ""


class ActiveSettings:
    """The settings in force in this daemon."""

    def __init__(self, settings: Callable[[], Settings], start_settings: Mapping[str, str]) -> None:
        self._current = settings
        self._told = dict(start_settings)
        self.file = Path(start_settings.get("config") or paths.config_file())
        self._stamp: tuple[int, ...] | None = None
        self._state = State()

    def compare_file(self) -> State:
        """Return how the file differs from the settings in force."""
        stamp: tuple[int, ...] = ()
        with suppress(OSError):
            file_state = self.file.stat()
            stamp = (file_state.st_mtime_ns, file_state.st_size, file_state.st_ino)
        if stamp != self._stamp:
            self._stamp, in_force = stamp, self._current()
            flags = {"storage.data_dir": in_force.storage.data_dir or None, "server.profile": self._told.get(_PROFILE)}
            try:
                now = load(flags=flags, file=self.file)
            except MemoryMcpError as error:
                self._state = State(unusable=str(error))
            else:
                self._state = State(tuple(k for k, _ in iter_keys() if value_of(now, k) != value_of(in_force, k)))
        return self._state

    def compare_caller(self, hello: Mapping[str, Any]) -> dict[str, str]:
        """Return what differs for a caller; {} for nothing.

        Keys are `refused` (why its variables cannot be used; then nothing else), `stale` (changed settings, separated by
        commas) or `unusable` (why the file cannot be used), and `note` (a line for a person about an unusable file or
        other variables).
        """
        changed, unusable = self.compare_file()
        settings = hello.get("settings")
        theirs: dict[str, Any] = settings if isinstance(settings, dict) else self._told
        # A caller that names no settings file takes the daemon's.
        either = [k for k in {*theirs, *self._told} if k != "config" or theirs.get(k)]
        differ = sorted(k for k in either if theirs.get(k) != self._told.get(k))
        if differ and not unusable:
            variables = {PREFIX + str(name): str(value) for name, value in theirs.items() if name != "config"}
            try:
                load(variables, file=self.file)
            except MemoryMcpError as error:
                return {"refused": str(error)}
        if unusable:
            note = f"the settings file cannot be used, and those of before hold on until it can ({unusable})"
            return {"unusable": unusable, "note": note}
        differences = {"stale": ", ".join(changed)} if changed else {}
        if differ:
            names = ", ".join(k.lower().replace("__", ".") for k in differ)
            hint = "`memory-mcp daemon restart` applies yours"
            differences["note"] = f"the running daemon was started with other settings ({names}); {hint}"
        return differences
