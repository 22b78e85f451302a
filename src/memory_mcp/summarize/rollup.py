"""A period's children in, its title, bullets and keywords out."""

import math
from collections.abc import Sequence

from memory_mcp.model.toc import KIND_SALIENCE, TocBullet, TocNode
from memory_mcp.summarize.base import RollUp
from memory_mcp.summarize.sentences import shorten
from memory_mcp.summarize.titles import MAX_TITLE, gists, headline, join
from memory_mcp.summarize.vocabulary import words

MAX_SUMMARY = 300
MAX_KEYWORDS = 12
#: Bullets weighed in full; of more children an even sample is taken first.
MAX_WEIGHED = 240


def roll_up(children: Sequence[TocNode], limit: int = 10) -> RollUp:
    """See `Summarizer.roll_up`."""
    ranked = _keywords(children)
    terms = tuple(ranked)[:MAX_KEYWORDS]
    heads = _heads(children, ranked)
    title = join("; ".join(headline(h, 36) for h in heads[:2]), terms, MAX_TITLE)
    summary = shorten("; ".join(heads[:4]), MAX_SUMMARY)
    return RollUp(title or "Nothing of substance", summary or title or "Nothing of substance", _bullets(children, ranked, limit), terms)


def _keywords(children: Sequence[TocNode]) -> dict[str, float]:
    """Terms with their worth, best first: named early, by several children, yet not by all."""
    worth: dict[str, float] = {}
    spread: dict[str, int] = {}
    shown: dict[str, str] = {}
    for child in children:
        for rank, term in enumerate(child.keywords):
            key = term.casefold()
            worth[key] = worth.get(key, 0.0) + 1.0 / (2.0 + rank)
            spread[key] = spread.get(key, 0) + 1
            shown.setdefault(key, term)
    ranked = sorted(worth, key=lambda key: (-worth[key] / math.sqrt(spread[key]) * (1 + math.log(spread[key])), key))
    return {shown[key]: worth[key] for key in ranked}


def _heads(children: Sequence[TocNode], ranked: dict[str, float]) -> list[str]:
    step = max(1, len(children) // MAX_WEIGHED)
    best: list[tuple[float, int, str]] = []
    index = {word.key: value for term, value in list(ranked.items())[:200] for word in words(term) if word.key}
    for i, child in enumerate(children[::step]):
        for gist in gists(child.title)[0][:2]:
            score = sum(index.get(key, 0.0) for key in {word.key for word in words(gist)})
            best.append((-score, i, gist))
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
    index = {word.key: value for term, value in list(ranked.items())[:200] for word in words(term) if word.key}
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
