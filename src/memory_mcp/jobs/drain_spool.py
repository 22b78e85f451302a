"""What hooks left in the spool, stored as events."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every


class DrainSpool:
    """`work` stores some of what lies in the spool, each file once, and says how many events that made."""

    name = "drain_spool"
    help = "store what hooks captured"

    def __init__(self, work: Callable[[], int], watched: bool = False) -> None:
        """Run every second; where the spool is `watched`, and the scheduler told of what comes, only to be sure."""
        self._work = work
        self.schedule = Every(30 if watched else 1)

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        count = 0
        while not should_stop() and (more := self._work()):
            count += more
        return JobReport(f"stored {count:,} event{'s' if count != 1 else ''}", {"events": count})
