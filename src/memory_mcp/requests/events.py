"""get_events: events in order of time, lean or with their origin, size and quotations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.model.event import Event as Stored
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import event_id_from, event_key, segment_key_of
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import CHARACTERS, NEIGHBOURS, PAGE, TEXT, TOKENS, Argument, Detail, Flag, parse_choice
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.response import Recalled, budget_of, event_behind, event_cursor, take_fitting
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.shapes import Event, shape_event
from memory_mcp.requests.times import times_of
from memory_mcp.storage.values import Scope

if TYPE_CHECKING:
    from memory_mcp.app import App

#: What an event costs besides its text: ids, time, names.
_EVENT_TOKENS = 60
#: Characters of one value of an event's metadata.
_VALUE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedSpan:
    """A citation of an event, and the characters of its text that it quotes."""

    grip_id: str
    start: int
    end: int
    #: Whether it is superseded.
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FullEvent(Event):
    """An event with its origin, and the citations of it."""

    agent: str = ""
    project: str = ""
    #: The subagent inside the session; "" is the main thread.
    thread: str = ""
    trust: str = ""
    #: Characters of the whole text, and of those left out before `text`.
    size: int = 0
    offset: int = 0
    metadata: Mapping[str, str] | None = None
    quotes: Sequence[QuotedSpan] = ()


def shape_events(app: "App", stored_events: Sequence[Stored], full: bool, most: int, offsets: Mapping[str, int]) -> list[Event]:
    """Return stored events as get_events shows them, in their order.

    Args:
        app: Holds the citations and the calendar.
        stored_events: What was read.
        full: Whether origin, size and citations are wanted; the events are FullEvent then, metadata cut to `_VALUE` characters.
        most: Characters of a text; 0 for all of them.
        offsets: Characters left out at the beginning of a text, by event id.

    """
    lean = [shape_event(record, app.calendar) for record in stored_events]
    cut = []
    for record in lean:
        first = offsets.get(record.event_id, 0)
        cut.append(replace(record, text=record.text[first : first + most] if most else record.text[first:]))
    if not full:
        return cut
    grips = app.storage.grips.grips_by_event([record.event_id for record in stored_events])
    over = app.storage.superseded.get_successors({grip.grip_id for several in grips.values() for grip in several})
    return [
        copy_fields(
            FullEvent,
            shape,
            agent=record.agent,
            project=record.project,
            thread=record.thread,
            trust=record.trust.value,
            size=len(record.text),
            offset=min(offsets.get(record.event_id, 0), len(record.text)),
            metadata={name: value[:_VALUE] for name, value in record.metadata.items()},
            quotes=[_shape_span(grip, record, grip.grip_id in over) for grip in grips.get(record.event_id, ())],
        )
        for shape, record in zip(cut, stored_events, strict=True)
    ]


def _shape_span(grip: Grip, stored: Stored, over: bool) -> QuotedSpan:
    """Of two events a grip quotes the first's end and the second's beginning."""
    start, end = grip.span_start, grip.span_end
    if grip.event_id_start != grip.event_id_end:
        start, end = (start, len(stored.text)) if stored.event_id == grip.event_id_start else (0, end)
    return QuotedSpan(grip_id=grip.grip_id, start=start, end=min(end, len(stored.text)), over=over)


@dataclass(frozen=True, slots=True)
class GetEvents:
    """Raw events in time order: of a session, a segment, a time span, or around one event."""

    since: arguments.Since = ""
    until: arguments.Until = ""
    #: Named alone, its events are read whatever project they belong to.
    session_id: Annotated[str, Argument(longest=300, flag=Flag("ID", "only this session", name="--session"))] = ""
    limit: Annotated[int, arguments.most("events", PAGE)] = PAGE.default
    cursor: arguments.Cursor = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""
    token_budget: Annotated[int | None, arguments.most_tokens("all events together")] = None
    node_id: Annotated[
        str, Argument("Events of this segment", longest=300, flag=Flag("ID", "only this segment", name="--node"))
    ] = ""
    event_id: Annotated[
        str,
        Argument(
            "This event alone, with neighbours",
            longest=300,
            flag=Flag("ID", "only this event, with --before and --after", name="--event"),
        ),
    ] = ""
    #: Of its session's thread.
    before: Annotated[int, Argument(range=NEIGHBOURS, flag=Flag("N", "events before it (0)"))] = NEIGHBOURS.default
    after: Annotated[int, Argument(range=NEIGHBOURS, flag=Flag("N", "events after it (0)"))] = NEIGHBOURS.default
    offset: Annotated[
        int,
        Argument("Characters of event_id to leave out", range=CHARACTERS, flag=Flag("N", "characters of its text to leave out")),
    ] = CHARACTERS.default
    text_limit: Annotated[
        int, Argument("Characters of each text", range=TEXT, flag=Flag("N", "most characters of each text"))
    ] = TEXT.default
    detail: Annotated[
        str, arguments.detail("full: origin, length, quoted spans", "full: also origin, length and quoted spans (JSON)")
    ] = Detail.LEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Events(Recalled):
    """A page of events; it holds at least one, whose text is shortened where it alone is too long for the budget."""

    events: Sequence[FullEvent] | Sequence[Event]
    next_cursor: str = ""
    scope: str
    truncated: bool | None = None


@answers("get_events", GetEvents, "Events of a time")
def get_events(app: "App", request: GetEvents, caller: Caller) -> Events:
    """Return a page of events, or one event with its neighbours.

    They are in order of time, within the token budget. It holds at least one event, if there is any: a text that alone is too
    long is shortened, and `truncated` set. With `event_id` there is no next page. Raises InvalidQuery for an invalid argument,
    NotFound for a segment, session or event that is unknown or that the caller may not see.
    """
    own_budget, full = TOKENS.check(request.token_budget or 0, "token_budget"), parse_choice(Detail, "detail", request.detail)
    most, offset = TEXT.check(request.text_limit, "text_limit"), CHARACTERS.check(request.offset, "offset")
    offsets: dict[str, int] = {}
    if not request.event_id:
        events, kept_to, scope, question = _read_page(app, request, caller)
    elif request.since or request.until or request.session_id or request.node_id or request.cursor:
        raise InvalidQuery("event_id names one event", "Leave since, until, session_id, node_id and cursor out.")
    else:
        before_count, after_count = NEIGHBOURS.check(request.before, "before"), NEIGHBOURS.check(request.after, "after")
        event = app.storage.events.find_event(event_id_from(event_key(request.event_id)))
        if event is None or not caller.sees(app, event.project):
            raise NotFound(f"no event {request.event_id[:60]}", "Take event ids from get_events or expand_grip.")
        earlier, later = app.storage.events.get_neighbours(event, before_count, after_count)
        events, scope, question = [*earlier, event, *later], caller.elsewhere(app, event.project) or event.project, ()
        kept_to, offsets[event.event_id] = len(events), offset
    shaped = shape_events(app, events[:kept_to], full is Detail.FULL, most, offsets)
    page_events = take_fitting(app, shaped, own_budget)
    shortened = bool(shaped) and not page_events
    if shortened:
        room = (budget_of(app, own_budget) - _EVENT_TOKENS) / app.settings.retrieval.token_factor
        page_events = [replace(shaped[0], text=shaped[0].text.encode()[: max(int(room), 1) * 4].decode(errors="ignore"))]
    more = len(events) > len(page_events) and not request.event_id
    return Events(
        events=page_events,
        next_cursor=event_cursor(events[len(page_events) - 1].event_id, *question) if more else "",
        scope=scope,
        truncated=True if shortened else None,
    )


def _read_page(app: "App", request: GetEvents, caller: Caller) -> tuple[Sequence[Stored], int, str, tuple[str, ...]]:
    """Return the events after the cursor, one more than are shown.

    Behind them how many are shown, the scope, and what a cursor is bound to. A segment's events are read whole, without
    regard to the window and the session. A session named without project, scope and node is read in all projects, except for
    a caller bound to one. Raises InvalidQuery for before, after or offset, for a node that is no segment, and for an invalid
    time, scope or cursor; NotFound for an unknown node or session.
    """
    limit = PAGE.check(request.limit)
    if request.before or request.after or request.offset:
        raise InvalidQuery("before, after and offset belong to event_id", "Name an event, or leave them out.")
    window = times_of(app).window(request.since, request.until)
    is_session = bool(request.session_id) and not (request.project or request.scope or request.node_id or caller.locked)
    scoped = Scoped(None) if is_session else scope_of(app, request.project, request.scope, caller)
    node_arguments = (request.node_id,) if request.node_id else ()
    question = ("get_events", scoped.words, request.since, request.until, request.session_id, *node_arguments)
    after = event_behind(app, request.cursor, question)
    if request.node_id:
        node = app.tree.node(times_of(app).node_id(request.node_id), scoped.project)
        key = segment_key_of(node.node_id)
        segment = app.storage.toc.get_segments([key]).get(key) if key is not None else None
        if segment is None:
            raise InvalidQuery(f"{node.node_id} is no segment", "Periods have no events of their own: name since and until.")
        events: Sequence[Stored] = app.storage.events.segment_events(segment)
        events = [stored for stored in events if after is None or stored.order > after][: limit + 1]
    else:
        events = app.storage.events.list_events(Scope(scoped.project, None, window), request.session_id or None, limit + 1, after)
        if request.session_id and not events and not app.storage.events.list_events(Scope(scoped.project), request.session_id, 1):
            raise NotFound(f"no session {request.session_id[:60]}", "Results and get_events without session_id name sessions.")
    # A session that is named alone is read in whichever projects its events belong to.
    other_projects = {caller.elsewhere(app, event.project) for event in events} - {""} if is_session else ()
    return events, limit, ", ".join(sorted(other_projects)) or scoped.words, question
