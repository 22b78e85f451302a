"""Jobs that call one function of another room and report what it returned."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memory_mcp.upkeep.archive.exchange import SyncReport
from memory_mcp.upkeep.jobs.base import Job, JobReport
from memory_mcp.upkeep.jobs.schedule import Every, Schedule

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
    """A job of this kind that mostly waits; see Waiting."""

    waits: bool = True


def roll_up_job(publish: Callable[[ShouldStop], int]) -> Job:
    """Return the hourly job that publishes stale periods.

    `publish` returns how many, which the report counts as "periods".
    """

    def publish_stale(should_stop: ShouldStop) -> JobReport:
        count = publish(should_stop)
        if not count:
            return JobReport("nothing was stale", {"periods": 0})
        return JobReport(f"rolled up {count:,} period{'s' if count != 1 else ''}", {"periods": count})

    return FunctionJob("roll_up", "summarise days, weeks, months and years whose contents changed", Every(3600), publish_stale)


def follow_clients_job(store: Callable[[ShouldStop], int]) -> Job:
    """Return the job that stores what clients wrote themselves.

    `store` returns the number of events stored, which the report has as "events".
    """

    def store_new(should_stop: ShouldStop) -> JobReport:
        count = store(should_stop)
        return JobReport(f"stored {count:,} event{'s' if count != 1 else ''}", {"events": count})

    # Short enough that a new session finds the previous one; a look costs a listing of files. A first look may read years,
    # and the other jobs go on meanwhile.
    about = "store what the clients that are followed wrote (memory-mcp watch)"
    return WaitingFunctionJob("follow_clients", about, Every(15), store_new)


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

    `prune` returns their number by index and level.

    Events and nodes stay. The report counts documents by the index's name.
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
