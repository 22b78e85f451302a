"""Group what a period's children were about into themes, the largest first.

A theme starts with the rare term that most of the period shares; all subjects that name it belong to it. Themes of a day come
from its segments, those of longer periods from the themes in their days' summaries.

Invariants
1. A subject belongs to at most one theme; a theme's share is that of its subjects' events.
2. A theme has the name of one of its subjects.
3. Time is bounded by the number of children compared, `MAX_CHILDREN`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.model.toc import EXTRACTIVE, TocNode
from memory_mcp.tree.summarize.kinds import is_errand
from memory_mcp.tree.summarize.titles import make_headline, split_title
from memory_mcp.tree.summarize.vocabulary import Word, is_vague, keys_of, read_words, shared_term_weight

#: Most children of a period that are compared, the largest, and most items of them.
MAX_CHILDREN, _MAX_SUBJECTS = 240, 400
#: Most themes of a period.
MAX_THEMES = 8
#: Terms of an item that count, and terms shown of a theme.
_TERMS, _SHOWN = 8, 2
#: Openings of names that refer to something before them, or to one moment.
_LEANS = lazy_pattern(
    r"(?:this|that|these|those|it|if|when|can|could|is|are|was|were|do|does|did|how|why|what|i|we|you|but|and|so|then|also|"
    r"address|look|now|all|both|next|here|there|he|she|they)\b(?!['’]t)|\d+[.)] ",
    re.I,
)
#: Characters of a theme's name in a summary.
_NAME_WIDTH = 72
#: Most characters of a theme's name in a title, and what it costs a name to be cut there. With 48 instead of 59, and two names
#: instead of three, a title has room for terms: right month first by titles alone for 25 instead of 14 of 100 questions.
_LABEL_WIDTH, _CUT = 48, 1.5
#: Factor on the weight of terms of a single item, which make a theme only if nothing is shared.
_ALONE = 0.3
#: Least characters of a meaningful name.
_MIN_NAME = 18
#: Replaces the separators of themes inside their names.
_PLAIN = str.maketrans({";": ",", "[": "(", "]": ")"})


@dataclass(slots=True)
class Subject:
    """A subject of a child: name, weight in events, and terms."""

    name: str
    weight: float
    terms: Mapping[str, str]
    #: Keys with their relevance to the item, 0..1.
    relevance: Mapping[str, float]
    #: Keys with their general weight (see `Word.weight`).
    weights: Mapping[str, float]
    #: Index of the child.
    child: int


@dataclass(frozen=True, slots=True)
class Theme:
    """Subjects about the same; `share` of the period is 0..1."""

    name: str
    terms: tuple[str, ...]
    share: float
    children: tuple[int, ...]

    @property
    def label(self) -> str:
        """The name in a title, after a term if vague."""
        name = _cut_name(self.name, _LABEL_WIDTH)
        if not self.terms or not is_vague(read_words(name)) or keys_of(self.terms[0]) & keys_of(name):
            return name
        room = _LABEL_WIDTH - len(self.terms[0]) - 2
        return f"{self.terms[0]}: {_cut_name(self.name, room)}" if room >= _MIN_NAME else name


def themes_of(children: Sequence[TocNode]) -> list[Theme]:
    """Return at most 8 themes of the 240 largest children, largest first."""
    # In steps of the square root of two, so that one more event seldom changes a share.
    sizes = [2.0 ** (round(2 * math.log2(max(c.event_count, 1))) / 2) if c.bullets else 0.0 for c in children]
    total_size = math.fsum(sizes) or 1.0
    largest = sorted((n for n, size in enumerate(sizes) if size), key=lambda n: (-sizes[n], n))[:MAX_CHILDREN]
    items = [item for n in sorted(largest) for item in _child_subjects(n, children[n], sizes[n])][:_MAX_SUBJECTS]
    holders: defaultdict[str, list[int]] = defaultdict(list)
    weights: dict[str, float] = {}
    for n, item in enumerate(items):
        for key in item.relevance:
            holders[key].append(n)
        weights |= item.weights
    scale = [shared_term_weight(n, len(items)) for n in range(1, len(items) + 1)]
    rare = {key: weights[key] * scale[len(indices) - 1] for key, indices in holders.items()}
    keys = sorted(holders)
    weight_of_key = {key: math.fsum([items[n].weight * items[n].relevance[key] for n in holders[key]]) for key in keys}
    count_of_key = {key: len(holders[key]) for key in keys}
    remaining = set(range(len(items)))
    themes: list[Theme] = []
    while remaining and len(themes) < MAX_THEMES:
        most, seed = 0.0, ""
        for key in keys:
            worth = weight_of_key[key] * rare[key] * (1.0 if count_of_key[key] > 1 else _ALONE if count_of_key[key] else 0.0)
            if worth > most:
                most, seed = worth, key
        if not seed:
            break
        group = [n for n in holders[seed] if n in remaining]
        remaining.difference_update(group)
        # Items of a theme count for no other: subtracting them is cheaper than summing the rest again.
        for n in group:
            for key, relevance in items[n].relevance.items():
                weight_of_key[key] -= items[n].weight * relevance
                count_of_key[key] -= 1
        themes.append(_make_theme(seed, [items[n] for n in group], rare, total_size))
    return sorted(themes, key=lambda t: (-t.share, t.children))


def write_themes(themes: Sequence[Theme], width: int) -> str:
    """Return themes as text, "name [term, term] (35 %); ...".

    The first that does not fit into `width` characters ends it, but for the very first, which is cut. Percent are in steps of
    5 from 10 on, at least 1.
    """
    text = ""
    for theme in themes:
        terms = f" [{', '.join(theme.terms)}]" if theme.terms else ""
        name = _cut_name(theme.name, _NAME_WIDTH).translate(_PLAIN)
        # In steps of 5 % from 10 % on, so that the summary of a growing period seldom changes.
        percent = max(1, round(100 * theme.share)) if theme.share < 0.1 else 5 * round(20 * theme.share)
        theme_text = f"{name}{terms.replace(';', ',')} ({percent} %)"
        if text and len(text) + 2 + len(theme_text) > width:
            break
        text += f"; {theme_text}" if text else theme_text
    return text[:width]


def _parse_theme(text: str) -> tuple[str, list[str], int]:
    """Return (name, terms, percentage); ("", [], 0) if malformed."""
    head, _, share = text.removesuffix(" %)").rpartition(" (")
    name, _, terms = head.removesuffix("]").partition(" [")
    return (name, terms.split(", "), int(share)) if share.isdecimal() and text.endswith(" %)") else ("", [], 0)


def _cut_name(name: str, width: int) -> str:
    """Leave out a cut outcome ("...: committed")."""
    text = make_headline(name, width)
    request, _, outcome = text.rpartition(": ")
    return request if request and len(text) < len(name) and len(outcome) < _MIN_NAME else text


def _make_theme(key: str, group: Sequence[Subject], rare: Mapping[str, float], total_size: float) -> Theme:
    """Name a group after its best subject."""
    weight = math.fsum(i.weight for i in group)
    weight_of_term: dict[str, float] = {}
    spelling_of_term: dict[str, str] = {}
    for item in group:
        for term, text in item.terms.items():
            weight_of_term[term] = weight_of_term.get(term, 0.0) + item.weight * rare.get(term, 0.0)
            spelling_of_term.setdefault(term, text)
    # The seed first, then the terms its items share most.
    order = sorted(weight_of_term, key=lambda t: (t != key, -weight_of_term[t], t))
    name = max(group, key=lambda i: (_rate_name(i.name, i.weight / weight, weight_of_term), -i.child)).name
    terms = tuple(dict.fromkeys(spelling_of_term[t] for t in order if t in spelling_of_term))[:_SHOWN]
    if len(group) == 1:
        terms = tuple(dict.fromkeys(group[0].terms.values()))[:_SHOWN]
    return Theme(name, terms, weight / total_size, tuple(sorted({i.child for i in group})))


def _rate_name(name: str, share: float, weight_of_term: Mapping[str, float]) -> float:
    name_words = _counted_words(name)
    keys = sorted({w.key for w in name_words})
    fit: float = math.fsum(weight_of_term.get(key, 0.0) for key in keys) / (4.0 + len(keys)) ** 0.5 + 0.01 * bool(keys)
    if is_vague(name_words) or is_errand(name, 0, len(name)):
        fit *= 0.2
    if _LEANS.match(name) or name.endswith(QUESTION_MARKS):
        fit *= 0.5
    return float(fit * share**0.25 / (2 if "…" in name else _CUT if len(name) > _LABEL_WIDTH else 1))


def _child_subjects(child_index: int, child: TocNode, size: float) -> list[Subject]:
    """Return an extractive period's themes, else the headline."""
    if child.level is not TocLevel.SEGMENT and child.author == EXTRACTIVE:
        themes = [_parse_theme(part) for part in child.summary.split("; ")]
        if all(share for _, _, share in themes):
            return [_make_subject(name, size * share / 100, terms, child_index) for name, terms, share in themes]
    heads, _ = split_title(child.title)
    return [_make_subject(heads[0] if heads else "", size, child.keywords[:_TERMS], child_index)]


def _make_subject(name: str, weight: float, terms: Sequence[str], child_index: int) -> Subject:
    spellings: dict[str, str] = {}
    relevance: dict[str, float] = {}
    weights: dict[str, float] = {}
    for rank in range(len(terms) - 1, -1, -1):
        for word in _counted_words(terms[rank]):
            spellings[word.key], relevance[word.key], weights[word.key] = terms[rank], 1.0 / (2 + rank), word.weight
    for word in _counted_words(name):
        relevance[word.key], weights[word.key] = 1.0, word.weight
    return Subject(name, weight, spellings, relevance, weights, child_index)


# The terms of a period's items are few and come again in the periods above.
@lru_cache(maxsize=4096)
def _counted_words(text: str) -> tuple[Word, ...]:
    return tuple(w for w in read_words(text) if w.key)
