"""Rewrite large vector parts with a graph: faster search, never required."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every


class ImproveIndexes:
    """`work` starts building in the background and returns whether it did."""

    name = "improve_indexes"
    help = "build graphs of large vector indexes"
    schedule = Every(600)

    def __init__(self, work: Callable[[], bool]) -> None:
        self._work = work

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        begun = not should_stop() and self._work()
        return JobReport("looks for graphs to build" if begun else "left it for later", {"begun": int(begun)})
