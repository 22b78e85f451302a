"""Keeps a copy of tombstones outside the database: what was forgotten after a backup must not come back with it.

A line of the file names a memory by its store id, the key of its hashes, and one tombstone of it; no word of any
text. Lines are only added. Who has the file can try values out, as with tombstones themselves: it is as private as
the memory.
"""

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, StorageError
from memory_mcp.capture.tombstone_file import append_lines
from memory_mcp.storage.records import TombstoneLog
from memory_mcp_team.settings import team_settings

#: How files of a folder end.
SUFFIX = ".jsonl"


@dataclass(slots=True)
class TombstoneCopy:
    """The tombstones of one memory, as files outside the database have them."""

    key: bytes
    lines: list[str] = field(default_factory=list)


def note_tombstones(app: App) -> None:
    """Add a memory's tombstones to this machine's file in team.tombstones_dir.

    Does nothing without that folder, or if the store keeps no tombstones itself. Raises StorageError if the file cannot be
    written: what was to be forgotten would come back with an older backup.
    """
    folder, log = team_settings(app.settings.extensions).tombstones_dir, app.storage.tombstones
    if not folder or log is None:
        return
    path = Path(folder) / f"{socket.gethostname()}{SUFFIX}"
    try:
        add_tombstones(path, {app.storage.get_stats(text=False).store_id: log})
    except OSError as error:
        hint = "Make the folder of team.tombstones_dir writable; it is forgotten once it is."
        raise StorageError(f"{path} cannot be written: {error.strerror}", hint) from error


def add_tombstones(file: Path, logs: Mapping[str, TombstoneLog]) -> int:
    """Add missing tombstones to a file; return how many.

    The file exists afterwards. Raises OSError for the file, StorageError if it has two keys for one memory.
    """
    stored_lines = (
        {(memory, line) for memory, copy in read_tombstones([file]).items() for line in copy.lines} if file.exists() else set()
    )
    new: list[str] = []
    for memory, log in logs.items():
        lines = [line for line in dict.fromkeys(log.read_lines()) if (memory, line) not in stored_lines]
        key = log.load_key().hex() if lines else ""
        new += [json.dumps({"memory": memory, "key": key, "line": line}) for line in lines]
    if new or not file.exists():
        append_lines(file, new)
    return len(new)


def list_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files among `paths`, and *.jsonl of folders.

    Raises InvalidQuery for a missing path.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.glob(f"*{SUFFIX}"))
        elif path.is_file():
            files.append(path)
        else:
            raise InvalidQuery(f"no tombstones there: {path}", f"Name a file that the export wrote, or a folder of *{SUFFIX}.")
    return files


def read_tombstones(files: Iterable[Path]) -> dict[str, TombstoneCopy]:
    """Return the tombstones in files, by store id.

    Broken lines, as a crash may leave one, are skipped. Raises StorageError if two keys are given for one memory.
    """
    copies: dict[str, TombstoneCopy] = {}
    for file in files:
        for raw in foreign_files.read_file(file, -1).decode("ascii", "replace").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                row = json.loads(raw)
                memory, key, line = str(row["memory"]), bytes.fromhex(row["key"]), str(row["line"])
                copy = copies.setdefault(memory, TombstoneCopy(key))
                if copy.key != key:
                    raise StorageError(f"{file} has another key for {memory} than the files before", "Apply them one by one.")
                copy.lines.append(line)
    return copies
