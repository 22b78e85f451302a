"""Group what a period's children were about into themes, the largest first.

A theme starts with the rare term that most of the period shares; all items that name it belong to it. Themes of a day come
from its segments, those of longer periods from the themes in their days' summaries.

Invariants
1. An item belongs to at most one theme; a theme's share is that of its items' events.
2. A theme has the name of one of its items.
3. Time is bounded by the number of items compared, `MAX_ITEMS`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.model.toc import EXTRACTIVE, TocNode
from memory_mcp.summarize.kinds import is_errand
from memory_mcp.summarize.rarity import rarity
from memory_mcp.summarize.titles import gists, headline
from memory_mcp.summarize.vocabulary import Word, is_vague, keys_of, words

#: Most children of a period that are compared, the largest, and most items of them.
MAX_ITEMS, _MOST = 240, 400
#: Most themes of a period.
MAX_THEMES = 8
#: Terms of an item that count, and terms shown of a theme.
_TERMS, _SHOWN = 8, 2
#: Openings of names that refer to something before them, or to one moment.
_LEANS = re.compile(
    r"(?:this|that|these|those|it|if|when|can|could|is|are|was|were|do|does|did|how|why|what|i|we|you|but|and|so|then|also|"
    r"address|look|now|all|both|next|here|there|he|she|they)\b(?!['’]t)|\d+[.)] ",
    re.I,
)
#: Characters of a theme's name in a summary.
_NAME = 72
#: Most characters of a theme's name in a title, and what it costs a name to be cut there. With 48 instead of 59, and two names
#: instead of three, a title has room for terms: right month first by titles alone for 25 instead of 14 of 100 questions.
LABEL, _CUT = 48, 1.5
#: Factor on the weight of terms of a single item, which make a theme only if nothing is shared.
_ALONE = 0.3
#: Least characters of a meaningful name.
_ROOM = 18
#: Replaces the separators of themes inside their names.
_PLAIN = str.maketrans({";": ",", "[": "(", "]": ")"})


@dataclass(slots=True)
class Item:
    """One subject of a child: its name, its weight in events, and its terms by key."""

    name: str
    weight: float
    terms: Mapping[str, str]
    #: Keys with their relevance to the item, 0..1.
    named: Mapping[str, float]
    #: Keys with their general weight (see `Word.weight`).
    weights: Mapping[str, float]
    #: Index of the child.
    child: int


@dataclass(frozen=True, slots=True)
class Theme:
    """Items about the same: name, shared terms, share of the period (0..1), indices of the children."""

    name: str
    terms: tuple[str, ...]
    share: float
    children: tuple[int, ...]

    def label(self, width: int) -> str:
        """Return the name in at most `width` characters, after the first shared term if it is vague and there is room."""
        name = _cut(self.name, width)
        if not self.terms or not is_vague(words(name)) or keys_of(self.terms[0]) & keys_of(name):
            return name
        room = width - len(self.terms[0]) - 2
        return f"{self.terms[0]}: {_cut(self.name, room)}" if room >= _ROOM else name


def themes_of(children: Sequence[TocNode]) -> list[Theme]:
    """Return at most 8 themes of a period's 240 largest children with bullets, the largest first, then in order of time."""
    # In steps of the square root of two, so that one more event seldom changes a share.
    sizes = [2.0 ** (round(2 * math.log2(max(c.event_count, 1))) / 2) if c.bullets else 0.0 for c in children]
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
        # Items of a theme count for no other: subtracting them is cheaper than summing the rest again.
        for n in group:
            for key, named in items[n].named.items():
                told[key] -= items[n].weight * named
                count[key] -= 1
        themes.append(_theme(seed, [items[n] for n in group], rare, whole))
    return sorted(themes, key=lambda t: (-t.share, t.children))


def written(themes: Sequence[Theme], width: int) -> str:
    """Return themes as text, "name [term, term] (35 %); ...", of at most `width` characters.

    The first that does not fit ends it, but for the very first, which is cut. Percent are in steps of 5 from 10 on, at
    least 1; "" for no themes.
    """
    text = ""
    for theme in themes:
        terms = f" [{', '.join(theme.terms)}]" if theme.terms else ""
        name = _cut(theme.name, _NAME).translate(_PLAIN)
        # In steps of 5 % from 10 % on, so that the summary of a growing period seldom changes.
        percent = max(1, round(100 * theme.share)) if theme.share < 0.1 else 5 * round(20 * theme.share)
        one = f"{name}{terms.replace(';', ',')} ({percent} %)"
        if text and len(text) + 2 + len(one) > width:
            break
        text += f"; {one}" if text else one
    return text[:width]


def _parsed(text: str) -> tuple[str, list[str], int]:
    """Return name, terms and percentage of one theme as `written` writes it; ("", [], 0) for other text."""
    head, _, share = text.removesuffix(" %)").rpartition(" (")
    name, _, terms = head.removesuffix("]").partition(" [")
    return (name, terms.split(", "), int(share)) if share.isdecimal() and text.endswith(" %)") else ("", [], 0)


def _cut(name: str, width: int) -> str:
    """Return a name in at most `width` characters, without the rest of an outcome that was cut ("...: committed")."""
    text = headline(name, width)
    asked, _, rest = text.rpartition(": ")
    return asked if asked and len(text) < len(name) and len(rest) < _ROOM else text


def _theme(key: str, group: Sequence[Item], rare: Mapping[str, float], whole: float) -> Theme:
    """Return a group's theme, named after the item that fits best, with two of its terms; `key`, which all share, first."""
    weight = math.fsum(i.weight for i in group)
    told: dict[str, float] = {}
    shown: dict[str, str] = {}
    for item in group:
        for term, text in item.terms.items():
            told[term] = told.get(term, 0.0) + item.weight * rare.get(term, 0.0)
            shown.setdefault(term, text)
    # The seed first, then the terms its items share most.
    order = sorted(told, key=lambda t: (t != key, -told[t], t))
    name = max(group, key=lambda i: (_fit(i.name, i.weight / weight, told), -i.child)).name
    terms = tuple(dict.fromkeys(shown[t] for t in order if t in shown))[:_SHOWN]
    if len(group) == 1:
        terms = tuple(dict.fromkeys(group[0].terms.values()))[:_SHOWN]
    return Theme(name, terms, weight / whole, tuple(sorted({i.child for i in group})))


def _fit(name: str, share: float, told: Mapping[str, float]) -> float:
    """Return how well a name fits a theme: by its words' weights in `told` and its item's `share`; less if unclear or cut."""
    held = _words(name)
    keys = sorted({w.key for w in held})
    fit: float = math.fsum(told.get(key, 0.0) for key in keys) / (4.0 + len(keys)) ** 0.5 + 0.01 * bool(keys)
    if is_vague(held) or is_errand(name, 0, len(name)):
        fit *= 0.2
    if _LEANS.match(name) or name.endswith(QUESTION_MARKS):
        fit *= 0.5
    return float(fit * share**0.25 / (2 if "…" in name else _CUT if len(name) > LABEL else 1))


def _items(place: int, child: TocNode, size: float) -> list[Item]:
    """Return the subjects of a child: the themes in a period's summary that no model or agent wrote, else its first headline."""
    if child.level is not TocLevel.SEGMENT and child.author == EXTRACTIVE:
        found = [_parsed(part) for part in child.summary.split("; ")]
        if all(share for _, _, share in found):
            return [_item(name, size * share / 100, terms, place) for name, terms, share in found]
    heads, _ = gists(child.title)
    return [_item(heads[0] if heads else "", size, child.keywords[:_TERMS], place)]


def _item(name: str, weight: float, terms: Sequence[str], place: int) -> Item:
    """Return an item of `weight` events with its terms; earlier terms are more relevant, words of the name most."""
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
    """Return the words of a text that count, in order; kept for the last 4,096 texts."""
    return tuple(w for w in words(text) if w.key)
