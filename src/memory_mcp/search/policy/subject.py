"""Find the words of a question's subject that a scope holds, but no result vouches for."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from memory_mcp.base.text import cjk_runs, term_set, terms
from memory_mcp.model.ids import NodeId
from memory_mcp.search.layers.base import Hit, Query, Scanner, Words, WordWeights
from memory_mcp.search.policy.relevance import COMPARED

#: Most segments that hold a word which is looked up, most messages of these, and most events to read without an index.
_FEW_SEGMENTS, _MOST_MENTIONS, _FEW_EVENTS = 12, 40, 20_000


@dataclass(frozen=True, slots=True)
class SubjectCheck:
    """Checks the words of one question's subject against its results."""

    words: Words
    scanner: Scanner
    #: The question's words in the scope.
    weighed: WordWeights
    query: Query
    #: Returns the terms of what hits say.
    terms_of: Callable[[Sequence[Hit]], Set[str]]

    def find_uncertain_words(self, subjects: Sequence[str], hits: Sequence[Hit]) -> tuple[str, ...]:
        """Return words held in another form that no first hit holds.

        They may be other words: a rabbit is no rabbitmq, and what comes next in app.js is no next.js.
        """
        counts = self.weighed.counts
        inexact_words = [word for word in subjects if not cjk_runs(word) and not any(map(counts.get, terms(word)[:1]))]
        return self.words.absent_from(self.terms_of(hits[:COMPARED]), inexact_words) if inexact_words else ()

    def find_words_of_questions(self, subjects: Sequence[str], hits: Sequence[Hit]) -> tuple[str, ...]:
        """Return the words that only questions hold.

        A recorded prompt tells nothing of what it asks for. Rare words that none of the hits holds are looked up in the
        segments that an index names, else in all events if few.
        """
        # A stretch of ideographs may be rare where all of them are not.
        rare_words = [word for word in subjects if cjk_runs(word) or self._count_segments(word) <= _FEW_SEGMENTS]
        if not rare_words:
            return ()
        segments = {hit.node_id for hit in hits[:COMPARED]}
        absent_words = self.words.absent_from(self.terms_of(hits), rare_words)
        return tuple(word for word in absent_words if self._is_only_asked(word, segments))

    def _count_segments(self, word: str) -> int:
        return min((self.weighed.counts.get(term, 0) for term in terms(word)), default=_FEW_SEGMENTS + 1)

    def _is_only_asked(self, word: str, segments: Set[NodeId]) -> bool:
        count = self._count_segments(word)
        if count > _FEW_SEGMENTS:
            return False
        query = replace(self.query, window=None, literal=False, limit=_MOST_MENTIONS)
        if any(self._is_told(hit, word) for hit in self.scanner.read_replies(query, word)):
            return False
        mentions = self.scanner.read_named(query, [word])
        if mentions is None and self.weighed.events <= _FEW_EVENTS:
            mentions = self.scanner.read_slice(query, [word])
        if mentions is None or len(mentions.hits) == _MOST_MENTIONS or not (mentions.hits or count):
            return False
        return not any(self._is_told(hit, word) for hit in mentions.hits if not hit.asks or hit.node_id in segments)

    def _is_told(self, hit: Hit, word: str) -> bool:
        return hit.session_id not in self.query.excluded_sessions and not self.words.absent_from(term_set(hit.quote), [word])
