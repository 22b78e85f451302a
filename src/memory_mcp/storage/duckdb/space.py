"""Whether there is room to write, remembered since there was none.

Change here: what happens on a full disk.
"""

import errno
import os
import shutil
from pathlib import Path

from memory_mcp.base.errors import DiskFull
from memory_mcp.storage.duckdb.files import log_path

#: Texts of errors that say that a disk, a quota or the largest file size is used up.
_FULL = ("No space left", "not enough space", "File too large", "quota exceeded")
#: Writing begins again once this much fits in beside the log (bytes): the file takes in the log and moves blocks meanwhile.
_RESERVE = 4 * 1024 * 1024


def is_full_error(text: str) -> bool:
    """Return whether an error says that a disk or a quota is used up."""
    lowered = text.lower()
    return any(sign.lower() in lowered for sign in _FULL)


def make_disk_full(path: Path | None) -> DiskFull:
    """Return the error for a full disk, with free and needed MB."""
    if path is None:
        return DiskFull("there is no room to write", DiskFull.HINT)
    free, needed = _free_bytes(path), _needed_bytes(path)
    why = "a quota or a limit on the size of files is used up, " if free > needed else ""
    sizes = f"{why}{_format_mb(free)} free, {_format_mb(needed)} needed to write again"
    return DiskFull(f"the disk that holds {path.parent} is full: {sizes}", DiskFull.HINT)


class Space:
    """Room next to one file; while `lacking`, each `require` tries again."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.is_lacking = False

    def require_space(self) -> None:
        """Raise DiskFull if there was no room and is none now."""
        if self.is_lacking and self._path is not None:
            if not _has_room(self._path):
                raise make_disk_full(self._path)
            self.is_lacking = False


def _needed_bytes(path: Path) -> int:
    """Return the bytes needed to write again: the log's and 4 MiB."""
    return _file_size(log_path(path)) + _RESERVE


def _has_room(path: Path) -> bool:
    """Return whether the needed bytes fit, by a probe file.

    Free blocks do not show quotas and limits on a file's size; they decide only where room cannot be taken ahead.
    """
    probe = path.with_name(path.name + ".probe")
    needed, offset = _needed_bytes(path), max(_file_size(path), _file_size(log_path(path)))
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, offset, needed)
            elif _free_bytes(path) < needed:
                return False
        finally:
            os.close(descriptor)
            probe.unlink(missing_ok=True)
    except OSError as error:
        # Where room cannot be taken ahead, the next write finds out.
        return error.errno in (errno.EOPNOTSUPP, errno.EINVAL) and _free_bytes(path) >= needed
    return True


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _free_bytes(path: Path) -> int:
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return 0


def _format_mb(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
