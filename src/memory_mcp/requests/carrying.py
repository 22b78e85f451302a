"""Gives a memory's events by pages, and a day's summaries, to the commands that write exports.

No tool and no command asks these by name: the commands that carry a memory do, in their own process, and write its
files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memory_mcp.importers.draft_rows import pack_drafts
from memory_mcp.model.event import COPY_OF, HOOK, Event, make_carried_draft
from memory_mcp.model.ids import EventId
from memory_mcp.requests.asking import named_scope

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Events looked at, and characters, of one page.
_EVENTS, _CHARS = 500, 2 * 1024 * 1024


def page(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Return one page of events after a number, in arrival order.

    Only those of a project, an agent and a time, where `request` names them. `request` may hold after, to, project, agent, since
    and until. The result is {rows, next, to, days, times, projects}: `rows` are the events packed, `days` (YYYY-MM-DD), `times`
    (HH:MM, both in the memory's zone) and `projects` run parallel to them, `next` is the number up to which events were looked
    at. Up to 500 events are looked at, or some 2 million characters. A page may be empty and not the last: the caller goes on
    until `next` reaches `to`. Every acknowledged event has its number, so that a caller who asks page by page up to the first
    answer's `to` has all of them; `to` 0 stands for the last event now. Raises InvalidQuery for an unknown project or time.
    """
    after, to = int(request.get("after", 0)), int(request.get("to", 0)) or app.storage.events.last_seq()
    scope = named_scope(app, request)
    rows: list[Event] = []
    chars = 0
    stored_events = [stored for stored in app.storage.events.read_after(after, _EVENTS) if stored.seq <= to]
    copies = _find_copies(app, [stored.event for stored in stored_events])
    # Numbers of what was forgotten are missing: a page may be empty and not the last.
    reached = min(after + _EVENTS, to)
    for stored in stored_events:
        event = stored.event
        if (
            (scope.window is None or scope.window.contains(event.timestamp))
            and event.event_id not in copies
            and scope.project in (None, event.project)
            and scope.agent in (None, event.agent)
        ):
            rows.append(event)
            chars += len(event.text)
        if chars > _CHARS:
            reached = stored.seq
            break
    days = [app.calendar.day_of(event.timestamp) for event in rows]
    times = [f"{app.calendar.to_local(event.timestamp):%H:%M}" for event in rows]
    columns = {"days": days, "times": times, "projects": [event.project for event in rows]}
    drafts = [make_carried_draft(_without_copy_mark(event)) for event in rows]
    return {"rows": pack_drafts(drafts), "next": reached, "to": to, **columns}


def _find_copies(app: "App", events: Sequence[Event]) -> set[EventId]:
    pairs = app.storage.events.find_duplicates(event.event_id for event in events)
    by_id = {event.event_id: event for event in events}
    shown_events = app.storage.events.get_events(pairs.values()) if pairs else {}
    return {
        hidden
        for hidden, shown_id in pairs.items()
        if (event := by_id.get(hidden)) and (shown_event := shown_events.get(shown_id)) and _is_copy(event, shown_event)
    }


def _is_copy(event: Event, original: Event) -> bool:
    return event.session_id != original.session_id or event.source.startswith(HOOK) == original.source.startswith(HOOK)


def _without_copy_mark(event: Event) -> Event:
    """Return an event that is shown under the id that its source gives it: another memory may hold it alone."""
    if COPY_OF not in event.metadata:
        return event
    metadata = {key: value for key, value in event.metadata.items() if key != COPY_OF}
    return replace(event, event_id=EventId(event.metadata[COPY_OF]), metadata=metadata)


def day(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the segments of one local day, with statements and quotations.

    `request` names the day (YYYY-MM-DD) and may name a project and an agent. The result is {"segments": [{time (HH:MM),
    project, agent, title, bullets: [[text, grip ids], ...]}], "quotes": {grip id: quoted text}}, segments in order of time. A
    segment that has no node yet is left out. Raises InvalidQuery for an unknown project.
    """
    date, scope = str(request["day"]), named_scope(app, request)
    cuts = [cut for cut in app.storage.toc.list_day_segments(date, f"{date}~", scope.project) if scope.agent in (None, cut.agent)]
    nodes = app.storage.toc.get_nodes([cut.node_id for cut in cuts])
    grips = {g for node in nodes.values() for bullet in node.bullets for g in bullet.grip_ids}
    segments = [
        {
            "time": f"{app.calendar.to_local(cut.start[0]):%H:%M}",
            "project": cut.project,
            "agent": cut.agent,
            "title": nodes[cut.node_id].title,
            "bullets": [[b.text, list(b.grip_ids)] for b in nodes[cut.node_id].bullets],
        }
        for cut in cuts
        if cut.node_id in nodes
    ]
    return {"segments": segments, "quotes": app.evidence.read_quotes(list(app.storage.grips.get_grips(grips).values()))}
