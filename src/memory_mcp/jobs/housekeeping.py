"""Daily upkeep of the store: term rows folded, answers nobody asks for again dropped, the log written into the file."""

from collections.abc import Callable

from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Schedule
from memory_mcp.storage.base import Storage

#: A node with more rows of terms than this is folded; what derives folds much later, where it cannot wait.
_FOLD_AT = 4


class Housekeeping:
    """Three steps, each a transaction of its own; all of them may be done any number of times."""

    name = "housekeeping"
    help = "fold term sets, drop old answers, checkpoint the store"

    def __init__(self, storage: Storage, schedule: Schedule) -> None:
        self._storage = storage
        self.schedule = schedule

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:
        """See Job."""
        counts: dict[str, int] = {}
        done: list[str] = []
        if not should_stop():
            counts["folded"] = self._storage.toc.fold_terms(_FOLD_AT)
            done.append(f"folded {counts['folded']:,} term sets")
        if not should_stop():
            counts["dropped"] = self._storage.outbox.forget_requests(now_ms)
            done.append(f"dropped {counts['dropped']:,} old answers")
        if not should_stop():
            self._storage.checkpoint()
            return JobReport(", ".join([*done, "wrote the log into the file"]), counts)
        return JobReport(", ".join([*done, "stopped early"]), counts)
