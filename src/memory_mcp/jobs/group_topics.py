"""Group the memory into topics again, once enough of it has changed."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every


class GroupTopics:
    """`work` starts grouping in the background if it is due, and returns whether it did."""

    name = "group_topics"
    help = "find topics anew once enough has changed"
    schedule = Every(60)

    def __init__(self, work: Callable[[], bool]) -> None:
        self._work = work

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        begun = not should_stop() and self._work()
        return JobReport("groups the memory anew" if begun else "too little has changed", {"begun": int(begun)})
