"""Terms of events that are not indexed yet, counted once by a child process: during an import thousands wait for their index.

Invariants
1. What is here is a stretch of arrivals without a gap. What came later is searched one by one.
2. It names events and never quotes them: whoever shows one reads it from the store.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from memory_mcp.base.children import Child
from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.bm25.postings import count_keys, list_keys, term_key
from memory_mcp.indexes.files import Array
from memory_mcp.model.event import Event
from memory_mcp.storage.base import EventStore
from memory_mcp.storage.values import StoredEvent
from memory_mcp.tree.derive.build import searchable_text

#: Events of one block, and most events and bytes of terms that are held; of more the oldest go.
_BLOCK, _MOST, _MOST_BYTES = 500, 30_000, 64 << 20
_HIGHEST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True)
class TermBlock:
    """Which of some texts hold each term, sorted by term."""

    #: Hashes of terms, `(n,)` uint64; the text of each, and how often it is there, `(n,)` uint16.
    keys: Array
    owners: Array
    counts: Array
    #: How many terms each text has, `(texts,)` float64.
    lengths: Array

    @property
    def nbytes(self) -> int:
        """The bytes of its columns."""
        return self.keys.nbytes + self.owners.nbytes + self.counts.nbytes + self.lengths.nbytes


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """The events of a stretch of numbers that do not repeat others, without their texts, and their terms."""

    first: int
    last: int
    events: tuple[StoredEvent, ...]
    terms: TermBlock


def make_block(texts: Sequence[str]) -> TermBlock:
    """Count the terms of texts, 65,535 at most."""
    parts = [count_keys([list_keys(text)]) for text in texts]
    keys = np.concatenate([np.zeros(0, dtype=np.uint64), *(keys for keys, _ in parts)])
    counts = np.concatenate([np.zeros(0), *(counts for _, counts in parts)])
    owners = np.repeat(np.arange(len(parts), dtype=np.uint16), [len(keys) for keys, _ in parts])
    order = np.argsort(keys, kind="stable")
    short = np.minimum(counts, _HIGHEST).astype(np.uint16)
    return TermBlock(keys[order], owners[order], short[order], np.array([counts.sum() for _, counts in parts]))


def begin(_: None) -> Callable[[Sequence[str]], TermBlock]:
    """Return what a child process answers to texts: their terms."""
    return make_block


@dataclass(frozen=True, slots=True)
class ArrivedCounts:
    """Events that hold a term of a query, without their texts."""

    events: Sequence[Event]
    #: How often each event has each term, `(n, terms)`, and how many terms it has in all, `(n,)`.
    counts: Array
    lengths: Array
    #: The number of the last event that was looked at.
    reach: int


class ArrivedTerms:
    """The terms of the latest arrivals; one thread counts, any thread searches."""

    def __init__(self) -> None:
        #: Replaced, never changed.
        self._blocks: tuple[_Arrivals, ...] = ()
        self._child: Child | None = None

    @property
    def is_counting(self) -> bool:
        """Whether what arrives is being counted: the child runs."""
        return self._child is not None

    def reach_from(self, after: int) -> int:
        """Return up to which number all events behind `after` are here, `after` if not the next one."""
        blocks = [block for block in self._blocks if block.last > after]
        return blocks[-1].last if blocks and blocks[0].first <= after + 1 else after

    def count_arrivals(self, store: EventStore, indexed: int) -> bool:
        """Count the next arrivals, those up to number `indexed` left out; return whether there were any.

        Raises OSError or EOFError if the child has gone.
        """
        last = store.last_seq()
        reach = self._blocks[-1].last if self._blocks else 0
        if not indexed <= reach <= last:
            self._blocks = ()
        after = max(reach, indexed, last - _MOST)
        stored = store.read_after(after, min(_BLOCK, last - after)) if after < last else ()
        if not stored:
            return False
        if self._child is None:
            self._child = Child("memory_mcp.indexes.bm25.arrived", None)
        # Many times told, a text would take the places of all others among the best.
        hidden = store.find_duplicates(s.event.event_id for s in stored)
        distinct = [s for s in stored if s.event.event_id not in hidden]
        try:
            terms = self._child.ask([searchable_text(s.event) for s in distinct])
        except (OSError, EOFError):
            self.end_child()
            raise
        events = tuple(StoredEvent(s.seq, replace(s.event, text="", metadata={})) for s in distinct)
        blocks = [block for block in self._blocks if block.last > last - _MOST]
        while blocks and terms.nbytes + sum(block.terms.nbytes for block in blocks) > _MOST_BYTES:
            del blocks[0]
        self._blocks = (*blocks, _Arrivals(after + 1, stored[-1].seq, events, terms))
        return True

    def end_child(self) -> None:
        """End the child; what was counted stays."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def drop_indexed(self, indexed: int) -> bool:
        """Drop blocks of events up to number `indexed`; return whether any are left."""
        self._blocks = tuple(b for b in self._blocks if b.last > indexed)
        return bool(self._blocks)

    def find_events(self, after: int, terms: Sequence[str]) -> ArrivedCounts | None:
        """Return the events behind `after` that hold a term; None if the first of these is not here."""
        blocks = [block for block in self._blocks if block.last > after]
        if not blocks or blocks[0].first > after + 1:
            return None
        keys = np.array([term_key(term) for term in terms], dtype=np.uint64)
        events, counts, lengths = list[Event](), [np.zeros((0, len(terms)))], [np.zeros(0)]
        for block in blocks:
            columns = block.terms
            matrix = np.zeros((len(block.events), len(terms)))
            starts, ends = (columns.keys.searchsorted(keys, side) for side in ("left", "right"))
            for column, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                matrix[columns.owners[start:end], column] = columns.counts[start:end]
            rows = [row for row in np.flatnonzero(matrix.any(axis=1)).tolist() if block.events[row].seq > after]
            events += [block.events[row].event for row in rows]
            counts.append(matrix[rows])
            lengths.append(columns.lengths[rows])
        return ArrivedCounts(events, np.concatenate(counts), np.concatenate(lengths), blocks[-1].last)
