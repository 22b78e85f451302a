"""Account exports of chat services: conversations as one large JSON array, in a file or in the archive it came in.

Memory holds one conversation, never the export: a file's array is read object by object, and the member of an archive is
unpacked into a private temporary file first.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from memory_mcp.base import foreign_files
from memory_mcp.importers.beginnings import is_conversations
from memory_mcp.importers.client_importer import DocumentImporter
from memory_mcp.importers.json_records import Record, iter_records


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
