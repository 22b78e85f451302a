"""The log of acknowledged writes that the database does not hold yet: appended and synced, emptied when they are stored.

Several writers share one sync: each waits until its line is on disk, and one of them syncs all lines that are there.

A line is the CRC-32 of a JSON text in eight hexadecimal digits, a space, and the text: how many bytes before it were synced when
it was added, and the write. Only what was synced can have been acknowledged: what is damaged there is told, and what is not whole
behind that is left out, for a power loss keeps any part of what was not synced.
"""

import json
import os
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory_mcp.base import machine, paths

_DIGITS = 8
#: Waits for a file's bytes, and for its size.
_sync = getattr(os, "fdatasync", os.fsync)


class WriteLog:
    """The log of one data directory. Whoever holds the store's write lock uses it; `await_sync` is for any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._identity: list[int] = []
        #: Bytes, also of a line that could not be written to its end, and whether there is such a line.
        self._size, self._is_broken = 0, False
        #: Bytes of all lines that were added, how many of them are on disk or stored, and how many were cleared.
        self._added = self._synced = self._cleared = 0
        #: Whether a sync failed since the log was cleared: the system tells that once, and the next would seem to succeed.
        self._sync_failed = False
        #: Held while the disk is waited for.
        self._sync_lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether the file holds nothing, as far as this process has written it."""
        return self._size == 0

    def read_writes(self) -> tuple[list[Any], int]:
        """Return the write of each whole line, in order, and how many lines that were synced are damaged.

        Raises OSError if the file cannot be read.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return [], 0
        self._size = len(content)
        writes, damaged, synced, start = [], [], 0, 0
        # Behind the last end of a line is what was not written to its end.
        for line in content.split(b"\n")[:-1]:
            value = _parse_line(line)
            if value is None:
                damaged.append(start)
            else:
                # Without a number it is an older program's, which synced each line before the next.
                synced_before, write = value if isinstance(value[0], int) else (start, value)
                synced = max(synced, synced_before)
                writes.append(write)
            start += len(line) + 1
        return writes, sum(place < synced for place in damaged)

    def add_write(self, write: Sequence[Any]) -> int:
        """Append a JSON array; return its number for `await_sync`.

        Raises OSError if that fails; then the log has to be cleared before the next write.
        """
        if self._is_broken or self._sync_failed:
            raise OSError(f"{self._path} could not be written or synced")
        value = [self._synced - self._cleared, write]
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        line = b"%0*x %b\n" % (_DIGITS, zlib.crc32(text), text)
        descriptor = self._open() if self._descriptor is None else self._descriptor
        self._size += len(line)
        self._is_broken = True
        rest = line
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        self._is_broken = False
        self._added += len(line)
        return self._added

    def await_sync(self, number: int) -> None:
        """Wait until the line of that number is on disk, or stored.

        Raises OSError if that fails or the file is gone; then the log has to be cleared before the next write.
        """
        with self._sync_lock:
            if self._synced >= number:
                return
            if self._sync_failed:
                raise OSError(f"{self._path} could not be synced")
            added = self._added
            try:
                if self._descriptor is None:
                    raise FileNotFoundError(f"{self._path} was closed")
                _sync(self._descriptor)
                if not self._is_in_place():
                    raise FileNotFoundError(f"{self._path} was moved or deleted")
            except OSError:
                self._sync_failed = True
                raise
            self._synced = added

    def clear(self) -> None:
        """Empty the log, on disk too, since all of it is stored. Raises OSError if that fails."""
        with self._sync_lock:
            descriptor = self._open() if self._descriptor is None else self._descriptor
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
            self._size, self._is_broken, self._sync_failed = 0, False, False
            self._synced = self._cleared = self._added
            if not self._is_in_place():
                self._close()

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        with self._sync_lock:
            self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            if self.is_empty and self._is_in_place():
                self._path.unlink()

    def _is_in_place(self) -> bool:
        return paths.identity(str(self._path)) == self._identity

    def _open(self) -> int:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | machine.PRIVATE, 0o600)
        self._identity = paths.identity(str(self._path))
        machine.sync_names(self._path.parent)
        return self._descriptor


def _parse_line(line: bytes) -> Any:
    """Return the value of a line; None if it is not what was written."""
    check, text = line[:_DIGITS], line[_DIGITS + 1 :]
    try:
        return json.loads(text) if int(check, 16) == zlib.crc32(text) else None
    except ValueError:
        return None
