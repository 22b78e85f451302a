"""Publish periods older than their children; writers do this too, and the job does what they left."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every


class RollUp:
    """`work` publishes every stale period, takes the locks it needs, and returns how many."""

    name = "roll_up"
    help = "summarise days, weeks, months and years whose contents changed"
    schedule = Every(3600)

    def __init__(self, work: Callable[[Callable[[], bool]], int]) -> None:
        self._work = work

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        count = self._work(should_stop)
        if not count:
            return JobReport("nothing was stale", {"periods": 0})
        return JobReport(f"rolled up {count:,} period{'s' if count != 1 else ''}", {"periods": count})
