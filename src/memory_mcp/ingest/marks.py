"""High-water marks: how far each file was read, and whether it is still the same file."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file was read: a position in the store's own marks, as JSON."""

    offset: int
    #: The file's size when it was read to its end; until then, the offset.
    size: int
    #: Hash of the file's beginning, and how many bytes that was.
    head: str
    head_bytes: int

    @classmethod
    def parse(cls, text: str) -> "Mark | None":
        """The mark behind a stored text; None when it is none."""
        try:
            told = json.loads(text)
            return cls(int(told["offset"]), int(told["size"]), str(told["head"]), int(told["head_bytes"]))
        except (ValueError, KeyError, TypeError):
            return None

    def dump(self) -> str:
        """The text to store."""
        told = {"offset": self.offset, "size": self.size, "head": self.head, "head_bytes": self.head_bytes}
        return json.dumps(told, separators=(",", ":"))

    def at(self, offset: int) -> "Mark":
        """The same file, read up to `offset`."""
        return replace(self, offset=offset, size=offset)

    def ended(self, offset: int, size: int) -> "Mark":
        """The same file, read to its end."""
        return replace(self, offset=offset, size=size)


def mark_name(importer: str, path: Path) -> str:
    """The name a file's mark is stored under."""
    return f"import:{importer}:{_hash(str(path.absolute()).encode('utf-8', 'surrogateescape'))}"


def find_start(path: Path, size: int, known: Mark | None) -> Mark | None:
    """Where reading of a file begins; None when nothing changed. OSError when it cannot be read.

    A file that shrank, or whose beginning is another, begins anew.
    """
    with path.open("rb") as stream:
        beginning = stream.read(_HEAD)
    fresh = Mark(0, 0, _hash(beginning), len(beginning))
    if known is None or size < known.size or _hash(beginning[: known.head_bytes]) != known.head:
        return fresh
    return None if size == known.size else fresh.at(known.offset)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
