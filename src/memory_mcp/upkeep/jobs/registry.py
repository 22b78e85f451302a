"""The jobs, in the order they are shown, and what they are made of.

Change here: add a job, as a function of `calls.py` or a class in a file of its own.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from memory_mcp.base.dataclass import dataclass
from memory_mcp.storage.base import Storage
from memory_mcp.tree.derive.missing_runs import derive_missing_runs
from memory_mcp.tree.llm.settings import SummarizerSettings
from memory_mcp.tree.toc.later_changes import LaterChanges
from memory_mcp.tree.toc.tree import Tree
from memory_mcp.upkeep.archive.exchange import SyncReport
from memory_mcp.upkeep.archive.keeper import BackupKeeper
from memory_mcp.upkeep.jobs import calls
from memory_mcp.upkeep.jobs.base import Job
from memory_mcp.upkeep.jobs.calls import CompactGrown, Housekeeping
from memory_mcp.upkeep.jobs.improve_summaries import ImproveSummaries, SummaryParts
from memory_mcp.upkeep.jobs.render_briefings import BriefingSettings, RenderBriefings
from memory_mcp.upkeep.jobs.schedule import Daily


@dataclass(frozen=True, slots=True)
class JobParts:
    """What jobs need; publishing and ingesting are callables that take their own locks."""

    storage: Storage
    tree: Tree
    #: Publishes every stale period; returns how many.
    roll_up: Callable[[Callable[[], bool]], int]
    #: Whether an import is under way: what can wait should.
    busy: Callable[[], bool]
    #: Stores some files of the spool; returns the number of events.
    drain: Callable[[], int]
    #: Whether the scheduler is notified of new files in the spool.
    spool_watched: bool
    #: Stores what clients that are followed wrote, until it should stop; returns the number of events.
    follow: Callable[[Callable[[], bool]], int]
    briefings: BriefingSettings
    #: Returns the lock under which the tree changes.
    publishing: Callable[[], AbstractContextManager[None]]
    later_changes: LaterChanges
    #: Local time of the daily upkeep, such as 03:00.
    housekeeping_at: str
    #: Commits every index that has changed, or only those with enough changes (False); returns how many.
    commit_indexes: Callable[[bool], int]
    commit_interval_secs: float
    #: Begins to build what makes searching faster; returns whether it did.
    improve_indexes: Callable[[], bool]
    #: Applies retention to the indexes; returns the documents removed, by index and level.
    prune_indexes: Callable[[], Mapping[str, Mapping[str, int]]]
    #: Starts to find topics again if that is due; returns whether it did.
    group_topics: Callable[[], bool]
    backups: BackupKeeper
    #: Exchanges events through the folder of the settings; None where there is none.
    sync: Callable[[Callable[[], bool]], SyncReport | None]
    summarizer: SummarizerSettings
    #: What the summarizer's job works with.
    improve_summaries: SummaryParts


JOBS: dict[str, Callable[[JobParts], Job]] = {
    "drain_spool": lambda parts: calls.drain_spool_job(parts.drain, parts.spool_watched),
    "follow_clients": lambda parts: calls.follow_clients_job(parts.follow),
    "roll_up": lambda parts: calls.roll_up_job(parts.roll_up),
    "render_briefings": lambda parts: RenderBriefings(
        parts.storage, parts.tree, parts.briefings, parts.busy, parts.publishing, parts.later_changes
    ),
    "commit_indexes": lambda parts: calls.CommitIndexes(parts.commit_indexes, parts.commit_interval_secs),
    "copy_rows": lambda parts: calls.copy_rows_job(parts.storage.copy_rows, parts.busy),
    "derive_missing_runs": lambda parts: calls.derive_missing_runs_job(
        partial(derive_missing_runs, parts.storage, parts.publishing), parts.busy
    ),
    "improve_summaries": lambda parts: ImproveSummaries(parts.summarizer, parts.improve_summaries),
    "improve_indexes": lambda parts: calls.improve_indexes_job(parts.improve_indexes),
    "group_topics": lambda parts: calls.group_topics_job(parts.group_topics),
    "compact_grown": lambda parts: CompactGrown(
        parts.storage, parts.briefings.directory, parts.busy, Daily.at(parts.housekeeping_at)
    ),
    "sync_folder": lambda parts: calls.sync_folder_job(parts.sync, parts.busy),
    "back_up": lambda parts: calls.back_up_job(parts.backups, parts.busy, Daily.at(parts.housekeeping_at)),
    "prune_indexes": lambda parts: calls.prune_indexes_job(parts.prune_indexes, Daily.at(parts.housekeeping_at)),
    "housekeeping": lambda parts: Housekeeping(parts.storage, parts.backups.back_up_before, Daily.at(parts.housekeeping_at)),
}
