"""Which statement is valid now, from records and found contradictions; shared by the engines."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId
from memory_mcp.storage.records import ContradictionFinder

Known = dict[GripId, Supersession]


class SupersessionBase(ABC):
    """The part of a SupersededStore that the engines share. Thread-safe.

    Recorded replacements are kept in memory, since there are few and every search asks for them.
    """

    def __init__(self) -> None:
        #: Never held while the store is read or written: whoever holds that says here that it changed.
        self._lock = threading.Lock()
        self._changes = 0
        self._recorded: tuple[object, Known] | None = None
        self._noticed: ContradictionFinder | None = None
        #: What was recorded and noticed, and both together.
        self._both: tuple[Known, Mapping[GripId, Sequence[Supersession]], Known] | None = None

    @abstractmethod
    def _read(self) -> Known:
        """Read each statement's last replacement, by the older one's id."""

    def _version(self) -> object:
        """Return a value that differs once another process recorded one."""
        return 0

    def follow_contradictions(self, noticed: ContradictionFinder) -> None:
        """Also count contradictions found, for statements without a record."""
        self._noticed = noticed

    def drop_records(self) -> None:
        """Drop the kept records; engines call it after each record."""
        with self._lock:
            self._changes += 1
            self._recorded = None

    def drop_contradictions(self) -> None:
        """Look for contradictions again, since the tree has changed."""
        if self._noticed is not None:
            self._noticed.drop_cache()

    def is_empty(self) -> bool:
        """Return whether every statement is valid."""
        return not self._all()

    def list_recorded(self) -> list[Supersession]:
        """Return each statement's last record, the oldest record first."""
        return sorted(self._kept().values(), key=lambda record: record.at_ms)

    def get_successors(self, ids: Iterable[GripId]) -> Known:
        """Return the end of the chain of replacements of each invalid id."""
        records = self._all()
        return {i: find_chain_end(i, records) for i in ids if i in records} if records else {}

    def _all(self) -> Known:
        """Return records and contradictions; the same object while unchanged."""
        recorded = self._kept()
        contradictions = self._noticed.find_contradictions() if self._noticed is not None else {}
        if not contradictions:
            return recorded
        merged = self._both
        if merged is None or merged[0] is not recorded or merged[1] is not contradictions:
            merged = self._both = (recorded, contradictions, merge_contradictions(recorded, contradictions))
        return merged[2]

    def _kept(self) -> Known:
        """Return the records; kept only if none was added meanwhile."""
        version, cached = self._version(), self._recorded
        if cached is not None and cached[0] == version:
            return cached[1]
        changes = self._changes
        records = self._read()
        with self._lock:
            if changes == self._changes:
                self._recorded = (version, records)
        return records


def merge_contradictions(recorded: Known, contradictions: Mapping[GripId, Sequence[Supersession]]) -> Known:
    """Return records and contradictions as one, by older statement.

    A record about a statement counts alone. Of several contradictions the last (newest) counts. A newer statement that was
    retracted contradicts nothing.
    """
    retracted = {old for old, record in recorded.items() if record.new is None}
    merged = dict(recorded)
    for old, candidates in contradictions.items():
        valid = [record for record in candidates if record.new not in retracted]
        if valid and old not in recorded:
            merged[old] = valid[-1]
    return merged


def find_chain_end(old: GripId, records: Known) -> Supersession:
    """Return the end of the chain of replacements from `old`.

    As a replacement of `old`, with the words noted for it. In a circle, the last step before it closes. Raises KeyError for an
    unknown `old`.
    """
    visited, record = {old}, records[old]
    while record.new in records and records[record.new].new not in visited:
        visited.add(record.new)
        record = records[record.new]
    return replace(record, old=old, words=records[old].words)
