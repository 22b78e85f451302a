"""Find the phrases of the signal tables in a query; `signals/*.toml`, one file per language, are read on first use. Pure.

A phrase is a row of words: `a|b` either, `x?` may be left out, `@list` any word of that list, `<code>` `<quote>` `<number>`
a literal piece or a number, `...` up to eight words, a leading `^` at a clause's start (words of courtesy before it do
not count), a closing `$` at its end. No phrase reaches over a clause.

Change here: what a question is taken for.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, product
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import fold, terms
from memory_mcp.question.words import CODE, NUMBER, QUOTE, Word, split_words

#: The languages with a table; where a query's words do not tell them apart, the first reads it (see `read_by`).
LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")
#: Weight of a phrase by the list it is in. A question word beats an identifier and a bare keyword, and only
#: the phrases in `sure` beat a question word; chosen on the tuning part of the labelled queries.
WEIGHTS: Mapping[str, float] = {"sure": 5.0, "strong": 3.0, "plain": 2.0, "weak": 1.0}
_GAP = 8
#: Most words that are searched for phrases; a longer text is a paste.
_MOST_WORDS = 200
#: Most words from a phrase's first to its last.
_REACH = 24
_CLASSES = frozenset((CODE, QUOTE, NUMBER))


@dataclass(frozen=True, slots=True)
class Phrase:
    """A row of words, as sets of alternatives; None is a gap."""

    #: explore, answer, locate or hurry.
    group: str
    weight: float
    steps: tuple[frozenset[str] | None, ...]
    is_first: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class PhraseStart:
    """The phrases that begin with one word, by what follows it."""

    alone: tuple[Phrase, ...]
    followed: Mapping[str, tuple[Phrase, ...]]
    gapped: Mapping[str, tuple[Phrase, ...]]


@dataclass(frozen=True, slots=True)
class FoundPhrase:
    """A phrase found in a query, and its words' places."""

    phrase: Phrase
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeadlineTable:
    """How a language sets a deadline; all words folded."""

    #: Milliseconds of a unit.
    units: Mapping[str, float]
    #: What a number word multiplies by: two hundred, half a.
    numbers: Mapping[str, float]
    #: Words that make a duration a limit (within, max, deadline), and the nouns among them, which may also state a fact.
    limits: frozenset[str]
    nouns: frozenset[str]
    #: What may stand beside a limit in a clause that says nothing else.
    company: frozenset[str]
    #: You *have* half a second.
    has: frozenset[str]
    #: Demands to reply, and the words that may stand before one.
    replies: frozenset[str]
    joins: frozenset[str]
    #: Demands for something, and question words.
    asks: frozenset[str]
    questions: frozenset[str]
    #: Words directly beside a duration that belong to it.
    inside: frozenset[str]
    #: Before (last) and after (ago) a duration that is no deadline.
    past: frozenset[str]
    ago: frozenset[str]
    #: Between a demand to reply and a duration: stop *after*.
    after: frozenset[str]
    #: Things and acts that last: the *page loads* in under a second.
    measured: frozenset[str]
    #: Words that may follow a granted duration, and words that open the clause after one that is alone.
    next: frozenset[str]
    then: frozenset[str]
    #: Words that make a duration a limit only where nothing else is said: *in* 2 s, *only* 2 s, I can *spare* 2 s.
    bounds: frozenset[str] = frozenset()
    #: Words that begin a limit that is added to a demand: *but* stop after 1 s, *without* taking longer.
    adds: frozenset[str] = frozenset()
    #: Words that make a duration a least, and the words that deny or drop what exceeds it.
    over: frozenset[str] = frozenset()
    #: Directly before a duration that is known already: *the* 5 s timeout.
    known: frozenset[str] = frozenset()
    #: What opens a question for yes or no, which asks of facts unless it asks *you*: *did* the tests pass within 5 s.
    polar: frozenset[str] = frozenset()
    you: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SignalTable:
    """The words and phrases of one language that signal something."""

    language: str
    marks: frozenset[str]
    #: Words that begin a phrase, set a limit or are courtesy.
    known: frozenset[str]
    courtesy: frozenset[str]
    starts: Mapping[str, PhraseStart]
    deadlines: DeadlineTable
    #: Words that ask for what there is, and name nothing of it.
    general: frozenset[str]
    #: Words of an offer of help that offers nothing in particular.
    idle: frozenset[str]
    #: Phrases that ask for a search (find, where is, show me) and are no words to look for, by their first word.
    find_requests: Mapping[str, PhraseStart]
    #: Phrases that ask for what was decided last, by their first word.
    find_latest: Mapping[str, PhraseStart]
    #: Phrases that ask how things stand (where did we stop, catch me up), by their first word.
    overview: Mapping[str, PhraseStart]
    #: Words for what recurs, by their first word.
    themes: Mapping[str, PhraseStart]
    #: Words that name nothing beside what asks how things stand.
    overview_beside: frozenset[str]
    #: Words behind such a phrase that make it another thing: find *and* replace.
    no_request: frozenset[str]


@cache
def load_table(language: str) -> SignalTable:
    """Return the table of one of `LANGUAGES`, read once.

    Raises FileNotFoundError for another, KeyError if the file lacks a part.
    """
    data = _read_signals(language)
    lists = {key: _split(value) for key, value in data.get("lists", {}).items()}
    rows = [
        (group, WEIGHTS[strength], row)
        for group in ("explore", "answer", "locate", "hurry")
        for strength, patterns in data[group].items()
        for row in patterns
    ]
    starts = _index_by_first(rows, lists)
    requests = _index_by_first([("request", 0.0, row) for row in data["requests"]["phrases"]], lists)
    latest = _index_by_first([("latest", 0.0, row) for row in data["latest"]["phrases"]], lists)
    overview = _index_by_first([("overview", 0.0, row) for row in data["overview"]["phrases"]], lists)
    courtesy = _split(data["courtesy"])
    deadlines = _read_deadlines(data["deadline"])
    return SignalTable(
        language=language,
        marks=_split(data["marks"]),
        known=deadlines.limits | courtesy | ({*starts, *requests} - _CLASSES),
        courtesy=courtesy,
        starts=starts,
        find_requests=requests,
        find_latest=latest,
        overview=overview,
        themes=_index_by_first([("themes", 0.0, row) for row in data["overview"]["themes"]], lists),
        overview_beside=frozenset(word.key for word in split_words(data["overview"]["beside"])),
        no_request=_split(data["requests"]["unless_before"]),
        deadlines=deadlines,
        general=frozenset(word.key for word in split_words(data["general"])),
        idle=frozenset(word.key for word in split_words(data["idle"])),
    )


def _read_signals(name: str) -> dict[str, Any]:
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files("memory_mcp.question").joinpath("signals", f"{name}.toml").read_text(encoding="utf-8"))


def _read_deadlines(rows: Mapping[str, Any]) -> DeadlineTable:
    """Return how a language sets a deadline, from its file.

    In the files a factor is written as `{ factor = "words" }`.
    """
    common, factors = _read_signals("limits"), ("units", "numbers")
    sets = {key: _split(row) for key, row in rows.items() if key not in factors}
    limits = _split(common["limits"])
    sets |= {"limits": limits | sets["limits"], "inside": limits | sets["inside"]}
    return DeadlineTable(_by_word(common["units"]) | _by_word(rows["units"]), _by_word(rows["numbers"]), **sets)


def _by_word(rows: Mapping[str, str]) -> dict[str, float]:
    return {word: float(factor) for factor, row in rows.items() for word in _split(row)}


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


def _index_by_first(rows: Sequence[tuple[str, float, str]], lists: Mapping[str, frozenset[str]]) -> dict[str, PhraseStart]:
    """Return phrases by each word that they may begin with.

    A row is (group, weight, pattern). One phrase is made for each choice of words that may be left out. Raises KeyError for an
    unknown list.
    """
    by_first: dict[str, list[Phrase]] = {}
    for group, weight, row in rows:
        choices: list[list[list[frozenset[str] | None]]] = []
        for part in row.strip("^$ ").split():
            steps = _parse_steps(part.removesuffix("?"), lists)
            choices.append([steps, []] if part.endswith("?") else [steps])
        for chosen in product(*choices):
            phrase = Phrase(group, weight, tuple(chain(*chosen)), row.startswith("^"), row.endswith("$"))
            for word in phrase.steps[0] or ():
                by_first.setdefault(word, []).append(phrase)
    return {word: _start(phrases) for word, phrases in by_first.items()}


def _start(phrases: Sequence[Phrase]) -> PhraseStart:
    followed: dict[str, list[Phrase]] = {}
    gapped: dict[str, list[Phrase]] = {}
    for phrase in phrases:
        next_steps = phrase.steps[1:3]
        for word in next_steps[0] or () if next_steps else ():
            followed.setdefault(word, []).append(phrase)
        if next_steps and next_steps[0] is None:
            for word in next_steps[1] or ():
                gapped.setdefault(word, []).append(phrase)
    return PhraseStart(
        alone=tuple(phrase for phrase in phrases if len(phrase.steps) == 1),
        followed={word: tuple(phrases_found) for word, phrases_found in followed.items()},
        gapped={word: tuple(phrases_found) for word, phrases_found in gapped.items()},
    )


def _split(row: str) -> frozenset[str]:
    return frozenset(fold(word) for word in row.split())


def _parse_steps(part: str, lists: Mapping[str, frozenset[str]]) -> list[frozenset[str] | None]:
    if part == "...":
        return [None]
    if part.startswith("<") and part.endswith(">"):
        return [frozenset({part})]
    if "|" in part or part.startswith("@"):
        either: set[str] = set()
        for word in part.split("|"):
            either |= lists[word[1:]] if word.startswith("@") else {word if word.startswith("<") else fold(word)}
        return [frozenset(either)]
    return [frozenset({word.key}) for word in split_words(part)]


def choose_table(query: Sequence[Word]) -> SignalTable:
    """Return the table of the language with most marks."""
    keys = {word.key for word in query}
    counts = {language: len(load_table(language).marks & keys) for language in LANGUAGES}
    most = max(counts.values())
    tied = [load_table(language) for language in LANGUAGES if counts[language] == most]
    return max(tied, key=lambda language_table: len(keys & language_table.known))


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
