"""Daily upkeep of the store: fold term rows, drop expired answers, checkpoint, compact the file."""

from collections.abc import Callable

from memory_mcp.storage.base import Storage
from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.schedule import Schedule

#: A node with more rows of terms than this is folded; what derives folds much later, where it cannot wait.
_FOLD_AT = 4
#: The file is rewritten when this share of it holds nothing, and at least so many bytes. Checkpoints of a table that grew
#: join its stretches and double the room it takes; later ones use that room, so it need not be given back each time.
_DEAD_SHARE, _DEAD_BYTES = 0.15, 16_000_000


class Housekeeping:
    """Four independent steps; each of them may be repeated any number of times."""

    name = "housekeeping"
    help = "fold term sets, drop old answers, checkpoint the store, rewrite its file when much of it is dead"

    def __init__(self, storage: Storage, back_up: Callable[[str], None], schedule: Schedule) -> None:
        self._storage = storage
        self._back_up = back_up
        self.schedule = schedule

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:
        """Fold, drop, checkpoint and compact, in this order.

        Between two steps the run may end early. The report counts term sets "folded", answers "dropped" and
        "freed_bytes", of the steps that ran.
        """
        counts: dict[str, int] = {}
        done: list[str] = []
        if not should_stop():
            counts["folded"] = self._storage.toc.fold_terms(_FOLD_AT)
            done.append(f"folded {counts['folded']:,} term sets")
        if not should_stop():
            counts["dropped"] = self._storage.outbox.forget_requests(now_ms)
            done.append(f"dropped {counts['dropped']:,} old answers")
        if not should_stop():
            self._storage.write_checkpoint()
            done.append("wrote the log into the file")
        if not should_stop():
            counts["freed_bytes"] = compact_if_worth_it(self._storage, self._back_up)
            return JobReport(", ".join([*done, f"freed {counts['freed_bytes'] / 1e6:,.0f} MB"]), counts)
        return JobReport(", ".join([*done, "stopped early"]), counts)


def compact_if_worth_it(storage: Storage, back_up: Callable[[str], None]) -> int:
    """Rewrite the file if much is dead; return bytes freed.

    A backup is made first.
    """
    dead, size = storage.dead_bytes(), storage.get_stats(text=False).size_bytes
    if dead < _DEAD_BYTES or dead < size * _DEAD_SHARE:
        return 0
    back_up("the file was rewritten")
    size_before, size_after = storage.compact_files()
    return size_before - size_after
