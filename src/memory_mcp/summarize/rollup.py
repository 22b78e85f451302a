"""Summarize a period from its children.

Invariants
1. Bullets are the children's own, unchanged, so that their grips still cite them.
2. A period of one child has the child's title and summary.
3. Time is linear in the number of children; bullets are compared in an even sample of at most `MAX_WEIGHED`.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocBullet, TocNode
from memory_mcp.summarize.base import RollUp
from memory_mcp.summarize.select import distinct, same
from memory_mcp.summarize.themes import LABEL, themes_of, written
from memory_mcp.summarize.titles import MAX_TITLE, join, without_date
from memory_mcp.summarize.vocabulary import keys_of, words

MAX_SUMMARY = 600
#: Keywords of a child that count, and keywords of a period. With 64 instead of 12, the right week ranked first for 51 instead
#: of 35 of 100 questions and the right month for 67 instead of 57 (both halves of `bench.periods`, coding sessions; phone
#: records gained a little too), for 130 more tokens, of which a page shows the first few.
MAX_KEYWORDS, KEYWORDS = 12, 64
#: Most themes in a title.
MAX_NAMED = 2
NOTHING = "Nothing of substance"
#: Most bullets that are compared word by word.
MAX_WEIGHED = 120
#: Most terms that can get into a title or raise a bullet's score.
MAX_TERMS = 200
Item = TypeVar("Item")
_RANKS = tuple(1.0 / (2.0 + rank) for rank in range(MAX_KEYWORDS))


def roll_up(children: Sequence[TocNode], limit: int = 10) -> RollUp:
    """Return the summary of a period from its children: title, text, at most `limit` of their bullets, up to 64 keywords.

    Of one child it is the child's own title and summary; else the title names up to 2 themes, and terms where room is left.
    """
    if len(children) == 1:
        only = children[0]
        title = without_date(only.title) or NOTHING
        return RollUp(title, only.summary or title, _bullets(children, {}, limit), only.keywords[:KEYWORDS])
    ranked = _terms(children)
    worth = {word.key: value for term, value in ranked.items() for word in words(term) if word.key}
    themes = themes_of(children)
    title = ""
    labels = (theme.label(LABEL) for theme in themes[: 2 * MAX_NAMED])
    for label in distinct(filter(keys_of, labels), keys_of, MAX_NAMED):
        if len(title) + len(label) + 2 <= MAX_TITLE:
            title += f"; {label}" if title else label
    title = join(title, ranked, MAX_TITLE) or NOTHING
    return RollUp(title, written(themes, MAX_SUMMARY) or title, _bullets(children, worth, limit), tuple(ranked)[:KEYWORDS])


def _terms(children: Sequence[TocNode]) -> dict[str, float]:
    """Return at most 200 terms of the children's keywords, as written, with their weight.

    Early keywords weigh more, and weights of several children are added; the order is by weight over the root of the
    number of children that have the term.
    """
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


def _bullets(children: Sequence[TocNode], worth: dict[str, float], limit: int) -> tuple[TocBullet, ...]:
    """Return at most `limit` of the best bullets in the children's order, without near-duplicates, and with a most per child.

    A kind of high salience comes before an observation; `worth` weighs a bullet's words. At most 120 bullets are compared.
    """
    places = [(i, place) for i, child in enumerate(children) for place in range(len(child.bullets))]
    durable = [at for at in places if children[at[0]].bullets[at[1]].kind is not MemoryKind.OBSERVATION]
    passing = [at for at in places if children[at[0]].bullets[at[1]].kind is MemoryKind.OBSERVATION]
    weighed: list[tuple[float, tuple[int, int], set[str]]] = []
    for i, place in (*_sample(durable, MAX_WEIGHED // 2), *_sample(passing, MAX_WEIGHED // 2)):
        bullet = children[i].bullets[place]
        keys = keys_of(bullet.text)
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
        if heard.get(at[0], 0) >= share or any(same(keys, other) for other in taken):
            continue
        heard[at[0]] = heard.get(at[0], 0) + 1
        chosen.append(at)
        taken.append(keys)
    return tuple(children[i].bullets[place] for i, place in sorted(chosen))


def _sample(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Return at most `most` items, evenly spaced, the first among them; `items` itself if there are no more."""
    if len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]
