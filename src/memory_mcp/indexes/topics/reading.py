"""Read texts into numbers once, to count words in any subset of them. Pure.

A text becomes a row of units. A unit is a word or an identifier; in scripts without spaces each ideograph is
one, and pairs of them are counted. Unit 0 separates clauses: no phrase crosses it.

Invariants
1. A word counts once per document, however often it occurs.
2. Documents share the numbers of words but no counts: results for a subset depend only on its documents.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cache
from importlib.resources import files
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from memory_mcp.base.dataclass import dataclass
from memory_mcp.tree.summarize.titles import SEPARATOR, without_date
from memory_mcp.tree.summarize.vocabulary import TOKEN, has_cjk, lookup_word

Ints = NDArray[np.int64]
#: Units and keys: there are millions of them.
Small = NDArray[np.int32]
Floats = NDArray[np.float64]

#: Weight of a word in bullets only, and in the title or keywords.
_SAID, _NAMED = 0.5, 1.0
#: A name and a colon at the start of a statement: its speaker, or its kind of record.
_SPEAKER = re.compile(r"([^\W\d_][^:,;!?()\n]{0,38}?): ")
_MAX_NAME_WORDS = 5
#: Least statements with the same name for it to be a speaker's, and the share of statements with names above which all are.
_SPOKEN, _DIALOGUE = 2, 0.6
_BREAK = r"[,;:!?()\[\]{}<>=|\"“”„«»…—–。、，；：！？（）【】《》「」『』・\n]|(?<=\s)[-*/&+](?=\s)"
_PIECE = re.compile(f"{TOKEN.pattern}|{_BREAK}")
_SCRIPT = re.compile(
    r"([\u3400-\u4dbf\u4e00-\u9fff々]+)|([\u30a1-\u30fa\u30fc]{2,}|[\uac00-\ud7af]{2,})"
    r"|([^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff66-\uff9f]+)|."
)
_NUMBER = re.compile(r"v?\d{1,4}\Z")
#: Characters in no pair: the commonest particles and pronouns of Chinese.
_PARTICLES = frozenset("的了是在我你您他她它们們这這那与與和就都也吗嗎呢吧把被很为為及或并已将將让從从對对请請")
_NOUN, _VERB = 1, 2
#: Words before nouns, and before verbs.
_SIDES = {
    **dict.fromkeys("the a an of our your my its this these those no in for on with by from about".split(), _NOUN),
    **dict.fromkeys("to will can should would could must we i you they he she not let".split(), _VERB),
}
_JOINTS = frozenset("of on for in with from at by per de del du des di da von für zur zum van".split())
#: Exponent of the share of uses as a noun.
_NOMINAL = 0.5
#: Least share of capitalized occurrences of a name.
_PROPER = 0.9
#: Weight of a pair of ideographs, and of a run of them as in `vocabulary`.
_PAIR_WEIGHT = 0.8


@dataclass(frozen=True, slots=True)
class SegmentText:
    """Title, bullets and keywords (best first) of one segment."""

    title: str
    bullets: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class Kind(IntEnum):
    """The kind of a unit."""

    BREAK = 0
    #: A function word.
    FUNCTION = 1
    #: A function word that may be inside a phrase: "minister of finance".
    JOINT = 2
    NUMBER = 3
    IDEOGRAPH = 4
    WORD = 5
    CODE = 6


class TextUnits:
    """Documents as rows of numbers.

    units, keys: (places,) int32, all documents one after the other, document n from `bounds[n]` to `bounds[n + 1]`;
    a place's key is what is counted there, 0 for nothing. shown, kinds: by unit. weights, code: by key, how much it
    tells (0..1) and whether it is a name of code. named_keys, named_weights: what each document names and how
    firmly (0.5 or 1), document n from `named_bounds[n]` on. titles, speakers: by document, its title, and the keys
    of the names that its statements begin with.
    """

    def __init__(self, docs: Sequence[SegmentText]) -> None:
        """Read all documents; words are numbered in the order they are met."""
        self.shown, self._kinds, self._key_of = [""], [Kind.BREAK], [0]
        self._numbers: dict[str, int] = {"": 0}
        self._weights = [0.0]
        self._code = [False]
        self._unit_cache = _UnitCache(self)
        self.titles = [doc.title for doc in docs]
        self.speakers: list[frozenset[int]] = []
        row = array("i")
        lengths, named_lengths = [], []
        for doc in docs:
            begin = len(row)
            named_lengths.append(self._read_doc(doc, row))
            lengths.append(len(row) - begin)
        self.bounds: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(lengths, dtype=np.int64))])
        self.units: Small = np.frombuffer(row, dtype=np.int32) if row else np.zeros(0, np.int32)
        self.kinds: Ints = np.array(self._kinds, dtype=np.int64)
        self.keys: Small = self._compute_keys()
        self.weights: Floats = np.array(self._weights)
        self.code = np.array(self._code)
        # What each document names, each key once; its first places are in title and keywords.
        size, at = len(self.weights), np.flatnonzero(self.keys)
        owner = np.searchsorted(self.bounds, at, side="right") - 1
        firm = at < (self.bounds[:-1] + np.array(named_lengths, dtype=np.int64))[owner]
        codes = owner * size + self.keys[at]
        named_codes = np.unique(codes)
        self.named_bounds: Ints = np.searchsorted(named_codes, np.arange(len(docs) + 1) * size)
        self.named_keys: Small = (named_codes % size).astype(np.int32)
        self.named_weights: Floats = np.where(np.isin(named_codes, codes[firm]), _NAMED, _SAID)

    def noun_shares(self, docs: Ints) -> Floats:
        """Return how much each key is used as a noun, 0..1; 1 if unknown.

        Counted by the word before: articles and prepositions against pronouns and auxiliary verbs.
        """
        at, _ = expand_rows(self.bounds, docs)
        size = len(self.weights)
        preceding_units = np.zeros_like(at)
        preceding_units[1:] = self.units[at[:-1]]
        side = np.array([_SIDES.get(text.lower(), 0) for text in self.shown], dtype=np.int64)[preceding_units]
        keys = self.keys[at]
        nouns, verbs = (np.bincount(keys[side == part_of_speech], minlength=size) for part_of_speech in (_NOUN, _VERB))
        return np.asarray(((nouns + 2) / (nouns + verbs + 2)) ** _NOMINAL)

    def are_capitalized(self, docs: Ints) -> NDArray[np.bool_]:
        """Return which keys are capitalized 9 times of 10 in these documents.

        True also for pairs of ideographs, and for keys that are not in them.
        """
        at, _ = expand_rows(self.bounds, docs)
        size = len(self.weights)
        capital = np.array([text[:1].isupper() for text in self.shown])[self.units[at]]
        capitalized = np.bincount(self.keys[at], capital, minlength=size) >= _PROPER * np.bincount(self.keys[at], minlength=size)
        capitalized[self._pairs :] = True
        return np.asarray(capitalized)

    def add_unit(self, text: str, kind: Kind, key: str = "", weight: float = 0.0) -> int:
        """Add a unit, return its number; those of one key count together."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._weights)
            self._weights.append(weight)
            self._code.append(kind is Kind.CODE)
        self.shown.append(text)
        self._kinds.append(kind)
        self._key_of.append(number)
        return len(self.shown) - 1

    def _read_doc(self, doc: SegmentText, row: "array[int]") -> int:
        head = without_date(doc.title).partition(SEPARATOR)[0]
        starts = [match[1] for match in map(_SPEAKER.match, (head, *doc.bullets)) if match]
        spoken = 1 if len(starts) > _DIALOGUE * (1 + len(doc.bullets)) else _SPOKEN
        speakers = {s for s in starts if starts.count(s) >= spoken and s.count(" ") < _MAX_NAME_WORDS}
        self.speakers.append(frozenset(self._key_of[unit] for name in speakers for unit in self._read_text(name)) - {0})
        begin, named_length = len(row), 0
        for number, text in enumerate((head, *doc.keywords, *doc.bullets)):
            match = _SPEAKER.match(text)
            row.extend(self._read_text(text[match.end() :] if match and match[1] in speakers else text))
            row.append(0)
            if number == len(doc.keywords):
                named_length = len(row) - begin
        return named_length

    def _read_text(self, text: str) -> Iterator[int]:
        return chain.from_iterable(map(self._unit_cache.__getitem__, _PIECE.findall(text)))

    def _compute_keys(self) -> Small:
        keys = np.array(self._key_of, dtype=np.int32)[self.units]
        ideograph = self.kinds[self.units] == Kind.IDEOGRAPH
        particle = np.array([text in _PARTICLES for text in self.shown])[self.units]
        first = np.flatnonzero(ideograph[:-1] & ideograph[1:] & ~particle[:-1] & ~particle[1:])
        pairs, number = np.unique(
            self.units[first].astype(np.int64) * len(self.shown) + self.units[first + 1], return_inverse=True
        )
        self._pairs = len(self._weights)
        keys[first] = self._pairs + number
        names = [self.shown[code // len(self.shown)] + self.shown[code % len(self.shown)] for code in pairs.tolist()]
        self._weights += [0.0 if name in everyday_words() else _PAIR_WEIGHT for name in names]
        self._code += [False] * len(pairs)
        return keys


def expand_rows(bounds: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return places of rows, concatenated, and the length of each."""
    lengths = bounds[rows + 1] - bounds[rows]
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum())) + np.repeat(bounds[rows] - ends + lengths, lengths), lengths


class _UnitCache(dict[str, tuple[int, ...]]):
    """A cache of units by piece of text."""

    def __init__(self, texts: TextUnits) -> None:
        super().__init__()
        self._texts = texts

    def __missing__(self, piece: str) -> tuple[int, ...]:
        if has_cjk(piece):
            units = tuple(chain.from_iterable(self._by_script(piece)))
        else:
            bare = piece.strip("_").rstrip("._-/:@+\\#")
            unit = self._add_word(piece, bare) if bare and (bare[0].isalnum() or "/" in bare) else 0
            # A full stop or a colon ends a clause.
            units = (unit, 0) if piece[-1] in ".:" and unit else (unit,)
        self[piece] = units
        return units

    def _add_word(self, piece: str, bare: str) -> int:
        if _NUMBER.match(bare):
            return self._texts.add_unit(bare, Kind.NUMBER)
        word = lookup_word(piece)
        if word.key and word.key not in everyday_words() and bare.lower() not in everyday_words():
            kind = Kind.CODE if word.code else Kind.WORD
            return self._texts.add_unit(word.spelling, kind, word.key, word.weight)
        if not bare.isalpha():
            return 0
        return self._texts.add_unit(bare, Kind.JOINT if bare.lower() in _JOINTS else Kind.FUNCTION)

    def _by_script(self, piece: str) -> Iterator[tuple[int, ...]]:
        for ideographs, run, other in _SCRIPT.findall(piece):
            if ideographs:
                yield tuple(self._add_character(character, Kind.IDEOGRAPH) for character in ideographs)
            elif run:
                yield (self._add_character(run, Kind.WORD),)
            else:
                yield self[other] if other else (0,)

    def _add_character(self, text: str, kind: Kind) -> int:
        name = f"\0{text}"
        if name not in self:
            key = "" if kind is Kind.IDEOGRAPH else text
            self[name] = (self._texts.add_unit(text, kind, key, _PAIR_WEIGHT),)
        return self[name][0]


@cache
def everyday_words() -> frozenset[str]:
    """Return words and pairs of ideographs that are no topic."""
    text = files("memory_mcp.indexes.topics").joinpath("everyday.txt").read_text(encoding="utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())
