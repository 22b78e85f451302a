"""A read stretch in, the words and phrases that tell it from its neighbours out."""

from heapq import nsmallest
from itertools import pairwise

from memory_mcp.summarize.stretch import Stretch
from memory_mcp.summarize.vocabulary import Word

MAX_KEYWORDS = 12
#: A pair of words said this often is one term.
PAIR_TIMES = 2
MAX_PHRASE = 32
#: How much a short word is preferred: a title has room for 120 characters.
BREVITY = 0.25
#: Pairs are looked for among this many best words.
_CANDIDATES = 40


def keywords(stretch: Stretch, limit: int = MAX_KEYWORDS) -> tuple[str, ...]:
    """The most telling terms, best first, as they were written; identifiers whole."""
    salience = stretch.salience
    starts = {s.words[0] for s in stretch.sentences if s.words}
    worth = {key: salience[key] * _appeal(stretch.shown[key], starts) for key in salience if salience[key] > 0}
    ranked = [key for _, key in nsmallest(_CANDIDATES, [(-value, key) for key, value in worth.items()])]
    phrases = _phrases(stretch, set(ranked))
    chosen: list[str] = []
    used: set[str] = set()
    for key in ranked:
        if len(chosen) >= limit:
            break
        if key in used:
            continue
        pair = phrases.get(key)
        if pair and not used & set(pair[:2]):
            chosen.append(pair[2])
            used.update(pair[:2])
        else:
            chosen.append(stretch.shown[key].shown)
            used.add(key)
    return tuple(chosen)


def _appeal(word: Word, starts: set[Word]) -> float:
    """How good a word is to show: short ones, and names (capital inside a sentence) before adverbs and participles."""
    appeal = float((len(word.shown) + 2) ** -BREVITY)
    if word.capital:
        return appeal * (0.8 if word in starts else 1.3)
    return appeal * 0.75 if word.shown.endswith(("ed", "ly")) and len(word.shown) > 5 and not word.code else appeal


def _phrases(stretch: Stretch, wanted: set[str]) -> dict[str, tuple[str, str, str]]:
    """For a word its best phrase: two plain words that stand together at least twice, and seldom apart."""
    best: dict[str, tuple[float, tuple[str, str, str]]] = {}
    texts = list(dict.fromkeys(s.event.text for s in stretch.sentences))
    pairs: dict[tuple[Word, Word], int] = {}
    for held in stretch.tally.values():
        for left, right in pairwise(held):
            if left.key in wanted and right.key in wanted:
                pairs[left, right] = pairs.get((left, right), 0) + 1
    for (left, right), times in pairs.items():
        first, second = left.key, right.key
        if times < PAIR_TIMES or first == second:
            continue
        strength = times / min(stretch.counts[first], stretch.counts[second])
        phrase = f"{left.shown} {right.shown}"
        if left.code or right.code or strength < 0.4 or len(phrase) > MAX_PHRASE or not any(phrase in text for text in texts):
            continue
        for key in (first, second):
            if key not in best or (strength, phrase) > (best[key][0], best[key][1][2]):
                best[key] = (strength, (first, second, phrase))
    return {key: found for key, (_, found) in best.items()}
