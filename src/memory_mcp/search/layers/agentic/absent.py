"""Tell which words of a question occur nowhere in a scope, from how many segments hold a term. Pure.

A word occurs if the scope holds it in any form that its stem or one ending more or less give; the parts of a compound are other
words (fire and base are no firebase). Of Chinese, Japanese and Korean the characters are absent that no pair in the scope holds
as the question has them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from string import ascii_lowercase

from memory_mcp.base.text import cjk_runs, terms

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
    return any(holds(term) for form in forms for term in terms(form))


def _word_endings() -> Iterator[str]:
    """Yield the endings of words: one letter, and one after an e."""
    yield from ascii_lowercase
    yield from ("e" + letter for letter in ascii_lowercase)


def absent_parts(run: str, holds: Holds) -> list[str]:
    """Return the absent stretches of a CJK run, of two characters or more."""
    absent = [not holds(run[at : at + 2]) for at in range(len(run) - 1)]
    # A character is absent if both pairs with its neighbours are; between two words one pair alone is.
    edges = [True, *absent, True]
    gone = "".join("x" if edges[at] and edges[at + 1] else " " for at in range(len(run)))
    return [run[m.start() : m.end()] for m in re.finditer(f"x{{{_CHARACTERS},}}", gone)]
