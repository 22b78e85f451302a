"""What filters ask about documents, one array per question; a part has one table of nodes and one of grips."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from memory_mcp.indexes.base import Filters, Visible
from memory_mcp.indexes.document import IndexDocument, Unit
from memory_mcp.indexes.files import Array
from memory_mcp.model.calendar import LEVELS, TimeWindow, TocLevel
from memory_mcp.model.event import Role
from memory_mcp.model.toc import MemoryKind

#: On disk by place: only ever added to.
_KINDS = ("", "procedure", "constraint", "definition", "preference", "observation", MemoryKind.DECISION.value)
#: On disk by place: only ever added to.
ROLES = ("", Role.USER.value, Role.ASSISTANT.value, Role.SYSTEM.value, Role.TOOL.value)
#: Between the names of one list of names.
_AND = "\x1f"
_TYPES = {
    "hi": "<u8", "lo": "<u8", "start": "<i8", "end": "<i8", "level": "u1", "kind": "u1", "seen": "u1",
    "project": "<i4", "agents": "<i4", "speakers": "<i4", "unit": "<i4", "message": "<u8", "role": "u1", "asks": "u1",
}  # fmt: skip
NAMES = tuple(_TYPES)
#: What is written of units, in the order of `Units.counted`.
UNIT_NAMES = ("key", "level", "end", "nodes", "grips", "session")
#: Columns of places of strings.
_NAMED = ("project", "agents", "speakers")
#: Code of the level of segments.
SEGMENT = LEVELS.index(TocLevel.SEGMENT)


class Names:
    """Strings of a part, each once."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.strings = list(known)
        self._codes = {s: i for i, s in enumerate(self.strings)}

    def code(self, text: str) -> int:
        """The number of a string, given now if it has none."""
        code = self._codes.setdefault(text, len(self.strings))
        if code == len(self.strings):
            self.strings.append(text)
        return code


@dataclass(frozen=True, slots=True)
class Columns:
    """The documents of one table; all arrays are as long as it."""

    hi: Array
    lo: Array
    start: Array
    end: Array
    level: Array
    kind: Array
    seen: Array
    project: Array
    agents: Array
    speakers: Array
    #: Place of the unit each belongs to; never falls.
    unit: Array
    #: Of grips: what names the message each was cut from (0: a message of its own); those of one follow each other.
    message: Array
    #: Of grips: place of who said it in `ROLES`.
    role: Array
    #: Of grips: share that only asks, in steps of 1/255.
    asks: Array

    def __len__(self) -> int:
        """Documents."""
        return len(self.hi)

    @classmethod
    def of(cls, documents: Sequence[IndexDocument], units: Sequence[int], names: Names) -> "Columns":
        """From documents, and the place of the unit of each."""
        rows = [
            (*d.key, d.start_ms, d.end_ms, LEVELS.index(d.level), _KINDS.index(d.kind), int(d.visible), names.code(d.project),
             names.code(_AND.join(d.agents)), names.code(_AND.join(d.speakers)), unit, d.message, ROLES.index(d.role), d.asks)
            for d, unit in zip(documents, units, strict=True)
        ]  # fmt: skip
        columns = zip(*rows, strict=True) if rows else ([] for _ in NAMES)
        return cls(*(np.array(c, dtype=t) for c, t in zip(columns, _TYPES.values(), strict=True)))

    def taken(self, rows: Array, units: Array, codes: Array) -> "Columns":
        """Some rows, with new places of their units (by old place) and new codes of their strings (by old code)."""
        picked = {n: getattr(self, n)[rows] for n in NAMES}
        for name in _NAMED:
            picked[name] = codes[picked[name]].astype("<i4")
        picked["unit"] = units[picked["unit"]].astype("<i4")
        return Columns(**picked)

    def named(self, rows: Array) -> Array:
        """Return the codes of strings that some rows have."""
        codes: Array = np.unique(np.concatenate([getattr(self, name)[rows] for name in _NAMED]))
        return codes

    @classmethod
    def joined(cls, tables: Sequence["Columns"]) -> "Columns":
        """One behind the other."""
        return cls(**{n: np.concatenate([getattr(t, n) for t in tables]) for n in NAMES})

    def arrays(self) -> dict[str, Array]:
        """By name, to be written."""
        return {n: getattr(self, n) for n in NAMES}

    def mask(self, filters: Filters, strings: Sequence[str]) -> Array:
        """Which rows may be found."""
        hidden = Visible.SCOPED if filters.project is None else Visible.UNSCOPED
        mask: Array = self.seen != hidden
        if filters.project is not None:
            mask &= _holding(self.project, strings, lambda s: s == filters.project)
        if filters.agent is not None:
            mask &= _holding(self.agents, strings, lambda s: filters.agent in s.split(_AND))
        if filters.speaker is not None:
            wanted = filters.speaker.casefold()
            mask &= _holding(self.speakers, strings, lambda s: wanted in s.casefold().split(_AND))
        if filters.role is not None:
            mask &= self.role == ROLES.index(filters.role)
        if filters.kind is not None:
            mask &= self.kind == _KINDS.index(filters.kind.value)
        if filters.level is not None:
            mask &= self.level == LEVELS.index(filters.level)
        return mask if filters.window is None else mask & self._inside(filters.window)

    def _inside(self, window: TimeWindow) -> Array:
        """Grips and periods lie inside; a segment may reach over an edge (see `partly`)."""
        whole: Array = (self.start >= window.start_ms) & (self.end <= window.end_ms)
        meets = (self.level == SEGMENT) & (self.start < window.end_ms) & (self.end >= window.start_ms)
        inside: Array = (self.start < window.end_ms) & (whole | meets)
        return inside

    def partly(self, rows: Array, window: TimeWindow) -> Array:
        """Of some rows, which are segments that reach over an edge of the window: words of theirs may lie outside."""
        outside: Array = (self.start[rows] < window.start_ms) | (self.end[rows] >= window.end_ms)
        outside &= self.level[rows] == SEGMENT
        return outside


def _holding(codes: Array, strings: Sequence[str], fits: Callable[[str], bool]) -> Array:
    """Rows whose string fits, each string asked once."""
    fitting: Array = np.fromiter(map(fits, strings), dtype=bool, count=len(strings))[codes]
    return fitting


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a part in order, and where their documents lie in its tables."""

    key: Array
    level: Array
    end: Array
    node_first: Array
    node_count: Array
    grip_first: Array
    grip_count: Array
    #: Names the session of each segment; 0 for periods.
    session: Array

    def __len__(self) -> int:
        """Units."""
        return len(self.key)

    @classmethod
    def of(cls, units: Sequence[Unit]) -> "Units":
        """From units in order."""
        nodes = np.array([len(u.nodes) for u in units], dtype="<i4")
        grips = np.array([len(u.grips) for u in units], dtype="<i4")
        return cls.counted(
            np.array([u.key for u in units], dtype="<u8"),
            np.array([LEVELS.index(u.level) for u in units], dtype="u1"),
            np.array([u.end_ms for u in units], dtype="<i8"),
            nodes,
            grips,
            np.array([u.session for u in units], dtype="<u8"),
        )

    @classmethod
    def counted(cls, key: Array, level: Array, end: Array, nodes: Array, grips: Array, session: Array) -> "Units":
        """From how many documents each has: they follow each other."""
        return cls(key, level, end, _firsts(nodes), nodes, _firsts(grips), grips, session)

    def arrays(self) -> dict[str, Array]:
        """What cannot be computed, to be written."""
        held = (self.key, self.level, self.end, self.node_count, self.grip_count, self.session)
        return dict(zip(UNIT_NAMES, held, strict=True))


def _firsts(counts: Array) -> Array:
    firsts = np.zeros(len(counts), dtype="<i4")
    np.cumsum(counts[:-1], out=firsts[1:])
    return firsts


def ranges(starts: Array, counts: Array) -> Array:
    """Return start, start + 1, ... for each of some ranges, one behind the other, int64."""
    wide = counts.astype(np.int64)
    places: Array = np.repeat(starts - np.cumsum(wide) + wide, wide) + np.arange(wide.sum())
    return places
