"""Tombstones in files of a data directory: lines that are only added, and the key of their hashes beside them."""

import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files, machine, paths
from memory_mcp.base.errors import StorageError

KEY_BYTES = 32
#: Letters and digits from which on earlier versions noted a line of a forgotten event as a value.
_LINE = 32


class TombstoneFile:
    """The tombstones of one data directory, in two files."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / paths.TOMBSTONES
        self._file_name = os.fspath(self._file)
        self._key_file = directory / paths.TOMBSTONES_KEY

    def get_stamp(self) -> tuple[int, int, int] | None:
        """Return (inode, bytes, mtime in ns), which additions change; None without file."""
        try:
            state = os.stat(self._file_name)  # noqa: PTH116 - for every draft
        except FileNotFoundError:
            return None
        return state.st_ino, state.st_size, state.st_mtime_ns

    def read_lines(self) -> list[str]:
        """Return all lines in order; [] without a file."""
        try:
            return foreign_files.read_file(self._file, -1).decode("ascii", "replace").splitlines()
        except FileNotFoundError:
            return []

    def load_key(self) -> bytes:
        """Return the key of the hashes, made if missing (32 bytes).

        Of two processes that make one, the first's counts. Raises OSError when it cannot be written or read.
        """
        with suppress(FileExistsError):
            descriptor = os.open(self._key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | machine.PRIVATE, 0o600)
            try:
                os.write(descriptor, secrets.token_bytes(KEY_BYTES))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return foreign_files.read_file(self._key_file)

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add lines of ASCII, on disk at return; raises OSError."""
        append_lines(self._file, lines)

    def adopt_lines(self, key: bytes, lines: Sequence[str]) -> list[str]:
        """Add and return a copy's lines that are missing here.

        Where nothing was forgotten, its key is taken over; raises StorageError if the keys differ.
        """
        own_lines = self.read_lines()
        if own_lines and self.load_key() != key:
            raise StorageError("what was forgotten here has another key than the copy", "Forget it here, too.")
        if not own_lines:
            machine.put(self._key_file, key)
        new = [line for line in dict.fromkeys(lines) if line not in own_lines]
        if new:
            append_lines(self._file, new)
        return new


def append_lines(file: Path, lines: Sequence[str]) -> None:
    """Add lines of ASCII to a private file.

    On disk at return. A last line that a crash cut is ended first.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | machine.PRIVATE, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, ("\n" * bool(torn) + "".join(f"{line}\n" for line in lines)).encode("ascii"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    machine.sync_names(file.parent)


def find_old_values(lines: Sequence[str], named_count: int) -> list[list[int | str]]:
    """Return the values that earlier versions noted for lines of events.

    [gram, start, length, tokens, hash] each. They are written right before the event. [] if the number of all other
    values is not `named_count`, of those a person named: one of these may be among them then; and of values that were
    taken back before.
    """
    parsed: list[dict[str, Any]] = []
    for raw in lines:
        with suppress(ValueError):
            line = json.loads(raw)
            parsed += [line] if isinstance(line, dict) else []
    if any("lifted" in line for line in parsed):
        return []
    runs = [(kind, list(run)) for kind, run in groupby(parsed, _line_kind)]
    other_values: list[dict[str, Any]] = []
    of_lines: list[dict[str, Any]] = []
    for (kind, run), (following, _) in zip(runs, [*runs[1:], ("", [])], strict=True):
        if kind == "value":
            # Shorter ones were named, and came before the event's.
            last = max((at for at, line in enumerate(run) if line["length"] < _LINE), default=-1) + 1
            at = last if following == "event" else len(run)
            other_values += run[:at]
            of_lines += run[at:]
    if len(other_values) != named_count:
        return []
    still_named = {line["value"] for line in other_values}
    return [[*ln["gram"], ln["length"], ln["tokens"], ln["value"]] for ln in of_lines if ln["value"] not in still_named]


def _line_kind(line: dict[str, Any]) -> str:
    is_old = "event" in line and "v" not in line
    return "event" if is_old else "value" if "value" in line and isinstance(line.get("length"), int) else ""
