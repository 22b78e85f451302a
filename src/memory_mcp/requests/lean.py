"""Divides the room of a lean answer between quotations and lines: what is shown, and how much of each. Pure.

Invariants
1. The first results are quoted at such length that they can hold an answer; every other one, and one that fits only loosely,
   is a line around what matched.
2. Results come before lines, and nothing takes the room of a result: its own lines come after all results.
3. What is shown never takes more room than there is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import placed_terms
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.ids import short_grip
from memory_mcp.model.orders import describe_flags
from memory_mcp.requests.excerpts import Excerpt, SizedCuts, width_in
from memory_mcp.requests.plain import find_largest, size_of
from memory_mcp.requests.results import Brief, Lines, Result, Style, bare_results, find_repetitions, line_of, node_shown
from memory_mcp.search.layers.base import Hit
from memory_mcp.search.policy.relevance import NEAREST, Confidence, Fit

#: Letters of such a quotation (66 words), of a line (25 words), and fewest that are worth showing.
QUOTE, LINE, LEAST_QUOTE = 400, 150, 80
#: Letters of what is said beside a result (13 words), and the fewest of such a message that tell something.
BESIDE, LEAST_BESIDE = 80, 80
#: What the field of lines adds to a response.
_ALSO = ',"also":[]'
#: Good results that make a strong answer whole, and loose ones that are still shown with them.
_ENOUGH, _LOOSE_LINES = 2, 3


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
    also: Lines
    hits: int


def select_hits(hits: tuple[Hit, ...], further: tuple[Hit, ...], confidence: Confidence) -> Selection:
    """Return what of a page and of the hits after it is worth showing.

    Of an answer that has none, the two nearest. Of a strong one with two good results, one of them exact, three loose ones at
    most: without an exact one a message that answers was among the further loose ones of 4 of 100 questions.
    """
    if confidence is Confidence.NONE:
        return Selection(hits[:NEAREST], (), len(hits))
    good = [hit.fit for hit in hits if hit.fit != Fit.LOOSE]
    if confidence is not Confidence.STRONG or len(good) < _ENOUGH or Fit.EXACT not in good:
        return Selection(hits, further, len(hits))
    # A page keeps its results, loose ones too: pages follow each other without gaps, and begin alike whatever the limit.
    loose_room = _LOOSE_LINES - sum(hit.fit == Fit.LOOSE for hit in hits)
    loose = [hit for hit in further if hit.fit == Fit.LOOSE][: max(loose_room, 0)]
    return Selection(
        hits, tuple(hit for hit in further if hit.fit != Fit.LOOSE or any(hit is other for other in loose)), len(hits)
    )


class LeanHits:
    """Hits as lean results and lines, cut to the room that there is."""

    def __init__(self, selection: Selection, weights: Mapping[str, float], style: Style) -> None:
        hits, self._weights, self._words, self._for_page = selection.results, weights, style.words, style.for_page
        further = selection.lines
        repeated = find_repetitions([*hits, *further])
        #: Positions of the hits that are shown: not of one that repeats a quotation and names no node of its own.
        self.positions = [at for at, hit in enumerate(hits) if not repeated[at] or node_shown(hit, style)]
        results = [hits[at] for at in self.positions]
        self._ends = [*self.positions[1:], selection.hits]
        excerpts = [Excerpt("" if repeated[at] else hits[at].quote, weights, style.words) for at in self.positions]
        self._lengths = [len(excerpt.text) for excerpt in excerpts]
        self._quotations = [SizedCuts(partial(_cut_quotation, excerpt), "quote") for excerpt in excerpts]
        quoted = [at for at, hit in enumerate(results) if hit.fit != Fit.LOOSE][: style.quoted]
        self._at_length = [at in quoted for at in range(len(results))]
        self._beside = [_list_beside(hit, results, weights, style) for hit in results]
        lines = [
            hit for hit, repeats in zip(further, repeated[len(hits) :], strict=True) if hit.grip_ids and hit.quote and not repeats
        ]
        bare = bare_results([*results, *lines], style)
        # Only words that are shown are marked.
        self._bare = [
            copy_with(result, flag=describe_flags(excerpt.text)) for result, excerpt in zip(bare, excerpts, strict=False)
        ]
        self._lines = list(zip(lines, bare[len(results) :], strict=True))

    def fit_page(self, room: int, aim: int) -> LeanPage:
        """Return what fits into so many bytes of compact JSON.

        First as many results as fit with a legible quotation each, the last ones dropped first; then what is said beside
        them, then lines; then longer quotations, those of the first results before others, as long as all takes at most
        `aim` bytes.
        """
        frames, sizes = self._bare, [size_of(frame) + 1 for frame in self._bare]
        letters = self._fit_quotations(sizes, room)
        while letters is None and sizes:
            sizes = sizes[:-1]
            letters = self._fit_quotations(sizes, room)
        if not sizes or letters is None:
            return LeanPage((), (), 0)
        frames, hits = frames[: len(sizes)], self._ends[len(sizes) - 1]
        if len(frames) < len(self._bare):
            return LeanPage(self._add_quotations(frames, *letters), (), hits)
        remaining = room - self._measure_size(sizes, *letters)
        frames, events, added = self._with_beside(frames, remaining)
        lines, used = self._fit_lines(remaining - sum(added) - len(_ALSO), events)
        sizes = [size + more for size, more in zip(sizes, added, strict=True)]
        widened = self._widen_quotations(sizes, min(room, aim) - used - len(_ALSO))
        return LeanPage(self._add_quotations(frames, *(widened or letters)), lines, hits)

    def _fit_lines(self, room: int, events: Set[str]) -> tuple[Lines, int]:
        """Return lines that fit `room` bytes, none of `events`, and their size."""
        lines: list[Any] = []
        used = 0
        for hit, bare in self._lines:
            if hit.event_id in events:
                continue
            quote = _cut_quotation(Excerpt(hit.quote, self._weights, self._words), LINE)
            line: Brief | str = line_of(bare, quote, describe_flags(hit.quote))
            if self._for_page:
                line = Brief(when=bare.when, who=bare.who, quote=" ".join(quote.split()), grip=bare.grip)
            size = size_of(line) + 1
            if used + size > room:
                break
            used += size
            lines.append(line)
        return tuple(lines), used

    def _fit_quotations(self, sizes: Sequence[int], room: int) -> tuple[int, int] | None:
        """Return letters of long and short quotations; None if none fit."""
        letters = _find_most_letters(
            lambda most: self._measure_size(sizes, min(most, QUOTE), min(most, LINE)), room, LEAST_QUOTE, QUOTE
        )
        return None if letters is None else (min(letters, QUOTE), min(letters, LINE))

    def _widen_quotations(self, sizes: Sequence[int], room: int) -> tuple[int, int] | None:
        """Return letters of long and short quotations, None below the usual ones."""
        longest = max(self._lengths, default=0)
        most = max(longest, QUOTE)
        quote = _find_most_letters(lambda letters: self._measure_size(sizes, letters, LINE), room, QUOTE, most)
        if quote is None:
            return None
        if quote < most or longest <= LINE:
            return quote, LINE
        return most, _find_most_letters(lambda letters: self._measure_size(sizes, most, letters), room, LINE, longest) or LINE

    def _add_quotations(self, frames: Sequence[Result], quote: int, line: int) -> tuple[Result, ...]:
        quotes = (quotation.at(quote if long else line)[0] for quotation, long in self._iter_widths(len(frames)))
        return tuple(copy_with(frame, quote=text) for frame, text in zip(frames, quotes, strict=True))

    def _measure_size(self, sizes: Sequence[int], quote: int, line: int) -> int:
        return sum(sizes) + sum(quotation.at(quote if long else line)[1] for quotation, long in self._iter_widths(len(sizes)))

    def _iter_widths(self, count: int) -> Iterable[tuple[SizedCuts, bool]]:
        return zip(self._quotations[:count], self._at_length, strict=False)

    def _with_beside(self, frames: Sequence[Result], room: int) -> tuple[list[Result], set[str], list[int]]:
        """Return results with messages beside them, their ids, and added bytes."""
        framed, events, added = list(frames), set[str](), [0] * len(frames)
        for at, (frame, (ids, lines)) in enumerate(zip(frames, self._beside, strict=True)):
            if not lines:
                continue
            framed[at] = copy_with(frame, also=lines)
            added[at] = size_of(framed[at]) - size_of(frame)
            room -= added[at]
            if room < 0:
                framed[at], added[at] = frame, 0
                break
            events.update(ids)
        return framed, events, added


def _list_beside(
    hit: Hit, shown_hits: Sequence[Hit], weights: Mapping[str, float], style: Style
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    results = {other.event_id for other in shown_hits}
    asides = [
        aside
        for aside in hit.asides
        if aside.event_id not in results and (aside.speaker or _is_about_question(aside.quote, weights))
    ]
    lines = (
        line_of(
            Result(when="", who=aside.speaker or aside.role, grip=short_grip(aside.grip_id)),
            _cut_quotation(Excerpt(aside.quote, weights, style.words), BESIDE),
            describe_flags(aside.quote),
        )
        for aside in asides
    )
    return tuple(aside.event_id for aside in asides), tuple(lines)


def _is_about_question(prompt: str, weights: Mapping[str, float]) -> bool:
    """Return whether a message says something about the question."""
    return len(prompt) >= LEAST_BESIDE and any(term in weights for _, _, term in placed_terms(prompt))


def _find_most_letters(size_at: Callable[[int], int], room: int, least: int, most: int) -> int | None:
    """Return the most letters that fit; None if not `least`."""
    if size_at(most) <= room:
        return most
    return find_largest(lambda letters: size_at(letters) <= room, least, most)


def _cut_quotation(excerpt: Excerpt, letters: int) -> str:
    return excerpt.cut(width_in(excerpt.text, letters))
