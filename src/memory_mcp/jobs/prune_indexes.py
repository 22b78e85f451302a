"""Documents that have aged out of the indexes; events, nodes and grips stay."""

from collections.abc import Callable, Mapping

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Schedule


class PruneIndexes:
    """`work` applies retention and returns the number of documents removed, by index and level."""

    name = "prune_indexes"
    help = "leave aged documents out of the indexes"

    def __init__(self, work: Callable[[], Mapping[str, Mapping[str, int]]], schedule: Schedule) -> None:
        self._work = work
        self.schedule = schedule

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        pruned = {} if should_stop() else self._work()
        counts = {name: sum(levels.values()) for name, levels in pruned.items()}
        words = ", ".join(f"{count:,} documents out of {name}" for name, count in counts.items() if count)
        return JobReport(f"left {words}" if words else "nothing had aged out", counts)
