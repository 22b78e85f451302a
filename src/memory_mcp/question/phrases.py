"""Find the phrases of the signal tables in a query. Pure.

No phrase reaches over a clause.

Change here: what a question is taken for.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import terms
from memory_mcp.question.signal_tables import LANGUAGES, Phrase, PhraseStart, SignalTable, load_table
from memory_mcp.question.words import Word, split_words

_GAP = 8
#: Most words that are searched for phrases; a longer text is a paste.
_MOST_WORDS = 200
#: Most words from a phrase's first to its last.
_REACH = 24


@dataclass(frozen=True, slots=True)
class FoundPhrase:
    """A phrase found in a query, and its words' places."""

    phrase: Phrase
    at: tuple[int, ...]


def is_general(text: str) -> bool:
    """Return whether a text asks and names nothing.

    Every word of it asks for what there is: "what happened", "anything important". By whole words, not by their stems:
    *important* names nothing, *imports* do. English and one other language together must know all of them. Words that are not
    searched for do not count; a text without others is general.
    """
    naming_words = {word.key for word in split_words(text) if terms(text[word.start : word.end])} - load_table("en").general
    return not naming_words or any(naming_words <= load_table(language).general for language in LANGUAGES)


def is_idle(text: str) -> bool:
    """Return whether a question offers help and names nothing: "¿algo más?"."""
    naming_words = {word.key for word in split_words(text) if terms(text[word.start : word.end])}
    return any(
        naming_words <= load_table(language).general | load_table(language).idle | load_table("en").idle for language in LANGUAGES
    )


def strip_general(text: str) -> str:
    """Return a text without words that name nothing; "" without others."""
    return " ".join(word for word in text.split() if not is_general(word) or not terms(word))


def choose_table(query: Sequence[Word]) -> SignalTable:
    """Return the table of the language with most marks."""
    keys = {word.key for word in query}
    counts = {language: len(load_table(language).marks & keys) for language in LANGUAGES}
    most = max(counts.values())
    tied = [load_table(language) for language in LANGUAGES if counts[language] == most]
    if len(tied) == 1:
        return tied[0]
    return max(tied, key=lambda language_table: len(keys & language_table.vocabulary))


def find_phrases(query: Sequence[Word], reading: SignalTable) -> list[FoundPhrase]:
    """Return the phrases in a query's first 200 words, in order."""
    return _find(query[:_MOST_WORDS], reading.starts, reading.courtesy)


def find_latest(query: Sequence[Word], reading: SignalTable) -> list[tuple[int, int]]:
    """Return (first, after last) where the latest decision is asked for."""
    return [(phrase.at[0], phrase.at[-1] + 1) for phrase in _find(query[:_MOST_WORDS], reading.find_latest, reading.courtesy)]


def asks_overview(text: str, query: Sequence[Word]) -> bool:
    """Return whether a query asks how things stand, in any language.

    Its other words name nothing (see `is_general`). Words of courtesy do not count. So short a question may have no word that
    tells its language apart.
    """
    return any(_asks_overview(text, query[:_MOST_WORDS], load_table(language)) for language in LANGUAGES)


def asks_themes(text: str) -> bool:
    """Return whether a text names themes, patterns or trends."""
    query = split_words(text)[:_MOST_WORDS]
    return any(_find(query, load_table(language).themes, frozenset()) for language in LANGUAGES)


def _asks_overview(text: str, query: Sequence[Word], reading: SignalTable) -> bool:
    phrases = _find(query, reading.overview, reading.courtesy)
    inside = {index for phrase in phrases for index in phrase.at}
    usual_words = reading.courtesy | reading.overview_beside
    outside = [word for index, word in enumerate(query) if index not in inside and word.key not in usual_words]
    return bool(phrases) and is_general(" ".join(text[word.start : word.end] for word in outside))


def find_requests(query: Sequence[Word], reading: SignalTable) -> list[tuple[int, int]]:
    """Return where a query asks for a search.

    As (first place, place after the last) of each phrase. Words of courtesy in front belong to the phrase (*can you please
    find*); one followed by a word that makes it another thing (*find and replace*) is left out.
    """
    spans: list[tuple[int, int]] = []
    for phrase in _find(query[:_MOST_WORDS], reading.find_requests, reading.courtesy):
        start, end = phrase.at[0], phrase.at[-1] + 1
        if end < len(query) and query[end].key in reading.no_request and query[end].clause == query[start].clause:
            continue
        while phrase.phrase.is_first and start and query[start - 1].clause == query[start].clause:
            start -= 1
        spans.append((start, end))
    return spans


def _find(query: Sequence[Word], starts: Mapping[str, PhraseStart], courtesy: frozenset[str]) -> list[FoundPhrase]:
    keys = [word.key for word in query]
    matches: list[FoundPhrase] = []
    for i, key in enumerate(keys):
        start = starts.get(key)
        if start is None:
            continue
        # A phrase ends with its clause.
        end, clause = i + 1, query[i].clause
        last = min(len(query), i + _REACH)
        while end < last and query[end].clause == clause:
            end += 1
        following = start.followed.get(keys[i + 1], ()) if i + 1 < end else ()
        gapped = [start.gapped[k] for k in keys[i + 1 : min(end, i + 2 + _GAP)] if k in start.gapped] if start.gapped else ()
        if not (start.alone or following or gapped):
            continue
        opens = _opens_clause(query, i, courtesy)
        for phrase in chain(start.alone, following, *gapped):
            if opens or not phrase.is_first:
                at = _match_rest(keys, i, end, phrase, 1)
                if at:
                    matches.append(FoundPhrase(phrase, at))
    return _outermost(matches)


def _opens_clause(query: Sequence[Word], at: int, courtesy: frozenset[str]) -> bool:
    clause = query[at].clause
    for i in range(at - 1, max(-1, at - 1 - _GAP), -1):
        if query[i].clause != clause:
            return True
        if query[i].key not in courtesy:
            return False
    return at <= _GAP


def _match_rest(keys: Sequence[str], at: int, end: int, phrase: Phrase, number: int) -> tuple[int, ...]:
    """Return the places of a phrase's other steps, else ()."""
    first, steps = at, phrase.steps
    while number < len(steps):
        step = steps[number]
        if step is None:
            after = steps[number + 1] or ()
            for i in range(at + 1, min(end, at + 2 + _GAP)):
                if keys[i] in after:
                    following = _match_rest(keys, i, end, phrase, number + 2)
                    if following:
                        return (*range(first, at + 1), *following)
            return ()
        at += 1
        if at >= end or keys[at] not in step:
            return ()
        number += 1
    return () if phrase.is_last and at + 1 != end else tuple(range(first, at + 1))


def _outermost(phrases: list[FoundPhrase]) -> list[FoundPhrase]:
    outermost: list[FoundPhrase] = []
    positions_taken: dict[int, list[frozenset[int]]] = {}
    for phrase in sorted(phrases, key=lambda f: (-len(f.at), -f.phrase.weight, f.at)):
        places = frozenset(phrase.at)
        if any(places <= other for other in positions_taken.get(phrase.at[0], ())):
            continue
        outermost.append(phrase)
        for position in places:
            positions_taken.setdefault(position, []).append(places)
    return sorted(outermost, key=lambda f: f.at)
