"""Turns hits into the results of a search as both doors show them: lean ones within a budget, or everything there is. Pure.

A lean result says nothing twice. Its title stands where its segment is first shown; its session, and its project
where that is not the answer's own, where they differ from the result above.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from memory_mcp.layers.base import Hit
from memory_mcp.model.calendar import Calendar, TocLevel
from memory_mcp.model.orders import flag_of
from memory_mcp.requests.excerpts import Excerpt, cut_out
from memory_mcp.requests.plain import fullest, size_of

#: Characters of a quotation where the caller names no budget, and the fewest worth showing.
QUOTE, LEAST_QUOTE = 300, 80
#: Characters of a title.
_TITLE = 60
#: Equal quotations of so many characters and more are shown once: "yes, do that" is said everywhere and about everything.
_TELLING = 40
#: How a project is written that is none, below one that is.
_NO_PROJECT = "none"
#: What stands between the time and the words of a segment's title.
_DOT = " · "


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One thing found, lean."""

    when: str
    who: str = ""
    quote: str = ""
    grip: Annotated[str, "Cite it; expand_grip opens it"] = ""
    #: Of a period, or where there is no grip: `browse_toc` opens it.
    node: str = ""
    title: str = ""
    session: Annotated[str, "Else as above; project too"] = ""
    project: str = ""
    #: The agent that recorded it, and the kind of statement: only on request.
    agent: str = ""
    kind: str = ""
    score: float
    outside: Annotated[bool, "Not in that time"] = False
    #: The grip of the statement that stands in its place now.
    superseded_by: str = ""
    #: Set if its words read as instructions to the reader (`model/orders.py`).
    flag: str = ""
    why_superseded: str = ""
    bm25_score: float | None = None
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """Further words of the same segment."""

    grip_id: str
    quote: str


@dataclass(frozen=True, slots=True)
class FullResult:
    """One thing found, with everything that is known of it."""

    id: str
    kind: str
    when: str
    grip_ids: tuple[str, ...]
    score: float
    level: str = ""
    title: str = ""
    quote: str = ""
    session_id: str = ""
    project: str = ""
    agent: str = ""
    role: str = ""
    speaker: str = ""
    also: tuple[Quote, ...] = ()
    outside_window: bool = False
    superseded_by: str = ""
    flag: str = ""
    why_superseded: str = ""
    event_id: str = ""
    score_parts: Mapping[str, float] | None = None
    bm25_score: float | None = None
    similarity: float | None = None
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A further thing found, in a line."""

    when: str
    #: "" where several said it: of a period.
    who: str = ""
    quote: str
    grip: str
    flag: str = ""


@dataclass(frozen=True, slots=True)
class Lean:
    """The lean results of an answer, and how many hits they stand for: some repeat a quotation that is shown."""

    results: tuple[Result, ...]
    hits: int


#: Stands for a quotation whose size is not known yet.
_ANY = "…"


class Sizes:
    """Computes the bytes of a response, in compact JSON, for different lists of results.

    While widths of quotations are tried, the rest of the response is encoded only once per number of results.
    """

    def __init__(self, whole: Callable[[Lean], object]) -> None:
        """Measure the responses that `whole` returns for some results; it must keep their quotations as they are."""
        self._whole = whole
        self._around: dict[int, int] = {}

    def of(self, lean: Lean) -> int:
        """Return the bytes of the response with these results; lists of the same length must differ in quotations alone."""
        count = len(lean.results)
        if count not in self._around:
            bare = replace(lean, results=tuple(replace(r, quote=r.quote and _ANY) for r in lean.results))
            self._around[count] = size_of(self._whole(bare)) - _quoted(bare)
        return self._around[count] + _quoted(lean)


def _quoted(lean: Lean) -> int:
    """Return the bytes of all quotations as JSON; results without one cost nothing."""
    return sum(size_of(r.quote) for r in lean.results if r.quote)


def full_result(hit: Hit, calendar: Calendar) -> FullResult:
    """Return a hit with all its fields: a node, a grip of one, or an event that is not in the tree yet.

    Its id is the grip's, if it lies in a node, else the node's, else the event's; `kind` says which.
    """
    return FullResult(
        id=(hit.grip_id if hit.node_id else "") or hit.node_id or hit.event_id,
        kind=("grip" if hit.grip_id else hit.level) if hit.node_id else "event",
        level=hit.level if hit.node_id else "",
        title=hit.title if hit.node_id else "",
        quote=hit.quote,
        when=calendar.iso(hit.timestamp),
        session_id=hit.session_id,
        project=hit.project,
        agent=hit.agent,
        role=hit.role,
        speaker=hit.speaker,
        grip_ids=tuple(hit.grip_ids),
        score=round(hit.score, 3),
        outside_window=hit.outside,
        superseded_by=hit.superseded_by,
        flag=flag_of(hit.quote),
        why_superseded=hit.why_superseded,
        event_id=hit.event_id if hit.node_id else "",
        score_parts=dict(hit.parts),
    )


class LeanResults:
    """Hits that are cut to a budget: first the quotations are shortened, then the last results dropped."""

    def __init__(
        self,
        hits: Sequence[Hit],
        calendar: Calendar,
        weights: Mapping[str, float],
        project: str | None,
        with_nodes: bool = False,
        with_agents: bool = False,
    ) -> None:
        """Prepare the results of hits.

        Args:
            hits: What was found, best first.
            calendar: Shows the times.
            weights: Weights of the query's terms.
            project: The project that the answer is bound to; None for all.
            with_nodes: Whether results name their nodes, also those that have a grip.
            with_agents: Whether each result names its agent and the kind of its statement.

        """
        repeats = [_repeats(hit, hits[:i]) for i, hit in enumerate(hits)]
        made = [_bare(hit, calendar, with_nodes) for hit in hits]
        if with_agents:
            made = [replace(one, agent=hit.agent, kind=hit.kind) for one, hit in zip(made, hits, strict=True)]
        #: The places of the hits that are shown: not of one that repeats a quotation and names no node of its own.
        self.places = [i for i, again in enumerate(repeats) if not again or made[i].node]
        shown = [hits[i] for i in self.places]
        self._ends = [*self.places[1:], len(hits)]
        # Only words that are shown are marked.
        bare = [replace(made[i], flag="") if repeats[i] else made[i] for i in self.places]
        self._bare = _grouped(bare, shown, project)
        self._excerpts = [Excerpt("" if repeats[i] else hits[i].quote, weights) for i in self.places]

    def fitting(self, fits: Callable[[Lean], bool], most: int | None = QUOTE) -> Lean:
        """Return as many results as fit with a legible quotation each, and as much of each quotation as then fits.

        The last results are dropped first; none remain where not even one fits with `LEAST_QUOTE` characters.

        Args:
            fits: Whether some results are within the budget.
            most: Longest quotation in characters; None for no limit.

        """
        longest = max((len(e.text) for e in self._excerpts), default=0)
        most = max(min(most or longest, longest), LEAST_QUOTE)
        for count in range(len(self._bare), 0, -1):
            found = fullest(functools.partial(self._cut, count), fits, LEAST_QUOTE, most)
            if found is not None:
                return found
        return Lean((), 0)

    def _cut(self, count: int, width: int) -> Lean:
        """Return the first `count` results with quotations of at most `width` characters, and how many hits they stand for."""
        pairs = zip(self._bare[:count], self._excerpts, strict=False)
        made = tuple(replace(bare, quote=excerpt.cut(width)) for bare, excerpt in pairs)
        return Lean(made, self._ends[count - 1])


def brief(
    hits: Sequence[Hit], before: Sequence[Hit], calendar: Calendar, weights: Mapping[str, float], width: int
) -> list[Brief]:
    """Return hits in a line each, with quotations of at most `width` characters; `before` are those shown as results.

    Left out are hits without a citation or a quotation, and those that repeat a quotation of `before` or of
    this list.
    """
    made = []
    for at, hit in enumerate(hits):
        bare = _bare(hit, calendar, with_node=False)
        if bare.grip and hit.quote and not _repeats(hit, [*before, *hits[:at]]):
            quote = " ".join(Excerpt(hit.quote, weights).cut(width).split())
            made.append(Brief(when=bare.when, who=bare.who, quote=quote, grip=bare.grip, flag=bare.flag))
    return made


def _repeats(hit: Hit, before: Sequence[Hit]) -> bool:
    """Return whether an earlier hit has the same quotation, word for word, of at least `_TELLING` characters."""
    words = hit.quote.split()
    return len(hit.quote) >= _TELLING and any(other.quote.split() == words for other in before)


def _grouped(results: Sequence[Result], hits: Sequence[Hit], project: str | None) -> list[Result]:
    """Return results without titles shown before, and without sessions and projects that are those of the result before.

    The first result leaves its project out where it is `project`; no project after another one is written
    `_NO_PROJECT`.
    """
    made: list[Result] = []
    titled: set[str] = set()
    session, place = "", project or ""
    for result, hit in zip(results, hits, strict=True):
        made.append(
            replace(
                result,
                title="" if hit.node_id in titled else result.title,
                session="" if hit.session_id == session else hit.session_id,
                project="" if hit.project == place else hit.project or _NO_PROJECT,
            )
        )
        titled.add(hit.node_id)
        session, place = hit.session_id, hit.project
    return made


def _bare(hit: Hit, calendar: Calendar, with_node: bool) -> Result:
    """Return the lean result of a hit, its quotation still empty.

    It names its node only for a period, where there is no grip, or with `with_node` where the hit has no grip of its own. Its
    title is without the time that it begins with, cut at a word to `_TITLE` characters.
    """
    title = hit.title.partition(_DOT)[2] if hit.title[:4].isdigit() and _DOT in hit.title else hit.title
    period = bool(hit.node_id) and hit.level != TocLevel.SEGMENT and not hit.grip_id
    grip = hit.grip_id or (hit.grip_ids[0] if hit.grip_ids else "")
    return Result(
        when=calendar.iso(hit.timestamp)[:16],
        who=hit.speaker or hit.role,
        grip=grip,
        node=hit.node_id if period or not grip or (with_node and not hit.grip_id) else "",
        title=(title if len(title) <= _TITLE else cut_out(title, 0, _TITLE)) if hit.node_id else "",
        score=round(hit.score, 2),
        outside=hit.outside,
        superseded_by=hit.superseded_by,
        flag=flag_of(hit.quote),
        why_superseded=hit.why_superseded,
    )
