"""Derives the tool runs of segments that an earlier version derived without them."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build
from memory_mcp.tree.outcomes.runs import runs_of

#: Key from which segments, in order of their keys, lack their runs; a migration sets it to 1, and 0 is that none does. On disk.
MISSING = "missing_runs"
#: Segments of one transaction.
_CHUNK = 64


def derive_missing_runs(
    storage: Storage, publishing: Callable[[], AbstractContextManager[None]], should_stop: Callable[[], bool]
) -> int:
    """Derive what is missing; return the number of segments read.

    Stopped or killed meanwhile, the next call goes on.
    """
    first = storage.outbox.get_checkpoint(MISSING)
    if not first:
        return 0
    keys = sorted(cut.key for cut in storage.toc.iter_cuts() if cut.key >= first)
    for start in range(0, len(keys), _CHUNK):
        if should_stop():
            return start
        chunk = keys[start : start + _CHUNK]
        with publishing():
            cuts = storage.toc.get_segments(chunk)
            events = storage.events.events_by_segment(list(cuts.values()))
            runs = tuple(run for key, several in events.items() for run in runs_of(several, key))
            storage.toc.publish_build(Build(runs=runs, reset_runs=tuple(cuts)))
        storage.outbox.set_position(MISSING, str(chunk[-1] + 1))
    storage.outbox.set_position(MISSING, "0")
    return len(keys)
