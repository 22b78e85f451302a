"""Bases of the importers of clients' files: find files below a path, and read files of whole conversations."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.ingest.base import Growth, ImportReport, ReadStep
from memory_mcp.ingest.json_records import Record, iter_records
from memory_mcp.ingest.parts import Tally
from memory_mcp.ingest.settings import IngestSettings
from memory_mcp.model.event import EventDraft


def find_files(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Return `path` when it is a file, or the one that it links to; else the files below it with one of `endings`.

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
    """Yield the files below a folder with one of the endings, sorted folder by folder; a folder that cannot be listed itself."""
    closed: list[Path] = []

    def note(error: OSError) -> None:
        """Add the folder that could not be listed to `closed`, to be yielded."""
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
    """Return the folder in which editors of the VS Code family keep their data on this platform; existing or not."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


class ClientImporter:
    """Base of importers: keeps the settings, and finds files by their names."""

    #: How the names of the client's files end.
    endings: ClassVar[tuple[str, ...]] = (".jsonl",)

    def __init__(self, settings: IngestSettings) -> None:
        """Keep the settings, which say whether the model's thinking is read."""
        self._settings = settings

    def iter_files(self, path: Path) -> Iterator[Path]:
        """Return the files below a folder with one of `endings` that `wants` takes, in a fixed order, or `path` itself if a file.

        A folder that cannot be listed is returned as well. Raises SourceUnreadable when there is nothing at `path`.
        """
        paths = find_files(path, self.endings)
        return (f for f in paths if self.wants_file(f) or f.is_dir()) if path.is_dir() else paths

    def wants_file(self, file: Path) -> bool:
        """Return whether a file with one of `endings` is the client's, by its name and place: any, unless overridden."""
        del file
        return True


class DocumentImporter(ABC, ClientImporter):
    """Base of such importers; see `Importer`."""

    name: str
    title: str
    growth = Growth.REWRITTEN
    #: Where a conversation has its messages, and what they are there: a list, or a mapping.
    messages_key: ClassVar[str]
    messages_type: ClassVar[type] = list
    #: What a record without them is called.
    skip_reason: ClassVar[str]

    def iter_conversations(self, file: Path) -> Iterator[Record]:
        """Yield the conversations of a file, each with its end in bytes as `offset`; what is no JSON object with its error."""
        return iter_records(file)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield the events of each conversation in one step, from the file's start; others are skipped. May raise OSError."""
        del offset  # what is written anew as a whole is read from its start
        tally = Tally(report, file)
        for record in tally.iter_valid(self.iter_conversations(file)):
            if isinstance(record.value.get(self.messages_key), self.messages_type):
                yield ReadStep(tuple(self.convert_conversation(record, file, tally)), record.offset)
            else:
                tally.skip_record(self.skip_reason, record.line, record.quote)
                yield ReadStep((), record.offset)

    @abstractmethod
    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield the events of one conversation, in order; count its messages in `tally`, those without one with the reason."""
        ...
