"""refine_due and refine_show: which nodes deserve better words, and what an agent reads before it refines one.

What is read of a node is one response, cut to a budget of tokens. Of a segment its title and bullets, what came before, and its
events with the grips that quote them; of a period its children's titles and bullets. Long texts are shortened first, the
agent's and the user's last; then whole parts are left out.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import EVERY_DAY, TocLevel, level_of
from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import ROOT, NodeId, segment_key_of
from memory_mcp.model.toc import KIND_SALIENCE, TocNode, display_author
from memory_mcp.requests import arguments, shapes
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import MATERIAL, PAGE, Argument, Flag
from memory_mcp.requests.plain import copy_fields, find_fullest, fits_in
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.shapes import Bullet
from memory_mcp.requests.times import settled_ms, times_of
from memory_mcp.tree.toc.refining import RefinementSearch

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Shortest and longest text of an event, characters; a tool's call or output gets a quarter.
_LEAST, _MOST, _TOOL_SHARE = 80, 4000, 4
#: Events before the segment, and characters of each.
_BEFORE, _BEFORE_CHARS = 3, 240
#: Grips named of one event: those of the words that are shown come first.
_GRIPS = 4
#: Bullets of a child; a period has at most 10.
_BULLETS = 10
#: Share of a shortened text that is its beginning; the rest is its end, where a message says what came of it.
_HEAD = 0.6
#: What the client notes of itself.
_NOTED = frozenset({EventType.SESSION_START, EventType.SESSION_END, EventType.SUBAGENT_START})


@dataclass(frozen=True, slots=True)
class RefineDue:
    """Segments and days that are over, hold enough, and have no agent's words yet; newest first."""

    day: Annotated[
        str,
        Argument(
            "A day or other time, as since; empty: all",
            longest=60,
            flag=Flag("TIME", "only of this day or time: yesterday, 2026-01-30, 'last week'"),
        ),
    ] = ""
    limit: Annotated[int, arguments.most("nodes", PAGE)] = PAGE.default
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueNode:
    """A segment or day worth refining."""

    node_id: str
    level: str
    title: str
    events: int
    tokens: int
    session_id: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueNodes(Recalled):
    """Nodes worth refining, newest first; `more` where there are others."""

    due: Sequence[DueNode]
    more: bool | None = None
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RefineShow:
    """What refine_summary needs to know of a node, at once.

    Its title and bullets; of a segment its events with their grips, and what came before; of a period its children.
    """

    node_id: Annotated[str, Argument(longest=300)]
    token_budget: Annotated[int, Argument(range=MATERIAL, flag=Flag("N", f"most tokens of the answer ({MATERIAL.default})"))] = (
        MATERIAL.default
    )
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An event as it is read here; "…" stands for what was left out of its text."""

    when: str
    who: str
    text: str
    grip_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The end of the session's segment before."""

    session_id: str = ""
    #: The end of the session's segment before.
    before: Sequence[Line] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A child of a period."""

    node_id: str
    title: str
    events: int
    author: str = ""
    bullets: Sequence[Bullet] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Material(Recalled):
    """A node as it is, and what a better text can be made of."""

    node_id: str
    level: str
    title: str
    author: str = ""
    bullets: Sequence[Bullet] = ()
    context: Before | None = None
    events: Sequence[Line] = ()
    children: Sequence[Part] = ()
    left_out: Annotated[int, "Events or children; a larger token_budget shows them"] = 0
    scope: str


@answers("refine_due", RefineDue, "What to refine")
def refine_due(app: "App", request: RefineDue, caller: Caller) -> DueNodes:
    """Return segments and days worth refining, newest first.

    At most `limit`; `more` where there are others. Worth it are those that are over, hold enough and have no agent's words yet;
    `day` limits them to the local days that it names. Raises InvalidQuery for an invalid time, limit or scope.
    """
    limit = PAGE.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    times, (first, after) = times_of(app), EVERY_DAY
    start, end = times.since(request.day, "day"), times.until(request.day)
    if start is not None and end is not None:
        first, after = app.calendar.day_of(start), f"{app.calendar.day_of(max(start, end - 1))}~"
    refining = RefinementSearch(app.storage, app.storage.toc.get_authors(), scoped.project, settled_ms(app))
    due_nodes = list(islice(refining.iter_due(first, after, app.calendar), limit + 1))
    nodes = app.tree.nodes([d.node_id for d in due_nodes[:limit]], scoped.project)
    return DueNodes(
        due=[
            copy_fields(
                DueNode,
                d,
                level=level_of(d.node_id),
                title=nodes[d.node_id].title,
                project=d.project if scoped.project is None else "",
            )
            for d in due_nodes[:limit]
            if d.node_id in nodes
        ],
        more=True if len(due_nodes) > limit else None,
        scope=scoped.words,
        notices=[] if due_nodes else ["nothing is due: what is over and holds enough has an agent's words, or there is no such"],
    )


@answers("refine_show", RefineShow, "Read to refine")
def refine_show(app: "App", request: RefineShow, caller: Caller) -> Material:
    """Return a node's material for refining, cut to the token budget.

    Raises NotFound where the scope holds no such node, InvalidQuery for the root or an invalid argument.
    """
    budget = MATERIAL.check(request.token_budget, "token_budget")
    scoped = scope_of(app, request.project, request.scope, caller)
    node = app.tree.node(times_of(app).node_id(request.node_id), scoped.project)
    if node.node_id == ROOT:
        raise InvalidQuery("the root has no summary", "Name a year, month, week, day or segment.")
    plain = Material(
        node_id=node.node_id,
        level=node.level,
        title=node.title,
        author=display_author(node.author),
        bullets=[shapes.shape_bullet(b) for b in node.bullets],
        scope=scoped.words,
    )
    show = _segment if node.level is TocLevel.SEGMENT else _period
    return show(app, fits_in(budget, app.settings.retrieval.token_factor), plain, node.node_id, scoped)


def _segment(app: "App", fits: Callable[[Material], bool], plain: Material, node_id: NodeId, scoped: Scoped) -> Material:
    """Return a segment's events and what came before, while they fit.

    Texts are shortened first, then events of tools are left out, then those in the middle; `left_out` counts
    events. Notes of the client about itself and empty events are never shown nor counted.
    """
    key = segment_key_of(node_id)
    assert key is not None
    cut = app.storage.toc.get_segments([key])[key]
    earlier_events = [e for e in app.tree.context(cut, scoped.project).before if _says_something(e)][-_BEFORE:]
    format_iso = app.calendar.format_iso
    earlier_lines = [
        Line(when=format_iso(e.timestamp)[:16], who=_name_speaker(e), text=_cut_text(e.text, _BEFORE_CHARS)[0])
        for e in earlier_events
    ]
    material = replace(plain, context=Before(session_id=cut.session_id, before=earlier_lines))
    events = [e for e in app.storage.events.segment_events(cut) if _says_something(e)]
    grips = app.storage.grips.grips_by_event([e.event_id for e in events])

    def build_material(chosen: Sequence[Event], chars: int) -> Material:
        """Return the material with these events, their texts cut to `chars` characters, those of tools to a quarter."""
        short = max(_LEAST // 2, chars // _TOOL_SHARE)
        lines = [_shape_line(app, e, grips.get(e.event_id, ()), short if _is_tool(e) else chars) for e in chosen]
        return replace(material, events=lines, left_out=len(events) - len(chosen))

    spoken = [e for e in events if not _is_tool(e)]
    for chosen in (events, spoken):
        if chosen and (fitted := find_fullest(functools.partial(build_material, chosen), fits, _LEAST, _MOST)) is not None:
            return fitted
    ends = spoken or events

    def ends_shown(count: int) -> Material:
        """Return the material with the first and last events, `count` in all, cut as short as possible."""
        # Half of them the first and half the last.
        head = (count + 1) // 2
        return build_material([*ends[:head], *ends[len(ends) - (count - head) :]] if count else [], _LEAST)

    return find_fullest(ends_shown, fits, 0, len(ends)) or ends_shown(0)


def _period(app: "App", fits: Callable[[Material], bool], plain: Material, node_id: NodeId, scoped: Scoped) -> Material:
    """Return a period's children with bullets, as many as fit.

    First bullets are left out, the least salient ones, then the children with the fewest events; `left_out` counts children.
    """
    ids = app.tree.children(node_id, scoped.project)
    nodes = app.tree.nodes(ids, scoped.project)
    children = [nodes[i] for i in ids if i in nodes]

    def build_material(chosen: Sequence[TocNode], most: int) -> Material:
        """Return the material with these children, each with its `most` most salient bullets."""
        return replace(plain, children=[_shape_part(n, most) for n in chosen], left_out=len(children) - len(chosen))

    fitted = find_fullest(functools.partial(build_material, children), fits, 0, _BULLETS)
    if fitted is not None:
        return fitted
    busiest = sorted(range(len(children)), key=lambda i: (-children[i].event_count, i))

    def busiest_shown(count: int) -> Material:
        """Return the material with the `count` children that hold most events, without bullets, in order of time."""
        return build_material([children[i] for i in sorted(busiest[:count])], 0)

    return find_fullest(busiest_shown, fits, 0, len(children)) or busiest_shown(0)


def _shape_line(app: "App", event: Event, grips: Sequence[Grip], chars: int) -> Line:
    """Return an event with at most `_GRIPS` grips of it."""
    text, spans = _cut_text(event.text, chars)
    own_grips = [g for g in grips if g.event_id_start == event.event_id]
    visible_grips = [
        g for g in own_grips if g.event_id_end != event.event_id or any(g.span_start < b and a < g.span_end for a, b in spans)
    ]
    return Line(
        when=app.calendar.format_iso(event.timestamp)[:16],
        who=_name_speaker(event),
        text=text,
        grip_ids=[g.grip_id for g in (visible_grips or own_grips)[:_GRIPS]],
    )


def _cut_text(text: str, chars: int) -> tuple[str, Sequence[tuple[int, int]]]:
    """Return a text cut to `chars`, and its remaining (start, end).

    A text that fits remains whole; of a longer one its beginning and its end, joined by an ellipsis. White
    space runs become one space.
    """
    if len(text) <= chars:
        return " ".join(text.split()), [(0, len(text))]
    head = int(chars * _HEAD)
    spans = [(0, head), (len(text) - (chars - head), len(text))]
    return " … ".join(" ".join(text[a:b].split()) for a, b in spans), spans


def _shape_part(node: TocNode, most: int) -> Part:
    best = sorted(range(len(node.bullets)), key=lambda i: (-KIND_SALIENCE[node.bullets[i].kind], i))[:most]
    return Part(
        node_id=node.node_id,
        title=node.title,
        events=node.event_count,
        author=display_author(node.author),
        bullets=[shapes.shape_bullet(node.bullets[i]) for i in sorted(best)],
    )


def _is_tool(event: Event) -> bool:
    return event.role is Role.TOOL or event.type is EventType.TOOL_CALL


def _says_something(event: Event) -> bool:
    return event.type not in _NOTED and bool(event.text.strip())


def _name_speaker(event: Event) -> str:
    return event.speaker or (event.metadata.get("tool") or "tool" if _is_tool(event) else event.role)
