"""Records of the changes made in other programs' files, and copies of those files, so that uninstall can restore them.

One JSON document next to the settings file, and a copy of every file as it was before the first change. Both may hold
secrets, so only this user can read them.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.edit import files

_VERSION = 1


@dataclass(slots=True)
class Done:
    """One edit in a file."""

    client: str
    level: str
    #: "key", "item" or "file".
    kind: str
    format: str = ""
    keys: list[str] = field(default_factory=list)
    value: Any = None
    #: What it replaced, as text (JSON) or value (TOML); None: nothing.
    had: Any = None
    #: How many objects around it were made for it.
    made: int = 0

    def same_place(self, other: "Done") -> bool:
        """Whether kind and keys are the same; for array items also the client."""
        return (self.kind, self.keys) == (other.kind, other.keys) and (self.kind != "item" or self.client == other.client)


@dataclass(slots=True)
class Record:
    """The changes in one file; digests are those of `digest`."""

    #: Digest of the file before the first change; "": there was none.
    before: str
    #: Digest after the last change.
    after: str = ""
    #: Whether only we changed it since, so that its first bytes can be restored.
    exact: bool = True
    #: Folders that were made for it, the innermost first.
    folders: list[str] = field(default_factory=list)
    edits: list[Done] = field(default_factory=list)


class State:
    """The records by file; `save` writes them."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or Path(paths.install_dir())
        self._file = self.directory / "state.json"
        self.records: dict[str, Record] = {}
        #: Folders that were made for all this, the innermost first.
        self._folders: list[str] = []
        if self._file.exists():
            self._load()

    def _load(self) -> None:
        try:
            content = json.loads(foreign_files.read_file(self._file))
            if content["v"] != _VERSION:
                raise InstallRefused(f"{self._file} was written by another version of memory-mcp")
            self._folders = content["folders"]
            for path, fields in content["files"].items():
                edits = [Done(**edit) for edit in fields.pop("edits")]
                self.records[path] = Record(**fields, edits=edits)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "Move it away: uninstall then goes by what it recognises."
            raise InstallRefused(f"{self._file} cannot be read: {error}", hint) from error

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the lock of the state, its records read again.

        Raises filelock.Timeout after 60 seconds, InstallRefused if the state cannot be read. Without a record the files
        of the state are removed.
        """
        from filelock import FileLock

        lock = FileLock(self.directory / "lock", timeout=60)
        new_folders: list[str] = []
        while not lock.is_locked:
            new_folders = [*(str(folder) for folder in files.make_folder(self.directory)), *new_folders]
            # Another process may have uninstalled everything and removed the directory in between.
            with contextlib.suppress(FileNotFoundError):
                lock.acquire()
        try:
            self.records.clear()
            self._folders = []
            if self._file.exists():
                self._load()
            # Of several that begin at once another may have been the first to write, or have made some of the folders.
            missed = [folder for folder in new_folders if folder not in self._folders]
            self._folders = sorted([*self._folders, *missed], key=len, reverse=True)
            if missed and self.records:
                self.save()
            yield
        finally:
            if not self.records:
                # While it is held, or it might be another's by now; where open files cannot be removed, its release does it.
                with contextlib.suppress(OSError):
                    Path(lock.lock_file).unlink()
            lock.release()
            if not self.records:
                with contextlib.suppress(OSError):
                    (self.directory / "backups").rmdir()
                files.remove_folders([Path(folder) for folder in self._folders])

    def save(self) -> None:
        """Write all records that have edits and forget the others.

        Raises OSError, or Changed if another process wrote the file in between.
        """
        self.records = {path: record for path, record in self.records.items() if record.edits}
        if not self.records:
            self._file.unlink(missing_ok=True)
            return
        data = {"v": _VERSION, "folders": self._folders, "files": {path: asdict(record) for path, record in self.records.items()}}
        was = foreign_files.read_file(self._file) if self._file.exists() else None
        files.replace(self._file, was, json.dumps(data, indent=1, default=str).encode("ascii"))

    def write_backup(self, path: Path, data: bytes) -> Path:
        """Write a copy of a file's `data`; return its path."""
        copy = self.backup(path)
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.replace(copy, foreign_files.read_file(copy) if copy.exists() else None, data)
        return copy

    def read_backup(self, path: Path, record: Record) -> bytes | None:
        """Return the copy of a file's first content, None without one."""
        copy = self.backup(path)
        data = foreign_files.read_file(copy) if copy.is_file() else None
        return data if data is not None and digest(data) == record.before else None

    def backup(self, path: Path) -> Path:
        """Return the path of a file's copy, existing or not."""
        return self.directory / "backups" / f"{paths.name_of(str(path))}-{path.name}"


def digest(data: bytes | None) -> str:
    """Return the SHA-256 of a file's bytes in hex."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
