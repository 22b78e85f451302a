"""Turns hits into the results of a search as all interfaces show them: lean ones, or everything there is. Pure.

A lean result says nothing twice: its project is shown where that differs from the result above, and its title only of what has
no quotation of its own to tell what it is about, or on a page, where its segment is first shown and it says more than the
quotation.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from typing import Annotated, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import find_beginning, lower_plain, term_set
from memory_mcp.model.calendar import Calendar, TocLevel
from memory_mcp.model.ids import short_grip
from memory_mcp.model.orders import describe_flags
from memory_mcp.requests.excerpts import cut_out
from memory_mcp.search.layers.base import Hit

#: Results that are quoted at length, usually.
QUOTED = 3
#: Characters of a title.
_TITLE = 60
#: Share of a title's terms that the quotation must lack for the title to say more.
_ADDED = 0.5
#: Equal quotations of so many characters and more are shown once: "yes, do that" is said everywhere and about everything.
_TELLING = 40
#: How a project is written that is none, below one that is.
_NO_PROJECT = "none"
#: Separates the time and the words of a segment's title.
_DOT = " · "
#: A fit that is not named: a result fits closely unless it says otherwise.
_USUAL_FIT = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A thing found, in a line of a page."""

    when: str
    #: "" where several said it: of a period.
    who: str = ""
    quote: str
    grip: str


#: Things found in a line each: for a model as texts, for a page as objects.
Lines = tuple[str, ...] | tuple[Brief, ...]


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
    project: Annotated[str, "Else as above"] = ""
    fit: Annotated[str, "exact or loose; else close"] = ""
    times: Annotated[int, "So often said alike"] = 0
    #: The day on which it was said last, where that is another one.
    last: str = ""
    #: What it answers, or its answer: lines of a citation, who spoke and what.
    also: tuple[str, ...] = ()
    outside: Annotated[bool, "Not in that time"] = False
    #: The grip of the statement that replaced it.
    superseded_by: str = ""
    #: Set if its words read as instructions to the reader (`model/orders.py`).
    flag: str = ""
    why_superseded: str = ""
    since: Annotated[str, "What became of that code"] = ""
    #: For pages: the agent that recorded it, its session, the kind of statement, and how well it fits, 0..1.
    agent: str = ""
    session: str = ""
    kind: str = ""
    score: float | None = None
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
    since: str = ""
    event_id: str = ""
    score_parts: Mapping[str, float] | None = None
    bm25_score: float | None = None
    similarity: float | None = None
    keywords: tuple[str, ...] = ()


def full_result(hit: Hit, calendar: Calendar) -> FullResult:
    """Return a hit with all its fields.

    It is a node, a grip of one, or an event that is not in the tree yet. Its id is the grip's, if it lies in a node, else the
    node's, else the event's; `kind` says which.
    """
    return FullResult(
        id=(hit.grip_id if hit.node_id else "") or hit.node_id or hit.event_id,
        kind=("grip" if hit.grip_id else hit.level) if hit.node_id else "event",
        level=hit.level if hit.node_id else "",
        title=hit.title if hit.node_id else "",
        quote=hit.quote,
        when=calendar.format_iso(hit.timestamp),
        session_id=hit.session_id,
        project=hit.project,
        agent=hit.agent,
        role=hit.role,
        speaker=hit.speaker,
        grip_ids=tuple(hit.grip_ids),
        score=round(hit.score, 3),
        outside_window=hit.outside,
        superseded_by=hit.superseded_by,
        flag=describe_flags(hit.quote),
        why_superseded=hit.why_superseded,
        since=hit.since,
        event_id=hit.event_id if hit.node_id else "",
        score_parts=dict(hit.parts),
    )


@dataclass(frozen=True, slots=True)
class Style:
    """How lean results are written."""

    calendar: Calendar
    #: The project that the answer is bound to; None for all.
    project: str | None = None
    #: Short names of projects; one without is written whole.
    names: Mapping[str, str] = field(default_factory=dict)
    #: Words of the question and of its keywords as they were typed, case folded: quotations are cut around them.
    words: Set[str] = frozenset()
    #: Results that are quoted at length; None for all.
    quoted: int | None = QUOTED
    #: Whether results name their nodes, also those that have a grip.
    with_nodes: bool = False
    #: Whether results are for a page: with agents, kinds, scores, whole names of projects and whole ids.
    for_page: bool = False
    #: Field of a result that shows the index's own score; "" for none.
    raw_score: str = ""


def bare_results(hits: Sequence[Hit], style: Style) -> list[Result]:
    """Return the lean results of hits, still without quotations."""
    results: list[Result] = []
    titled: set[str] = set()
    project_above = style.project or ""
    for hit in hits:
        node = node_shown(hit, style)
        has_title = (style.for_page or bool(node)) and bool(hit.node_id) and hit.node_id not in titled
        project = ""
        if hit.project != project_above:
            project = (hit.project if style.for_page else style.names.get(hit.project, hit.project)) or _NO_PROJECT
        results.append(_make_bare(hit, style, node=node, title=_make_title(hit) if has_title else "", project=project))
        titled.add(hit.node_id)
        project_above = hit.project
    return results


def line_of(result: Result, quote: str, flag: str) -> str:
    """Return a bare result in a line, with this quotation.

    As a text it takes half of what an object's names would.
    """
    times = f"{result.times} times" if result.times else ""
    last = f"last {result.last}" if result.last else ""
    over = "superseded" if result.superseded_by else ""
    notes = ", ".join(filter(None, (times, last, over, result.since, flag)))
    head = (result.grip, result.when[:10], result.who, result.project, f"({notes})" if notes else "")
    return f"{' '.join(filter(None, head))}: {' '.join(quote.split())}"


def find_repetitions(hits: Sequence[Hit]) -> list[bool]:
    """Return whether each hit repeats an earlier one's quotation.

    Word for word, of at least `_TELLING` characters.
    """
    earlier: set[str] = set()
    repeated: list[bool] = []
    for hit in hits:
        words = " ".join(hit.quote.split())
        repeated.append(len(hit.quote) >= _TELLING and words in earlier)
        earlier.add(words)
    return repeated


def _make_title(hit: Hit) -> str:
    title = hit.title.partition(_DOT)[2] if hit.title[:4].isdigit() and _DOT in hit.title else hit.title
    title = title if len(title) <= _TITLE else cut_out(title, 0, _TITLE)
    terms = term_set(title)
    # Mostly their beginnings tell that the quotation lacks enough of them; splitting it takes longer.
    plain = lower_plain(hit.quote)
    is_telling = plain is not None and sum(find_beginning(term) not in plain for term in terms) >= _ADDED * len(terms)
    return title if is_telling or not terms or len(terms - term_set(hit.quote)) >= _ADDED * len(terms) else ""


def node_shown(hit: Hit, style: Style) -> str:
    """Return the node that a lean result names, else "".

    It is that of a period, without any grip, or by the style without its own.
    """
    is_period = bool(hit.node_id) and hit.level != TocLevel.SEGMENT and not hit.grip_id
    is_named = is_period or not (hit.grip_id or hit.grip_ids) or (style.with_nodes and not hit.grip_id)
    return hit.node_id if is_named else ""


def _make_bare(hit: Hit, style: Style, *, node: str, title: str, project: str) -> Result:
    grip = hit.grip_id or (hit.grip_ids[0] if hit.grip_ids else "")
    when = style.calendar.format_iso(hit.timestamp)
    last = style.calendar.day_of(hit.last) if hit.last > hit.timestamp else ""
    further: dict[str, Any] = {}
    if style.for_page:
        further = {"agent": hit.agent, "session": hit.session_id, "kind": hit.kind, "score": round(hit.score, 2)}
    if style.raw_score and hit.raw is not None:
        further[style.raw_score] = round(hit.raw, 2)
    return Result(
        when=when[:16],
        who=hit.speaker or hit.role,
        grip=grip if style.for_page else short_grip(grip),
        node=node,
        title=title,
        project=project,
        fit=hit.fit if hit.fit != _USUAL_FIT else "",
        times=hit.times if hit.times > 1 else 0,
        last=last if last != when[:10] else "",
        outside=hit.outside,
        superseded_by=hit.superseded_by if style.for_page else short_grip(hit.superseded_by),
        why_superseded=hit.why_superseded,
        since=hit.since,
        **further,
    )
