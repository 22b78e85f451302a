"""Copies of what hits show, stored next to the postings and read by row.

Reading by id from the store is slow: 25 events take 15 ms at 48,000 events, and more as the store grows; a row
here takes microseconds. A copy is as disposable as the index. A quotation is returned only if its words still
have the hash taken in the store; citations are verified against the store itself (`events.evidence`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memory_mcp.indexes.columns import StringTable
from memory_mcp.indexes.files import Array, FolderContents, write_arrays
from memory_mcp.model.grip import Quotation, hash_quote
from memory_mcp.model.ids import event_id_from, event_key
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.rows import pack_node, unpack_node

#: Fields of a quotation stored as string codes, in the order of `Quotation`.
_CODED = ("session_id", "project", "agent", "role", "speaker", "kind")
_ARRAYS = ("node_ends", "quote_ends", "event_hi", "event_lo", "hash", "codes")
_COLUMNS, _STRINGS, _NODES, _QUOTES = "copies.npys", "copies.json", "nodes.bin", "quotes.bin"
_LOW = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class PackedTexts:
    """Texts concatenated as UTF-8."""

    data: bytes | memoryview
    #: End of each text, `(n,)` int64.
    ends: Array

    @classmethod
    def from_bytes(cls, texts: Sequence[bytes]) -> "PackedTexts":
        """Return UTF-8 texts in order."""
        return cls(b"".join(texts), np.cumsum([len(t) for t in texts], dtype="<i8"))

    def read_text(self, row: int) -> str:
        """Return the text of one row, lone surrogates kept; "" if empty."""
        start = int(self.ends[row - 1]) if row else 0
        return str(self.data[start : int(self.ends[row])], "utf-8", "surrogatepass")

    def select_rows(self, rows: Array) -> "PackedTexts":
        """Return the texts of some rows in that order, copied."""
        if not len(rows):
            return PackedTexts(b"", np.zeros(0, dtype="<i8"))
        starts = np.concatenate([[0], self.ends])
        begins = np.flatnonzero(np.concatenate([[True], np.diff(rows) != 1]))
        last = np.append(begins[1:], len(rows)) - 1
        runs = [self.data[starts[rows[a]] : starts[rows[b] + 1]] for a, b in zip(begins.tolist(), last.tolist(), strict=True)]
        return PackedTexts(b"".join(runs), np.cumsum(starts[rows + 1] - starts[rows], dtype="<i8"))

    @classmethod
    def concatenate(cls, pieces: "Sequence[PackedTexts]") -> "PackedTexts":
        """Return all texts in one, in order."""
        offsets = np.cumsum([0, *(len(t.data) for t in pieces)])
        ends = [t.ends + start for t, start in zip(pieces, offsets.tolist(), strict=False)]
        return cls(b"".join(t.data for t in pieces), np.concatenate(ends) if ends else np.zeros(0, dtype="<i8"))


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of the rows of a shard's two tables; a row may be empty."""

    nodes: PackedTexts
    quotes: PackedTexts
    #: For grips: halves of the event's key, hash of the words, and string codes, `(grips, 6)`.
    event_hi: Array
    event_lo: Array
    hash: Array
    codes: Array
    strings: tuple[str, ...]

    @classmethod
    def from_rows(cls, nodes: Sequence[TocNode | None], grips: Sequence[Quotation | None]) -> "Copies":
        """Return copies of nodes and grips by row; None is empty."""
        names = StringTable([""])
        keys = [event_key(g.event_id) if g else 0 for g in grips]
        codes = [[names.add(getattr(g, name)) for name in _CODED] if g else [0] * len(_CODED) for g in grips]
        return cls(
            PackedTexts.from_bytes([pack_node(n) if n else b"" for n in nodes]),
            PackedTexts.from_bytes([g.quote.encode("utf-8", "surrogatepass") if g else b"" for g in grips]),
            np.array([k >> 64 for k in keys], dtype="<u8"),
            np.array([k & _LOW for k in keys], dtype="<u8"),
            np.array([g.quote_hash if g else 0 for g in grips], dtype="<i8"),
            np.array(codes, dtype="<i4").reshape(len(grips), len(_CODED)),
            tuple(names.strings),
        )

    def read_node(self, row: int, with_bullets: bool) -> TocNode | None:
        """Return the node of a row, never pinned; None for an empty copy."""
        text = self.nodes.read_text(row)
        return unpack_node(text, with_bullets) if text else None

    def read_quotation(self, row: int, timestamp: int) -> Quotation | None:
        """Return a row's quotation; None if empty or of a wrong hash.

        `timestamp` is the time it gets, UTC milliseconds.
        """
        quote, expected = self.quotes.read_text(row), int(self.hash[row])
        if not quote or hash_quote(quote) != expected:
            return None
        event = event_id_from(int(self.event_hi[row]) << 64 | int(self.event_lo[row]))
        session_id, project, agent, role, speaker, kind = (self.strings[c] for c in self.codes[row].tolist())
        return Quotation(quote, event, timestamp, session_id, project, agent, role, speaker, kind, expected)

    @classmethod
    def merge(cls, pieces: "Sequence[Copies]", kept_rows: Sequence[tuple[Array, Array]]) -> "Copies":
        """Return kept rows of several, nodes and grips by copies.

        Strings that are no longer used are dropped.
        """
        names = StringTable([""])
        codes = []
        for copies, (_, rows) in zip(pieces, kept_rows, strict=True):
            # Only strings that are still used get new codes.
            old = copies.codes[rows]
            moved = np.zeros(len(copies.strings), dtype="<i4")
            for code in np.unique(old).tolist():
                moved[code] = names.add(copies.strings[code])
            codes.append(moved[old])
        picked = {
            name: np.concatenate([getattr(c, name)[rows] for c, (_, rows) in zip(pieces, kept_rows, strict=True)])
            for name in ("event_hi", "event_lo", "hash")
        }
        nodes = PackedTexts.concatenate([c.nodes.select_rows(rows) for c, (rows, _) in zip(pieces, kept_rows, strict=True)])
        quotes = PackedTexts.concatenate([c.quotes.select_rows(rows) for c, (_, rows) in zip(pieces, kept_rows, strict=True)])
        return cls(nodes, quotes, **picked, codes=np.concatenate(codes), strings=tuple(names.strings))

    def write(self, directory: Path) -> None:
        """Write four files into a folder; not synced. Raises OSError."""
        columns = (self.nodes.ends, self.quotes.ends, self.event_hi, self.event_lo, self.hash, self.codes)
        write_arrays(directory / _COLUMNS, dict(zip(_ARRAYS, columns, strict=True)))
        (directory / _STRINGS).write_text(json.dumps(self.strings), encoding="utf-8")
        (directory / _NODES).write_bytes(self.nodes.data)
        (directory / _QUOTES).write_bytes(self.quotes.data)

    @classmethod
    def read(cls, contents: FolderContents) -> "Copies":
        """Return what `write` wrote; texts are views of `contents`."""
        columns = contents.read_arrays(_COLUMNS, _ARRAYS)
        return cls(
            PackedTexts(contents.bytes_of(_NODES), columns["node_ends"]),
            PackedTexts(contents.bytes_of(_QUOTES), columns["quote_ends"]),
            columns["event_hi"],
            columns["event_lo"],
            columns["hash"],
            columns["codes"],
            tuple(contents.json_of(_STRINGS)),
        )
