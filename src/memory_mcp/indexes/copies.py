"""What a hit shows, copied beside the postings and read by row: nodes whole, grips with their words and whose they are.

The store reads by id slowly: 25 events take 15 ms at 48,000 events, and more with each event that is stored; a row here
takes some microseconds. The copy is as disposable as the index. A quotation is given only while its words have the hash
that was taken of them in the store; what proves a quotation is read from the store itself (`events.evidence`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.indexes.columns import Names
from memory_mcp.indexes.files import Array, Contents, write_arrays
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.grip import Said, quote_hash
from memory_mcp.model.ids import NodeId, event_id_from, event_key
from memory_mcp.model.toc import MemoryKind, TocBullet, TocNode

#: What is coded of a quotation, in the order of `Said`.
_CODED = ("session_id", "project", "agent", "role", "speaker", "kind")
_ARRAYS = ("node_ends", "quote_ends", "event_hi", "event_lo", "hash", "codes")
_COLUMNS, _STRINGS, _NODES, _QUOTES = "copies.npys", "copies.json", "nodes.bin", "quotes.bin"
_LOW = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts one behind the other, as UTF-8."""

    data: bytes | memoryview
    #: `(n,)` int64.
    ends: Array

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> "Texts":
        """From texts in order."""
        return cls(b"".join(texts), np.cumsum([len(t) for t in texts], dtype="<i8"))

    def at(self, row: int) -> str:
        """One text."""
        start = int(self.ends[row - 1]) if row else 0
        return str(self.data[start : int(self.ends[row])], "utf-8", "surrogatepass")

    def taken(self, rows: Array) -> "Texts":
        """Some of them: copied by runs of rows that follow each other, not one by one."""
        if not len(rows):
            return Texts(b"", np.zeros(0, dtype="<i8"))
        starts = np.concatenate([[0], self.ends])
        begins = np.flatnonzero(np.concatenate([[True], np.diff(rows) != 1]))
        last = np.append(begins[1:], len(rows)) - 1
        runs = [self.data[starts[rows[a]] : starts[rows[b] + 1]] for a, b in zip(begins.tolist(), last.tolist(), strict=True)]
        return Texts(b"".join(runs), np.cumsum(starts[rows + 1] - starts[rows], dtype="<i8"))

    @classmethod
    def joined(cls, several: "Sequence[Texts]") -> "Texts":
        """One behind the other."""
        before = np.cumsum([0, *(len(t.data) for t in several)])
        ends = [t.ends + start for t, start in zip(several, before.tolist(), strict=False)]
        return cls(b"".join(t.data for t in several), np.concatenate(ends) if ends else np.zeros(0, dtype="<i8"))


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of the rows of a part's two tables; a row without one is empty."""

    nodes: Texts
    quotes: Texts
    #: Of grips: halves of the event's key, hash of the words, `(grips, 6)` places of strings.
    event_hi: Array
    event_lo: Array
    hash: Array
    codes: Array
    strings: tuple[str, ...]

    @classmethod
    def of(cls, nodes: Sequence[TocNode | None], grips: Sequence[Said | None]) -> "Copies":
        """From what is shown of each row."""
        names = Names([""])
        keys = [event_key(g.event_id) if g else 0 for g in grips]
        codes = [[names.code(getattr(g, name)) for name in _CODED] if g else [0] * len(_CODED) for g in grips]
        return cls(
            Texts.of([_packed(n) if n else b"" for n in nodes]),
            Texts.of([g.quote.encode("utf-8", "surrogatepass") if g else b"" for g in grips]),
            np.array([k >> 64 for k in keys], dtype="<u8"),
            np.array([k & _LOW for k in keys], dtype="<u8"),
            np.array([g.quote_hash if g else 0 for g in grips], dtype="<i8"),
            np.array(codes, dtype="<i4").reshape(len(grips), len(_CODED)),
            tuple(names.strings),
        )

    def node(self, row: int, whole: bool) -> TocNode | None:
        """What is shown of a row of the table of nodes, its bullets if it is wanted `whole`; None where nothing was copied."""
        text = self.nodes.at(row)
        return _unpacked(text, whole) if text else None

    def said(self, row: int, timestamp: int) -> Said | None:
        """What is shown of a row of the table of grips; None where nothing was copied, or the words are others."""
        quote, expected = self.quotes.at(row), int(self.hash[row])
        if not quote or quote_hash(quote) != expected:
            return None
        event = event_id_from(int(self.event_hi[row]) << 64 | int(self.event_lo[row]))
        session_id, project, agent, role, speaker, kind = (self.strings[c] for c in self.codes[row].tolist())
        return Said(quote, event, timestamp, session_id, project, agent, role, speaker, kind, expected)

    @classmethod
    def joined(cls, several: "Sequence[Copies]", kept: Sequence[tuple[Array, Array]]) -> "Copies":
        """Of each the rows (nodes, grips) that are kept, in order."""
        names = Names([""])
        codes = [_coded(c.codes[rows], c.strings, names) for c, (_, rows) in zip(several, kept, strict=True)]
        picked = {
            name: np.concatenate([getattr(c, name)[rows] for c, (_, rows) in zip(several, kept, strict=True)])
            for name in ("event_hi", "event_lo", "hash")
        }
        nodes = Texts.joined([c.nodes.taken(rows) for c, (rows, _) in zip(several, kept, strict=True)])
        quotes = Texts.joined([c.quotes.taken(rows) for c, (_, rows) in zip(several, kept, strict=True)])
        return cls(nodes, quotes, **picked, codes=np.concatenate(codes), strings=tuple(names.strings))

    def write(self, directory: Path) -> None:
        """Files of them."""
        held = (self.nodes.ends, self.quotes.ends, self.event_hi, self.event_lo, self.hash, self.codes)
        write_arrays(directory / _COLUMNS, dict(zip(_ARRAYS, held, strict=True)))
        (directory / _STRINGS).write_text(json.dumps(self.strings), encoding="utf-8")
        (directory / _NODES).write_bytes(self.nodes.data)
        (directory / _QUOTES).write_bytes(self.quotes.data)

    @classmethod
    def read(cls, contents: Contents) -> "Copies":
        """What was written; the texts stay where they lie."""
        held = contents.arrays(_COLUMNS, _ARRAYS)
        return cls(
            Texts(contents.bytes_of(_NODES), held["node_ends"]),
            Texts(contents.bytes_of(_QUOTES), held["quote_ends"]),
            held["event_hi"],
            held["event_lo"],
            held["hash"],
            held["codes"],
            tuple(contents.json_of(_STRINGS)),
        )


def _coded(codes: Array, strings: Sequence[str], names: Names) -> Array:
    """Places of strings as new places among `names`; strings that no place leads to are left behind."""
    moved = np.zeros(len(strings), dtype="<i4")
    for code in np.unique(codes).tolist():
        moved[code] = names.code(strings[code])
    fresh: Array = moved[codes]
    return fresh


_NAMES = [f.name for f in fields(TocNode)]
_BULLETS, _PINNED = _NAMES.index("bullets"), _NAMES.index("pinned")


def _packed(node: TocNode) -> bytes:
    values: list[Any] = [getattr(node, name) for name in _NAMES]
    values[_PINNED] = False
    values[_BULLETS] = [[b.text, b.grip_ids, b.kind, b.project, b.agent] for b in node.bullets]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _unpacked(text: str, whole: bool) -> TocNode:
    held = dict(zip(_NAMES, json.loads(text), strict=True))
    held["bullets"] = tuple(
        TocBullet(said, tuple(grips), MemoryKind(kind), project, agent)
        for said, grips, kind, project, agent in (held["bullets"] if whole else ())
    )
    held |= {name: tuple(held[name]) for name in ("keywords", "agents", "projects")}
    held |= {"node_id": NodeId(held["node_id"]), "level": TocLevel(held["level"]), "kind": MemoryKind(held["kind"])}
    return TocNode(**held)
