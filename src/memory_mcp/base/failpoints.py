"""Places where a test may kill this process, to prove that nothing acknowledged is lost there.

`MEMORY_MCP_FAILPOINT=name` kills at the first visit of that point, `name:3` at the third. Unset, a visit costs one
comparison.
"""

import os
import signal
from collections import Counter
from collections.abc import Mapping

VARIABLE = "MEMORY_MCP_FAILPOINT"

#: Every point there is, other packages' once they are loaded, and what has happened when it is reached.
FAILPOINTS = {
    "events.before_commit": "events are written, their transaction is not committed",
    "writes.before_commit": "logged writes are in the tables, the transaction is not committed",
    "writes.stored": "logged writes are committed, the log still has them",
    "events.committed": "events are committed or logged, their acknowledgement is not yet given",
    "import.batch_stored": "a batch of an import is committed, the file's high-water mark is not",
    "import.mark_written": "the file's high-water mark is committed",
    "drain.stored": "payloads of the spool are committed, their files are still there",
    "drain.file_removed": "the file of one stored payload is gone, those of others are still there",
    "drain.set_aside": "a payload that cannot be read is moved aside, what came before it is not stored yet",
    "derive.computed": "segments, nodes and grips are computed, nothing of them is written",
    "derive.before_commit": "a build is written, its transaction is not committed",
    "derive.committed": "a build and its checkpoint are committed, roll-ups are stale",
    "rollup.level_published": "one level of roll-ups is committed, the coarser ones are stale",
    "index.part_written": "a part of an index is complete on disk, no manifest names it",
    "index.manifest_written": "the manifest of a new generation is complete, CURRENT leads to the old one",
    "index.swapped": "CURRENT leads to the new generation, files of the old one are still there",
    "index.swept": "files that no generation needs are gone",
    "index.followed": "changes of the store are in memory and searchable, nothing of them is on disk",
    "index.built": "a child process has built parts of an index aside, nothing leads to them",
    "topics.grouped": "a new topic graph is complete on disk, neither the store nor a manifest knows of it",
    "topics.known": "the store knows the topics of a new graph, the old graph is in force",
    "backup.events_written": "the events of a backup are in a file of the folder, no backup names it",
    "backup.written": "the backup is in its folder, old ones are still there",
    "restore.built": "the restored store is complete aside and the present one has a second name, still in its place",
    "restore.decided": "the restored store is complete aside and takes the place of the present one with the next start",
    "restore.cleared": "the logs of the present store are gone, its file is still in place",
    "restore.moved": "the restored store is in its place, its high-water mark is not",
    "sync.written": "a file for other machines has its name, the store does not count it",
    "sync.noted": "the store counts a file for other machines, those it takes the place of are still there",
    "forget.noted": "it is written down that something is being forgotten, everything is still there",
    "forget.before_commit": "what is forgotten is taken out of the tables, the transaction is not committed",
    "forget.erased": "what is forgotten is gone from the tables; tree, indexes and files still tell of it",
    "forget.derived": "the tree tells nothing of it, files and the dead space of the database still do",
    "forget.swept": "spool, log, briefings and copies are clean, the database file is not rewritten",
    "forget.compacted": "the database file is rewritten, indexes still tell of it",
    "migrate.events": "some events are in the store that a memory is copied to",
    "compact.copied": "the compacted copy is complete, the old file is still in place",
    "compact.swapped": "the compacted file is in place, the old one is still beside it",
}

_visits: Counter[str] = Counter()


def declare(points: Mapping[str, str]) -> None:
    """Add the points of another package, with what has happened when they are reached."""
    FAILPOINTS.update(points)


def failpoint(name: str) -> None:
    """Kill this process when the environment asks for it here.

    SIGKILL, or SIGTERM where there is none; at the visit that is named. Else do nothing. Raises KeyError for a name that is not
    listed, but only where the variable is set.
    """
    setting = os.environ.get(VARIABLE)
    if setting is None:
        return
    FAILPOINTS[name]
    point, _, count = setting.partition(":")
    if point == name:
        _visits[name] += 1
        if _visits[name] >= int(count or 1):
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
