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
from pathlib import Path, PurePosixPath
from typing import ClassVar

from memory_mcp import foreign_files
from memory_mcp.ingest.lines import Record, iter_records
from memory_mcp.ingest.whole import WholeImporter

#: Newer exports are cut into conversations-000.json and so on.
_NAME = re.compile(r"conversations(?:[-_]\d+)?\.json\Z")
#: A member's local header: mark, version, flags, method, time, date, checksum, size packed and unpacked, two lengths.
_HEADER = b"PK\x03\x04"
_HEADER_SIZE = 30
_STREAMED = 0x08
_DEFLATED = 8


def beginning_of(beginning: bytes) -> bytes:
    """Return the first bytes of an export's conversations, unpacked; `beginning` itself if it is of no archive.

    b"" for an archive of anything else.
    """
    at = 0
    while beginning[at : at + 4] == _HEADER and len(beginning) >= at + _HEADER_SIZE:
        flags, method = (int.from_bytes(beginning[at + n : at + n + 2], "little") for n in (6, 8))
        size, named, extra = (int.from_bytes(beginning[at + n : at + n + w], "little") for n, w in ((18, 4), (26, 2), (28, 2)))
        body = at + _HEADER_SIZE + named + extra
        name = beginning[at + _HEADER_SIZE : at + _HEADER_SIZE + named].decode("utf-8", "replace")
        if _NAME.match(PurePosixPath(name).name):
            return _inflated(beginning[body:])[0] if method == _DEFLATED else beginning[body:]
        if flags & _STREAMED and not size:
            # Its size follows it: only unpacking finds its end.
            rest = _inflated(beginning[body:])[1] if method == _DEFLATED else b""
            at = beginning.find(_HEADER, len(beginning) - len(rest)) if rest else -1
        else:
            at = body + size
        if at < 0:
            break
    return b"" if beginning.startswith(_HEADER) else beginning


def _inflated(packed: bytes) -> tuple[bytes, bytes]:
    """Return the decompressed part of a beginning (at most 16 times its length), and the bytes after it.

    (b"", b"") where it cannot be decompressed.
    """
    # Not more than the beginning of a file has: an archive may claim to hold anything.
    return foreign_files.unpack_beginning(packed, 16 * len(packed))


def _members(file: Path) -> list[str]:
    """Return the names of an archive's members with conversations, sorted.

    Raises OSError when there are none, or it cannot be read.
    """
    with foreign_files.Zip(file) as archive:
        names = [name for name in archive.names() if _NAME.match(PurePosixPath(name).name)]
    if not names:
        raise OSError("the archive holds no conversations.json")
    return sorted(names)


class ExportImporter(WholeImporter):
    """Base of importers of such exports; `own` matches the beginning of one, unpacked."""

    own: ClassVar[re.Pattern[bytes]]
    endings = (".json", ".zip")

    def default_paths(self) -> tuple[Path, ...]:
        """Return no path: an export may be downloaded anywhere."""
        return ()

    def wants(self, file: Path) -> bool:
        """Return whether a file is named as an export's, or is an archive with one; False for one that cannot be read."""
        with suppress(OSError):
            return bool(_members(file)) if file.suffix == ".zip" else _NAME.match(file.name) is not None
        return False

    def recognises(self, file: Path, beginning: bytes) -> bool:
        """Return whether a `.json` or `.zip` file begins as an export of this service does, once unpacked."""
        return file.suffix in (".json", ".zip") and self.own.match(beginning_of(beginning)) is not None

    def records(self, file: Path) -> Iterator[Record]:
        """Yield the conversations of an export, of an archive member by member; `offset` is in bytes of the file itself.

        Members of an archive are unpacked into a temporary folder one by one. Raises OSError when the file cannot be read,
        an archive holds no conversations, or there is no room to unpack.
        """
        if not foreign_files.is_zip(file):
            yield from (replace(record, offset=record.reached) for record in iter_records(file))
            return
        with tempfile.TemporaryDirectory(prefix="memory-mcp-") as private:
            members = _members(file)
            for number, name in enumerate(members):
                loose = Path(private) / f"{number}.json"
                _unpack(file, name, loose)
                whole = max(1, loose.stat().st_size)
                for record in iter_records(loose):
                    reached = int((number + record.reached / whole) / len(members) * file.stat().st_size)
                    yield replace(record, reached=reached, offset=reached)
                loose.unlink()


def _unpack(file: Path, name: str, loose: Path) -> None:
    """Write a member of an archive to a file of its own. Raises OSError when it cannot be read, or there is no room for it."""
    with foreign_files.Zip(file) as archive:
        size = archive.size(name)
        if size > shutil.disk_usage(loose.parent).free:
            raise OSError(f"there is no room to unpack {name} ({size} bytes) in {tempfile.gettempdir()}")
        with loose.open("wb") as sink:
            archive.unpack(name, sink)
