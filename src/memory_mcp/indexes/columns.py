"""The columns that filters read: a shard has one table of nodes and one of grips."""

from collections.abc import Mapping, Sequence

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.base import Filters, Visibility
from memory_mcp.indexes.document import IndexDocument, Unit
from memory_mcp.indexes.files import Array
from memory_mcp.model.calendar import LEVELS, TimeWindow, TocLevel
from memory_mcp.model.event import Role
from memory_mcp.model.exchange import TurnKind
from memory_mcp.model.toc import MemoryKind

#: Stored by index: only append.
_KINDS = ("", "procedure", "constraint", "definition", "preference", "observation", MemoryKind.DECISION.value)
#: Stored by index: only append.
ROLES = ("", Role.USER.value, Role.ASSISTANT.value, Role.SYSTEM.value, Role.TOOL.value)
#: Separator of names in one string.
_NAME_SEPARATOR = "\x1f"
_TYPES = {
    "hi": "<u8", "lo": "<u8", "start": "<i8", "end": "<i8", "level": "u1", "kind": "u1", "scope": "u1",
    "project": "<i4", "agents": "<i4", "speakers": "<i4", "unit": "<i4", "message": "<u8", "role": "u1", "asks": "u1",
    "turn": "u1",
}  # fmt: skip
COLUMN_NAMES = tuple(_TYPES)
#: Columns of units on disk, in the order of `Units.counted`.
UNIT_COLUMN_NAMES = ("key", "level", "end", "nodes", "grips", "session")
#: Columns that hold codes of strings.
_STRING_COLUMNS = ("project", "agents", "speakers")
#: Columns that often have one value in all rows: only then it is written once.
_SHARED_COLUMNS = (*_STRING_COLUMNS, "level", "kind", "scope", "message", "role", "asks", "turn")
#: Bits of the upper half of a key that are below its time.
_BELOW_TIME = 16
#: Code of the level of segments.
SEGMENT_CODE = LEVELS.index(TocLevel.SEGMENT)


class StringTable:
    """The distinct strings of a shard and their codes."""

    def __init__(self, strings: Sequence[str] = ()) -> None:
        """Start with strings whose codes are their indices."""
        self.strings = list(strings)
        self._codes = {s: i for i, s in enumerate(self.strings)}

    def add(self, text: str) -> int:
        """Return the code of a string, added if it is new."""
        code = self._codes.setdefault(text, len(self.strings))
        if code == len(self.strings):
            self.strings.append(text)
        return code


@dataclass(frozen=True, slots=True)
class Columns:
    """The documents of one table; arrays are `(documents,)` as in `_TYPES`."""

    #: Halves of the keys.
    hi: Array
    lo: Array
    #: Times, UTC milliseconds.
    start: Array
    end: Array
    #: Indices in `LEVELS`, in `_KINDS`, and values of `Visible`.
    level: Array
    kind: Array
    scope: Array
    #: Codes of strings, int32, or uint8 as read from a file; several names are joined by `_NAME_SEPARATOR`.
    project: Array
    agents: Array
    speakers: Array
    #: Index of each document's unit, ascending.
    unit: Array
    #: For grips: the name of the message each was cut from (0: a message of its own); those of one message are adjacent.
    message: Array
    #: For grips: index of the role in `ROLES`.
    role: Array
    #: For grips: share of questions in the text, in steps of 1/255.
    asks: Array
    #: The `TurnKind` of a grip's message, or of a segment (see `document`).
    turn: Array

    def __len__(self) -> int:
        return len(self.hi)

    @classmethod
    def from_documents(cls, documents: Sequence[IndexDocument], units: Sequence[int], strings: StringTable) -> "Columns":
        """Return the columns of documents; new strings are added.

        `units` are the indices of their units. Raises ValueError for a kind or role that has no stored index.
        """
        rows = [
            (*d.key, d.start_ms, d.end_ms, LEVELS.index(d.level), _KINDS.index(d.kind), int(d.visible), strings.add(d.project),
             strings.add(_NAME_SEPARATOR.join(d.agents)), strings.add(_NAME_SEPARATOR.join(d.speakers)), unit, d.message,
             ROLES.index(d.role), d.question_share, int(d.turn))
            for d, unit in zip(documents, units, strict=True)
        ]  # fmt: skip
        columns = zip(*rows, strict=True) if rows else ([] for _ in COLUMN_NAMES)
        return cls(*(np.array(c, dtype=t) for c, t in zip(columns, _TYPES.values(), strict=True)))

    def select_rows(self, rows: Array, units: Array, codes: Array) -> "Columns":
        """Return some rows, with new unit indices and string codes.

        `units` and `codes` hold the new index or code by the old one.
        """
        picked = {n: getattr(self, n)[rows] for n in COLUMN_NAMES}
        for name in _STRING_COLUMNS:
            picked[name] = codes[picked[name]].astype("<i4")
        picked["unit"] = units[picked["unit"]].astype("<i4")
        return Columns(**picked)

    def used_codes(self, rows: Array) -> Array:
        """Return the distinct string codes in some rows, sorted."""
        return sort_distinct(np.concatenate([getattr(self, name)[rows] for name in _STRING_COLUMNS]))

    @classmethod
    def concatenate(cls, tables: Sequence["Columns"]) -> "Columns":
        """Return all tables in one; unit indices and codes are unchanged."""
        return cls(**{n: np.concatenate([getattr(t, n) for t in tables]) for n in COLUMN_NAMES})

    def as_arrays(self) -> dict[str, Array]:
        """Return all columns by name, as they are written.

        Of a column whose values are equal, only the first; none of ends that are the starts, nor of starts that are the times
        that keys begin with; codes of strings in a byte if they are few. Together half of the bytes of a table of grips.
        """
        arrays: dict[str, Array] = {n: getattr(self, n) for n in COLUMN_NAMES}
        if np.array_equal(self.end, self.start):
            arrays["end"] = self.end[:0]
        if np.array_equal(self.start, _times_of(self.hi)):
            arrays["start"] = self.start[:0]
        for name in _STRING_COLUMNS:
            if arrays[name].max(initial=0) <= np.iinfo(np.uint8).max:
                arrays[name] = arrays[name].astype(np.uint8)
        for name in _SHARED_COLUMNS:
            if len(self) > 1 and (arrays[name] == arrays[name][0]).all():
                arrays[name] = arrays[name][:1]
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "Columns":
        """Return the columns that `as_arrays` returned, views of the arrays. Raises IndexUnreadable if lengths differ."""
        rows = len(arrays["hi"])
        start = arrays["start"] if len(arrays["start"]) else _times_of(arrays["hi"])
        columns = {**arrays, "start": start, "end": arrays["end"] if len(arrays["end"]) else start}
        if not {len(column) for column in columns.values()} <= {1, rows}:
            raise IndexUnreadable("the columns of a table have different lengths")
        return cls(**{n: column if len(column) == rows else np.broadcast_to(column, rows) for n, column in columns.items()})

    def passes_filters(self, filters: Filters, strings: Sequence[str]) -> Array:
        """Return which rows pass the filters, `(n,)` bool.

        The document type is not looked at. Without a project, projects' shares of periods are hidden; with one, what
        mixes projects is. Agents match exactly, speakers in any case. Rows must be in the window, but segments may
        cross its edges (see `crosses_edge`). Raises ValueError for an unknown role.
        """
        hidden = Visibility.SCOPED if filters.project is None else Visibility.UNSCOPED
        mask: Array = self.scope != hidden
        if filters.project is not None:
            mask &= np.array([s == filters.project for s in strings], dtype=bool)[self.project]
        if filters.agent is not None:
            mask &= np.array([filters.agent in s.split(_NAME_SEPARATOR) for s in strings], dtype=bool)[self.agents]
        if filters.speaker is not None:
            speaker = filters.speaker.casefold()
            mask &= np.array([speaker in s.casefold().split(_NAME_SEPARATOR) for s in strings], dtype=bool)[self.speakers]
        if filters.role is not None:
            mask &= self.role == ROLES.index(filters.role)
        if filters.kind is not None:
            mask &= self.kind == _KINDS.index(filters.kind.value)
        if filters.level is not None:
            mask &= self.level == LEVELS.index(filters.level)
        if filters.window is not None:
            # Grips and periods are inside; a segment may cross an edge (see `crosses_edge`).
            start_ms, end_ms = filters.window.start_ms, filters.window.end_ms
            is_inside = (self.start >= start_ms) & (self.end <= end_ms)
            mask &= (self.start < end_ms) & (is_inside | ((self.level == SEGMENT_CODE) & (self.end >= start_ms)))
        return mask

    def crosses_edge(self, rows: Array, window: TimeWindow) -> Array:
        """Return which of some rows are segments that cross the window's edge."""
        outside: Array = (self.start[rows] < window.start_ms) | (self.end[rows] >= window.end_ms)
        outside &= self.level[rows] == SEGMENT_CODE
        return outside


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a shard, and the rows of their documents; arrays are `(units,)`."""

    #: Keys, uint64; indices in `LEVELS`; times of the end, UTC milliseconds.
    key: Array
    level: Array
    end: Array
    #: First row and number of rows of each in the tables of nodes and grips, int32.
    node_first: Array
    node_count: Array
    grip_first: Array
    grip_count: Array
    #: Name of each segment's session; 0 for periods.
    session: Array

    def __len__(self) -> int:
        return len(self.key)

    @classmethod
    def from_units(cls, units: Sequence[Unit]) -> "Units":
        """Return columns of units, whose documents are adjacent in order."""
        nodes = np.array([len(u.nodes) for u in units], dtype="<i4")
        grips = np.array([len(u.grips) for u in units], dtype="<i4")
        return cls.from_columns(
            np.array([u.key for u in units], dtype="<u8"),
            np.array([LEVELS.index(u.level) for u in units], dtype="u1"),
            np.array([u.end_ms for u in units], dtype="<i8"),
            nodes,
            grips,
            np.array([u.session for u in units], dtype="<u8"),
        )

    @classmethod
    def from_columns(cls, key: Array, level: Array, end: Array, nodes: Array, grips: Array, session: Array) -> "Units":
        """Return units from columns; first rows are computed from counts."""
        return cls(key, level, end, _first_rows(nodes), nodes, _first_rows(grips), grips, session)

    def as_arrays(self) -> dict[str, Array]:
        """Return by name the columns that are stored."""
        columns = (self.key, self.level, self.end, self.node_count, self.grip_count, self.session)
        return dict(zip(UNIT_COLUMN_NAMES, columns, strict=True))


def _times_of(hi: Array) -> Array:
    """Return the times that the keys of events and grips begin with: their upper 48 bits of 128."""
    times: Array = (hi >> np.uint64(_BELOW_TIME)).astype(np.int64)
    return times


def _first_rows(counts: Array) -> Array:
    firsts = np.zeros(len(counts), dtype="<i4")
    np.cumsum(counts[:-1], out=firsts[1:])
    return firsts


def is_turn(turns: Array, kinds: TurnKind) -> Array:
    """Return which turns are of any of some kinds, `(n,)` bool."""
    # With the flag itself numpy takes ten times as long.
    of_kinds: Array = (turns & int(kinds)) != 0
    return of_kinds


def is_among(values: Array, others: Array) -> Array:
    """Return which values are among others, `(n,)` bool.

    For a few hundred of each in a quarter of the time of `np.isin`.
    """
    if not len(others):
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(others)
    found: Array = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found


def sort_distinct(values: Array) -> Array:
    """Return the distinct values, sorted: `np.unique` would load numpy's masked arrays for it (20 ms of a first answer)."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    distinct: Array = ordered[is_first]
    return distinct


def expand_ranges(starts: Array, counts: Array) -> Array:
    """Return start, start + 1, ... of each range, concatenated, int64."""
    wide = counts.astype(np.int64)
    places: Array = np.repeat(starts - np.cumsum(wide) + wide, wide) + np.arange(wide.sum())
    return places
