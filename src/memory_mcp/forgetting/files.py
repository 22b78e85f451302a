"""Removes what was forgotten from the files next to the database.

Derived files are removed whole, since they are made again; copies of older states are removed whole, since nothing
can be taken out of them; logs and copies of other programs' settings lose the words alone.
"""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from memory_mcp.base import extensions, foreign_files, machine, paths, pauses
from memory_mcp.capture import handover
from memory_mcp.capture.tombstones import Tombstones
from memory_mcp.model.event import EventDraft, EventType, Role

#: Copies of the database that migrations and repairs left, and what DuckDB or a killed compaction left next to it.
_COPIES = (
    *("memory.schema-*.backup.duckdb*", "memory.duckdb.compact*", "memory.duckdb.tmp"),
    *("damaged", "memory.duckdb.damaged*", "before-restore-*", "restoring"),
)
#: How payloads of hooks name their session.
_SESSION = re.compile(r'"(?:session_?[iI][dD])"\s*:\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|[nrtbf\"\\/])")


class DataFiles:
    """The files of one data directory and of the clients set up on this machine."""

    def __init__(self, directory: Path, tombstones: Tombstones) -> None:
        self._directory = directory
        self._tombstones = tombstones

    def remove_forgotten(self, dry: bool = False) -> Counter[str]:
        """Clean every file; return how many of which kind.

        With `dry` they are only counted. Kinds are payloads, briefings, copies, "logs and settings" and pauses. Payloads
        that hold something of it, all briefings and all older copies of the store are removed, and so, without being
        counted, are files of imports that have ended; logs, settings and names of pauses lose the words. Files that
        cannot be read or written are passed over.
        """
        counts: Counter[str] = Counter()
        spool = Path(paths.spool_dir(str(self._directory)))
        # Payloads that wait, were refused or are half written.
        # A payload that moves on meanwhile is met in the next folder.
        for path in [p for folder in ("tmp", "new", "bad") for p in _iter_files(spool / folder) if self._holds_forgotten(p)]:
            counts["payloads"] += 1
            if not dry:
                path.unlink(missing_ok=True)
        if not dry:
            handover.sweep_files(spool)
        for path in _iter_files(self._directory / "briefings"):
            counts["briefings"] += 1
            if not dry:
                path.unlink(missing_ok=True)
        for pattern in _COPIES:
            for path in self._directory.glob(pattern):
                counts["copies"] += 1
                if not dry and path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                elif not dry:
                    path.unlink(missing_ok=True)
        log = Path(paths.log_file(str(self._directory)))
        other_files = [self._directory / "owner.json"]
        for folder in extensions.names(extensions.FOLDERS):
            other_files += (self._directory / folder).glob("*.json")
        for path in (*log.parent.glob(f"{log.name}*"), *other_files, *_iter_files(Path(paths.install_dir()))):
            counts["logs and settings"] += self._clean_file(path, dry)
        counts["pauses"] += self._clean_pauses(dry)
        return counts

    def _clean_pauses(self, dry: bool) -> int:
        try:
            stored_pauses = pauses.read(str(self._directory))
        except ValueError:
            # It pauses nothing, and no one can know what it says.
            if not dry:
                Path(paths.pauses_file(str(self._directory))).unlink(missing_ok=True)
            return 1
        clean_pauses = [
            p._replace(projects=tuple(dict.fromkeys(map(self._tombstones.clean_text, p.projects)))) for p in stored_pauses
        ]
        changed = sum(p != q for p, q in zip(stored_pauses, clean_pauses, strict=True))
        if changed and not dry:
            pauses.write(str(self._directory), clean_pauses)
        return changed

    def _holds_forgotten(self, path: Path) -> bool:
        """Payloads are read as they are and unescaped."""
        with suppress(OSError):
            text = foreign_files.read_file(path, -1).decode("utf-8", "replace")
            # Halves of a character beyond the first plane follow each other.
            joined = _ESCAPED.sub(lambda match: str(json.loads(f'"\\{match[1]}"')), text).encode("utf-16-le", "surrogatepass")
            plain = joined.decode("utf-16-le", "replace")
            if self._tombstones.clean_text(text) != text or self._tombstones.clean_text(plain) != plain:
                return True
            if any(self._tombstones.restates_forgotten(words) for words in _texts_of(text)):
                return True
            sessions = {match[1] for match in _SESSION.finditer(text)}
            return any(
                self._tombstones.covers_event(EventDraft(s, Role.USER, EventType.USER_MESSAGE, "", None)) for s in sessions
            )
        return False

    def _clean_file(self, path: Path, dry: bool) -> bool:
        try:
            text = foreign_files.read_file(path, -1).decode("utf-8", "surrogateescape")
            clean_text = self._tombstones.clean_text(text)
            if clean_text == text:
                return False
            if not dry:
                with path.open("r+b") as file:
                    file.write(clean_text.encode("utf-8", "surrogateescape"))
                    file.truncate()
                    os.fsync(file.fileno())
        except OSError:
            return False
        return True


def _texts_of(payload: str) -> Iterator[str]:
    for line in payload.splitlines():
        try:
            values: list[Any] = [json.loads(line)]
        except (ValueError, RecursionError):
            values = re.split(r'(?<!\\)"', line)
        while values:
            value = values.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict | list):
                values += value.values() if isinstance(value, dict) else value


def _iter_files(folder: Path) -> Iterator[Path]:
    return (Path(path) for path, _ in machine.iter_files(folder))
