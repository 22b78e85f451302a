"""Reads and replaces other programs' files whole, as bytes.

Invariants
1. A file is replaced in one step by one that was written next to it, or not at all; its mode stays, a link stays a link.
2. A file that changed since it was read is not replaced.
"""

import os
import secrets
import stat
from pathlib import Path

from memory_mcp.base import foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InstallRefused

_MARK = "\ufeff"
#: Permissions that a file of a project may have of its folder's.
_SHARED = 0o664
#: More than any client's configuration; Claude Code's grows by some MB with its projects.
_MOST_BYTES = 64 * 1024 * 1024


class Changed(Exception):
    """Another program wrote the file since it was read."""


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file; None where there is no file."""

    path: Path
    data: bytes | None

    @property
    def mark(self) -> str:
        """The byte order mark that the file begins with."""
        return _MARK if (self.data or b"").startswith(_MARK.encode()) else ""

    @property
    def text(self) -> str:
        """The text without the byte order mark, "" for no file.

        Raises InstallRefused when it is not UTF-8.
        """
        try:
            return (self.data or b"").decode("utf-8").removeprefix(_MARK)
        except UnicodeDecodeError as error:
            raise InstallRefused(f"{self.path} is not UTF-8 text ({error.reason} at byte {error.start})", SAVE_AS_UTF8) from None

    def encode_text(self, text: str) -> bytes:
        """Return a text as UTF-8, with the file's byte order mark."""
        return (self.mark + text).encode("utf-8")


SAVE_AS_UTF8 = "Save it as UTF-8 and try again."


def read_content(path: Path) -> Content:
    """Return the content of a file; data None for no file.

    Raises InstallRefused if it cannot be read, is another thing than a file, or has more than 64 MiB.
    """
    try:
        if path.exists() and not path.is_file():
            raise InstallRefused(f"{path} is not a file")
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise InstallRefused(f"{path} is too large to be a configuration")
        return Content(path, foreign_files.read_file(path.resolve()) if path.is_file() else None)
    except OSError as error:
        raise InstallRefused(f"{path} cannot be read: {error.strerror or error}") from error


def writable(path: Path) -> None:
    """Raise InstallRefused if the file or its folder is read-only.

    A file's mode is checked too, since replacing the file would ignore it.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not (real.stat().st_mode & stat.S_IWUSR and os.access(real, os.W_OK)):
        raise InstallRefused(f"{path} is read-only")
    folder = next(parent for parent in real.parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InstallRefused(f"nothing can be written in {folder}")


def missing_folders(path: Path) -> list[Path]:
    """Return the folders that writing would make, the innermost first."""
    return [parent for parent in Path(os.path.realpath(path)).parents if not parent.exists()]


def make_folder(folder: Path) -> list[Path]:
    """Make a folder with its missing parents, for this user alone.

    Returns those that this call made, the innermost first.
    """
    new_folders: list[Path] = []
    for path in [*reversed(missing_folders(folder)), Path(os.path.realpath(folder))]:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except FileNotFoundError:
            # Another process removed the one around it in between.
            return [*make_folder(folder), *new_folders]
        new_folders.insert(0, path)
    return new_folders


def replace(path: Path, was: bytes | None, data: bytes, *, is_shared: bool = False) -> None:
    """Replace the file by `data` in one step; links, mode and owner stay.

    A new file, and its new folders, are this user's alone; where it `is_shared`, of whom the folder around them is. Our umask
    says nothing of that, since it keeps the memory's own files private. Raises Changed, with nothing written, if the file does
    not hold `was` (None: it should not exist).
    """
    real = Path(os.path.realpath(path))
    new_folders = missing_folders(path)
    real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_shared:
        shared_mode = stat.S_IMODE(real.parents[len(new_folders)].stat().st_mode) & (_SHARED | 0o111)
        for folder in new_folders:
            folder.chmod(shared_mode)
    old_state = real.stat() if real.exists() else None
    aside = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    with machine.Aside(real, aside) as file:
        file.write(data)
        # Before the comparison, so that nothing that takes its time comes after it.
        machine.on_disk(file)
        if old_state is not None:
            if old_state.st_uid != aside.stat().st_uid:
                # A file written by root keeps its owner.
                os.chown(aside, old_state.st_uid, old_state.st_gid)
            aside.chmod(stat.S_IMODE(old_state.st_mode))
        elif is_shared:
            aside.chmod(shared_mode & _SHARED)
        if read_content(path).data != was:
            raise Changed


def remove(path: Path, was: bytes) -> None:
    """Remove the file; raise Changed if it does not hold `was`."""
    if read_content(path).data != was:
        raise Changed
    Path(os.path.realpath(path)).unlink()


def remove_folders(folders: list[Path]) -> None:
    """Remove the folders, up to the first that cannot be removed."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
