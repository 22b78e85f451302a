"""A period's children in, what it was about out: groups of children that name the same rare things, the largest first.

A theme begins with the term that most of the period shares that does not name all of it; what names it too belongs to it.
Themes of a day come from its segments, those of longer periods from their days' themes, which their summaries tell.

Invariants
1. Every item belongs to one theme at most, and a theme's share is that of its items' events.
2. A theme is called what one of its items is called: nothing is made up.
3. Time is bounded by the number of items looked at, `MAX_ITEMS`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.toc import EXTRACTIVE, TocNode
from memory_mcp.summarize.kinds import is_errand
from memory_mcp.summarize.rarity import rarity
from memory_mcp.summarize.titles import gists, headline
from memory_mcp.summarize.vocabulary import Word, is_vague, keys_of, words

#: Items of a period that are compared: segments of a day, themes of the days of a longer one; of more, the largest.
MAX_ITEMS, _MOST = 240, 400
#: Themes that are looked for.
MAX_THEMES = 8
#: Terms of an item that count, and terms shown of a theme.
_TERMS, _SHOWN = 8, 2
#: Names that lean on what was said before them, or tell of one moment.
_LEANS = re.compile(
    r"(?:this|that|these|those|it|if|when|can|could|is|are|was|were|do|does|did|how|why|what|i|we|you|but|and|so|then|also|"
    r"address|look|now|all|both|next|here|there|he|she|they)\b(?!['’]t)|\d+[.)] ",
    re.I,
)
#: Characters of a theme's name in a summary.
_NAME = 72


@dataclass(slots=True)
class Item:
    """Something a child was about: what it is called, how much of the period it fills, and what it names, by key."""

    name: str
    weight: float
    terms: Mapping[str, str]
    #: What it names, with how much each tells of it (1: the first of its terms).
    named: Mapping[str, float]
    #: How telling each of these is anywhere (see `Word.weight`).
    weights: Mapping[str, float]
    #: Place of the child among its siblings.
    child: int


@dataclass(frozen=True, slots=True)
class Theme:
    """Items about the same: its name, the terms that they share, its share of the period (0..1) and its children's places."""

    name: str
    terms: tuple[str, ...]
    share: float
    children: tuple[int, ...]

    def label(self, width: int) -> str:
        """The name in few characters, with the first shared term where it does not name that."""
        name = _cut(self.name, width)
        if not self.terms or not is_vague(words(name)) or keys_of(self.terms[0]) & keys_of(name):
            return name
        room = width - len(self.terms[0]) - 2
        return f"{self.terms[0]}: {_cut(self.name, room)}" if room >= _ROOM else name


#: What one item alone names makes a theme only where nothing is shared.
_ALONE = 0.3
#: A name that is shorter than this says nothing.
_ROOM = 18


def themes_of(children: Sequence[TocNode]) -> list[Theme]:
    """Return the themes of a period, the largest first; equals in the order of time."""
    sizes = [_size(child) for child in children]
    whole = math.fsum(sizes) or 1.0
    largest = sorted((n for n, size in enumerate(sizes) if size), key=lambda n: (-sizes[n], n))[:MAX_ITEMS]
    items = [item for n in sorted(largest) for item in _items(n, children[n], sizes[n])][:_MOST]
    holders: defaultdict[str, list[int]] = defaultdict(list)
    weights: dict[str, float] = {}
    for n, item in enumerate(items):
        for key in item.named:
            holders[key].append(n)
        weights |= item.weights
    scale = [rarity(n, len(items)) for n in range(1, len(items) + 1)]
    rare = {key: weights[key] * scale[len(held) - 1] for key, held in holders.items()}
    keys = sorted(holders)
    told = {key: math.fsum([items[n].weight * items[n].named[key] for n in holders[key]]) for key in keys}
    count = {key: len(holders[key]) for key in keys}
    left = set(range(len(items)))
    themes: list[Theme] = []
    while left and len(themes) < MAX_THEMES:
        most, seed = 0.0, ""
        for key in keys:
            worth = told[key] * rare[key] * (1.0 if count[key] > 1 else _ALONE if count[key] else 0.0)
            if worth > most:
                most, seed = worth, key
        if not seed:
            break
        group = [n for n in holders[seed] if n in left]
        left.difference_update(group)
        # What is in a theme counts for no other: taken off where it stands, which is cheaper than adding up the rest anew.
        for n in group:
            for key, named in items[n].named.items():
                told[key] -= items[n].weight * named
                count[key] -= 1
        themes.append(_theme(seed, [items[n] for n in group], rare, whole))
    return sorted(themes, key=lambda t: (-t.share, t.children))


def written(themes: Sequence[Theme], width: int) -> str:
    """Themes with their terms and shares as text, as many as fit."""
    text = ""
    for theme in themes:
        terms = f" [{', '.join(theme.terms)}]" if theme.terms else ""
        name = _cut(theme.name, _NAME).translate(_PLAIN)
        one = f"{name}{terms.replace(';', ',')} ({_percent(theme.share)} %)"
        if text and len(text) + 2 + len(one) > width:
            break
        text += f"; {one}" if text else one
    return text[:width]


def _read(text: str) -> tuple[str, list[str], int]:
    """What `written` wrote of one theme: name, terms and share, 0 for anything else. A pattern would take ten times as long."""
    head, _, share = text.removesuffix(" %)").rpartition(" (")
    name, _, terms = head.removesuffix("]").partition(" [")
    return (name, terms.split(", "), int(share)) if share.isdecimal() and text.endswith(" %)") else ("", [], 0)


def _cut(name: str, width: int) -> str:
    """A name in few characters; of an outcome that was cut off nothing is left ("…: committed")."""
    text = headline(name, width)
    asked, _, rest = text.rpartition(": ")
    return asked if asked and len(text) < len(name) and len(rest) < _ROOM else text


def _percent(share: float) -> int:
    """In steps of five, and below ten of one: a reader wants no more, and a period that grows is written anew less often."""
    return max(1, round(100 * share)) if share < 0.1 else 5 * round(20 * share)


#: What separates themes does not stand in their names.
_PLAIN = str.maketrans({";": ",", "[": "(", "]": ")"})


def _theme(key: str, group: Sequence[Item], rare: Mapping[str, float], whole: float) -> Theme:
    weight = math.fsum(i.weight for i in group)
    told: dict[str, float] = {}
    shown: dict[str, str] = {}
    for item in group:
        for term, text in item.terms.items():
            told[term] = told.get(term, 0.0) + item.weight * rare.get(term, 0.0)
            shown.setdefault(term, text)
    # The seed first, then what its items name most beside it.
    order = sorted(told, key=lambda t: (t != key, -told[t], t))
    name = max(group, key=lambda i: (_fit(i.name, i.weight / weight, told), -i.child)).name
    terms = tuple(dict.fromkeys(shown[t] for t in order if t in shown))[:_SHOWN]
    if len(group) == 1:
        terms = tuple(dict.fromkeys(group[0].terms.values()))[:_SHOWN]
    return Theme(name, terms, weight / whole, tuple(sorted({i.child for i in group})))


def _fit(name: str, share: float, told: Mapping[str, float]) -> float:
    """How well a name would stand for a theme: it names what the theme names, can be read alone, and stands there whole."""
    held = _words(name)
    keys = sorted({w.key for w in held})
    fit: float = math.fsum(told.get(key, 0.0) for key in keys) / (4.0 + len(keys)) ** 0.5 + 0.01 * bool(keys)
    if is_vague(held) or is_errand(name, 0, len(name)):
        fit *= 0.2
    if _LEANS.match(name) or name.endswith(("?", "？")):
        fit *= 0.5
    return float(fit * share**0.25 / (2 if "…" in name else 1))


def _size(child: TocNode) -> float:
    """The weight of a child: its events, in steps of the root of two, so that one more of them seldom changes a share."""
    return float(2.0 ** (round(2 * math.log2(max(child.event_count, 1))) / 2)) if child.bullets else 0.0


def _items(place: int, child: TocNode, size: float) -> list[Item]:
    if child.level is not TocLevel.SEGMENT and child.author == EXTRACTIVE:
        found = [_read(part) for part in child.summary.split("; ")]
        if all(share for _, _, share in found):
            return [_item(name, size * share / 100, terms, place) for name, terms, share in found]
    heads, _ = gists(child.title)
    return [_item(heads[0] if heads else "", size, child.keywords[:_TERMS], place)]


def _item(name: str, weight: float, terms: Sequence[str], place: int) -> Item:
    shown: dict[str, str] = {}
    named: dict[str, float] = {}
    weights: dict[str, float] = {}
    for rank in range(len(terms) - 1, -1, -1):
        for word in _words(terms[rank]):
            shown[word.key], named[word.key], weights[word.key] = terms[rank], 1.0 / (2 + rank), word.weight
    for word in _words(name):
        named[word.key], weights[word.key] = 1.0, word.weight
    return Item(name, weight, shown, named, weights, place)


# The terms of a period's items are few and come again in the periods above.
@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[Word, ...]:
    return tuple(w for w in words(text) if w.key)
