"""Which statement holds now, from what was recorded and what the program noticed; shared by the engines."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId
from memory_mcp.storage.records import ContradictionFinder

Known = dict[GripId, Supersession]


class SupersessionBase(ABC):
    """The part of a SupersededStore that the engines share. Safe in any thread.

    Recorded replacements are kept in memory, since there are few and every search asks, and are put together with those that
    the program noticed.
    """

    def __init__(self) -> None:
        """Begin with nothing read and nothing noticed."""
        #: Never held while the store is read or written: whoever holds that says here that it changed.
        self._lock = threading.Lock()
        self._changes = 0
        self._recorded: tuple[object, Known] | None = None
        self._noticed: ContradictionFinder | None = None
        #: What was recorded and noticed, and both together.
        self._both: tuple[Known, Mapping[GripId, Sequence[Supersession]], Known] | None = None

    @abstractmethod
    def _read(self) -> Known:
        """Read the last recorded replacement of each statement from the store, by the id of the older statement."""

    def _version(self) -> object:
        """Return a value that differs once another process has recorded a replacement; 0 where only this one writes."""
        return 0

    def follow_contradictions(self, noticed: ContradictionFinder) -> None:
        """Count also the contradictions that `noticed` finds, from now on, for statements without a record; replaces the last."""
        self._noticed = noticed

    def drop_records(self) -> None:
        """Drop the kept records, so that the next call that needs them reads the store; engines call it after each record."""
        with self._lock:
            self._changes += 1
            self._recorded = None

    def drop_contradictions(self) -> None:
        """Have the program's own contradictions looked for again, since the tree has changed; nothing without `notice`."""
        if self._noticed is not None:
            self._noticed.drop_cache()

    def is_empty(self) -> bool:
        """Return whether every statement still holds: nothing is recorded and no contradiction is noticed."""
        return not self._all()

    def list_recorded(self) -> list[Supersession]:
        """Return the last record about each statement, the oldest record first, without what the program noticed."""
        return sorted(self._kept().values(), key=lambda one: one.at_ms)

    def get_successors(self, ids: Iterable[GripId]) -> Known:
        """Return, for each of `ids` that holds no more, a record with `old` that id and the end of its chain of replacements.

        Its `new` is None where nothing holds in its place. Ids that still hold are left out.
        """
        known = self._all()
        return {i: find_chain_end(i, known) for i in ids if i in known} if known else {}

    def _all(self) -> Known:
        """Return what was recorded together with what was noticed; the same object while neither changes."""
        recorded = self._kept()
        noticed = self._noticed.find_contradictions() if self._noticed is not None else {}
        if not noticed:
            return recorded
        both = self._both
        if both is None or both[0] is not recorded or both[1] is not noticed:
            both = self._both = (recorded, noticed, merge_contradictions(recorded, noticed))
        return both[2]

    def _kept(self) -> Known:
        """Return what was recorded, read again where `_version` has changed; kept only if nothing was recorded meanwhile."""
        version, kept = self._version(), self._recorded
        if kept is not None and kept[0] == version:
            return kept[1]
        changes = self._changes
        known = self._read()
        with self._lock:
            if changes == self._changes:
                self._recorded = (version, known)
        return known


def merge_contradictions(recorded: Known, noticed: Mapping[GripId, Sequence[Supersession]]) -> Known:
    """Return records and noticed contradictions as one, by older statement: a record about a statement counts alone.

    Of several contradictions of a statement the last (newest) counts. A newer statement that was taken back, that is
    recorded with nothing in its place, contradicts nothing.
    """
    taken_back = {old for old, one in recorded.items() if one.new is None}
    known = dict(recorded)
    for old, several in noticed.items():
        standing = [one for one in several if one.new not in taken_back]
        if standing and old not in recorded:
            known[old] = standing[-1]
    return known


def find_chain_end(old: GripId, known: Known) -> Supersession:
    """Return the end of the chain of replacements that begins at `old`, as a replacement of `old`, with the words noted for it.

    In a circle, the last step before it closes. Raises KeyError when `old` is not in `known`.
    """
    seen, now = {old}, known[old]
    while now.new in known and known[now.new].new not in seen:
        seen.add(now.new)
        now = known[now.new]
    return replace(now, old=old, words=known[old].words)
