"""Copies a whole memory into another engine's store, in steps that can be resumed.

Invariants
1. The source is only read, at one moment; what comes meanwhile is copied when this is done again.
2. A store that holds anything is written to only while its mark says that all of it was copied from this source, and
nothing has written to it since.
3. Events are copied once each, in order; everything else in one transaction, replacing what an earlier run left.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.event import Event
from memory_mcp.storage.archive import Snapshot, TableRows
from memory_mcp.storage.base import Storage

#: The checkpoint of the copy that says where it came from, and once it is complete, what it held then. On disk.
MARK = "moved from"
_ELSEWHERE = "Name an empty one; the memory that is copied was not touched."
#: Tables whose rows change while a memory is merely open.
_RESTLESS = frozenset({"checkpoint", "meta"})


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What a copy holds."""

    #: Of the source, when it was read.
    last_seq: int
    #: Events that this run copied.
    new: int
    #: Rows by table; and of each shared table its last key, number of rows and fingerprint.
    rows: dict[str, int]
    prints: dict[str, tuple[int, int, str]]


class _DropAll:
    """A Cleaner that keeps no event."""

    def clean_event(self, event: Event) -> Event | None:  # noqa: ARG002
        return None

    def clean_text(self, text: str) -> str:
        return text


def copy_memory(source: Storage, target: Storage, step: Callable[[int, int], None]) -> CopyResult:
    """Copy every row that is not derived; return what was copied.

    `step` is called with the number of events copied, and of all events. Events that an earlier run copied are kept if they
    are still the source's, else `target` is emptied. All else replaces what is there, in one transaction. Then rows and
    fingerprints are compared; the copy counts as unfinished until it is marked complete. Raises InvalidQuery where `target`
    holds something else, StorageError where the copy is not what the source holds.
    """
    with source.archive.open_snapshot() as snapshot:
        _begin_copy(snapshot, target)
        with target.archive.open_snapshot() as target_snapshot:
            after = target_snapshot.last_seq
            fingerprints = [store.fingerprint("event", 1, after) for store in (snapshot, target_snapshot)]
            same = after <= snapshot.last_seq and fingerprints[0] == fingerprints[1]
        if not same:
            # Something was forgotten in the source since: what is left of it has other numbers.
            target.erase_forgotten(_DropAll())
            after = 0
        target.archive.load_rows(_iter_events(snapshot, after, step))
        rows: Counter[str] = Counter()
        loaded = target.archive.load_rows(_iter_other_rows(snapshot, rows), replace_all=True)
        if loaded.dangling or loaded.unknown:
            message = f"{loaded.dangling} rows of the memory speak of what is not there"
            raise StorageError(message, "Run memory-mcp admin check; nothing of the memory was changed.")
        rows["event"] = snapshot.last_seq
        copied = CopyResult(snapshot.last_seq, snapshot.last_seq - after, dict(rows), _fingerprint_shared(snapshot))
    with target.archive.open_snapshot() as store:
        counted = Counter({"event": store.last_seq})
        for part in chain(store.iter_shared("grip", 0), store.iter_others()):
            counted[part.table] += len(part.rows)
    counted["checkpoint"] -= 1
    counts = {table: (counted[table], expected) for table, expected in sorted(copied.rows.items())}
    if message := ", ".join(f"{table}: {a} rows of {b}" for table, (a, b) in counts.items() if a != b):
        raise StorageError(f"the copy is not complete: {message}", "Run the same command again.")
    require_prints(copied, target)
    return copied


def _fingerprint_shared(snapshot: Snapshot) -> dict[str, tuple[int, int, str]]:
    lasts = {table: snapshot.last_key(table) for table in ("event", "grip")}
    return {table: (last, *snapshot.fingerprint(table, 0, last)) for table, last in lasts.items()}


def require_prints(copied: CopyResult, target: Storage) -> None:
    """Raise StorageError where events or quotations differ from `copied`."""
    with target.archive.open_snapshot() as snapshot:
        prints = _fingerprint_shared(snapshot)
    if prints != copied.prints:
        raise StorageError("the copy holds other events or quotations than the memory", "Run the same command again.")


def mark_complete(target: Storage) -> None:
    """Note in the copy's mark that it is complete, with its digest."""
    mark = json.loads(_read_mark(target))
    target.outbox.set_position(MARK, json.dumps({"from": mark["from"], "held": _digest_contents(target)}))


def _read_mark(target: Storage) -> str:
    return target.outbox.get_positions(MARK).get(MARK, "")


def _begin_copy(snapshot: Snapshot, target: Storage) -> None:
    """Mark the target as an unfinished copy of this source.

    Raises InvalidQuery where it holds something without a mark, is a copy of another memory, or was written to since it was
    complete.
    """
    if mark := _read_mark(target):
        document = json.loads(mark)
        if document["from"] != snapshot.store_id:
            raise InvalidQuery("there is a copy of another memory already", _ELSEWHERE)
        if document["held"] and document["held"] != _digest_contents(target):
            raise InvalidQuery("the copy has been written to since it was made", _ELSEWHERE)
    else:
        with target.archive.open_snapshot() as target_snapshot:
            holds = target_snapshot.last_seq > 0 or any(
                part.rows for part in target_snapshot.iter_others() if part.table != "meta"
            )
        if holds:
            raise InvalidQuery("there is a memory already", _ELSEWHERE)
    # From here on it is not what it was.
    target.outbox.set_position(MARK, json.dumps({"from": snapshot.store_id, "held": ""}))


def _digest_contents(target: Storage) -> str:
    """Return a digest of a store's rows, in any order.

    Without tables that change while it is open (checkpoint, meta).
    """
    with target.archive.open_snapshot() as snapshot:
        fingerprints: dict[str, object] = {
            table: snapshot.fingerprint(table, 0, snapshot.last_key(table)) for table in ("event", "grip")
        }
        sums: Counter[str] = Counter()
        for part in snapshot.iter_others():
            if part.table not in _RESTLESS:
                rows = (repr(list(row)).encode("utf-8", "surrogatepass") for row in part.rows)
                sums[part.table] += sum(int.from_bytes(hashlib.sha256(row).digest()) for row in rows)
    return hashlib.sha256(json.dumps([fingerprints, sums], sort_keys=True).encode()).hexdigest()


def _iter_events(snapshot: Snapshot, after: int, step: Callable[[int, int], None]) -> Iterator[TableRows]:
    """Yield events numbered above `after`, reporting progress."""
    done = after
    for part in snapshot.iter_shared("event", after):
        step(done, snapshot.last_seq)
        yield part
        done += len(part.rows)
        failpoint("migrate.events")
    step(done, snapshot.last_seq)


def _iter_other_rows(snapshot: Snapshot, rows: Counter[str]) -> Iterator[TableRows]:
    """Yield all but events, counted by table; last the new mark.

    Loading replaces the target's checkpoints, so the mark has to come along. A mark that the source has itself, from an
    earlier copy, is neither yielded nor counted; nor is the new one counted.
    """
    for part in chain(snapshot.iter_shared("grip", 0), snapshot.iter_others()):
        if part.table == "checkpoint":
            # A memory that was copied itself has a mark, which is about that copy.
            name = part.columns.index("name")
            part = TableRows(part.table, part.columns, [row for row in part.rows if row[name] != MARK])  # noqa: PLW2901
        rows[part.table] += len(part.rows)
        yield part
    mark = json.dumps({"from": snapshot.store_id, "held": ""})
    yield TableRows("checkpoint", ("name", "value"), [(MARK, mark)])
