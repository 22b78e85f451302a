"""Shards: immutable pieces of an index, each two tables and a body of its kind.

Units that were replaced or dropped since are marked outside the shard (`LiveShard`).
"""

import json
from collections.abc import Mapping, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.columns import (
    COLUMN_NAMES,
    SEGMENT_CODE,
    UNIT_COLUMN_NAMES,
    Columns,
    StringTable,
    Units,
    expand_ranges,
    sort_distinct,
)
from memory_mcp.indexes.document import Unit
from memory_mcp.indexes.files import Array, FileChecksum, FolderContents, seal_folder, write_arrays
from memory_mcp.indexes.messages import Messages, exchange_starts_of, score_factors_of
from memory_mcp.model.calendar import LEVELS

B = TypeVar("B")

_NODES, _GRIPS, _UNITS, _STRINGS = "nodes.npys", "grips.npys", "units.npys", "strings.json"
#: Tables of a part, in the order bodies keep them.
TABLES = (DocType.NODE, DocType.GRIP)


class IndexKind(Protocol[B]):
    """How a kind of index builds, writes and reads the body of a shard."""

    @property
    def name(self) -> str:
        """Name of the kind in folders, metrics and `KINDS`."""
        ...

    @property
    def reads_words(self) -> bool:
        """Whether it indexes the words of documents, or only their gist."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Return all that stored data depends on, as JSON; a change rebuilds."""
        ...

    def child_options(self, reuse: Path | None) -> dict[str, Any]:
        """Return options of a child process that makes such shards.

        `reuse` is the folder of an index with mostly the same documents, whose work need not be repeated.
        """
        ...

    def find_predecessor(self, fingerprint: Mapping[str, Any]) -> "IndexKind[B] | None":
        """Return a kind that can serve what `fingerprint` made, or None."""
        ...

    def prepare_unit(self, unit: Unit) -> Any:
        """Return what a body stores of one unit; computed once."""
        ...

    def build_body(self, prepared: Sequence[Any]) -> B:
        """Return the body of prepared units, in order."""
        ...

    def merge_bodies(self, bodies: Sequence[B], kept_rows: Sequence[tuple[Array, Array]]) -> B:
        """Return kept rows of several: of nodes and of grips, int64, each."""
        ...

    def write_body(self, body: B, directory: Path) -> None:
        """Write a body into a folder that has only the tables. Raises OSError."""
        ...

    def read_body(self, contents: FolderContents) -> B:
        """Return a body that was written; raises IndexUnreadable."""
        ...

    def improve_body(self, body: B) -> B | None:
        """Return a body to write in a faster form; None if it is so already."""
        ...


@dataclass(frozen=True, slots=True)
class Shard(Generic[B]):
    """One immutable piece of an index."""

    name: str
    units: Units
    nodes: Columns
    grips: Columns
    strings: tuple[str, ...]
    body: B
    files: dict[str, FileChecksum] | None = None
    #: Files mapped in place.
    maps: tuple[mmap, ...] = ()

    def table(self, doc_type: DocType) -> Columns:
        """Return the table of nodes for NODE, else that of grips."""
        return self.nodes if doc_type is DocType.NODE else self.grips

    @property
    def size(self) -> int:
        """Number of documents, including replaced ones."""
        return len(self.nodes) + len(self.grips)

    @property
    def size_bytes(self) -> int:
        """Size on disk in bytes; 0 in memory."""
        return sum(f.size for f in (self.files or {}).values())


def build_shard(kind: IndexKind[B], units: Sequence[Unit], prepared: Sequence[Any]) -> Shard[B]:
    """Return a shard of some units, in memory, without name or files."""
    names = StringTable()
    nodes = [(d, i) for i, u in enumerate(units) for d in u.nodes]
    grips = [(d, i) for i, u in enumerate(units) for d in u.grips]
    tables = [Columns.from_documents([d for d, _ in rows], [i for _, i in rows], names) for rows in (nodes, grips)]
    return Shard("", Units.from_units(units), tables[0], tables[1], tuple(names.strings), kind.build_body(prepared))


def write_shard(kind: IndexKind[B], shard: Shard[B], directory: Path) -> dict[str, FileChecksum]:
    """Write a shard; return its checksums. Raises OSError."""
    directory.mkdir(mode=0o700)
    write_arrays(directory / _NODES, shard.nodes.as_arrays())
    write_arrays(directory / _GRIPS, shard.grips.as_arrays())
    write_arrays(directory / _UNITS, shard.units.as_arrays())
    (directory / _STRINGS).write_text(json.dumps(shard.strings), encoding="utf-8")
    kind.write_body(shard.body, directory)
    return seal_folder(directory)


def read_shard(
    kind: IndexKind[B], directory: Path, files: dict[str, FileChecksum], scratch: Path, trusted: bool = False
) -> Shard[B]:
    """Return a shard from its files, verified unless trusted.

    `scratch` is a folder for a private copy (see `FolderContents`). Raises IndexUnreadable when files are missing
    or have changed.
    """
    contents = FolderContents(directory, files, scratch, trusted)
    unit_columns = contents.read_arrays(_UNITS, UNIT_COLUMN_NAMES)
    return Shard(
        name=directory.name,
        units=Units.from_columns(*(unit_columns[n] for n in UNIT_COLUMN_NAMES)),
        nodes=Columns.from_arrays(contents.read_arrays(_NODES, COLUMN_NAMES)),
        grips=Columns.from_arrays(contents.read_arrays(_GRIPS, COLUMN_NAMES)),
        strings=tuple(contents.json_of(_STRINGS)),
        body=kind.read_body(contents),
        files=files,
        maps=tuple(contents.maps.values()),
    )


class LiveShard(Generic[B]):
    """A shard and which of its units are alive. Immutable."""

    __slots__ = (
        "_alive_rows",
        "_by_grip",
        "_by_message",
        "_exchange_starts",
        "_messages",
        "_order",
        "_score_factors",
        "_segments",
        "alive",
        "counts",
        "masks",
        "shard",
    )

    def __init__(self, shard: Shard[B], alive: Array | None = None, order: Array | None = None) -> None:
        """`alive` is `(units,)` bool; `order` are indices of units by key."""
        self.shard = shard
        #: Which units are alive, `(units,)` bool; None for all.
        self.alive = alive
        self._order = np.argsort(shard.units.key, kind="stable") if order is None else order
        self._segments: Array | None = None
        self._messages: Messages | None = None
        #: Names of the messages, sorted, and the index of each.
        self._by_message: tuple[Array, Array] | None = None
        self._by_grip: Array | None = None
        self._score_factors: Array | None = None
        self._exchange_starts: Array | None = None
        self._alive_rows: dict[DocType, Array | None] = dict.fromkeys(TABLES)
        #: Number of living documents by table.
        self.counts = {t: len(shard.table(t)) for t in TABLES}
        if alive is not None:
            for table in TABLES:
                rows: Array = alive[shard.table(table).unit]
                self._alive_rows[table], self.counts[table] = rows, int(np.count_nonzero(rows))
        #: Cached masks of recent filters; see `snapshot.findable`.
        self.masks: dict[object, Array] = {}

    def alive_rows(self, table: DocType) -> Array | None:
        """Return which rows of a table are alive; None for all."""
        return self._alive_rows[table]

    def rows_outside(self, table: DocType, session: int, since_ms: int) -> Array:
        """Return which rows are of other sessions or begin before a moment."""
        outside: Array = np.ones(len(self.shard.table(table)), dtype=bool)
        units = self.shard.units
        first, count = (units.node_first, units.node_count) if table is DocType.NODE else (units.grip_first, units.grip_count)
        of_session = np.flatnonzero(units.session == np.uint64(session))
        rows = expand_ranges(first[of_session], count[of_session])
        outside[rows[self.shard.table(table).start[rows] >= since_ms]] = False
        return outside

    def segment_rows(self) -> Array:
        """Return which rows of nodes are living segments."""
        if self._segments is None:
            rows: Array = self.shard.nodes.level == SEGMENT_CODE
            alive = self._alive_rows[DocType.NODE]
            self._segments = rows if alive is None else rows & alive
        return self._segments

    @property
    def messages(self) -> Messages:
        """The grips grouped by message, replaced ones included."""
        if self._messages is None:
            self._messages = Messages.from_grips(self.shard.grips)
        return self._messages

    @property
    def score_factors(self) -> Array:
        """See `score_factors_of`; computed once."""
        if self._score_factors is None:
            self._score_factors = score_factors_of(self.shard.grips)
        return self._score_factors

    @property
    def exchange_starts(self) -> Array:
        """See `exchange_starts_of`; computed once."""
        if self._exchange_starts is None:
            self._exchange_starts = exchange_starts_of(self.shard.grips, self.messages)
        return self._exchange_starts

    def messages_named(self, names: Array) -> Array:
        """Return the living messages with these names, ascending."""
        if not len(self.shard.grips) or not len(names):
            return np.zeros(0, dtype=np.int64)
        if self._by_message is None:
            message_names = self.shard.grips.message[self.messages.first]
            order = np.argsort(message_names, kind="stable").astype(np.int32)
            self._by_message = (message_names[order], order)
        sorted_names, order = self._by_message
        at = np.minimum(np.searchsorted(sorted_names, names), len(order) - 1)
        indices: Array = sort_distinct(order[at[sorted_names[at] == names]]).astype(np.int64)
        return indices if self.alive is None else indices[self.alive[self.messages.unit[indices]]]

    def rows_of_grips(self, high: Array, low: Array) -> Array:
        """Return each grip's row by the halves of its key; -1 if not alive."""
        grips = self.shard.grips
        rows = np.full(len(low), -1, dtype=np.int64)
        if not len(grips):
            return rows
        if self._by_grip is None:
            self._by_grip = np.argsort(grips.lo, kind="stable").astype(np.int32)
        order = self._by_grip
        at = np.searchsorted(grips.lo, low, sorter=order)
        pending = np.arange(len(low))
        while len(pending):  # once, unless several grips share a low half
            pending = pending[at[pending] < len(order)]
            candidate_rows = order[at[pending]]
            pending, candidate_rows = pending[same := grips.lo[candidate_rows] == low[pending]], candidate_rows[same]
            is_match = grips.hi[candidate_rows] == high[pending]
            rows[pending[is_match]] = candidate_rows[is_match]
            pending = pending[~is_match]
            at[pending] += 1
        if self.alive is not None:
            rows[(rows >= 0) & ~self.alive[grips.unit[rows]]] = -1
        return rows

    @property
    def size(self) -> int:
        """Number of living documents."""
        return sum(self.counts.values())

    def find_units(self, keys: Array) -> Array:
        """Return living units with these keys, in the order of the keys."""
        order, unit_keys = self._order, self.shard.units.key
        if not len(unit_keys) or not len(keys):
            return np.zeros(0, dtype=np.int64)
        at = np.minimum(np.searchsorted(unit_keys, keys, sorter=order), len(unit_keys) - 1)
        indices: Array = order[at]
        indices = indices[unit_keys[indices] == keys]
        return indices if self.alive is None else indices[self.alive[indices]]

    def without_units(self, places: Array) -> "LiveShard[B]":
        """Return the same shard without some units; itself for none."""
        if not len(places):
            return self
        alive = np.ones(len(self.shard.units), dtype=bool) if self.alive is None else self.alive.copy()
        alive[places] = False
        reduced = LiveShard(self.shard, alive, self._order)
        reduced._messages, reduced._by_message, reduced._by_grip = self._messages, self._by_message, self._by_grip
        reduced._score_factors, reduced._exchange_starts = self._score_factors, self._exchange_starts
        return reduced

    def dropped_in(self, later: "LiveShard[B]") -> Array:
        """Return units that are alive here and not in a later state."""
        if later.alive is None:
            return np.zeros(0, dtype=np.int64)
        lost: Array = np.flatnonzero(~later.alive if self.alive is None else self.alive & ~later.alive)
        return lost

    def dead_units(self) -> list[int]:
        """Return the dead units, ascending, for a manifest."""
        return [] if self.alive is None else np.flatnonzero(~self.alive).tolist()

    def living_units(self) -> list[int]:
        """Return the living units, ascending."""
        return list(range(len(self.shard.units))) if self.alive is None else np.flatnonzero(self.alive).tolist()


def merge_shards(kind: IndexKind[B], live_shards: Sequence[LiveShard[B]]) -> Shard[B]:
    """Return one shard of the living units of several, in memory.

    A key that several shards have is not deduplicated.
    """
    names = StringTable()
    units: list[tuple[Array, ...]] = []
    tables: dict[DocType, list[Columns]] = {t: [] for t in TABLES}
    kept_rows: list[tuple[Array, Array]] = []
    unit_count = 0
    for live in live_shards:
        shard = live.shard
        places = np.array(live.living_units(), dtype=np.int64)
        moved = np.zeros(len(shard.units), dtype=np.int64)
        moved[places] = unit_count + np.arange(len(places))
        unit_count += len(places)
        rows = []
        for table in TABLES:
            alive = live.alive_rows(table)
            rows.append(np.arange(len(shard.table(table))) if alive is None else np.flatnonzero(alive))
        # Strings that only dropped units had are dropped too.
        codes = np.zeros(len(shard.strings), dtype=np.int64)
        for code in sorted(
            {c for t, table_rows in zip(TABLES, rows, strict=True) for c in shard.table(t).used_codes(table_rows).tolist()}
        ):
            codes[code] = names.add(shard.strings[code])
        kept_rows.append((rows[0], rows[1]))
        for table, table_rows in zip(TABLES, rows, strict=True):
            tables[table].append(shard.table(table).select_rows(table_rows, moved, codes))
        columns = shard.units
        units.append(
            tuple(
                a[places]
                for a in (columns.key, columns.level, columns.end, columns.node_count, columns.grip_count, columns.session)
            )
        )
    body = kind.merge_bodies([live.shard.body for live in live_shards], kept_rows)
    merged_units = Units.from_columns(*(np.concatenate(c) for c in zip(*units, strict=True)))
    nodes, grips = (Columns.concatenate(tables[t]) for t in TABLES)
    return Shard("", merged_units, nodes, grips, tuple(names.strings), body)


def expired_units(live: LiveShard[B], cutoffs: Mapping[str, int], counts: dict[str, int]) -> Array:
    """Return living units that ended before their level's cutoff.

    `cutoffs` are UTC milliseconds by level. Adds their documents by level to `counts`.
    """
    units = live.shard.units
    limits = np.array([cutoffs.get(level.value, 0) for level in LEVELS], dtype=np.int64)
    places = np.array(live.living_units(), dtype=np.int64)
    places = places[units.end[places] < limits[units.level[places]]]
    for index in places.tolist():
        level = LEVELS[int(units.level[index])].value
        counts[level] = counts.get(level, 0) + int(units.node_count[index] + units.grip_count[index])
    return places
