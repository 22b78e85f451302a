"""A period's children in, its title, bullets and keywords out."""

import math
from collections.abc import Sequence

from memory_mcp.model.toc import KIND_SALIENCE, TocBullet, TocNode
from memory_mcp.summarize.base import RollUp
from memory_mcp.summarize.sentences import shorten
from memory_mcp.summarize.titles import MAX_TITLE, gists, headline, join, without_date
from memory_mcp.summarize.vocabulary import words

MAX_SUMMARY = 300
MAX_KEYWORDS = 12
#: A period's headline is shorter than a segment's: its terms say more of the whole.
HEADLINE = 44
NOTHING = "Nothing of substance"
#: Terms that can get into a title or lift a bullet.
MAX_TERMS = 200
_RANKS = tuple(1.0 / (2.0 + rank) for rank in range(MAX_KEYWORDS))
#: Bullets weighed in full; of more children an even sample is taken first.
MAX_WEIGHED = 240


def roll_up(children: Sequence[TocNode], limit: int = 10) -> RollUp:
    """See `Summarizer.roll_up`."""
    if len(children) == 1:
        only = children[0]
        return RollUp(without_date(only.title), only.summary, _bullets(children, {}, limit), only.keywords[:MAX_KEYWORDS])
    ranked = _keywords(children)
    terms = tuple(ranked)[:MAX_KEYWORDS]
    heads = _heads(children, ranked)
    title = join(headline(heads[0], HEADLINE) if heads else "", ranked, MAX_TITLE)
    summary = shorten("; ".join(heads), MAX_SUMMARY)
    return RollUp(title or NOTHING, summary or title or NOTHING, _bullets(children, ranked, limit), terms)


def _keywords(children: Sequence[TocNode]) -> dict[str, float]:
    """Terms with their worth, best first: named early, and by several children."""
    worth: dict[str, float] = {}
    spread: dict[str, int] = {}
    shown: dict[str, str] = {}
    for child in children:
        for rank, term in enumerate(child.keywords):
            key = term.casefold()
            worth[key] = worth.get(key, 0.0) + _RANKS[min(rank, len(_RANKS) - 1)]
            spread[key] = spread.get(key, 0) + 1
            shown.setdefault(key, term)
    ranked = sorted(worth, key=lambda key: (-worth[key] / math.sqrt(spread[key]), key))
    return {shown[key]: worth[key] for key in ranked[:MAX_TERMS]}


def _heads(children: Sequence[TocNode], ranked: dict[str, float]) -> list[str]:
    step = max(1, len(children) // MAX_WEIGHED)
    best: list[tuple[float, int, str]] = []
    index = {word.key: value for term, value in ranked.items() for word in words(term) if word.key}
    for i, child in enumerate(children[::step]):
        for gist in gists(child.title)[0][:2]:
            score = sum(index.get(key, 0.0) for key in {word.key for word in words(gist)})
            best.append((-score / (2 if len(gist) > HEADLINE or gist.endswith("…") else 1), i, gist))
    best.sort()
    chosen: list[str] = []
    taken: set[str] = set()
    for _, _, gist in best:
        keys = {word.key for word in words(gist) if word.key}
        if keys and len(keys & taken) * 2 <= len(keys):
            chosen.append(gist)
            taken |= keys
        if len(chosen) == 4:
            break
    return chosen


def _bullets(children: Sequence[TocNode], ranked: dict[str, float], limit: int) -> tuple[TocBullet, ...]:
    index = {word.key: value for term, value in ranked.items() for word in words(term) if word.key}
    pool = [(child_no, place, bullet) for child_no, child in enumerate(children) for place, bullet in enumerate(child.bullets)]
    pool.sort(key=lambda item: (-KIND_SALIENCE[item[2].kind], item[1], item[0]))
    weighed: list[tuple[float, int, int, set[str], TocBullet]] = []
    for child_no, place, bullet in pool[:MAX_WEIGHED]:
        keys = {word.key for word in words(bullet.text) if word.key}
        score = KIND_SALIENCE[bullet.kind] + sum(index.get(key, 0.0) for key in keys) / (6 + len(keys))
        weighed.append((-score, child_no, place, keys, bullet))
    weighed.sort(key=lambda item: item[:3])
    chosen: list[tuple[int, int, TocBullet]] = []
    taken: list[set[str]] = []
    for _, child_no, place, keys, bullet in weighed:
        if len(chosen) >= limit:
            break
        if any(2 * len(keys & other) >= min(len(keys), len(other)) for other in taken if keys and other):
            continue
        chosen.append((child_no, place, bullet))
        taken.append(keys)
    return tuple(bullet for _, _, bullet in sorted(chosen, key=lambda item: item[:2]))
