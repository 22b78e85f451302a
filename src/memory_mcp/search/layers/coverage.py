"""Tell which part of a memory an index leaves out by age."""

from collections.abc import Mapping

from memory_mcp.indexes.base import Filters
from memory_mcp.model.calendar import TocLevel
from memory_mcp.tree.toc.tree import Tree


class Coverage:
    """Compares an index's cutoffs (UTC milliseconds) with the tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def find_cut(self, cutoffs: Mapping[str, int]) -> tuple[int, str]:
        """Return the time before which segments are left out, and a remark."""
        cut = cutoffs.get(TocLevel.SEGMENT, 0)
        before_ms = self._tree.count_before(cut, None)
        if not before_ms:
            return 0, ""
        share = before_ms / self._tree.tally().segments
        return cut, f"leaves out {share:.1%} of all segments, those before {self._tree.calendar.day_of(cut)}"

    def describe_gap(self, filters: Filters, cutoffs: Mapping[str, int]) -> list[str]:
        """Return a notice of what a search with these filters lacks."""
        if filters.level is not None:
            cut = cutoffs.get(filters.level, 0)
        else:
            cut = max(cutoffs.values(), default=0) if filters.wants_nodes else cutoffs.get(TocLevel.SEGMENT, 0)
        since = 0 if filters.window is None else max(filters.window.start_ms, 0)
        until = cut if filters.window is None else min(cut, filters.window.end_ms)
        if since >= until or self._tree.count_before(until, filters.project) <= self._tree.count_before(since, filters.project):
            return []
        return [f"partial: the index leaves out what ended before {self._tree.calendar.day_of(cut)}"]
