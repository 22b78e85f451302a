"""Bases of the importers of clients' files: find files below a path, and read files of whole conversations.

An account's export is conversations as one large JSON array, in a file or in the archive it came in. Memory holds one
conversation, never the export: a file's array is read object by object, and the member of an archive is unpacked into a private
temporary file first.
"""

import os
import re
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from memory_mcp.base import foreign_files
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.importers.base import Growth, ImportReport, ReadStep
from memory_mcp.importers.beginnings import is_conversations
from memory_mcp.importers.json_records import Record, iter_records
from memory_mcp.importers.parts import Tally
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft


def find_files(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Return `path` if a file, else the files below it.

    Folder by folder, names sorted in each. A folder that cannot be listed is returned as well, and so is a link, which is
    followed only where it was named: reading them is counted as a failure. Raises SourceUnreadable when there is nothing at
    `path`.
    """
    if path.is_dir():
        return _iter_below(path, endings)
    if not path.exists():
        raise SourceUnreadable(f"there is no file or folder {path}", "Name an existing file or folder.")
    return iter((path.resolve() if path.is_symlink() else path,))


def _iter_below(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    closed: list[Path] = []

    def note(error: OSError) -> None:
        closed.append(Path(error.filename))

    for folder, folders, names in os.walk(path, onerror=note):
        folders.sort()
        yield from closed
        closed.clear()
        for name in sorted(names):
            if name.endswith(endings):
                yield Path(folder, name)
    yield from closed


def editor_data() -> Path:
    """Return the folder of the VS Code family's data."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


class ClientImporter:
    """Base of importers whose class variables describe the client's files."""

    #: Variables of the environment that may name the client's folder, else that folder below the user's home.
    home_variables: ClassVar[tuple[str, ...]] = ()
    home: ClassVar[str] = ""
    #: The folders in it that hold files to read; none for a general form.
    folders: ClassVar[tuple[str, ...]] = ()
    #: How the names of the client's files end.
    endings: ClassVar[tuple[str, ...]] = (".jsonl",)

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings

    def default_paths(self) -> tuple[Path, ...]:
        """Return the usual folders of the client's files."""
        named = next(filter(None, map(os.environ.get, self.home_variables)), None)
        home = Path(named or Path.home() / self.home).expanduser()
        return tuple(home / folder for folder in self.folders)

    def iter_files(self, path: Path) -> Iterator[Path]:
        """Return the files that `wants_file` takes, or `path` itself.

        A folder that cannot be listed is returned as well. Raises SourceUnreadable when there is nothing at `path`.
        """
        paths = find_files(path, self.endings)
        return (f for f in paths if self.wants_file(f) or f.is_dir()) if path.is_dir() else paths

    def wants_file(self, file: Path) -> bool:
        """Return whether a file with such an ending is the client's."""
        del file
        return True


class DocumentImporter(ABC, ClientImporter):
    """Base of importers of files that hold whole conversations."""

    name: str
    title: str
    growth = Growth.REWRITTEN
    #: Where a conversation has its messages, and what they are there: a list, or a mapping.
    messages_key: ClassVar[str]
    messages_type: ClassVar[type] = list
    #: What a record without them is called.
    skip_reason: ClassVar[str]

    def iter_conversations(self, file: Path) -> Iterator[Record]:
        """Yield a file's conversations, each with its end as `offset`."""
        return iter_records(file)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each conversation, from the file's start."""
        del offset  # what is written again as a whole is read from its start
        tally = Tally(report, file)
        for record in tally.iter_valid(self.iter_conversations(file)):
            if isinstance(record.value.get(self.messages_key), self.messages_type):
                yield ReadStep(tuple(self.convert_conversation(record, file, tally)), record.offset)
            else:
                tally.skip_record(self.skip_reason, record.line, record.quote)
                yield ReadStep((), record.offset)

    @abstractmethod
    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield a conversation's events in order; count its messages in `tally`."""
        ...


def _list_members(file: Path) -> list[str]:
    """Return an archive's members with conversations; raises OSError without any."""
    with foreign_files.Zip(file) as archive:
        names = [name for name in archive.names() if is_conversations(name)]
    if not names:
        raise OSError("the archive holds no conversations.json")
    return sorted(names)


class ExportImporter(DocumentImporter):
    """Base of importers of account exports."""

    beginning_pattern: ClassVar[re.Pattern[bytes]]
    endings = (".json", ".zip")

    def wants_file(self, file: Path) -> bool:
        with suppress(OSError):
            return bool(_list_members(file)) if file.suffix == ".zip" else is_conversations(file.name)
        return False

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        return file.suffix in (".json", ".zip") and self.beginning_pattern.match(beginning) is not None

    def iter_conversations(self, file: Path) -> Iterator[Record]:
        """Yield an export's conversations; `offset` is in the file's bytes.

        Members of an archive are unpacked into a temporary folder one by one. Raises OSError when the file cannot be read, an
        archive holds no conversations, or there is no room to unpack.
        """
        if not foreign_files.is_zip(file):
            yield from (replace(record, offset=record.bytes_read) for record in iter_records(file))
            return
        with tempfile.TemporaryDirectory(prefix="memory-mcp-") as private:
            members = _list_members(file)
            for number, name in enumerate(members):
                loose = Path(private) / f"{number}.json"
                _unpack_member(file, name, loose)
                loose_size = max(1, loose.stat().st_size)
                for record in iter_records(loose):
                    reached = int((number + record.bytes_read / loose_size) / len(members) * file.stat().st_size)
                    yield replace(record, bytes_read=reached, offset=reached)
                loose.unlink()


def _unpack_member(file: Path, name: str, loose: Path) -> None:
    """Write a member to a file; raises OSError without room."""
    with foreign_files.Zip(file) as archive:
        size = archive.size(name)
        if size > shutil.disk_usage(loose.parent).free:
            raise OSError(f"there is no room to unpack {name} ({size} bytes) in {tempfile.gettempdir()}")
        with loose.open("wb") as sink:
            archive.unpack(name, sink)
