"""Choose segments and days for an agent to summarize, and keep the requests of projects.

A segment is worth it when it is over, holds enough, is no subagent's, and has only the summarizer's text; a day when its
segments are told and there are several of them.

Change here: what counts as worth refining.
"""

from collections.abc import Collection, Iterator, Mapping

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import Calendar, span_of
from memory_mcp.model.ids import NodeId, day_id
from memory_mcp.model.segment import Segment
from memory_mcp.storage.base import Storage

#: Below this a segment seldom has more to say than its extracted title does: of 1,595 segments of real sessions 1,209 remain,
#: with 95 % of the events.
LEAST_EVENTS, LEAST_TOKENS = 8, 500
#: A day with one such segment has that segment's text.
LEAST_SEGMENTS = 2
#: Days before a request within which segments are counted with it.
RECENT_DAYS = 7
#: Name of a project's request among the stored marks, before the project; its value is UTC milliseconds.
_REQUEST = "refine:"
_DAY_MS = 86_400_000
#: Days whose segments are read at once: most callers want only the newest.
_DAYS = 60


@dataclass(frozen=True, slots=True)
class DueNode:
    """A node worth refining."""

    node_id: NodeId
    events: int
    tokens: int
    project: str
    #: "" of a day.
    session_id: str = ""


class RefinementSearch:
    """Looks for what is due in one project, or with None in all of them."""

    def __init__(self, storage: Storage, written_ids: Collection[NodeId], project: str | None, settled_ms: int) -> None:
        self._storage = storage
        self._written_ids = written_ids
        self._project = project
        self._settled_ms = settled_ms

    def iter_due(self, first_day: str, after_day: str, calendar: Calendar) -> Iterator[DueNode]:
        """Yield what is due on days of a span, newest first.

        A day is due that is over once none of its segments is. Days (YYYY-MM-DD) are those of the memory's calendar;
        `after_day` is excluded. Reads 60 days at a time.
        """
        days = self._storage.toc.list_days(self._project, first_day, after_day)
        while days:
            days, last = days[:-_DAYS], days[-_DAYS:]
            cuts = self._storage.toc.list_day_segments(last[0], f"{last[-1]}~", self._project)
            cuts_of_day: dict[str, list[Segment]] = {}
            for cut in filter(self._is_worth, cuts):
                cuts_of_day.setdefault(cut.day, []).append(cut)
            for day in sorted(cuts_of_day, reverse=True):
                due_cuts = [c for c in cuts_of_day[day] if c.node_id not in self._written_ids]
                yield from (
                    DueNode(c.node_id, c.events, c.tokens, c.project, c.session_id)
                    for c in sorted(due_cuts, key=lambda c: c.start, reverse=True)
                )
                if due_cuts or len(cuts_of_day[day]) < LEAST_SEGMENTS:
                    continue
                node_id = day_id(day)
                first, after = (d.isoformat() for d in span_of(node_id))
                tally = self._storage.toc.tally_days(first, after, self._project)
                # With a project the day must hold no other.
                is_whole_day = (
                    self._project is None or tally.segments == self._storage.toc.tally_days(first, after, None).segments
                )
                if node_id not in self._written_ids and is_whole_day and calendar.node_window(node_id).end_ms <= self._settled_ms:
                    yield DueNode(node_id, tally.events, tally.tokens, tally.projects[0] if len(tally.projects) == 1 else "")

    def count(self, since_ms: int, until_ms: int, calendar: Calendar) -> int:
        """Count the segments due that ended in a time.

        It begins after `since_ms` and includes `until_ms`; due days are not counted.
        """
        # A segment is filed under the day it began.
        first, last = calendar.day_of(since_ms - _DAY_MS), calendar.day_of(until_ms)
        cuts = self._storage.toc.list_day_segments(first, f"{last}~", self._project)
        return sum(self._is_worth(c) and c.node_id not in self._written_ids and since_ms < c.end[0] <= until_ms for c in cuts)

    def _is_worth(self, cut: Segment) -> bool:
        over = not cut.open or cut.end[0] < self._settled_ms
        return over and not cut.thread and cut.events >= LEAST_EVENTS and cut.tokens >= LEAST_TOKENS


def mark_requests(storage: Storage, projects: Mapping[str, int]) -> None:
    """Store when (UTC ms) sessions ended: the next ones show what is due."""
    storage.outbox.set_positions({_REQUEST + project: str(at_ms) for project, at_ms in projects.items()})


def read_requests(storage: Storage) -> dict[str, int]:
    """Return the last request (UTC ms) of each project."""
    time_of_project: dict[str, int] = {}
    for name, value in storage.outbox.get_positions(_REQUEST).items():
        if value.isdecimal():
            project = storage.projects.names.resolve_alias(name.removeprefix(_REQUEST))
            time_of_project[project] = max(time_of_project.get(project, 0), int(value))
    return time_of_project


def count_requested(storage: Storage, project: str, at_ms: int, gap_ms: int, calendar: Calendar) -> int:
    """Count a project's due segments of seven days.

    `at_ms` is the session's end, UTC milliseconds; `gap_ms` the silence after which a segment no longer grows.
    """
    refining = RefinementSearch(storage, storage.toc.get_authors(), project, at_ms - gap_ms)
    return refining.count(at_ms - RECENT_DAYS * _DAY_MS, at_ms, calendar)
