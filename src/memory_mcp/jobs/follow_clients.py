"""What clients wrote into session files of their own, stored as events."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every

#: Short enough that a new session finds the previous one; a look costs a listing of files.
_EVERY = 15.0


class FollowClients:
    """`work` stores what clients wrote since its last call and returns the number of events stored."""

    name = "follow_clients"
    help = "store what the clients that are followed wrote (memory-mcp watch)"
    schedule = Every(_EVERY)
    #: A first look may read years: the other jobs go on meanwhile.
    waits = True

    def __init__(self, work: Callable[[Callable[[], bool]], int]) -> None:
        self._work = work

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        count = self._work(should_stop)
        return JobReport(f"stored {count:,} event{'s' if count != 1 else ''}", {"events": count})
