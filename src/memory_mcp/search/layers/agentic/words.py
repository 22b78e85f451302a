"""Weigh a query's words by the tree, and tell which of a question's occur nowhere. Needs no index."""

from collections.abc import Sequence, Set

from memory_mcp.base.text import query_terms, term_hash, term_set
from memory_mcp.search.layers.agentic.absent import Holds, absent_in
from memory_mcp.search.layers.agentic.match import weigh_query
from memory_mcp.search.layers.base import WordWeights
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.derive.build import searchable_text
from memory_mcp.tree.toc.tree import Tree

#: Most events without a segment that are read for a word; while more wait, an import is running and no word counts as missing.
_WAITING = 500


class TreeWords:
    """Weighs words by their frequencies in the tree; a `Words`."""

    def __init__(self, tree: Tree, storage: Storage) -> None:
        self._tree = tree
        self._storage = storage

    def weigh_words(self, text: str, project: str | None) -> WordWeights:
        """Return the terms of a text with IDF weights in a project."""
        tally = self._tree.tally(project)
        if not query_terms(text):
            return WordWeights({}, {}, tally.segments, tally.events)
        weighted = weigh_query(text, self._tree.frequencies(), project, tally.segments)
        return WordWeights(weighted.weights, weighted.counts, tally.segments, tally.events)

    def find_missing(self, words: Sequence[str], project: str | None) -> tuple[str, ...]:
        """Return the words that no segment and no waiting event holds."""
        absent = absent_in(words, self._holds_term(project))
        after = self._tree.pending_from() if absent else None
        if after is None:
            return absent
        last = self._storage.events.last_seq()
        if last - after > _WAITING:
            return ()
        waiting = self._storage.events.list_arrivals(after, last, Scope(project, None, None))
        spoken = set[str]().union(*(term_set(searchable_text(event)) for event in waiting))
        return absent_in(absent, spoken.__contains__)

    def absent_from(self, text_terms: Set[str], words: Sequence[str]) -> tuple[str, ...]:
        """Return the words that a text with these terms holds in no form."""
        return absent_in(words, text_terms.__contains__)

    def projects_with(self, word: str) -> tuple[str, ...]:
        """Return the projects whose segments hold a word in some form."""
        if absent_in([word], self._holds_term(None)):
            return ()
        projects = self._tree.frequencies().projects
        return tuple(project for project in projects if not absent_in([word], self._holds_term(project)))

    def _holds_term(self, project: str | None) -> Holds:
        frequencies = self._tree.frequencies()

        def holds(term: str) -> bool:
            return frequencies.segment_count(term_hash(term), project) > 0

        return holds
