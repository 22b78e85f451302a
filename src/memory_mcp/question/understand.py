"""Understand a question: its intent, literal pieces, subject, the time it is about, and its deadline. Pure."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import cjk_runs, tokens_with_terms
from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.question.intent import Intent, classify, is_overview, last_of
from memory_mcp.question.phrases import choose_table, find_phrases, is_general, strip_general
from memory_mcp.question.timehints import find_time
from memory_mcp.question.words import Word, split_words


@dataclass(frozen=True, slots=True)
class Question:
    """An understood question."""

    text: str
    intent: Intent
    #: 0 to 1; low where signals of two intents disagree.
    confidence: float
    #: What was seen, in words: 'explore: "working on"', 'locate: identifier parse_config'.
    signals: tuple[str, ...]
    #: Quotations and code as written: what a result must literally hold.
    exact: tuple[str, ...]
    #: Time for the answer in ms, named in the question or given with it; None: no deadline.
    deadline_ms: int | None
    #: The time that the question names, and the words it was read from ("" for none).
    window: TimeWindow | None
    window_words: str
    #: The words to look for: the text without its deadline, its time and what asks for a search.
    split_words: str
    #: Nothing in particular is asked for: "what happened", "anything important".
    is_general: bool
    #: It asks how things stand: "where did we stop", "catch me up".
    asks_overview: bool = False
    #: What the latest decision of is asked for, "" for anything; None: no such thing is asked.
    last_of: str | None = None

    @property
    def particular(self) -> str:
        """The words that name something, for a question about patterns; "" without any."""
        return strip_general(self.split_words)

    @property
    def asks_period(self) -> bool:
        """Whether only a time is named: "what did we do on 2 February"."""
        return self.is_general and self.window is not None


def understand(text: str, now_ms: int, calendar: Calendar, timeout_ms: int | None = None) -> Question:
    """Return what a question wants, and the words to look for.

    Never raises. `now_ms` (UTC milliseconds) and `calendar` are what its times are relative to; of `timeout_ms`, a
    deadline given with it, and the question's own the shorter counts.
    """
    classified = classify(text, timeout_ms)
    remaining_text = classified.rest if classified.rest.strip() else text
    hint = find_time(remaining_text, now_ms, calendar)
    words = remaining_text if hint.window is None else hint.rest
    # What asks for a search (where did) may be half of what asks how things stand.
    searched_text = find_time(text, now_ms, calendar).rest if hint.window is not None else text
    asks_overview = is_overview(searched_text)
    general = asks_overview or is_general(words)
    intent = classified.intent
    # Whatever its words, a question for nothing in particular explores, unless it wants something found.
    if intent is not Intent.TIME_BOXED and (asks_overview or (general and intent is Intent.ANSWER and hint.window is not None)):
        intent = Intent.EXPLORE
    return Question(
        text=text,
        intent=intent,
        confidence=classified.confidence,
        signals=classified.signals,
        exact=classified.exact,
        deadline_ms=classified.deadline_ms,
        window=hint.window,
        window_words=hint.words,
        split_words=words,
        is_general=general,
        asks_overview=asks_overview,
        last_of=last_of(words),
    )


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
    typed = split_words(text)
    asking = {
        position for phrase in find_phrases(typed, choose_table(typed)) if phrase.phrase.group == _ASKS for position in phrase.at
    }
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
    typed = split_words(text)
    reading = choose_table(typed)
    # Between ideographs there are no blanks, which `particular` goes by.
    asking = [word for word in typed if word.key in reading.general and cjk_runs(word.key)]
    for match in find_phrases(typed, reading):
        if match.phrase.group == _EXPLORES:
            literal = frozenset[str]().union(*(step for step in match.phrase.steps if step is not None))
            asking += [typed[position] for position in match.at if typed[position].key in literal]
    return strip_general(_blank_words(text, asking))


@lru_cache(maxsize=4096)
def _names_something(word: str) -> bool:
    return len(word) >= _SHORTEST and not _DATE.fullmatch(word) and not is_general(word)


def _blank_words(text: str, gone: Iterable[Word]) -> str:
    characters = list(text)
    for word in gone:
        characters[word.start : word.end] = " " * (word.end - word.start)
    return "".join(characters)
