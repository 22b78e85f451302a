"""Copies a whole memory into the store of another engine, in steps: killed anywhere, it goes on where it was.

Invariants
1. The source is only read, at one moment; what comes meanwhile is copied when this is done again.
2. A store that holds anything is written to only while its mark says that all of it was copied from this source, and nobody
   has written to it since.
3. Events are copied once each, in order; everything else in one transaction, in the place of what an earlier run left.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

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
class Copied:
    """What a copy holds."""

    #: Of the source, when it was read.
    last_seq: int
    #: Events that this run copied.
    new: int
    #: Rows by table; and of each shared table its last key, number of rows and fingerprint.
    rows: dict[str, int]
    prints: dict[str, tuple[int, int, str]]


class _Nothing:
    """A Cleaner that keeps no event."""

    def clean_event(self, event: Event) -> Event | None:  # noqa: ARG002
        """Return None: no event stays."""
        return None

    def clean_text(self, text: str) -> str:
        """Return the text as it is."""
        return text


def copy(source: Storage, target: Storage, step: Callable[[int, int], None]) -> Copied:
    """Copy every row that is not derived; `step` is called with the number of events copied, and of all events.

    Events that an earlier run copied are kept if they are still the source's, else `target` is emptied. All else replaces
    what is there, in one transaction. Then rows and fingerprints are compared and returned; the copy counts as unfinished
    until `complete`. Raises InvalidQuery where `target` holds something else, StorageError where the copy is not what the
    source holds.
    """
    with source.archive.open_snapshot() as snapshot:
        _begin(snapshot, target)
        with target.archive.open_snapshot() as there:
            after = there.last_seq
            same = after <= snapshot.last_seq and there.fingerprint("event", 1, after) == snapshot.fingerprint("event", 1, after)
        if not same:
            # Something was forgotten in the source since: what is left of it has other numbers.
            target.erase_forgotten(_Nothing())
            after = 0
        target.archive.load_rows(_counted(snapshot, after, step))
        rows: Counter[str] = Counter()
        loaded = target.archive.load_rows(_others(snapshot, rows), replace_all=True)
        if loaded.dangling or loaded.unknown:
            told = f"{loaded.dangling} rows of the memory speak of what is not there"
            raise StorageError(told, "Run memory-mcp admin check; nothing of the memory was changed.")
        rows["event"] = snapshot.last_seq
        prints = {
            table: (snapshot.last_key(table), *snapshot.fingerprint(table, 0, snapshot.last_key(table)))
            for table in ("event", "grip")
        }
        copied = Copied(snapshot.last_seq, snapshot.last_seq - after, dict(rows), prints)
    with target.archive.open_snapshot() as store:
        counted = Counter({"event": store.last_seq})
        for part in chain(store.iter_shared("grip", 0), store.iter_others()):
            counted[part.table] += len(part.rows)
    counted["checkpoint"] -= 1
    if other := {table: (given, counted[table]) for table, given in copied.rows.items() if given != counted[table]}:
        told = ", ".join(f"{table}: {there} rows of {here}" for table, (here, there) in sorted(other.items()))
        raise StorageError(f"the copy is not complete: {told}", "Run the same command again.")
    require_prints(copied, target)
    return copied


def require_prints(copied: Copied, target: Storage) -> None:
    """Raise StorageError where last key, number or fingerprint of the copy's events or quotations differ from `copied`."""
    with target.archive.open_snapshot() as there:
        found = {table: (there.last_key(table), *there.fingerprint(table, 0, there.last_key(table))) for table in copied.prints}
    if found != copied.prints:
        raise StorageError("the copy holds other events or quotations than the memory", "Run the same command again.")


def complete(target: Storage) -> None:
    """Note in the copy's mark that it is complete, and a digest of what it holds; `copy` has to have run before."""
    told = json.loads(_mark_of(target))
    target.outbox.set_position(MARK, json.dumps({"from": told["from"], "held": _held(target)}))


def _mark_of(target: Storage) -> str:
    """Return the mark of a store (JSON); "" where it is no copy."""
    return target.outbox.get_positions(MARK).get(MARK, "")


def _begin(snapshot: Snapshot, target: Storage) -> None:
    """Mark the target as an unfinished copy of this source.

    Raises InvalidQuery where it holds something without a mark, is a copy of another memory, or was written to since
    it was complete.
    """
    if mark := _mark_of(target):
        told = json.loads(mark)
        if told["from"] != snapshot.store_id:
            raise InvalidQuery("there is a copy of another memory already", _ELSEWHERE)
        if told["held"] and told["held"] != _held(target):
            raise InvalidQuery("the copy has been written to since it was made", _ELSEWHERE)
    else:
        with target.archive.open_snapshot() as there:
            holds = there.last_seq > 0 or any(part.rows for part in there.iter_others() if part.table != "meta")
        if holds:
            raise InvalidQuery("there is a memory already", _ELSEWHERE)
    # From here on it is not what it was.
    target.outbox.set_position(MARK, json.dumps({"from": snapshot.store_id, "held": ""}))


def _held(target: Storage) -> str:
    """Return a digest of the rows of a store, in any order, without tables that change while it is open (checkpoint, meta)."""
    with target.archive.open_snapshot() as there:
        told: dict[str, object] = {table: there.fingerprint(table, 0, there.last_key(table)) for table in ("event", "grip")}
        sums: Counter[str] = Counter()
        for part in there.iter_others():
            if part.table not in _RESTLESS:
                rows = (repr(list(row)).encode("utf-8", "surrogatepass") for row in part.rows)
                sums[part.table] += sum(int.from_bytes(hashlib.sha256(row).digest()) for row in rows)
    return hashlib.sha256(json.dumps([told, sums], sort_keys=True).encode()).hexdigest()


def _counted(snapshot: Snapshot, after: int, step: Callable[[int, int], None]) -> Iterator[TableRows]:
    """Yield the rows of events numbered above `after`, calling `step` (copied, all) before each part and at the end."""
    done = after
    for part in snapshot.iter_shared("event", after):
        step(done, snapshot.last_seq)
        yield part
        done += len(part.rows)
        failpoint("migrate.events")
    step(done, snapshot.last_seq)


def _others(snapshot: Snapshot, rows: Counter[str]) -> Iterator[TableRows]:
    """Yield the rows of everything but events, counting them by table into `rows`; last a checkpoint row as the new mark.

    Loading replaces the target's checkpoints, so the mark has to come along. A mark that the source has itself, from
    an earlier copy, is neither yielded nor counted; nor is the new one counted.
    """
    for part in chain(snapshot.iter_shared("grip", 0), snapshot.iter_others()):
        if part.table == "checkpoint":
            # A memory that was copied itself has a mark, which is about that copy.
            name = part.columns.index("name")
            part = TableRows(part.table, part.columns, [row for row in part.rows if row[name] != MARK])  # noqa: PLW2901
        rows[part.table] += len(part.rows)
        yield part
    told = json.dumps({"from": snapshot.store_id, "held": ""})
    yield TableRows("checkpoint", ("name", "value"), [(MARK, told)])
