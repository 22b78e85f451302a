"""Commits changes of the indexes: before that they can be searched, and are followed again after a crash."""

from collections.abc import Callable

from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.schedule import Every


class CommitIndexes:
    """`work(everything)` commits indexes and returns how many; with False only those with enough changes."""

    name = "commit_indexes"
    help = "make index changes durable"

    def __init__(self, work: Callable[[bool], int], seconds: float) -> None:
        self._work = work
        self.schedule = Every(seconds)

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """Commit the indexes that have enough changes."""
        return _make_report(0 if should_stop() else self._work(False))

    def run_requested(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Asked
        """Commit every index that has changed."""
        return _make_report(0 if should_stop() else self._work(True))


def _make_report(count: int) -> JobReport:
    return JobReport(f"committed {count} index{'es' if count != 1 else ''}", {"committed": count})
