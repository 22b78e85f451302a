"""What makes searching an index faster and is never needed: large vector parts written anew with a graph."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every


class ImproveIndexes:
    """`work` begins to build, beside the jobs because it may take minutes, and says whether it did."""

    name = "improve_indexes"
    help = "build graphs of large vector indexes"
    schedule = Every(600)

    def __init__(self, work: Callable[[], bool]) -> None:
        self._work = work

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        begun = not should_stop() and self._work()
        return JobReport("looks for graphs to build" if begun else "left it for later", {"begun": int(begun)})
