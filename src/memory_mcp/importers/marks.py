"""High-water marks: how far each file was read, and whether it is still the same file."""

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.base import Growth

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file was read, stored as JSON."""

    offset: int
    #: The file's stamp (see `stamp_of`) when it was read to its end; until then the offset.
    size: int
    #: Hash of the file's beginning, and how many bytes that was.
    head: str
    head_bytes: int

    @classmethod
    def from_text(cls, text: str) -> "Mark | None":
        """Return the mark of a stored text; None for another text."""
        try:
            fields = json.loads(text)
            return cls(int(fields["offset"]), int(fields["size"]), str(fields["head"]), int(fields["head_bytes"]))
        except (ValueError, KeyError, TypeError):
            return None

    def to_text(self) -> str:
        """Return the text to store."""
        fields = {"offset": self.offset, "size": self.size, "head": self.head, "head_bytes": self.head_bytes}
        return json.dumps(fields, separators=(",", ":"))

    def with_offset(self, offset: int) -> "Mark":
        """Return the mark of the file read up to `offset`."""
        return replace(self, offset=offset, size=offset)

    def with_end(self, offset: int, stamp: int) -> "Mark":
        """Return the mark of the file read to its end."""
        return replace(self, offset=offset, size=stamp)


def mark_name(importer: str, path: Path) -> str:
    """Return the name under which a file's mark is stored."""
    return f"import:{importer}:{_hash_bytes(str(path.absolute()).encode('utf-8', 'surrogateescape'))}"


def stamp_of(path: Path, growth: Growth) -> tuple[int, int]:
    """Return a file's size, and a number that changes with its content.

    The number is the size of what only grows, else when the file, or the journal that a database writes next to itself, was
    written last (ns). Raises OSError when the file is missing.
    """
    state = path.stat()
    if growth is Growth.APPENDED:
        return state.st_size, state.st_size
    written = state.st_mtime_ns
    if growth is Growth.DATABASE:
        with suppress(OSError):
            written = max(written, path.with_name(f"{path.name}-wal").stat().st_mtime_ns)
    return state.st_size, written


def find_start(path: Path, stamp: int, last_mark: Mark | None, growth: Growth = Growth.APPENDED) -> Mark | None:
    """Return where reading begins; None if nothing changed since `last_mark`.

    A file of lines that shrank or begins differently is read from its start, and so is one that is rewritten as a whole; a
    database continues. Raises OSError when the file cannot be read.
    """
    with foreign_files.open_file(path) as stream:
        beginning = stream.read(_HEAD)
    fresh = Mark(0, 0, _hash_bytes(beginning), len(beginning))
    if last_mark is None:
        return fresh
    if growth is Growth.APPENDED:
        if stamp < last_mark.size or _hash_bytes(beginning[: last_mark.head_bytes]) != last_mark.head:
            return fresh
        return None if stamp == last_mark.size else fresh.with_offset(last_mark.offset)
    if stamp == last_mark.size:
        return None
    return fresh.with_offset(last_mark.offset) if growth is Growth.DATABASE else fresh


def _hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
