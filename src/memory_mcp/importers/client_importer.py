"""Bases of the importers of clients' files: find files below a path, and read files of whole conversations."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.importers.base import Growth, ImportReport, ReadStep
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
