"""Divides the room of a lean answer between quotations and lines: what is shown, and how much of each. Pure.

Invariants
1. The first results are quoted at such length that they can hold an answer; every other one, and one that fits only loosely,
   is a line around what matched.
2. Results come before lines, and nothing takes the room of a result: its own lines come after all results.
3. What is shown never takes more room than there is.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from memory_mcp.base.text import placed_terms
from memory_mcp.model.ids import short_grip
from memory_mcp.model.orders import describe_flags
from memory_mcp.requests.excerpts import Excerpt, width_in
from memory_mcp.requests.plain import fullest, size_of
from memory_mcp.requests.results import Brief, Lines, Result, Style, bare_results, line_of, node_shown, repeats
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


def select(hits: tuple[Hit, ...], further: tuple[Hit, ...], confidence: Confidence) -> Selection:
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
    left = _LOOSE_LINES - sum(hit.fit == Fit.LOOSE for hit in hits)
    loose = [hit for hit in further if hit.fit == Fit.LOOSE][: max(left, 0)]
    return Selection(
        hits, tuple(hit for hit in further if hit.fit != Fit.LOOSE or any(hit is other for other in loose)), len(hits)
    )


class LeanHits:
    """Hits as lean results and lines, cut to the room that there is."""

    def __init__(self, selection: Selection, weights: Mapping[str, float], style: Style) -> None:
        """Prepare the results and lines of a selection; `weights` are those of the question's terms."""
        shown, self._weights, self._words, self._for_page = selection.results, weights, style.words, style.for_page
        repeated = [repeats(hit, shown[:at]) for at, hit in enumerate(shown)]
        #: Positions of the hits that are shown: not of one that repeats a quotation and names no node of its own.
        self.positions = [at for at, again in enumerate(repeated) if not again or node_shown(shown[at], style)]
        results = [shown[at] for at in self.positions]
        self._ends = [*self.positions[1:], selection.hits]
        self._excerpts = [Excerpt("" if repeated[at] else shown[at].quote, weights, style.words) for at in self.positions]
        quoted = [at for at, hit in enumerate(results) if hit.fit != Fit.LOOSE][: style.quoted]
        self._at_length = [at in quoted for at in range(len(results))]
        self._beside = [_beside(hit, results, weights, style) for hit in results]
        further = selection.lines
        lines = [
            hit for at, hit in enumerate(further) if hit.grip_ids and hit.quote and not repeats(hit, [*shown, *further[:at]])
        ]
        bare = bare_results([*results, *lines], style)
        # Only words that are shown are marked.
        self._bare = [replace(one, flag=describe_flags(excerpt.text)) for one, excerpt in zip(bare, self._excerpts, strict=False)]
        self._lines = list(zip(lines, bare[len(results) :], strict=True))

    def page(self, room: int, aim: int) -> LeanPage:
        """Return what fits into so many bytes of compact JSON.

        First as many results as fit with a legible quotation each, the last ones dropped first; then what is said beside
        them, then lines; then longer quotations, those of the first results before others, as long as all takes at most
        `aim` bytes.
        """
        frames, results = self._bare, self._fitting(self._bare, room)
        while results is None and frames:
            frames = frames[:-1]
            results = self._fitting(frames, room)
        if not frames or results is None:
            return LeanPage((), (), 0)
        hits = self._ends[len(frames) - 1]
        if len(frames) < len(self._bare):
            return LeanPage(results, (), hits)
        frames, events = self._with_beside(frames, room - _size(results))
        results = tuple(replace(result, also=frame.also) for result, frame in zip(results, frames, strict=True))
        lines = self._fitting_lines(room - _size(results) - len(_ALSO), events)
        used = sum(size_of(line) + 1 for line in lines) + len(_ALSO)
        return LeanPage(self._widened(frames, min(room, aim) - used) or results, lines, hits)

    def _fitting_lines(self, room: int, events: Set[str]) -> Lines:
        """Return as many lines as fit into so many bytes, without those of these events."""
        lines: list[Any] = []
        for hit, bare in self._lines:
            if hit.event_id in events:
                continue
            quote = _cut(Excerpt(hit.quote, self._weights, self._words), LINE)
            line: Brief | str = line_of(replace(bare, flag=describe_flags(hit.quote)), quote)
            if self._for_page:
                line = Brief(when=bare.when, who=bare.who, quote=" ".join(quote.split()), grip=bare.grip)
            room -= size_of(line) + 1
            if room < 0:
                break
            lines.append(line)
        return tuple(lines)

    def _fitting(self, frames: Sequence[Result], room: int) -> tuple[Result, ...] | None:
        """Return results with quotations of the usual length, or as long as fits; None if not even the shortest do."""
        return _longest(lambda most: self._cut(frames, min(most, QUOTE), min(most, LINE)), room, LEAST_QUOTE, QUOTE)

    def _widened(self, frames: Sequence[Result], room: int) -> tuple[Result, ...] | None:
        """Return results with quotations of the usual length at least, as long as fits; None if not even those do."""
        longest = max((len(excerpt.text) for excerpt in self._excerpts), default=0)
        most = max(longest, QUOTE)
        first = _longest(lambda quote: self._cut(frames, quote, LINE), room, QUOTE, most)
        if first is None or longest <= LINE or first != self._cut(frames, most, LINE):
            return first
        return _longest(lambda line: self._cut(frames, most, line), room, LINE, longest) or first

    def _cut(self, frames: Sequence[Result], quote: int, line: int) -> tuple[Result, ...]:
        """Return results with `quote` letters of those that are quoted at length and `line` letters of others."""
        parts = zip(frames, self._excerpts, self._at_length, strict=False)
        return tuple(replace(frame, quote=_cut(excerpt, quote if at_length else line)) for frame, excerpt, at_length in parts)

    def _with_beside(self, frames: Sequence[Result], room: int) -> tuple[list[Result], set[str]]:
        """Return results with what is said beside them as far as these bytes hold it, and the ids of those messages."""
        framed, events = list(frames), set[str]()
        for at, (frame, (ids, lines)) in enumerate(zip(frames, self._beside, strict=True)):
            whole = replace(frame, also=lines)
            room -= size_of(whole) - size_of(frame)
            if room < 0:
                break
            framed[at] = whole
            events.update(ids)
        return framed, events


def _beside(
    hit: Hit, shown: Sequence[Hit], weights: Mapping[str, float], style: Style
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids and lines of messages beside a hit that are no results, tell something, and hold a term of the question."""
    results = {other.event_id for other in shown}
    told = [aside for aside in hit.beside if aside.event_id not in results and (aside.speaker or _tells(aside.quote, weights))]
    lines = (
        line_of(
            Result(when="", who=aside.speaker or aside.role, grip=short_grip(aside.grip_id), flag=describe_flags(aside.quote)),
            _cut(Excerpt(aside.quote, weights, style.words), BESIDE),
        )
        for aside in told
    )
    return tuple(aside.event_id for aside in told), tuple(lines)


def _tells(prompt: str, weights: Mapping[str, float]) -> bool:
    """Return whether a user's message to an assistant says something about the question; an answer between people always does."""
    return len(prompt) >= LEAST_BESIDE and any(term in weights for _, _, term in placed_terms(prompt))


def _longest(make: Callable[[int], tuple[Result, ...]], room: int, least: int, most: int) -> tuple[Result, ...] | None:
    """Return the results with the longest quotations that fit into so many bytes; None if not even the shortest do."""
    whole = make(most)
    return whole if _size(whole) <= room else fullest(make, lambda shown: _size(shown) <= room, least, most)


def _cut(excerpt: Excerpt, letters: int) -> str:
    """Return a quotation of so many letters around what matched."""
    return excerpt.cut(width_in(excerpt.text, letters))


def _size(results: Sequence[Result]) -> int:
    """Return the bytes of results in a list of compact JSON."""
    return sum(size_of(result) + 1 for result in results)
