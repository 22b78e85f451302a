"""The program's own keys, which are taken out of every text by value: what they look like does not matter.

The token of the HTTP interface, from its file or the settings, and keys of other servers: of commands' variables, and in files
`key` of the data directory's folders. They are read again when their files change, which is looked at once a second.
"""

import os
from collections import Counter
from pathlib import Path
from time import monotonic

from memory_mcp.base import foreign_files, paths

#: Name of replacements, as for keys that are known by their form.
_RULE = "memory-mcp"
#: The file of a folder that holds the key of a server.
_KEY_FILE = "key"
#: Shorter values are words, and would be taken out of ordinary text.
_SHORTEST = 8
#: How long the files are believed to be unchanged (seconds).
_RECHECK_S = 1.0
#: No key is longer (bytes).
_LONGEST = 4096

_Stamp = tuple[tuple[int, int, int], ...]


class OwnSecrets:
    """The keys of one data directory, if there is one."""

    def __init__(self, directory: str, *configured: str) -> None:
        """Take a data directory ("" for none) and the settings' keys."""
        self._directory = directory
        self._configured = (*configured, paths.setting("server", "http_token", ""), *paths.key_variables(os.environ).values())
        self._values: tuple[str, ...] = ()
        self._stamp: _Stamp | None = None
        self._checked_at = float("-inf")

    def redact_text(self, text: str, counts: Counter[str]) -> str:
        """Return a text with every key of the program replaced, counted."""
        for value in self.load_values():
            if value in text:
                counts[_RULE] += text.count(value)
                text = text.replace(value, f"[REDACTED:{_RULE}]")
        return text

    def occur_in(self, text: str) -> bool:
        """Return whether a text holds a key of the program."""
        return any(value in text for value in self.load_values())

    def load_values(self) -> tuple[str, ...]:
        """Return the keys that there are now, the longest first."""
        now = monotonic()
        if now - self._checked_at >= _RECHECK_S:
            self._checked_at = now
            files = self._list_files()
            stamp = tuple(map(_stamp_of, files))
            if stamp != self._stamp:
                self._stamp = stamp
                candidates = {*map(str, self._configured), *map(_read_key, files)}
                self._values = tuple(sorted((value for value in candidates if len(value) >= _SHORTEST), key=len, reverse=True))
        return self._values

    def _list_files(self) -> list[str]:
        if not self._directory:
            return []
        keys = sorted(map(str, Path(self._directory).glob(f"*/{_KEY_FILE}")))
        return [paths.token_file(self._directory), *keys]


def _stamp_of(path: str) -> tuple[int, int, int]:
    try:
        state = Path(path).lstat()
    except OSError:
        return 0, 0, 0
    return state.st_ino, state.st_size, state.st_mtime_ns


def _read_key(path: str) -> str:
    try:
        return foreign_files.read_file(path, _LONGEST).decode("ascii", "replace").strip()
    except OSError:
        return ""
