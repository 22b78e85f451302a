"""A backup every day, when nothing else is under way."""

import time
from collections.abc import Callable

from memory_mcp.base.errors import DeadlineExceeded
from memory_mcp.upkeep.archive.keeper import BackupKeeper
from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.schedule import Schedule

#: How often it is looked whether an import has ended (seconds).
_LOOK = 1.0


class BackUp:
    """Makes the daily backup between the calls of others; it waits for an import, which would outdate it at once."""

    name = "back_up"
    help = "copy what the memory holds into its folder of backups, and remove those that have had their time"

    #: Beside the other jobs: a first backup may take minutes, and what hooks leave must not wait for it.
    waits = True

    def __init__(self, backups: BackupKeeper, busy: Callable[[], bool], schedule: Schedule) -> None:
        self._backups = backups
        self._busy = busy
        self.schedule = schedule

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """Make the backup after an import; remove old ones.

        Once `should_stop` returns true it ends early, and the unfinished backup is removed. Raises what making one
        raises. The report counts "events".
        """
        if not self._backups.is_enabled:
            return JobReport("off (backup.enabled = false)")
        while self._busy() and not should_stop():
            time.sleep(_LOOK)
        try:
            backup = self._backups.make_backup("daily", should_stop=should_stop)
        except DeadlineExceeded:
            if not should_stop():
                raise
            return JobReport("stopped early, nothing is left of it")
        more = f"{backup.added_bytes / 1e6:,.1f} MB more on disk"
        return JobReport(f"{backup.events:,} events in {backup.path.name}, {more}", {"events": backup.events})
