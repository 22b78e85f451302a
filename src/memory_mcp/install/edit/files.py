"""Bytes of somebody else's file, read and replaced whole.

Invariants
1. A file is replaced in one step by one that was written beside it, or not at all; its mode stays, a link stays a link.
2. A file that changed since it was read is not replaced.
"""

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.errors import InstallRefused

_MARK = "\ufeff"
#: More than any client's configuration; Claude Code's grows by some MB with its projects.
_MOST_BYTES = 64 * 1024 * 1024


class Changed(Exception):
    """Somebody else wrote the file in between."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds; None: there is none."""

    path: Path
    data: bytes | None

    @property
    def mark(self) -> str:
        """The byte order mark that it begins with, if it does."""
        return _MARK if (self.data or b"").startswith(_MARK.encode()) else ""

    @property
    def text(self) -> str:
        """As text, without the mark; InstallRefused when it is not UTF-8."""
        try:
            return (self.data or b"").decode("utf-8").removeprefix(_MARK)
        except UnicodeDecodeError as error:
            raise InstallRefused(f"{self.path} is not UTF-8 text ({error.reason} at byte {error.start})", SAVE_AS_UTF8) from None

    def encoded(self, text: str) -> bytes:
        """Other text as this file would hold it."""
        return (self.mark + text).encode("utf-8")


SAVE_AS_UTF8 = "Save it as UTF-8 and try again."


def read(path: Path) -> Content:
    """What is there now; InstallRefused when it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise InstallRefused(f"{path} is not a file")
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise InstallRefused(f"{path} is too large to be a configuration")
        return Content(path, path.read_bytes() if path.is_file() else None)
    except OSError as error:
        raise InstallRefused(f"{path} cannot be read: {error.strerror or error}") from error


def writable(path: Path) -> None:
    """InstallRefused when its owner does not want it changed, which a replaced file would not ask."""
    real = Path(os.path.realpath(path))
    if real.exists() and not (real.stat().st_mode & stat.S_IWUSR and os.access(real, os.W_OK)):
        raise InstallRefused(f"{path} is read-only")
    place = next(one for one in real.parents if one.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise InstallRefused(f"nothing can be written in {place}")


def missing_folders(path: Path) -> list[Path]:
    """The folders that writing it would make, the innermost first."""
    return [one for one in Path(os.path.realpath(path)).parents if not one.exists()]


def make_folder(folder: Path) -> list[Path]:
    """Make a folder and those around it; those that this process made, and no other in the same moment, the innermost first."""
    made: list[Path] = []
    for one in [*reversed(missing_folders(folder)), Path(os.path.realpath(folder))]:
        try:
            one.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except FileNotFoundError:
            # Another process removed the one around it in between.
            return [*make_folder(folder), *made]
        made.insert(0, one)
    return made


def replace(path: Path, was: bytes | None, data: bytes) -> None:
    """Write `data` where `was` is now, through links; Changed when that is not there any more; OSError."""
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    known = real.stat() if real.exists() else None
    aside = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if known is not None:
            if known.st_uid != aside.stat().st_uid:
                # Written by root for somebody else, it stays theirs.
                os.chown(aside, known.st_uid, known.st_gid)
            aside.chmod(stat.S_IMODE(known.st_mode))
        if read(path).data != was:
            raise Changed
        os.replace(aside, real)
    finally:
        with contextlib.suppress(FileNotFoundError):
            aside.unlink()


def remove(path: Path, was: bytes) -> None:
    """Take a file away that still holds `was`; Changed, OSError."""
    if read(path).data != was:
        raise Changed
    Path(os.path.realpath(path)).unlink()


def remove_folders(folders: list[Path]) -> None:
    """Take away those that are empty, in order."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
