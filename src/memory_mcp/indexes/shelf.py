"""Read and write parts in the folder of an index, under new names."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.files import Checked
from memory_mcp.indexes.generation import Home, PartEntry
from memory_mcp.indexes.part import Kind, LivePart, Part, read_part, write_part

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Built:
    """A part on disk that no manifest names yet."""

    name: str
    files: Mapping[str, Checked]


class Shelf:
    """The parts in one folder."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._made = 0

    def read(self, kind: Kind[B], name: str, files: Mapping[str, Checked], trusted: bool = False) -> Part[B]:
        """Return a part; raises IndexUnreadable when its files have changed, which is not checked if `trusted`."""
        return read_part(kind, self._home.parts / name, dict(files), self._home.directory, trusted)

    def living(self, kind: Kind[B], entry: PartEntry, trusted: bool) -> LivePart[B]:
        """Return a part of a manifest without its dead units.

        Raises IndexUnreadable when its files have changed, which is not checked if `trusted`, or the manifest does not fit it.
        """
        live = LivePart(self.read(kind, entry.name, entry.files, trusted))
        if any(not 0 <= index < len(live.part.units) for index in entry.dead):
            raise IndexUnreadable("the manifest of the index contradicts a part")
        return live.without(np.array(entry.dead, dtype=np.int64))

    def write(self, kind: Kind[B], part: Part[B], name: str) -> Part[B]:
        """Write a part and return it as read back, so that it leaves this process's memory. Raises OSError."""
        return self.read(kind, name, write_part(kind, part, self._home.parts / name))

    def new_name(self, prefix: str) -> str:
        """Return an unused name of a part: the prefix, the time and a number."""
        self._made += 1
        return f"{prefix}{time.time_ns():x}-{self._made}"

    @contextmanager
    def making(self, prefix: str) -> Iterator[str]:
        """Yield a new name of a part, which sweeps spare inside the block only. Creates nothing."""
        name = self.new_name(prefix)
        token = name.partition("-")[0]
        self._home.building.add(token)
        try:
            yield name
        finally:
            self._home.building.discard(token)


def entry_of(live: LivePart[B]) -> PartEntry:
    """Return the manifest entry of a part on disk: its name, its files with checksums, and its dead units."""
    return PartEntry(live.part.name, live.part.files or {}, tuple(live.dead()))
