"""Read what other machines wrote into the shared folder, and write new events there."""

from collections.abc import Callable

from memory_mcp.archive.exchange import Synced
from memory_mcp.jobs.base import JobReport
from memory_mcp.jobs.schedule import Every

#: Each run that has something to write makes a file: few enough a day to be copied one by one.
_EVERY = 1800.0


class SyncFolder:
    """`work` runs the exchange; None if no folder is set."""

    name = "sync_folder"
    help = "exchange events with other machines through the folder of the setting sync.directory"
    schedule = Every(_EVERY)
    #: A folder of a network may be slow.
    waits = True

    def __init__(self, work: Callable[[Callable[[], bool]], Synced | None], busy: Callable[[], bool]) -> None:
        self._work = work
        self._busy = busy

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """See Job."""
        if self._busy():
            return JobReport("an import is under way")
        done = self._work(should_stop)
        if done is None:
            return JobReport("off (sync.directory is not set)")
        words = f"wrote {done.written:,} events, took in {done.new:,} of {done.machines:,} other machines"
        return JobReport(words, {"written": done.written, "new": done.new})
