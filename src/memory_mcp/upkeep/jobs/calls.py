"""Jobs that call functions of other packages, and report what these returned."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DeadlineExceeded
from memory_mcp.storage.base import Storage
from memory_mcp.upkeep.archive.exchange import SyncReport
from memory_mcp.upkeep.archive.keeper import BackupKeeper
from memory_mcp.upkeep.jobs.base import Job, JobReport
from memory_mcp.upkeep.jobs.schedule import Every, Schedule

#: How often it is looked whether an import has ended (seconds).
_LOOK = 1.0
#: A node with more rows of terms than this is folded; what derives folds much later, where it cannot wait.
_FOLD_AT = 4
#: The file is rewritten when this share of it holds nothing, and at least so many bytes. Checkpoints of a table that grew
#: join its stretches and double the room it takes; later ones use that room, so it need not be given back each time.
_DEAD_SHARE, _DEAD_BYTES = 0.15, 16_000_000

#: The file is also rewritten once there are so many times as many events as when it was last, and at least so many more: what
#: many checkpoints left half empty is a seventh of the file after an import. It takes 30 us of CPU for each event stored.
_GROWN, _LEAST_GROWTH = 1.25, 5000
#: The position under which it is noted up to which event.
_COMPACTED = "compacted"

#: Returns whether the run is to end early.
ShouldStop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class FunctionJob:
    """A job whose work is one function; see Job for the fields."""

    name: str
    help: str
    schedule: Schedule
    work: Callable[[ShouldStop], JobReport]

    def run(self, now_ms: int, should_stop: ShouldStop) -> JobReport:  # noqa: ARG002 - see Job
        """Call `work` and return its report; raises what it raises."""
        return self.work(should_stop)


@dataclass(frozen=True, slots=True)
class WaitingFunctionJob(FunctionJob):
    """A job of this kind that mostly waits: see `base.WaitingJob`."""

    waits: bool = True


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def drain_spool_job(drain: Callable[[], int], is_watched: bool = False) -> Job:
    """Return the job that stores what hooks left in the spool.

    `drain` stores some files and returns the number of their events, 0 for none left. The report counts "events".
    """

    def drain_all(should_stop: ShouldStop) -> JobReport:
        count = 0
        while not should_stop() and (more := drain()):
            count += more
        return JobReport(f"stored {_count(count, 'event')}", {"events": count})

    return FunctionJob("drain_spool", "store what hooks captured", Every(30 if is_watched else 1), drain_all)


def roll_up_job(publish: Callable[[ShouldStop], int]) -> Job:
    """Return the hourly job that publishes stale periods.

    `publish` returns how many, which the report counts as "periods".
    """

    def publish_stale(should_stop: ShouldStop) -> JobReport:
        count = publish(should_stop)
        return JobReport(f"rolled up {_count(count, 'period')}" if count else "nothing was stale", {"periods": count})

    return FunctionJob("roll_up", "summarise days, weeks, months and years whose contents changed", Every(3600), publish_stale)


def follow_clients_job(store: Callable[[ShouldStop], int]) -> Job:
    """Return the job that stores what clients wrote themselves.

    `store` returns the number of events stored, which the report has as "events".
    """

    def store_new(should_stop: ShouldStop) -> JobReport:
        count = store(should_stop)
        return JobReport(f"stored {_count(count, 'event')}", {"events": count})

    # Short enough that a new session finds the previous one; a look costs a listing of files. A first look may read years,
    # and the other jobs go on meanwhile.
    about = "store what the clients that are followed wrote (memory-mcp watch)"
    return WaitingFunctionJob("follow_clients", about, Every(15), store_new)


class CommitIndexes:
    """Makes index changes durable, so that they need not be followed again after a crash.

    `commit(everything)` returns how many indexes it committed; with False only those with enough changes.
    """

    name = "commit_indexes"
    help = "make index changes durable"

    def __init__(self, commit: Callable[[bool], int], seconds: float) -> None:
        self._commit = commit
        self.schedule = Every(seconds)

    def run(self, now_ms: int, should_stop: ShouldStop) -> JobReport:
        """Commit the indexes that have enough changes."""
        return self.run_requested(now_ms, should_stop, everything=False)

    def run_requested(self, now_ms: int, should_stop: ShouldStop, everything: bool = True) -> JobReport:  # noqa: ARG002
        """Commit every index that has changed."""
        count = 0 if should_stop() else self._commit(everything)
        return JobReport(f"committed {count} index{'es' if count != 1 else ''}", {"committed": count})


def group_topics_job(begin: Callable[[], bool]) -> Job:
    """Return the job that groups the memory into topics.

    `begin` starts it and returns whether it did; it goes on in the background. The report counts "begun": 1 or 0.
    """

    def begin_grouping(should_stop: ShouldStop) -> JobReport:
        begun = not should_stop() and begin()
        return JobReport("groups the memory anew" if begun else "too little has changed", {"begun": int(begun)})

    return FunctionJob("group_topics", "find topics anew once enough has changed", Every(60), begin_grouping)


def copy_rows_job(copy: Callable[[ShouldStop], int], busy: Callable[[], bool]) -> Job:
    """Return the job that copies rows to where answers find them fast.

    `copy` returns how many it copied, which the report counts as "rows".
    """

    def copy_missing(should_stop: ShouldStop) -> JobReport:
        # During an import nothing is copied; what waits in memory is taken in.
        count = copy(lambda: busy() or should_stop())
        return JobReport(f"copied {count:,} rows" if count else "nothing was missing", {"rows": count})

    return FunctionJob("copy_rows", "copy rows that answers read by id to where they are found fast", Every(10), copy_missing)


def derive_missing_runs_job(derive: Callable[[ShouldStop], int], busy: Callable[[], bool]) -> Job:
    """Return the job that reads the outcomes of calls that an earlier version stored.

    `derive` returns the number of segments read, which the report counts as "segments".
    """

    def derive_missing(should_stop: ShouldStop) -> JobReport:
        count = derive(lambda: busy() or should_stop())
        return JobReport(f"read {count:,} segments" if count else "nothing was missing", {"segments": count})

    return FunctionJob("derive_missing_runs", "read outcomes of calls that an earlier version stored", Every(600), derive_missing)


def improve_indexes_job(begin: Callable[[], bool]) -> Job:
    """Return the job that builds graphs of large indexes.

    `begin` starts it and returns whether it did; it goes on in the background. The report counts "begun": 1 or 0.
    """

    def begin_building(should_stop: ShouldStop) -> JobReport:
        begun = not should_stop() and begin()
        return JobReport("looks for graphs to build" if begun else "left it for later", {"begun": int(begun)})

    return FunctionJob("improve_indexes", "build graphs of large vector indexes", Every(600), begin_building)


def prune_indexes_job(prune: Callable[[], Mapping[str, Mapping[str, int]]], schedule: Schedule) -> Job:
    """Return the job that leaves aged documents out.

    `prune` returns their number by index and level, which the report counts by index. Events and nodes stay.
    """

    def prune_aged(should_stop: ShouldStop) -> JobReport:
        pruned = {} if should_stop() else prune()
        counts = {name: sum(levels.values()) for name, levels in pruned.items()}
        words = ", ".join(f"{count:,} documents out of {name}" for name, count in counts.items() if count)
        return JobReport(f"left {words}" if words else "nothing had aged out", counts)

    return FunctionJob("prune_indexes", "leave aged documents out of the indexes", schedule, prune_aged)


def sync_folder_job(exchange: Callable[[ShouldStop], SyncReport | None], busy: Callable[[], bool]) -> Job:
    """Return the job that exchanges events through a folder.

    `exchange` returns None where no folder is set. The report counts events as "written" and "new", and nothing where
    nothing ran.
    """

    def exchange_events(should_stop: ShouldStop) -> JobReport:
        if busy():
            return JobReport("an import is under way")
        done = exchange(should_stop)
        if done is None:
            return JobReport("off (sync.directory is not set)")
        words = f"wrote {done.written:,} events, took in {done.new:,} of {done.machines:,} other machines"
        if done.refused:
            words += f", refused {', '.join(done.refused)}: not written by this program"
        return JobReport(words, {"written": done.written, "new": done.new})

    # Each run that has something to write makes a file: few enough a day to be copied one by one. A network folder may be slow.
    about = "exchange events with other machines through the folder of the setting sync.directory"
    return WaitingFunctionJob("sync_folder", about, Every(1800), exchange_events)


def back_up_job(backups: BackupKeeper, busy: Callable[[], bool], schedule: Schedule) -> Job:
    """Return the job that makes the daily backup and removes old ones.

    It waits for an import, which would outdate a backup at once; the report counts "events".
    """

    def back_up(should_stop: ShouldStop) -> JobReport:
        if not backups.is_enabled:
            return JobReport("off (backup.enabled = false)")
        while busy() and not should_stop():
            time.sleep(_LOOK)
        try:
            backup = backups.make_backup("daily", should_stop=should_stop)
        except DeadlineExceeded:
            if not should_stop():
                raise
            return JobReport("stopped early, nothing is left of it")
        more = f"{backup.added_bytes / 1e6:,.1f} MB more on disk"
        return JobReport(f"{backup.events:,} events in {backup.path.name}, {more}", {"events": backup.events})

    # A first backup may take minutes, and what hooks leave must not wait for it.
    about = "copy what the memory holds into its folder of backups, and remove those that have had their time"
    return WaitingFunctionJob("back_up", about, schedule, back_up)


class Housekeeping:
    """Daily upkeep of the store: four steps, each of which may be repeated any number of times."""

    name = "housekeeping"
    help = "fold term sets, drop old answers, checkpoint the store, rewrite its file when much of it is dead"

    def __init__(self, storage: Storage, back_up: Callable[[str], None], schedule: Schedule) -> None:
        self._storage = storage
        self._back_up = back_up
        self.schedule = schedule

    def run(self, now_ms: int, should_stop: ShouldStop) -> JobReport:
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


class CompactGrown:
    """Rewrites the store's file after it has grown by a quarter, as by an import, once everything is derived.

    The copy is compared with the file, which stays until then: no backup is made first.
    """

    name = "compact_grown"
    help = "rewrite the store's file densely once it has grown by a quarter"

    def __init__(self, storage: Storage, directory: Path | None, busy: Callable[[], bool], schedule: Schedule) -> None:
        """`directory` is the data directory, None in memory; `busy` returns whether an import is under way."""
        self._storage = storage
        self._directory = directory
        self._busy = busy
        self.schedule = schedule
        #: The event up to which the file was rewritten; None before it is read.
        self._compacted: int | None = None

    def run(self, now_ms: int, should_stop: ShouldStop) -> JobReport:  # noqa: ARG002 - see Job
        """Rewrite the file if that is due and no import is under way; the report counts "freed_bytes"."""
        outbox, last_event = self._storage.outbox, self._storage.events.last_seq()
        if self._compacted is None:
            self._compacted = outbox.get_checkpoint(_COMPACTED)
        if last_event < max(self._compacted * _GROWN, self._compacted + _LEAST_GROWTH):
            return JobReport("it has not grown by a quarter")
        if self._busy() or should_stop() or outbox.get_checkpoint("deriver") < last_event:
            return JobReport("left it for later")
        # First: it is hastened every minute, and what failed, as for want of room, is tried again by the next process.
        self._compacted = last_event
        if not self._has_room():
            return JobReport("there is no room for a copy of the file")
        size_before, size_after = self._storage.compact_files()
        outbox.set_position(_COMPACTED, str(last_event))
        freed = size_before - size_after
        return JobReport(f"freed {freed / 1e6:,.0f} MB", {"freed_bytes": freed})

    def _has_room(self) -> bool:
        """Return whether a copy of the file leaves as much room again to others."""
        if self._directory is None:
            return True
        return shutil.disk_usage(self._directory).free >= 2 * self._storage.get_stats(text=False).size_bytes


def compact_if_worth_it(storage: Storage, back_up: Callable[[str], None]) -> int:
    """Rewrite the file if much is dead, after a backup; return bytes freed."""
    dead, size = storage.dead_bytes(), storage.get_stats(text=False).size_bytes
    if dead < _DEAD_BYTES or dead < size * _DEAD_SHARE:
        return 0
    back_up("the file was rewritten")
    size_before, size_after = storage.compact_files()
    return size_before - size_after
