"""Weigh a query's words by the tree, and tell which of a question's occur nowhere. Needs no index.

A word occurs if the scope holds it in any form that its stem or one ending more or less give; the parts of a compound are other
words (fire and base are no firebase). Of Chinese, Japanese and Korean the characters are absent that no pair in the scope holds
as the question has them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from string import ascii_lowercase

from memory_mcp.base.text import MAX_TOKEN, STOPWORDS, cjk_runs, query_terms, stem, term_hash, term_set, terms
from memory_mcp.search.layers.agentic.match import weigh_query
from memory_mcp.search.layers.base import WordWeights
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.derive.build import searchable_text
from memory_mcp.tree.toc.tree import Tree

#: Takes a term; returns whether the scope holds it.
Holds = Callable[[str], bool]

#: Letters that a word keeps when an ending is taken off, and from which an ending is added.
_STEM, _WORD = 5, 4
_NAME = re.compile(r"\w+")
#: Absent characters in a row that are a word.
_CHARACTERS = 2


def absent_in(words: Iterable[str], holds: Holds) -> tuple[str, ...]:
    """Return the words that a scope holds in no form, each once.

    Of a CJK run the stretches that it does not hold.
    """
    absent_words: dict[str, None] = {}
    for word in words:
        if cjk_runs(word):
            absent_words.update(dict.fromkeys(absent_parts(word, holds)))
        elif is_absent(word, holds):
            absent_words[word] = None
    return tuple(absent_words)


def is_absent(word: str, holds: Holds) -> bool:
    """Return whether a scope holds a word in none of its forms.

    A token of code is absent if it or a name in it is.
    """
    word_terms = terms(word)
    if not word_terms or any(map(holds, word_terms[:1])):
        return False
    names = _NAME.findall(word)
    if names == [word]:
        return not _occurs_in_other_form(word, word_terms, holds)
    # Of a path or a hyphenated word every name has to occur.
    return any(is_absent(name, holds) for name in names) if len(names) > 1 else not any(map(holds, word_terms))


def _occurs_in_other_form(word: str, word_terms: list[str], holds: Holds) -> bool:
    if len(word_terms) > 1:
        # A name of code is another one when only its words occur.
        return False
    plain = word.lower()
    if not plain.isalpha():
        return False
    forms = [plain[:-1]] * (len(plain) > _STEM) + [plain[:-2]] * (len(plain) > _STEM + 1)
    if len(plain) >= _WORD:
        forms += [plain + end for end in _word_endings()]
    if plain.isascii():
        # As `terms` of each, without keeping words that no one wrote.
        return any(holds(stem(form)) for form in forms if form not in STOPWORDS and len(form) <= MAX_TOKEN)
    return any(holds(term) for form in forms for term in terms(form))


def _word_endings() -> Iterator[str]:
    yield from ascii_lowercase
    yield from ("e" + letter for letter in ascii_lowercase)


def absent_parts(run: str, holds: Holds) -> list[str]:
    """Return the absent stretches of a CJK run, of two characters or more."""
    absent = [not holds(run[at : at + 2]) for at in range(len(run) - 1)]
    # A character is absent if both pairs with its neighbours are; between two words one pair alone is.
    edges = [True, *absent, True]
    gone = "".join("x" if edges[at] and edges[at + 1] else " " for at in range(len(run)))
    return [run[m.start() : m.end()] for m in re.finditer(f"x{{{_CHARACTERS},}}", gone)]


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
