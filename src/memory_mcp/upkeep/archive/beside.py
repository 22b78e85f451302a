"""The files next to a store that a backup needs, as rows: pauses and tombstones.

A restored store must not record a paused project, nor take back from a transcript what was forgotten. Tombstones go with
their key, without which they are useless: a backup is as private as the memory.
"""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from memory_mcp.base import foreign_files, machine, paths, pauses
from memory_mcp.base.errors import StorageError
from memory_mcp.storage.archive import TableRows
from memory_mcp.storage.records import TombstoneLog

#: Name of these rows among the tables of a backup; the store has no such table.
TABLE = "beside"
_COLUMNS = ("what", "told")
_PAUSE, _TOMBSTONE, _KEY = "pause", "tombstone", "tombstone key"


def read_rows(directory: Path | None, log: TombstoneLog | None = None) -> list[TableRows]:
    """Return pauses and tombstones of a data directory, as rows.

    Rows are (what, told): pauses as JSON, then the tombstones' key in hexadecimal and each tombstone's line. A damaged file
    of pauses, or tombstones without a key, count as none. `log` has the store's own tombstones, where it keeps them itself;
    then files with tombstones are not read.
    """
    side_rows: list[tuple[str, str]] = []
    if directory is not None:
        with suppress(ValueError):
            side_rows += [(_PAUSE, json.dumps(pause)) for pause in pauses.read(str(directory))]
    if log is not None:
        if lines := log.read_lines():
            side_rows += [(_KEY, log.load_key().hex()), *((_TOMBSTONE, line) for line in lines)]
    elif directory is not None:
        # The key first: a line that is added meanwhile was made with it.
        with suppress(OSError):
            key = foreign_files.read_file(directory / paths.TOMBSTONES_KEY)
            lines = foreign_files.read_file(directory / paths.TOMBSTONES, -1).decode("ascii").splitlines()
            side_rows += [(_KEY, key.hex()), *((_TOMBSTONE, line) for line in lines)]
    return [TableRows(TABLE, _COLUMNS, side_rows)] if side_rows else []


def add_rows(directory: Path | None, parts: Iterable[TableRows], log: TombstoneLog | None = None) -> int:
    """Add another store's pauses and tombstones; return how many do not fit.

    What is known here stays as it is: a pause with the projects and begin of one here is not added, so one that ended here
    has ended. Tombstones with another key cannot be added, and are counted. Raises StorageError when the pauses here cannot
    be read.
    """
    texts: dict[str, list[str]] = {_PAUSE: [], _TOMBSTONE: [], _KEY: []}
    for part in parts:
        for what, text in part.rows if part.table == TABLE else ():
            texts.setdefault(str(what), []).append(str(text))
    if directory is not None:
        try:
            present = pauses.read(str(directory))
        except ValueError as error:
            raise StorageError(str(error), "Move the file out of the data directory, and restore again.") from None
        present_pauses = {(p.projects, p.begin) for p in present}
        carried = [pauses.Pause(tuple(names), begin, end) for names, begin, end in map(json.loads, texts[_PAUSE])]
        if new := [p for p in carried if (p.projects, p.begin) not in present_pauses]:
            pauses.write(str(directory), [*present, *new])
    keys, lines = texts[_KEY], texts[_TOMBSTONE]
    if not keys or not lines:
        return 0
    if log is None:
        return _add_tombstones(directory, bytes.fromhex(keys[0]), lines) if directory is not None else 0
    try:
        log.adopt_lines(bytes.fromhex(keys[0]), lines)
    except StorageError:
        return len(set(lines) - set(log.read_lines()))
    return 0


def _add_tombstones(directory: Path, key: bytes, lines: Sequence[str]) -> int:
    """Add tombstones; return how many of another key stay out."""
    own_key, file = directory / paths.TOMBSTONES_KEY, directory / paths.TOMBSTONES
    with suppress(FileExistsError):
        _append_file(own_key, key, os.O_EXCL)
    present_lines = foreign_files.read_file(file, -1).decode("ascii").splitlines() if file.exists() else []
    new = [line for line in lines if line not in set(present_lines)]
    if foreign_files.read_file(own_key) != key:
        return len(new)
    if new:
        # A line that a crash cut in two must not take the next one with it.
        _append_file(file, ("\n" + "".join(f"{line}\n" for line in new)).encode("ascii"), os.O_APPEND)
    return 0


def _append_file(path: Path, content: bytes, flags: int) -> None:
    """Write at the end of a private file, and sync file and folder.

    `flags` are further open flags; with O_EXCL raises FileExistsError where it exists.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags | machine.PRIVATE, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    machine.sync_names(path.parent)
