"""The words and phrases of each language that signal something; `signals/*.toml`, one file per language, read on first use.

A phrase is a row of words: `a|b` either, `x?` may be left out, `@list` any word of that list, `<code>` `<quote>` `<number>`
a literal piece or a number, `...` up to eight words, a leading `^` at a clause's start (words of courtesy before it do
not count), a closing `$` at its end.
"""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, product
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import fold
from memory_mcp.question.exact import read_signals
from memory_mcp.question.words import CODE, NUMBER, QUOTE, split_words

#: The languages with a table; where a query's words do not tell them apart, the first reads it (see `read_by`).
LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")
#: Weight of a phrase by the list it is in. A question word beats an identifier and a bare keyword, and only
#: the phrases in `sure` beat a question word; chosen on the tuning part of the labelled queries.
WEIGHTS: Mapping[str, float] = {"sure": 5.0, "strong": 3.0, "plain": 2.0, "weak": 1.0}
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


class SignalTable:
    """The words and phrases of one language that signal something.

    Its file is read at once, and each group of phrases indexed when it is first needed: most questions are of one language.
    """

    def __init__(self, language: str) -> None:
        """Read a language's file; raises FileNotFoundError if there is none, KeyError if it lacks the words of a table."""
        self.language = language
        self._data = data = read_signals(language)
        self.marks = _split(data["marks"])
        self.courtesy = _split(data["courtesy"])
        #: Words that ask for what there is, and name nothing of it.
        self.general = frozenset(word.key for word in split_words(data["general"]))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Words that begin a phrase, set a limit or are courtesy."""
        return self.deadlines.limits | self.courtesy | ({*self.starts, *self.find_requests} - _CLASSES)

    @cached_property
    def starts(self) -> Mapping[str, PhraseStart]:
        """Phrases that tell an intent, by their first word."""
        rows = [
            (group, WEIGHTS[strength], row)
            for group in ("explore", "answer", "locate", "hurry")
            for strength, patterns in self._data[group].items()
            for row in patterns
        ]
        return _index_by_first(rows, self._lists)

    @cached_property
    def deadlines(self) -> DeadlineTable:
        """How the language sets a deadline."""
        return _read_deadlines(self._data["deadline"])

    @cached_property
    def idle(self) -> frozenset[str]:
        """Words of an offer of help that offers nothing in particular."""
        return frozenset(word.key for word in split_words(self._data["idle"]))

    @cached_property
    def find_requests(self) -> Mapping[str, PhraseStart]:
        """Phrases that ask for a search (find, where is, show me) and are no words to look for, by their first word."""
        return self._index_group("request", self._data["requests"]["phrases"])

    @cached_property
    def find_latest(self) -> Mapping[str, PhraseStart]:
        """Phrases that ask for what was decided last, by their first word."""
        return self._index_group("latest", self._data["latest"]["phrases"])

    @cached_property
    def overview(self) -> Mapping[str, PhraseStart]:
        """Phrases that ask how things stand (where did we stop, catch me up), by their first word."""
        return self._index_group("overview", self._data["overview"]["phrases"])

    @cached_property
    def themes(self) -> Mapping[str, PhraseStart]:
        """Words for what recurs, by their first word."""
        return self._index_group("themes", self._data["overview"]["themes"])

    @cached_property
    def overview_beside(self) -> frozenset[str]:
        """Words that name nothing beside what asks how things stand."""
        return frozenset(word.key for word in split_words(self._data["overview"]["beside"]))

    @cached_property
    def no_request(self) -> frozenset[str]:
        """Words behind a request that make it another thing: find *and* replace."""
        return _split(self._data["requests"]["unless_before"])

    @cached_property
    def _lists(self) -> Mapping[str, frozenset[str]]:
        return {key: _split(value) for key, value in self._data.get("lists", {}).items()}

    def _index_group(self, group: str, rows: Sequence[str]) -> dict[str, PhraseStart]:
        return _index_by_first([(group, 0.0, row) for row in rows], self._lists)


@cache
def load_table(language: str) -> SignalTable:
    """Return the table of one of `LANGUAGES`, read once; raises what reading raises."""
    return SignalTable(language)


def _read_deadlines(rows: Mapping[str, Any]) -> DeadlineTable:
    """In the files a factor is written as `{ factor = "words" }`."""
    common, factors = read_signals("limits"), ("units", "numbers")
    sets = {key: _split(row) for key, row in rows.items() if key not in factors}
    limits = _split(common["limits"])
    sets |= {"limits": limits | sets["limits"], "inside": limits | sets["inside"]}
    return DeadlineTable(_by_word(common["units"]) | _by_word(rows["units"]), _by_word(rows["numbers"]), **sets)


def _by_word(rows: Mapping[str, str]) -> dict[str, float]:
    return {word: float(factor) for factor, row in rows.items() for word in _split(row)}


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
