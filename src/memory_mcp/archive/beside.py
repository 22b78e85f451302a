"""The files beside a store that a backup needs, as rows: pauses, and the tombstones of what was forgotten.

A restored store must not record a paused project, nor take back from a transcript what was forgotten. Tombstones go
with their key, without which they are useless: a backup is as private as the memory.
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


def rows(directory: Path | None, log: TombstoneLog | None = None) -> list[TableRows]:
    """Return the pauses and tombstones beside the store of a data directory (None: there is none), as one part or none.

    Rows are (what, told): pauses as JSON, then the tombstones' key in hexadecimal and each tombstone's line. A damaged
    file of pauses, or tombstones without a key, count as none. `log` has the store's own tombstones, where it keeps them
    itself; then files with tombstones are not read.
    """
    found: list[tuple[str, str]] = []
    if directory is not None:
        with suppress(ValueError):
            found += [(_PAUSE, json.dumps(pause)) for pause in pauses.read(str(directory))]
    if log is not None:
        if lines := log.read_lines():
            found += [(_KEY, log.load_key().hex()), *((_TOMBSTONE, line) for line in lines)]
    elif directory is not None:
        # The key first: a line that is added meanwhile was made with it.
        with suppress(OSError):
            key = foreign_files.read_file(directory / paths.TOMBSTONES_KEY)
            lines = foreign_files.read_file(directory / paths.TOMBSTONES, -1).decode("ascii").splitlines()
            found += [(_KEY, key.hex()), *((_TOMBSTONE, line) for line in lines)]
    return [TableRows(TABLE, _COLUMNS, found)] if found else []


def take(directory: Path | None, parts: Iterable[TableRows], log: TombstoneLog | None = None) -> int:
    """Add to a data directory, or to a store's own tombstones, the rows that another store has beside it.

    What is known here stays as it is: a pause with the projects and begin of one here is not added, so one that ended here
    has ended. Rows of other tables are passed over.
    Returns how many tombstones cannot be added since they have another key. Raises StorageError when the pauses here
    cannot be read.
    """
    told: dict[str, list[str]] = {_PAUSE: [], _TOMBSTONE: [], _KEY: []}
    for part in parts:
        for what, text in part.rows if part.table == TABLE else ():
            told.setdefault(str(what), []).append(str(text))
    if directory is not None:
        try:
            here = pauses.read(str(directory))
        except ValueError as error:
            raise StorageError(str(error), "Move the file out of the data directory, and restore again.") from None
        known = {(p.projects, p.begin) for p in here}
        carried = [pauses.Pause(tuple(names), begin, end) for names, begin, end in map(json.loads, told[_PAUSE])]
        if new := [p for p in carried if (p.projects, p.begin) not in known]:
            pauses.write(str(directory), [*here, *new])
    keys, lines = told[_KEY], told[_TOMBSTONE]
    if not keys or not lines:
        return 0
    if log is None:
        return _tombstones(directory, bytes.fromhex(keys[0]), lines) if directory is not None else 0
    try:
        log.adopt_lines(bytes.fromhex(keys[0]), lines)
    except StorageError:
        return len(set(lines) - set(log.read_lines()))
    return 0


def _tombstones(directory: Path, key: bytes, lines: Sequence[str]) -> int:
    """Add tombstones to the directory's file, with their key where there is none; return how many of another key stay out."""
    own_key, file = directory / paths.TOMBSTONES_KEY, directory / paths.TOMBSTONES
    with suppress(FileExistsError):
        _append(own_key, key, os.O_EXCL)
    here = foreign_files.read_file(file, -1).decode("ascii").splitlines() if file.exists() else []
    new = [line for line in lines if line not in set(here)]
    if foreign_files.read_file(own_key) != key:
        return len(new)
    if new:
        # A line that a crash cut in two must not take the next one with it.
        _append(file, ("\n" + "".join(f"{line}\n" for line in new)).encode("ascii"), os.O_APPEND)
    return 0


def _append(place: Path, content: bytes, how: int) -> None:
    """Write bytes at the end of a private file, made where it is missing, and sync file and folder; `how`: further open flags.

    With O_EXCL raises FileExistsError where it exists.
    """
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | how | machine.PRIVATE, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    machine.sync_names(place.parent)
