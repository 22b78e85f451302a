"""Commits changes of the indexes: before that they can be searched, and are followed again after a crash."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every


class CommitIndexes:
    """`work(everything)` commits indexes and returns how many; with False only those with enough changes."""

    name = "commit_indexes"
    help = "make index changes durable"

    def __init__(self, work: Callable[[bool], int], seconds: float) -> None:
        """Run `work` every `seconds` seconds."""
        self._work = work
        self.schedule = Every(seconds)

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """Commit the indexes that have enough changes, unless the run is to end; the report counts "committed"."""
        return _told(0 if should_stop() else self._work(False))

    def run_asked(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Asked
        """Commit every index that has changed, unless the run is to end; the report counts "committed"."""
        return _told(0 if should_stop() else self._work(True))


def _told(count: int) -> JobReport:
    """Return the report of a run that committed so many indexes, in words and as "committed"."""
    return JobReport(f"committed {count} index{'es' if count != 1 else ''}", {"committed": count})
