"""Jobs that call one function of another room and report what it returned."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memory_mcp.archive.exchange import Synced
from memory_mcp.jobs.base import Job, JobReport
from memory_mcp.jobs.schedule import Every, Schedule

#: Returns whether the run is to end early.
ShouldStop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Call:
    """A job whose work is one function; see Job for the fields."""

    name: str
    help: str
    schedule: Schedule
    work: Callable[[ShouldStop], JobReport]

    def run(self, now_ms: int, should_stop: ShouldStop) -> JobReport:  # noqa: ARG002 - see Job
        """Call `work` and return its report; raises what it raises."""
        return self.work(should_stop)


@dataclass(frozen=True, slots=True)
class WaitingCall(Call):
    """A job of this kind that mostly waits; see Waiting."""

    waits: bool = True


def roll_up(publish: Callable[[ShouldStop], int]) -> Job:
    """Return the hourly job that publishes stale periods; `publish` returns how many, which the report counts as "periods"."""

    def work(should_stop: ShouldStop) -> JobReport:
        """Publish stale periods until the run is to end, and report how many."""
        count = publish(should_stop)
        if not count:
            return JobReport("nothing was stale", {"periods": 0})
        return JobReport(f"rolled up {count:,} period{'s' if count != 1 else ''}", {"periods": count})

    return Call("roll_up", "summarise days, weeks, months and years whose contents changed", Every(3600), work)


def follow_clients(store: Callable[[ShouldStop], int]) -> Job:
    """Return the job that stores what clients wrote into their own files, every 15 seconds and beside the others.

    `store` returns the number of events stored, which the report has as "events".
    """

    def work(should_stop: ShouldStop) -> JobReport:
        """Store what clients wrote until the run is to end, and report the number of events."""
        count = store(should_stop)
        return JobReport(f"stored {count:,} event{'s' if count != 1 else ''}", {"events": count})

    # Short enough that a new session finds the previous one; a look costs a listing of files. A first look may read years,
    # and the other jobs go on meanwhile.
    about = "store what the clients that are followed wrote (memory-mcp watch)"
    return WaitingCall("follow_clients", about, Every(15), work)


def group_topics(begin: Callable[[], bool]) -> Job:
    """Return the job that has the memory grouped into topics each minute, if that is due.

    `begin` starts it and returns whether it did; it goes on in the background. The report counts "begun": 1 or 0.
    """

    def work(should_stop: ShouldStop) -> JobReport:
        """Begin the grouping, unless the run is to end or it is not due, and report whether it began."""
        begun = not should_stop() and begin()
        return JobReport("groups the memory anew" if begun else "too little has changed", {"begun": int(begun)})

    return Call("group_topics", "find topics anew once enough has changed", Every(60), work)


def improve_indexes(begin: Callable[[], bool]) -> Job:
    """Return the job that has graphs built for large vector indexes every 10 minutes.

    `begin` starts it and returns whether it did; it goes on in the background. The report counts "begun": 1 or 0.
    """

    def work(should_stop: ShouldStop) -> JobReport:
        """Begin the building, unless the run is to end, and report whether it began."""
        begun = not should_stop() and begin()
        return JobReport("looks for graphs to build" if begun else "left it for later", {"begun": int(begun)})

    return Call("improve_indexes", "build graphs of large vector indexes", Every(600), work)


def prune_indexes(prune: Callable[[], Mapping[str, Mapping[str, int]]], schedule: Schedule) -> Job:
    """Return the job that leaves aged documents out of the indexes; `prune` returns their number by index and level.

    Events and nodes stay. The report counts documents by the index's name.
    """

    def work(should_stop: ShouldStop) -> JobReport:
        """Leave aged documents out, unless the run is to end, and report their number by index."""
        pruned = {} if should_stop() else prune()
        counts = {name: sum(levels.values()) for name, levels in pruned.items()}
        words = ", ".join(f"{count:,} documents out of {name}" for name, count in counts.items() if count)
        return JobReport(f"left {words}" if words else "nothing had aged out", counts)

    return Call("prune_indexes", "leave aged documents out of the indexes", schedule, work)


def sync_folder(exchange: Callable[[ShouldStop], Synced | None], busy: Callable[[], bool]) -> Job:
    """Return the job, due every half hour, that exchanges events through a shared folder, but not during an import.

    `exchange` returns None where no folder is set. The report counts events as "written" and "new", and nothing where
    nothing ran.
    """

    def work(should_stop: ShouldStop) -> JobReport:
        """Exchange events, unless an import is under way, and report how many were written and were new."""
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
    return WaitingCall("sync_folder", about, Every(1800), work)
