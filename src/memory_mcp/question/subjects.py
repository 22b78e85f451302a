"""Find the words of a question that name what it is about, as typed. Pure.

Left out are stop words, words that ask or name nothing in any language with a table, and numbers that may be days or years.
"""

import re
from collections.abc import Iterable
from itertools import groupby

from memory_mcp.base.text import cjk_runs, tokens_with_terms
from memory_mcp.question.phrases import find, is_general, particular, read_by
from memory_mcp.question.words import Word, words

#: The groups of phrases that only ask: why, how many, 为什么; what came up, how did ... evolve.
_ASKS, _EXPLORES = "answer", "explore"
#: Numbers of up to two digits, and of four that may be a year.
_DATE = re.compile(r"\d{1,2}|(?:19|20)\d\d")
#: Letters of the shortest word that names something.
_SHORTEST = 2


def subject_words(text: str) -> tuple[str, ...]:
    """Return the words that name what a question is about.

    Each once, in order; a run of CJK characters is one of them.
    """
    typed = words(text)
    asking = {position for phrase in find(typed, read_by(typed)) if phrase.phrase.group == _ASKS for position in phrase.at}
    subjects: list[str] = []
    for token, _ in tokens_with_terms(_blank_words(text, [typed[position] for position in asking])):
        # Between ideographs a name of another script has no blanks around it: 为什么用kafka做队列.
        for is_cjk, characters in groupby(token, lambda character: bool(cjk_runs(character))):
            piece = "".join(characters)
            if is_cjk:
                subjects += [run for run in cjk_runs(piece) if len(run) >= _SHORTEST]
            else:
                subjects += [word for word, _ in tokens_with_terms(piece) if _names_something(word)]
    return tuple(dict.fromkeys(subjects))


def topic_subject(text: str) -> str:
    """Return a text without words for themes or nothing named.

    "" if no other is left. Of a phrase that asks for themes the words in its gap remain: *how did* code attribution *evolve*.
    """
    typed = words(text)
    reading = read_by(typed)
    # Between ideographs there are no blanks, which `particular` goes by.
    asking = [word for word in typed if word.key in reading.general and cjk_runs(word.key)]
    for match in find(typed, reading):
        if match.phrase.group == _EXPLORES:
            literal = frozenset[str]().union(*(step for step in match.phrase.steps if step is not None))
            asking += [typed[position] for position in match.at if typed[position].key in literal]
    return particular(_blank_words(text, asking))


def _names_something(word: str) -> bool:
    return len(word) >= _SHORTEST and not _DATE.fullmatch(word) and not is_general(word)


def _blank_words(text: str, gone: Iterable[Word]) -> str:
    characters = list(text)
    for word in gone:
        characters[word.start : word.end] = " " * (word.end - word.start)
    return "".join(characters)
