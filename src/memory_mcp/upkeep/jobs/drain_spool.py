"""Stores what hooks left in the spool as events."""

from collections.abc import Callable

from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.schedule import Every


class DrainSpool:
    """`work` stores some files of the spool, each once, and returns the number of events stored."""

    name = "drain_spool"
    help = "store what hooks captured"

    def __init__(self, work: Callable[[], int], watched: bool = False) -> None:
        self._work = work
        self.schedule = Every(30 if watched else 1)

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """Store files of the spool; report the events."""
        count = 0
        while not should_stop() and (more := self._work()):
            count += more
        return JobReport(f"stored {count:,} event{'s' if count != 1 else ''}", {"events": count})
