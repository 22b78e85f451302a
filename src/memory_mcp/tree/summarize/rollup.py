"""Summarize a period from its children.

Invariants
1. Bullets are the children's own, unchanged, so that their grips still cite them.
2. A period of one child has the child's title and summary.
3. Time is linear in the number of children; bullets are compared in an even sample of at most `MAX_WEIGHED`.

Change here: what a period is called.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocBullet, TocNode
from memory_mcp.tree.summarize.base import RollUp
from memory_mcp.tree.summarize.select import are_alike, drop_repeats
from memory_mcp.tree.summarize.themes import themes_of, write_themes
from memory_mcp.tree.summarize.titles import MAX_TITLE, join_terms, without_date
from memory_mcp.tree.summarize.vocabulary import keys_of, read_words

MAX_SUMMARY = 600
#: Keywords of a child that count, and keywords of a period. With 64 instead of 12, the right week ranked first for 51 instead
#: of 35 of 100 questions and the right month for 67 instead of 57 (both halves of `bench.periods`, coding sessions; phone
#: records gained a little too), for 130 more tokens, of which a page shows the first few.
MAX_CHILD_KEYWORDS, MAX_PERIOD_KEYWORDS = 12, 64
#: Most themes in a title.
MAX_NAMED = 2
NOTHING = "Nothing of substance"
#: Most bullets that are compared word by word.
MAX_WEIGHED = 120
#: Most terms that can get into a title or raise a bullet's score.
MAX_TERMS = 200
Item = TypeVar("Item")
_RANKS = tuple(1.0 / (2.0 + rank) for rank in range(MAX_CHILD_KEYWORDS))


def roll_up(children: Sequence[TocNode], limit: int = 10) -> RollUp:
    """Return the summary of a period from its children.

    It has at most `limit` of their bullets and up to 64 keywords. Of one child it is the child's own title and summary; else
    the title names up to 2 themes, and terms where room is left.
    """
    if len(children) == 1:
        only = children[0]
        title = without_date(only.title) or NOTHING
        return RollUp(title, only.summary or title, _choose_bullets(children, {}, limit), only.keywords[:MAX_PERIOD_KEYWORDS])
    ranked = _rank_terms(children)
    worth = {word.key: value for term, value in ranked.items() for word in read_words(term) if word.key}
    themes = themes_of(children)
    title = ""
    labels = (theme.label for theme in themes[: 2 * MAX_NAMED])
    for label in drop_repeats(filter(keys_of, labels), keys_of, MAX_NAMED):
        if len(title) + len(label) + 2 <= MAX_TITLE:
            title += f"; {label}" if title else label
    title = join_terms(title, ranked, MAX_TITLE) or NOTHING
    return RollUp(
        title,
        write_themes(themes, MAX_SUMMARY) or title,
        _choose_bullets(children, worth, limit),
        tuple(ranked)[:MAX_PERIOD_KEYWORDS],
    )


def _rank_terms(children: Sequence[TocNode]) -> dict[str, float]:
    """Return the children's keywords with their weights.

    Early keywords weigh more, and weights of several children are added; the order is by weight over the root of the
    number of children that have the term.
    """
    worth: dict[str, float] = {}
    spread: dict[str, int] = {}
    spellings: dict[str, str] = {}
    for child in children:
        for rank, term in enumerate(child.keywords[:MAX_CHILD_KEYWORDS]):
            key = term.casefold()
            worth[key] = worth.get(key, 0.0) + _RANKS[rank]
            spread[key] = spread.get(key, 0) + 1
            spellings.setdefault(key, term)
    ranked = sorted(worth, key=lambda key: (-worth[key] / math.sqrt(spread[key]), key))
    return {spellings[key]: worth[key] for key in ranked[:MAX_TERMS]}


def _choose_bullets(children: Sequence[TocNode], worth: dict[str, float], limit: int) -> tuple[TocBullet, ...]:
    """Prefer kinds of high salience; compare at most 120 bullets."""
    positions = [(i, index) for i, child in enumerate(children) for index in range(len(child.bullets))]
    durable = [
        position for position in positions if children[position[0]].bullets[position[1]].kind is not MemoryKind.OBSERVATION
    ]
    passing = [at for at in positions if children[at[0]].bullets[at[1]].kind is MemoryKind.OBSERVATION]
    weighed: list[tuple[float, tuple[int, int], set[str]]] = []
    for i, index in (*_sample_evenly(durable), *_sample_evenly(passing)):
        bullet = children[i].bullets[index]
        keys = keys_of(bullet.text)
        relevance = math.fsum(worth.get(key, 0.0) for key in keys) / (6.0 + len(keys))
        weighed.append((-KIND_SALIENCE[bullet.kind] - relevance, (i, index), keys))
    weighed.sort(key=lambda item: item[:2])
    share = max(2, -(-2 * limit // max(1, len(children))))
    count_of_child: dict[int, int] = {}
    chosen: list[tuple[int, int]] = []
    chosen_keys: list[set[str]] = []
    for _, position, keys in weighed:
        if len(chosen) >= limit:
            break
        if count_of_child.get(position[0], 0) >= share or any(are_alike(keys, other) for other in chosen_keys):
            continue
        count_of_child[position[0]] = count_of_child.get(position[0], 0) + 1
        chosen.append(position)
        chosen_keys.append(keys)
    return tuple(children[i].bullets[index] for i, index in sorted(chosen))


def _sample_evenly(items: Sequence[Item]) -> Sequence[Item]:
    most = MAX_WEIGHED // 2
    if len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]
