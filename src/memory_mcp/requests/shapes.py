"""Turns stored things into the parts that responses are made of; times are ISO, on the calendar of the request."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import terms
from memory_mcp.model import event as domain
from memory_mcp.model.calendar import LATEST_MS, Calendar, TimeWindow, TocLevel, parents_of
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.grip import RETRACTED, Supersession
from memory_mcp.model.ids import ROOT, GripId
from memory_mcp.model.toc import MemoryKind, TocBullet, TocNode, display_author
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.times import EARLIEST_MS
from memory_mcp.storage.values import Activity
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.summarize.titles import SEPARATOR
from memory_mcp.tree.toc.statements import node_outcome

#: Names listed where there may be hundreds.
NAMES_SHOWN = 20
#: How events without a project, and without an agent, are written.
NO_NAME = "(none)"
#: Keywords of a node that a reader is shown: a period has more, for those who search it.
KEYWORDS_SHOWN = 24
#: No grip is superseded.
NONE_OVER: Mapping[GripId, Supersession] = {}
#: No statement's code has changed.
NOTHING_SINCE: Mapping[str, str] = {}


class ChildDetail(Enum):
    """How much a list shows of each child: characters of its summary, and number of keywords."""

    ALL = (120, 3)
    SOME = (80, 0)
    TITLES = (0, 0)

    @property
    def summary(self) -> int:
        """Most characters of the summary."""
        return self.value[0]

    @property
    def keywords(self) -> int:
        """Most keywords."""
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullet:
    """One statement and what proves it."""

    text: str
    grip_ids: Sequence[str]
    kind: str = ""
    #: Where none of what proves it holds any more: the grip that stands in its place, or `RETRACTED`.
    superseded_by: str = ""
    why_superseded: str = ""
    since: Annotated[str, "What became of that code"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A node named by another."""

    node_id: str
    level: str = ""
    title: str
    #: A period's themes; of a segment what came of it.
    summary: str = ""
    keywords: Sequence[str] = ()
    events: int = 0
    sessions: int = 0
    #: How many children it has itself.
    children: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FullChild(Child):
    """A child with what it is filed under."""

    #: "" for an observation.
    kind: str = ""
    projects: Sequence[str] = ()
    agents: Sequence[str] = ()
    start: str = ""
    end: str = ""
    pinned: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One page of the time tree."""

    node_id: str
    level: str
    title: str
    summary: str = ""
    bullets: Sequence[Bullet] = ()
    keywords: Sequence[str] = ()
    start: str = ""
    end: str = ""
    sessions: int
    events: int
    projects: Sequence[str] = ()
    agents: Sequence[str] = ()
    parents: Sequence[str] = ()
    previous: str = ""
    next: str = ""
    author: str = ""
    pinned: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something said or done."""

    event_id: str
    source_id: str = ""
    session_id: str
    when: str
    role: str
    type: str
    speaker: str = ""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time a search was bound to; an open end is left out."""

    since: str = ""
    until: str = ""
    words: Annotated[str, "Read from the query"] = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A layer that was not used."""

    layer: str
    reason: str


def newest_first(activities: Iterable[Activity]) -> list[Activity]:
    """Return projects or agents, newest event first, equals by name."""
    return sorted(activities, key=lambda activity: (-activity.end_ms, activity.name))


def shape_child(node: TocNode, children: int = 0) -> Child:
    """Return a node as its parent lists it.

    Of a segment the summary says what came of it; both are cut to `ChildDetail.ALL` (120 characters,
    3 keywords). `children` is its number of children.
    """
    period = node.level is not TocLevel.SEGMENT
    title = node.title.partition(SEPARATOR)[0]
    title_terms = set(terms(title))
    return Child(
        node_id=node.node_id,
        level=node.level,
        title=title,
        summary=_shorten_text(node.summary if period else node_outcome(node), ChildDetail.ALL.summary),
        keywords=list(islice((word for word in node.keywords if title_terms.isdisjoint(terms(word))), ChildDetail.ALL.keywords)),
        events=node.event_count,
        sessions=node.session_count if period else 0,
        children=children,
    )


def full_child(node: TocNode, children: int, calendar: Calendar) -> FullChild:
    """Return a node as its parent lists it, in full.

    The kind observation is left out; of projects and agents the first `NAMES_SHOWN` are kept.
    """
    return copy_fields(
        FullChild,
        shape_child(node, children),
        kind="" if node.kind is MemoryKind.OBSERVATION else node.kind,
        projects=node.projects[:NAMES_SHOWN],
        agents=node.agents[:NAMES_SHOWN],
        start=calendar.format_iso(node.start_ms) if node.end_ms else "",
        end=calendar.format_iso(node.end_ms) if node.end_ms else "",
        pinned=True if node.pinned else None,
    )


def cut_child(value: Child, detail: ChildDetail) -> Child:
    """Return a child with its texts cut as `detail` allows."""
    return copy_with(value, summary=_shorten_text(value.summary, detail.summary), keywords=value.keywords[: detail.keywords])


def _shorten_text(text: str, width: int) -> str:
    return shorten(text, width).rstrip("… ") + "…" if width and len(text) > width else text[:width]


def shape_node(
    value: TocNode,
    calendar: Calendar,
    previous: str = "",
    following: str = "",
    over: Mapping[GripId, Supersession] = NONE_OVER,
    since: Mapping[str, str] = NOTHING_SINCE,
) -> Node:
    """Return a whole node as responses show it.

    `previous` and `following` are the ids of its neighbours in time, `over` the superseded grips by id, `since` what became
    of the code of a statement by its first grip; projects and agents are cut to `NAMES_SHOWN`, keywords to `KEYWORDS_SHOWN`.
    """
    return copy_fields(
        Node,
        value,
        bullets=[shape_bullet(b, over, since) for b in value.bullets],
        keywords=value.keywords[:KEYWORDS_SHOWN],
        start=calendar.format_iso(value.start_ms) if value.end_ms else "",
        end=calendar.format_iso(value.end_ms) if value.end_ms else "",
        sessions=value.session_count,
        events=value.event_count,
        projects=value.projects[:NAMES_SHOWN],
        agents=value.agents[:NAMES_SHOWN],
        parents=[p for p in parents_of(value.node_id) if p != ROOT],
        previous=previous,
        next=following,
        author=display_author(value.author),
        pinned=True if value.pinned else None,
    )


def shape_bullet(
    value: TocBullet, over: Mapping[GripId, Supersession] = NONE_OVER, since: Mapping[str, str] = NOTHING_SINCE
) -> Bullet:
    """Return a bullet; the kind observation is left out.

    It is superseded only where all its grips are in `over` and the first one's record concerns its text.
    """
    ended = over.get(value.grip_ids[0]) if value.grip_ids and all(grip in over for grip in value.grip_ids) else None
    ended = ended if ended is not None and ended.applies_to(value.text) else None
    return Bullet(
        text=value.text,
        grip_ids=value.grip_ids,
        kind="" if value.kind is MemoryKind.OBSERVATION else value.kind,
        superseded_by=(ended.new or RETRACTED) if ended else "",
        why_superseded=ended.reason if ended else "",
        since=since.get(value.grip_ids[0], "") if value.grip_ids else "",
    )


def shape_event(value: domain.Event, calendar: Calendar) -> Event:
    """Return a stored event as responses show it, text uncut."""
    return copy_fields(Event, value, when=calendar.format_iso(value.timestamp))


def shape_window(value: TimeWindow | None, words: str, calendar: Calendar) -> Window | None:
    """Return a span of time as responses show it.

    An open end is ""; None for None. `words` are those it was read from.
    """
    if value is None:
        return None
    since = calendar.format_iso(value.start_ms) if value.start_ms > EARLIEST_MS else ""
    until = calendar.format_iso(value.end_ms) if value.end_ms < LATEST_MS else ""
    return Window(since=since, until=until, words=words)
