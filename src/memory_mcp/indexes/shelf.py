"""Parts where they lie: read from the folder of an index, written into it under names of their own."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from memory_mcp.errors import IndexUnreadable
from memory_mcp.indexes.files import Checked
from memory_mcp.indexes.generation import Home, PartEntry
from memory_mcp.indexes.part import Kind, LivePart, Part, read_part, write_part

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Built:
    """A part that is complete on disk and named by no manifest yet."""

    name: str
    files: Mapping[str, Checked]


class Shelf:
    """The parts of one folder."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._made = 0

    def read(self, kind: Kind[B], name: str, files: Mapping[str, Checked], trusted: bool = False) -> Part[B]:
        """A part; IndexUnreadable when its files are not what they were, which is not looked at where they are trusted."""
        return read_part(kind, self._home.parts / name, dict(files), self._home.directory, trusted)

    def living(self, kind: Kind[B], entry: PartEntry, trusted: bool) -> LivePart[B]:
        """A part as a manifest names it, without its units that do not count."""
        live = LivePart(self.read(kind, entry.name, entry.files, trusted))
        if any(not 0 <= place < len(live.part.units) for place in entry.dead):
            raise IndexUnreadable("the manifest of the index contradicts a part")
        return live.without(np.array(entry.dead, dtype=np.int64))

    def write(self, kind: Kind[B], part: Part[B], name: str) -> Part[B]:
        """A part as it is read back: from a file of its own, out of this process's memory."""
        return self.read(kind, name, write_part(kind, part, self._home.parts / name))

    def new_name(self, prefix: str) -> str:
        """A name that no part has."""
        self._made += 1
        return f"{prefix}{time.time_ns():x}-{self._made}"

    @contextmanager
    def making(self, prefix: str) -> Iterator[str]:
        """A new name that no sweep touches while the block runs."""
        name = self.new_name(prefix)
        token = name.partition("-")[0]
        self._home.building.add(token)
        try:
            yield name
        finally:
            self._home.building.discard(token)


def entry_of(live: LivePart[B]) -> PartEntry:
    """A part as a manifest names it."""
    return PartEntry(live.part.name, live.part.files or {}, tuple(live.dead()))
