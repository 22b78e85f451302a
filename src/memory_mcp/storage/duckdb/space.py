"""Whether there is room to write, remembered since there was none."""

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
    """Return whether an error says that a disk or a quota is used up."""
    lowered = text.lower()
    return any(sign.lower() in lowered for sign in _FULL)


def disk_full(path: Path | None) -> DiskFull:
    """Return the error for a full disk, with free and needed MB."""
    if path is None:
        return DiskFull("there is no room to write", DiskFull.HINT)
    free, needed = _free(path), _needed(path)
    why = "a quota or a limit on the size of files is used up, " if free > needed else ""
    sizes = f"{why}{_mb(free)} free, {_mb(needed)} needed to write again"
    return DiskFull(f"the disk that holds {path.parent} is full: {sizes}", DiskFull.HINT)


class Space:
    """Room next to one file; while `lacking`, each `require` tries again."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lacking = False

    def require(self) -> None:
        """Raise DiskFull if there was no room and is none now."""
        if self.lacking and self._path is not None:
            if not _fits(self._path):
                raise disk_full(self._path)
            self.lacking = False


def _needed(path: Path) -> int:
    """Return the bytes needed to write again: the log's and 4 MiB."""
    return _size(log_of(path)) + _RESERVE


def _fits(path: Path) -> bool:
    """Return whether the needed bytes fit, by a probe file.

    Free blocks do not show quotas and limits on a file's size; they decide only where room cannot be taken ahead.
    """
    probe = path.with_name(path.name + ".probe")
    needed, offset = _needed(path), max(_size(path), _size(log_of(path)))
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, offset, needed)
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
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return 0


def _mb(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
