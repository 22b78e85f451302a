"""What every search asks for, kept in memory: a memory's cuts, and the stamps of its segments.

Invariants
1. Whatever writes the cut, the node or the term rows of a segment that has a node names it in the outbox, or raises `resets`.
2. What is kept is of one moment, no older than the head was when it was asked for, and brought up to date by the outbox:
   other processes write too.
3. A memory of more than `MOST` segments keeps nothing, and is read from the tables.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, TypeVar

from memory_mcp.model.ids import NodeId, segment_key_of
from memory_mcp.model.segment import Segment
from memory_mcp.storage.rows import SEGMENT, segment_of
from memory_mcp.storage.values import Scope, Tally
from memory_mcp_team.postgres.connection import Connection, Reader, own

K = TypeVar("K")
#: Segments of a memory that are kept, some 900 bytes each.
MAX_CUTS = 50_000
#: More changes than this are not followed: everything is read again.
_MAX_CHANGES = 1000
_POSITION = f"SELECT last_change, resets FROM head WHERE {own()}"
_CHANGED = f"""SELECT subject FROM outbox WHERE {own()} AND seq > %(since)s AND kind IN ('segment_published', 'node_dropped')
  LIMIT {_MAX_CHANGES + 1}"""
_CUTS = f"SELECT key, {SEGMENT} FROM segment_cut WHERE {own()}"
#: By node id the key of a segment, and what `TocStore.stamps` says of it.
Stamps = dict[NodeId, tuple[int, tuple[int, int, int]]]


class FollowedCache(Generic[K]):
    """A value read from a memory, with the position up to which it holds."""

    def __init__(self, con: Connection, read: Callable[[Reader], K], follow: Callable[[Reader, K, Collection[int]], K]) -> None:
        self._con, self._read_value, self._update_value = con, read, follow
        self._lock = threading.Lock()
        self._cached: tuple[tuple[int, int], K] | None = None

    def get_current(self) -> K:
        """Return the value, brought up to date if the head has moved.

        It is read again after a reset, more than 1000 changes, or `drop_value`.
        """
        head = self._con.get_head()
        if (cached := self._cached) is not None and _is_current(cached[0], head.stamp):
            return cached[1]
        with self._lock:
            if (cached := self._cached) is not None and _is_current(cached[0], head.stamp):
                return cached[1]
            with self._con.open_reader() as reader:
                row = reader.row(_POSITION)
                position = (int(row[0]), int(row[1])) if row else (0, 0)
                follows = cached is not None and cached[0][1] == position[1]
                rows = reader.rows(_CHANGED, since=cached[0][0]) if cached is not None and follows else []
                if cached is None or not follows or len(rows) > _MAX_CHANGES:
                    value = self._read_value(reader)
                else:
                    changed = {key for (subject,) in rows if (key := segment_key_of(subject)) is not None}
                    value = self._update_value(reader, cached[1], changed)
            self._cached = (position, value)
            return value

    def find_current(self) -> K | None:
        """Return the value if it is up to date, else None."""
        cached, head = self._cached, self._con.get_head()
        return cached[1] if cached is not None and _is_current(cached[0], head.stamp) else None

    def drop_value(self) -> None:
        """Drop the value, so that it is read again."""
        with self._lock:
            self._cached = None


def _is_current(position: tuple[int, int], stamp: tuple[int, int]) -> bool:
    return position[1] == stamp[1] and position[0] >= stamp[0]


class Cuts:
    """All cuts of a memory; an instance never changes. Methods as in `TocStore`."""

    def __init__(self, by_key: Mapping[int, Segment]) -> None:
        self.by_key = by_key
        self._order = sorted(by_key.values(), key=lambda cut: cut.start)
        self._days: dict[str, list[Segment]] = {}
        for cut in self._order:
            self._days.setdefault(cut.day, []).append(cut)
        self._names = sorted(self._days)

    def list_between(self, first: str, after: str, project: str | None) -> list[Segment]:
        return sorted(self._list_of_days(first, after, project), key=lambda cut: cut.start)

    def list_in_scope(self, scope: Scope) -> list[Segment]:
        cuts: Iterable[Segment] = self._order
        if window := scope.window:
            begun = self._order[: bisect_left(self._order, window.end_ms, key=lambda cut: cut.start[0])]
            cuts = (cut for cut in begun if cut.end[0] >= window.start_ms)
        project, agent = scope.project, scope.agent
        return [cut for cut in cuts if project in (None, cut.project) and agent in (None, cut.agent)]

    def count_by_day(self, project: str | None) -> list[tuple[str, int]]:
        counted = ((day, sum(project in (None, cut.project) for cut in self._days[day])) for day in self._names)
        return [(day, count) for day, count in counted if count]

    def list_days(self, first: str, after: str, project: str | None) -> list[str]:
        days = self._list_span_days(first, after)
        return [day for day in days if project is None or any(cut.project == project for cut in self._days[day])]

    def tally_days(self, first: str, after: str, project: str | None) -> Tally:
        cuts = self._list_of_days(first, after, project)
        return Tally(
            sessions=len({cut.session_id for cut in cuts}),
            events=sum(cut.events for cut in cuts),
            segments=len(cuts),
            tokens=sum(cut.tokens for cut in cuts),
            agents=tuple(sorted({cut.agent for cut in cuts} - {""})),
            projects=tuple(sorted({cut.project for cut in cuts} - {""})),
        )

    def _list_of_days(self, first: str, after: str, project: str | None) -> list[Segment]:
        cuts = [cut for day in self._list_span_days(first, after) for cut in self._days[day]]
        return cuts if project is None else [cut for cut in cuts if cut.project == project]

    def _list_span_days(self, first: str, after: str) -> list[str]:
        return self._names[bisect_left(self._names, first) : bisect_left(self._names, after)]


def cache_cuts(con: Connection) -> FollowedCache[Cuts | None]:
    """Return a cache of cuts, None beyond `MAX_CUTS`."""

    def read(reader: Reader) -> Cuts | None:
        rows = reader.rows(f"{_CUTS} LIMIT {MAX_CUTS + 1}")
        return None if len(rows) > MAX_CUTS else Cuts({row[0]: segment_of(row[1:]) for row in rows})

    def follow(reader: Reader, cuts: Cuts | None, changed: Collection[int]) -> Cuts | None:
        if cuts is None or not changed:
            return cuts
        rows = reader.rows(f"{_CUTS} AND key = ANY(%(keys)s::bigint[])", keys=list(changed))
        unchanged = {key: cut for key, cut in cuts.by_key.items() if key not in changed}
        return Cuts(unchanged | {row[0]: segment_of(row[1:]) for row in rows})

    return FollowedCache(con, read, follow)


def cache_stamps(con: Connection) -> FollowedCache[Stamps]:
    """Return a cache of segments' stamps, which `PostgresToc.get_stamps` fills.

    Those of periods are not cached: the outbox does not name each of them.
    """

    def follow(_: Reader, stamps: Stamps, changed: Collection[int]) -> Stamps:
        # Another: who still reads the old one may put stamps into it that are old by now.
        return {node_id: stamp for node_id, stamp in stamps.copy().items() if stamp[0] not in changed}

    return FollowedCache(con, lambda _: {}, follow)
