"""The number of segments per day, for one scope: the shape of the tree without its text. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from memory_mcp.model.calendar import TocLevel, level_of, months_of_week, parents_of_day, span_of
from memory_mcp.model.ids import ROOT, NodeId, day_id


class Outline:
    """Days with their number of segments, in order; counts below a period without reading the store."""

    def __init__(self, days: Sequence[tuple[str, int]]) -> None:
        self._days = [day for day, _ in days]
        self._sums = [0, *accumulate(count for _, count in days)]

    def count_segments(self, first_day: str, after_day: str) -> int:
        """Return the number of segments of a span, without its last day."""
        return self._sums[bisect_left(self._days, after_day)] - self._sums[bisect_left(self._days, first_day)]

    def days(self, first_day: str, after_day: str) -> list[str]:
        """Return the days of a span that have segments, without `after_day`."""
        return self._days[bisect_left(self._days, first_day) : bisect_left(self._days, after_day)]

    def has_segments(self, node_id: NodeId) -> bool:
        """Return whether any segment is below a period."""
        return self.count_segments(*(d.isoformat() for d in span_of(node_id))) > 0

    def children(self, node_id: NodeId) -> list[NodeId]:
        """Return the children that have segments, by time.

        Of the root or of a period above days. A month's are all weeks that it shares a day with, though the segments of a
        week may be in the other month.
        """
        if node_id == ROOT:
            return list(dict.fromkeys(NodeId(f"toc:year:{day[:4]}") for day in self._days))
        level = level_of(node_id)
        days = self.days(*(d.isoformat() for d in span_of(node_id)))
        if level is TocLevel.YEAR:
            return list(dict.fromkeys(NodeId(f"toc:month:{day[:7]}") for day in days))
        if level is TocLevel.WEEK:
            return [day_id(day) for day in days]
        first, after = span_of(node_id)
        monday = first.fromordinal(first.toordinal() - first.weekday())
        sunday = after.fromordinal(after.toordinal() + 6)
        weeks = dict.fromkeys(parents_of_day(day)[0] for day in self.days(monday.isoformat(), sunday.isoformat()))
        return [week for week in weeks if node_id in months_of_week(week)]
