"""Gives the days of a project or a period, their summaries and their events, to the command that writes a copy for reading.

No tool and no command asks these by name: `export --html` does, in its own process, and writes its file.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.capture.evidence import quote_grips
from memory_mcp.importers.draft_rows import pack_drafts
from memory_mcp.model.calendar import TimeWindow, rollup_targets
from memory_mcp.model.event import Event, make_carried_draft
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.requests import shapes
from memory_mcp.requests.asking import named_scope
from memory_mcp.storage.lock import is_read_only
from memory_mcp.storage.values import Scope

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Characters of one answer, about.
_CHARS = 2 * 1024 * 1024


def contents(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the days that hold something, and the copy's heading.

    Of the project, agent and time that `request` names. The result is {days, project and its short name ("" for all), zone, now,
    first, last}; a day is [YYYY-MM-DD, year id, month id, week id], times are YYYY-MM-DD HH:MM in the memory's zone. `first`
    and `last` are the first event and the end behind the last one, "" for none. Events that are not in the tree yet are filed
    first, unless the data directory is read-only. Raises InvalidQuery for an unknown project or time.
    """
    if app.derivation.count_pending() and not is_read_only(app.directory):
        app.derivation.run()
    scope = named_scope(app, request)
    days = sorted({cut.day for cut in app.storage.toc.list_segments(scope)})
    span = app.storage.events.get_span(scope)
    return {
        "days": [[day, *reversed(rollup_targets(day)[1:])] for day in days],
        "project": scope.project or "",
        "name": app.tree.short_names().get(scope.project, scope.project) if scope.project else "",
        "zone": app.calendar.zone_name,
        "now": _stamp(app, app.clock.now_ms()),
        "first": _stamp(app, span.start_ms) if span else "",
        "last": _stamp(app, span.end_ms) if span else "",
    }


def periods(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"periods": by id} for the periods `ids` of a project.

    Each is {title, summary, keywords, bullets}. Left out are periods that hold anything outside the time that was asked for,
    and all of them where an agent is named. Raises InvalidQuery for an unknown project or time.
    """
    scope = named_scope(app, request)
    span = app.storage.events.get_span(Scope(project=scope.project))
    node_ids = [i for i in map(NodeId, request["ids"]) if _is_whole(scope.window, app.calendar.node_window(i).intersection(span))]
    # A period tells of every agent.
    nodes = {} if scope.agent else app.tree.nodes(node_ids, scope.project)
    over = app.storage.superseded.get_successors({grip for node in nodes.values() for b in node.bullets for grip in b.grip_ids})
    by_id = {i: {**_node(node), "bullets": [_bullet(b, over) for b in node.bullets]} for i, node in nodes.items()}
    return {"periods": by_id}


def stretch(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Return segments of a `day` with their events, from `at`.

    Up to some 2 million characters. The result is {"segments": as `_segment` makes them, "next"}. `at` and `next` are pairs of
    the segment's place in the day and how many of its events come before; `next` is None at the end. A segment may be continued
    on the next page. Raises InvalidQuery for an unknown project or time.
    """
    scope, day = named_scope(app, request), str(request["day"])
    first, skipped = (int(n) for n in request.get("at", (0, 0)))
    cuts = [
        cut
        for cut in app.storage.toc.list_day_segments(day, f"{day}~", scope.project)
        if scope.agent in (None, cut.agent)
        and (scope.window is None or TimeWindow(cut.start[0], cut.end[0] + 1).intersects(scope.window))
    ]
    segments: list[dict[str, Any]] = []
    chars = 0
    for number in range(first, len(cuts)):
        events = [e for e in app.storage.events.segment_events(cuts[number]) if _contains(scope.window, e.timestamp)]
        segment_events: list[Event] = []
        for event in events[skipped:]:
            segment_events.append(event)
            chars += len(event.text)
            if chars > _CHARS:
                break
        segments.append(_segment(app, cuts[number], scope.window, segment_events, begins=not skipped))
        skipped += len(segment_events)
        if skipped < len(events):
            return {"segments": segments, "next": [number, skipped]}
        skipped = 0
        if chars > _CHARS and number + 1 < len(cuts):
            return {"segments": segments, "next": [number + 1, 0]}
    return {"segments": segments, "next": None}


#: By the names that the daemon gives them.
METHODS = (contents, periods, stretch)


def _contains(window: TimeWindow | None, ms: int) -> bool:
    return window is None or window.contains(ms)


def _is_whole(window: TimeWindow | None, content_window: TimeWindow) -> bool:
    return window is None or (window.start_ms <= content_window.start_ms and content_window.end_ms <= window.end_ms)


def _segment(app: "App", cut: Segment, window: TimeWindow | None, events: Sequence[Event], begins: bool) -> dict[str, Any]:
    """Return a segment with some of its events, as JSON values.

    These are {id, when, until, project, agent, session, rows, times, begins, title, summary, keywords,
    bullets, quotes}: `rows` are the given events, packed, `times` theirs, as `_stamp` writes them; quotes
    are {text, when, role, speaker} by grip id, without those whose events are gone. Only the first part of a segment (`begins`)
    has the last five; they are empty in others. Of a segment that lies only partly in the window title, summary and keywords
    are empty, and it has only bullets whose quotations all lie in it.
    """
    segment: dict[str, Any] = {
        "id": cut.node_id,
        "when": _stamp(app, cut.start[0]),
        "until": _stamp(app, cut.end[0]),
        "project": cut.project,
        "agent": cut.agent,
        "session": cut.session_id,
        "rows": pack_drafts([make_carried_draft(e) for e in events]),
        "times": [_stamp(app, e.timestamp) for e in events],
        "begins": begins,
    }
    segment |= {"title": "", "summary": "", "keywords": [], "bullets": [], "quotes": {}}
    node = app.storage.toc.get_nodes([cut.node_id]).get(cut.node_id) if begins else None
    if node is None:
        return segment
    is_complete = _is_whole(window, TimeWindow(cut.start[0], cut.end[0] + 1))
    grips = app.storage.grips.get_grips({g for b in node.bullets for g in b.grip_ids})
    inside = {i for i, grip in grips.items() if _contains(window, grip.timestamp)}
    bullets = [b for b in node.bullets if is_complete or (b.grip_ids and inside.issuperset(b.grip_ids))]
    over = app.storage.superseded.get_successors(grips)
    quoted = {i: grips[i] for b in bullets for i in b.grip_ids if i in grips}
    quoted_events = app.storage.events.get_events({e for g in quoted.values() for e in (g.event_id_start, g.event_id_end)})
    quotes = {}
    for grip_id, text in quote_grips(quoted.values(), quoted_events).items():
        first, when = quoted_events[quoted[grip_id].event_id_start], _stamp(app, quoted[grip_id].timestamp)
        quotes[str(grip_id)] = {"text": text, "when": when, "role": first.role.value, "speaker": first.speaker}
    return segment | (_node(node) if is_complete else {}) | {"bullets": [_bullet(b, over) for b in bullets], "quotes": quotes}


def _node(node: TocNode) -> dict[str, Any]:
    return {"title": node.title, "summary": node.summary, "keywords": list(node.keywords[: shapes.KEYWORDS_SHOWN])}


def _bullet(bullet: TocBullet, over: Mapping[GripId, Any]) -> dict[str, Any]:
    """`over` are the superseded grips."""
    shape = shapes.shape_bullet(bullet, over)
    ended = bool(shape.superseded_by)
    return {"text": shape.text, "grips": list(shape.grip_ids), "kind": shape.kind, "ended": ended, "why": shape.why_superseded}


def _stamp(app: "App", ms: int) -> str:
    return f"{app.calendar.to_local(ms):%Y-%m-%d %H:%M}"
