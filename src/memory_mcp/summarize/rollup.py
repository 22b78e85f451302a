"""A period's children in, its title, bullets and keywords out.

Invariants
1. Bullets are the children's own, unchanged: their grips still prove them.
2. A period of one child says what that child says.
3. Time is linear in the number of children; sentences are compared for an even sample of at most `MAX_WEIGHED`.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocBullet, TocNode
from memory_mcp.summarize.base import RollUp
from memory_mcp.summarize.sentences import shorten
from memory_mcp.summarize.titles import MAX_TITLE, gists, headline, join, without_date
from memory_mcp.summarize.vocabulary import words

MAX_SUMMARY = 300
MAX_KEYWORDS = 12
#: A period's headline is shorter than a segment's: its terms say more of the whole.
HEADLINE = 44
#: Gists that make the summary.
MAX_GISTS = 4
NOTHING = "Nothing of substance"
#: Bullets and gists weighed word by word.
MAX_WEIGHED = 120
#: Terms that can get into a title or lift a bullet.
MAX_TERMS = 200
#: Two bullets that share this much of their telling words say the same.
SAME = 0.5
Item = TypeVar("Item")
_RANKS = tuple(1.0 / (2.0 + rank) for rank in range(MAX_KEYWORDS))


def roll_up(children: Sequence[TocNode], limit: int = 10) -> RollUp:
    """See `Summarizer.roll_up`."""
    if len(children) == 1:
        only = children[0]
        title = without_date(only.title) or NOTHING
        return RollUp(title, only.summary or title, _bullets(children, {}, limit), only.keywords[:MAX_KEYWORDS])
    ranked = _terms(children)
    worth = {word.key: value for term, value in ranked.items() for word in words(term) if word.key}
    heads = _heads(children, worth)
    title = join(headline(heads[0], HEADLINE) if heads else "", ranked, MAX_TITLE) or NOTHING
    summary = shorten("; ".join(heads), MAX_SUMMARY) or title
    return RollUp(title, summary, _bullets(children, worth, limit), tuple(ranked)[:MAX_KEYWORDS])


def _terms(children: Sequence[TocNode]) -> dict[str, float]:
    """Terms with their worth, best first: named early, and by several children."""
    worth: dict[str, float] = {}
    spread: dict[str, int] = {}
    shown: dict[str, str] = {}
    for child in children:
        for rank, term in enumerate(child.keywords[:MAX_KEYWORDS]):
            key = term.casefold()
            worth[key] = worth.get(key, 0.0) + _RANKS[rank]
            spread[key] = spread.get(key, 0) + 1
            shown.setdefault(key, term)
    ranked = sorted(worth, key=lambda key: (-worth[key] / math.sqrt(spread[key]), key))
    return {shown[key]: worth[key] for key in ranked[:MAX_TERMS]}


def _heads(children: Sequence[TocNode], worth: dict[str, float]) -> list[str]:
    """The children's headlines that name most of what the period was about, whole ones first, no two alike."""
    ranked: list[tuple[float, int, str, set[str]]] = []
    for i, child in enumerate(_sample(children, MAX_WEIGHED)):
        for gist in gists(child.title)[0][:2]:
            keys = {word.key for word in words(gist) if word.key}
            score = math.fsum(worth.get(key, 0.0) for key in keys)
            ranked.append((-score / (2 if len(gist) > HEADLINE or gist.endswith("…") else 1), i, gist, keys))
    ranked.sort(key=lambda item: item[:2])
    chosen: list[str] = []
    taken: set[str] = set()
    for _, _, gist, keys in ranked:
        if keys and len(keys & taken) * 2 <= len(keys):
            chosen.append(gist)
            taken |= keys
        if len(chosen) == MAX_GISTS:
            break
    return chosen


def _bullets(children: Sequence[TocNode], worth: dict[str, float], limit: int) -> tuple[TocBullet, ...]:
    """The best bullets, near-duplicates dropped and no child heard more than its share, in the children's order."""
    places = [(i, place) for i, child in enumerate(children) for place in range(len(child.bullets))]
    durable = [at for at in places if children[at[0]].bullets[at[1]].kind is not MemoryKind.OBSERVATION]
    passing = [at for at in places if children[at[0]].bullets[at[1]].kind is MemoryKind.OBSERVATION]
    weighed: list[tuple[float, tuple[int, int], set[str]]] = []
    for i, place in (*_sample(durable, MAX_WEIGHED // 2), *_sample(passing, MAX_WEIGHED // 2)):
        bullet = children[i].bullets[place]
        keys = {word.key for word in words(bullet.text) if word.key}
        said = math.fsum(worth.get(key, 0.0) for key in keys) / (6.0 + len(keys))
        weighed.append((-KIND_SALIENCE[bullet.kind] - said, (i, place), keys))
    weighed.sort(key=lambda item: item[:2])
    share = max(2, -(-2 * limit // max(1, len(children))))
    heard: dict[int, int] = {}
    chosen: list[tuple[int, int]] = []
    taken: list[set[str]] = []
    for _, at, keys in weighed:
        if len(chosen) >= limit:
            break
        if heard.get(at[0], 0) >= share or any(_alike(keys, other) for other in taken):
            continue
        heard[at[0]] = heard.get(at[0], 0) + 1
        chosen.append(at)
        taken.append(keys)
    return tuple(children[i].bullets[place] for i, place in sorted(chosen))


def _alike(one: set[str], other: set[str]) -> bool:
    return bool(one and other) and len(one & other) >= SAME * min(len(one), len(other))


def _sample(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` items, evenly spread, the first among them."""
    if len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]
