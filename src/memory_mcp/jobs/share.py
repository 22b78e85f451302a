"""Shared projects published to their space of a team's server, and what others published there taken in."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every

#: Others see what was said within some minutes; a run that finds nothing asks two small questions.
_EVERY = 120.0


class Share:
    """`work` runs one exchange and returns what it did; "" if no server is configured."""

    name = "share"
    help = "publish shared projects to a team's server, and take in what others published"
    schedule = Every(_EVERY)
    #: A server may be slow.
    waits = True

    def __init__(self, work: Callable[[Callable[[], bool]], str], busy: Callable[[], bool]) -> None:
        self._work = work
        self._busy = busy

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        if self._busy():
            return JobReport("an import is under way")
        return JobReport(self._work(should_stop) or "off (memory-mcp share to URL)")
