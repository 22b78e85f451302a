"""Whether there is room to write beside a file, remembered from the moment when there was none."""

import errno
import os
import shutil
from pathlib import Path

from memory_mcp.base.errors import DiskFull
from memory_mcp.storage.duckdb.files import log_of

#: Texts of errors that say that a disk, a quota or the largest file size is used up.
_FULL = ("No space left", "not enough space", "File too large", "quota exceeded")
#: Writing begins again once this much fits in beside the log (bytes): the file takes in the log and moves blocks meanwhile.
_RESERVE = 4 * 1024 * 1024


def says_full(text: str) -> bool:
    """Return whether an error's text says that a disk, a quota or a limit on a file's size is used up."""
    lowered = text.lower()
    return any(sign.lower() in lowered for sign in _FULL)


def disk_full(path: Path | None) -> DiskFull:
    """Return, not raise, the error for a full disk under the database file `path`; None: a store in memory, without numbers.

    The message names the file's folder, the MB free and needed, and a used-up quota where more is free than needed.
    """
    if path is None:
        return DiskFull("there is no room to write", DiskFull.HINT)
    free, needed = _free(path), _needed(path)
    why = "a quota or a limit on the size of files is used up, " if free > needed else ""
    told = f"{why}{_mb(free)} free, {_mb(needed)} needed to write again"
    return DiskFull(f"the disk that holds {path.parent} is full: {told}", DiskFull.HINT)


class Space:
    """Room beside one file. While it is `lacking`, each call of `require` tries whether there is some again."""

    def __init__(self, path: Path | None) -> None:
        """Take it that there is room; `path` None: a store in memory, for which there always is."""
        self._path = path
        self.lacking = False

    def require(self) -> None:
        """Raise DiskFull if there was no room at the last write and is none now, else end `lacking`; nothing in memory."""
        if self.lacking and self._path is not None:
            if not _fits(self._path):
                raise disk_full(self._path)
            self.lacking = False


def _needed(path: Path) -> int:
    """Return how many bytes have to be free before writing begins again: the size of the file's log and 4 MiB."""
    return _size(log_of(path)) + _RESERVE


def _fits(path: Path) -> bool:
    """Return whether the bytes of `_needed` fit beside a file: they are taken in a probe file, which is removed again.

    Free blocks do not show quotas and limits on a file's size; they decide only where room cannot be taken ahead. False
    for any other error of the system.
    """
    probe = path.with_name(path.name + ".probe")
    needed, behind = _needed(path), max(_size(path), _size(log_of(path)))
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, behind, needed)
            elif _free(path) < needed:
                return False
        finally:
            os.close(descriptor)
            probe.unlink(missing_ok=True)
    except OSError as error:
        # Where room cannot be taken ahead, the next write finds out.
        return error.errno in (errno.EOPNOTSUPP, errno.EINVAL) and _free(path) >= needed
    return True


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 where it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _free(path: Path) -> int:
    """Return the free bytes of the disk that holds a file; 0 where that cannot be told."""
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return 0


def _mb(size: int) -> str:
    """Return a number of bytes as text, in MB (10^6) with one decimal."""
    return f"{size / 1_000_000:.1f} MB"
