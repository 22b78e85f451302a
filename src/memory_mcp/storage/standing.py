"""Which statement holds now, from what was recorded and what was noticed (pure); shared by the engines."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from memory_mcp.model.ids import GripId
from memory_mcp.model.superseded import Superseded
from memory_mcp.storage.records import Noticed

Known = dict[GripId, Superseded]


class Standing:
    """Recorded statements kept in memory under a version, put together with those that are noticed. Safe in any thread."""

    def __init__(self, read: Callable[[], Known], version: Callable[[], object]) -> None:
        """`read` returns every recorded statement; it is called again once `version` returns another value."""
        self._read, self._version = read, version
        #: Never held while the store is read or written: whoever holds that says here that it changed.
        self._lock = threading.Lock()
        self._changes = 0
        self._recorded: tuple[object, Known] | None = None
        self._noticed: Noticed | None = None
        #: What was recorded and noticed, and both together.
        self._both: tuple[Known, Mapping[GripId, Sequence[Superseded]], Known] | None = None

    def notice(self, noticed: Noticed) -> None:
        """See SupersededStore."""
        self._noticed = noticed

    def reread(self) -> None:
        """Drop what is kept in memory."""
        with self._lock:
            self._changes += 1
            self._recorded = None

    def unfollow(self) -> None:
        """Have what was noticed worked out anew: the tree is not what it was."""
        if self._noticed is not None:
            self._noticed.forget()

    def is_empty(self) -> bool:
        """See SupersededStore."""
        return not self._all()

    def recorded(self) -> list[Superseded]:
        """See SupersededStore."""
        return sorted(self._kept().values(), key=lambda one: one.at_ms)

    def of(self, ids: Iterable[GripId]) -> Known:
        """See SupersededStore."""
        known = self._all()
        return {i: last(i, known) for i in ids if i in known} if known else {}

    def _all(self) -> Known:
        recorded = self._kept()
        noticed = self._noticed.marks() if self._noticed is not None else {}
        if not noticed:
            return recorded
        both = self._both
        if both is None or both[0] is not recorded or both[1] is not noticed:
            both = self._both = (recorded, noticed, together(recorded, noticed))
        return both[2]

    def _kept(self) -> Known:
        version, kept = self._version(), self._recorded
        if kept is not None and kept[0] == version:
            return kept[1]
        changes = self._changes
        known = self._read()
        with self._lock:
            if changes == self._changes:
                self._recorded = (version, known)
        return known


def together(recorded: Known, noticed: Mapping[GripId, Sequence[Superseded]]) -> Known:
    """Return both: what somebody said of a statement counts alone, and what was taken back contradicts nothing."""
    taken_back = {old for old, one in recorded.items() if one.new is None}
    known = dict(recorded)
    for old, several in noticed.items():
        standing = [one for one in several if one.new not in taken_back]
        if standing and old not in recorded:
            known[old] = standing[-1]
    return known


def last(old: GripId, known: Known) -> Superseded:
    """Return where the steps from `old` end; in a circle, the last before it closes."""
    seen, now = {old}, known[old]
    while now.new in known and known[now.new].new not in seen:
        seen.add(now.new)
        now = known[now.new]
    return replace(now, old=old, words=known[old].words)
