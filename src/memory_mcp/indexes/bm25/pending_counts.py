"""The terms of events that are not indexed yet: during an import search after search asks for the same ones."""

import threading
from collections.abc import Sequence

import numpy as np

from memory_mcp.indexes.bm25.postings import TermCounts, count_keys, list_keys, term_key
from memory_mcp.indexes.files import Array
from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId
from memory_mcp.tree.derive.build import searchable_text

#: Events that are kept, some 3 KB each; all of them are dropped when so few are asked for, since the import is over.
_MOST, _FEW = 2000, 64


class PendingCounts:
    """Counts of the terms of events, made once for each. Thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[EventId, TermCounts] = {}
        self._lock = threading.Lock()

    def count_terms(self, events: Sequence[Event], terms: Sequence[str]) -> tuple[Array, Array]:
        """Return how often each event has each term, `(n, terms)`, and how many terms it has in all, `(n,)`."""
        with self._lock:
            if len(events) < _FEW < len(self._counts):
                self._counts.clear()
        parts = [self._count_event(event) for event in events]
        term_counts = np.zeros((len(events), len(terms)))
        if not parts:
            return term_counts, np.zeros(0)
        keys = np.concatenate([keys for keys, _ in parts])
        counts = np.concatenate([counts for _, counts in parts])
        owners = np.repeat(np.arange(len(parts)), [len(keys) for keys, _ in parts])
        for column, term in enumerate(terms):
            places = np.flatnonzero(keys == term_key(term))
            term_counts[owners[places], column] = counts[places]
        return term_counts, np.bincount(owners, counts, minlength=len(parts))

    def _count_event(self, event: Event) -> TermCounts:
        with self._lock:
            counts = self._counts.get(event.event_id)
        if counts is None:
            counts = count_keys([list_keys(searchable_text(event))])
            with self._lock:
                self._counts[event.event_id] = counts
                while len(self._counts) > _MOST:
                    del self._counts[next(iter(self._counts))]
        return counts
