"""Divides the room of a lean answer between quotations and lines: what is shown, and how much of each. Pure.

Invariants
1. The first results are quoted at such length that they can hold an answer; every other one, and one that fits only loosely,
   is a line around what matched.
2. Results come before lines, and nothing takes the room of a result: its own lines come after all results.
3. What is shown never takes more room than there is.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_mcp.layers.base import Hit
from memory_mcp.policy.relevance import Confidence
from memory_mcp.requests.excerpts import Excerpt, width_in
from memory_mcp.requests.plain import fullest, size_of
from memory_mcp.requests.results import Brief, Result, Style, bare_results, brief, repeats

#: Letters of such a quotation (66 words), of a line (33 words), and fewest that are worth showing.
QUOTE, LINE, LEAST_QUOTE = 400, 200, 80
#: A fit that deserves a line alone.
LOOSE = "loose"
#: Good results that make a strong answer whole, and loose ones that are still shown with them.
_ENOUGH, _LOOSE_LINES = 2, 3
#: Results of an answer that has none.
_NEAREST = 2


@dataclass(frozen=True, slots=True)
class Selection:
    """The hits of a page that are shown as results and as lines; `hits` is how many of the page they stand for."""

    results: tuple[Hit, ...]
    lines: tuple[Hit, ...]
    hits: int


@dataclass(frozen=True, slots=True)
class LeanPage:
    """The results and lines of a page, and how many hits the results stand for: some repeat a quotation that is shown."""

    results: tuple[Result, ...]
    also: tuple[Brief, ...]
    hits: int


def select(hits: tuple[Hit, ...], further: tuple[Hit, ...], confidence: Confidence) -> Selection:
    """Return what of a page and of the hits after it is worth showing.

    Of an answer that has none, the two nearest. Of a strong one with two good results, three loose ones at most.
    """
    if confidence is Confidence.NONE:
        return Selection(hits[:_NEAREST], (), len(hits))
    good = sum(hit.fit != LOOSE for hit in hits)
    if confidence is not Confidence.STRONG or good < _ENOUGH:
        return Selection(hits, further, len(hits))
    spare = {id(hit) for hit in [hit for hit in (*hits, *further) if hit.fit == LOOSE][_LOOSE_LINES:]}
    return Selection(
        tuple(hit for hit in hits if id(hit) not in spare), tuple(hit for hit in further if id(hit) not in spare), len(hits)
    )


class LeanHits:
    """Hits as lean results and lines, cut to the room that there is."""

    def __init__(self, selection: Selection, weights: Mapping[str, float], style: Style) -> None:
        """Prepare the results and lines of a selection; `weights` are those of the question's terms."""
        shown, lines = selection.results, selection.lines
        repeated = [repeats(hit, shown[:at]) for at, hit in enumerate(shown)]
        bare = bare_results(shown, style)
        #: Positions of the hits that are shown: not of one that repeats a quotation and names no node of its own.
        self.positions = [at for at, again in enumerate(repeated) if not again or bare[at].node]
        results = [shown[at] for at in self.positions]
        lines = tuple(hit for at, hit in enumerate(lines) if not repeats(hit, [*shown, *lines[:at]]))
        whole = bare_results([*results, *lines], style)
        # Only words that are shown are marked.
        self._bare = [
            replace(one, flag="") if repeated[at] else one for at, one in zip(self.positions, whole[: len(results)], strict=True)
        ]
        self._ends = [*self.positions[1:], selection.hits]
        self._excerpts = [Excerpt("" if repeated[at] else shown[at].quote, weights) for at in self.positions]
        self._lines = [
            brief(one, _cut(Excerpt(hit.quote, weights), LINE))
            for one, hit in zip(whole[len(results) :], lines, strict=True)
            if one.grip and hit.quote
        ]
        quoted = [at for at, hit in enumerate(results) if hit.fit != LOOSE][: style.quoted]
        self._at_length = [at in quoted for at in range(len(results))]

    def page(self, room: int, aim: int) -> LeanPage:
        """Return what fits into so many bytes of compact JSON.

        First as many results as fit with a legible quotation each, the last ones dropped first; then lines; then longer
        quotations, those of the first results before others, as long as all takes at most `aim` bytes.
        """
        results, count = None, len(self._bare) + 1
        while results is None and count > 1:
            count -= 1
            results = self._fitting(functools.partial(self._cut_both, count), room, LEAST_QUOTE, QUOTE)
        if results is None:
            return LeanPage((), (), 0)
        if count < len(self._bare):
            return LeanPage(results, (), self._ends[count - 1])
        lines, left = list[Brief](), room - _size(results) - len(',"also":[]')
        for line in self._lines:
            left -= size_of(line) + 1
            if left < 0:
                break
            lines.append(line)
        used = sum(size_of(line) + 1 for line in lines) + len(',"also":[]')
        return LeanPage(self._widened(results, min(room, aim) - used), tuple(lines), self._ends[count - 1])

    def _widened(self, results: tuple[Result, ...], room: int) -> tuple[Result, ...]:
        """Return results with longer quotations as far as these bytes hold them, or as they are."""
        count, longest = len(results), max((len(excerpt.text) for excerpt in self._excerpts), default=0)
        if longest <= LINE:
            return results
        first = self._fitting(lambda most: self._cut(count, most, LINE), room, QUOTE, max(longest, QUOTE))
        if first is None or first != self._cut(count, max(longest, QUOTE), LINE):
            return first or results
        return self._fitting(lambda most: self._cut(count, max(longest, QUOTE), most), room, LINE, longest) or first

    def _fitting(self, make: Callable[[int], tuple[Result, ...]], room: int, least: int, most: int) -> tuple[Result, ...] | None:
        """Return the results with the longest quotations that fit into so many bytes; None if not even the shortest do."""
        whole = make(most)
        return whole if _size(whole) <= room else fullest(make, lambda shown: _size(shown) <= room, least, most)

    def _cut_both(self, count: int, most: int) -> tuple[Result, ...]:
        """Return the first results with the usual lengths of quotations, but at most so many letters each."""
        return self._cut(count, min(most, QUOTE), min(most, LINE))

    def _cut(self, count: int, quote: int, line: int) -> tuple[Result, ...]:
        """Return the first results, with `quote` letters of those that are quoted at length and `line` letters of others."""
        made = []
        for bare, excerpt, at_length in zip(self._bare[:count], self._excerpts, self._at_length, strict=False):
            made.append(replace(bare, quote=_cut(excerpt, quote if at_length else line)))
        return tuple(made)


def _cut(excerpt: Excerpt, letters: int) -> str:
    """Return a quotation of so many letters around what matched."""
    return excerpt.cut(width_in(excerpt.text, letters))


def _size(results: Sequence[Result]) -> int:
    """Return the bytes of results in a list of compact JSON."""
    return sum(size_of(result) + 1 for result in results)
