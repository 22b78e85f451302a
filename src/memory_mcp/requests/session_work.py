"""The work of one session, with what came before it: found by the session's id, else the latest of a scope."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.ids import ROOT, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.requests.notes import is_notes
from memory_mcp.requests.scope import Scoped
from memory_mcp.storage.values import Scope, SessionInfo
from memory_mcp.tree.toc.statements import StretchView
from memory_mcp.tree.toc.told import load_stretches
from memory_mcp.tree.toc.work_reader import TAIL, drop_memory_exchanges

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Most segments of earlier work, and of the session.
_EARLIER, _LAST = 12, 8
#: Segments of earlier work whose events are read.
_IN_FULL = 4
#: Segments of a session's beginning whose events are read.
_FIRST = 2
#: Sessions among which one is looked for by the beginning of its id, and that an error names.
_SESSIONS, _NEAREST = 1000, 3


@dataclass(frozen=True, slots=True)
class SessionWork:
    """Stretches of a session in order of time, and of others before it; none if nothing is recorded."""

    #: "session ID" or "the latest work in SCOPE", with its times.
    about: str
    #: The last ones that hold statements, and those of other sessions, newest first.
    stretches: list[StretchView]
    earlier: list[StretchView]
    #: Every segment of the session, of its subagents too.
    cuts: list[Segment]


def find_session_work(app: "App", session_id: str, scoped: Scoped, without: Collection[str] = ()) -> SessionWork:
    """Return how a session went on and ended.

    Named by its id or the beginning of it: at most the last `_LAST` segments with statements. Without an id it is the session of
    the newest segment, with up to `_EARLIER` segments of other sessions; the sessions `without` are not looked at. Raises
    NotFound if there is no such session among the latest `_SESSIONS` of the scope, or several begin like that.
    """
    if session_id.strip():
        session = _find_session(app, session_id.strip(), scoped)
        about, other = f"session {session.session_id}", list[Segment]()
        scope = Scope(project=session.project or None, window=TimeWindow(session.start_ms, session.end_ms + 1))
        session_cuts = [c for c in app.tree.segments_below(ROOT, scope) if c.session_id == session.session_id]
    else:
        # Of as many whole days as it takes to have enough.
        about, recent = f"the latest work in {scoped.words}", list[Segment]()
        for day in reversed(app.tree.descendants(ROOT, TocLevel.DAY, scoped.project)):
            cuts = app.tree.segments_below(NodeId(day), Scope(project=scoped.project))
            # A note or a correction is no session that can be continued.
            recent += [cut for cut in cuts if not is_notes(cut.session_id) and cut.session_id not in without]
            if len(recent) >= _EARLIER:
                break
        latest = sorted(recent, key=lambda cut: cut.start)
        newest_id = next((cut.session_id for cut in reversed(latest) if not cut.thread), None)
        session_cuts = [cut for cut in latest if cut.session_id == newest_id]
        other = [cut for cut in latest if cut.session_id != newest_id]
    own = load_stretches(app.storage, session_cuts[::-1], _LAST, _LAST)[::-1]
    marked = app.later_changes.mark_stretches([*own, *load_stretches(app.storage, other[::-1], _EARLIER, _IN_FULL)])
    stretches, earlier = marked[: len(own)], marked[len(own) :]
    if main_cuts := [cut for cut in session_cuts if not cut.thread]:
        start, end = (app.calendar.to_local(at_ms) for at_ms in (main_cuts[0].start[0], main_cuts[-1].end[0]))
        about = f"{about}, {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    return SessionWork(about, stretches, earlier, session_cuts)


def read_ends(app: "App", work: SessionWork) -> tuple[list[Event], list[Event]]:
    """Return the events of a session's first and of its last segments.

    Left out are those of subagents, and questions to this memory.
    """
    main_cuts = sorted((cut for cut in work.cuts if not cut.thread), key=lambda cut: cut.start)
    first, last = main_cuts[:_FIRST], main_cuts[-TAIL:]
    stored = app.storage.events.events_by_segment(list(dict.fromkeys([*first, *last]))) if main_cuts else {}
    events = {key: drop_memory_exchanges(several) for key, several in stored.items()}
    first_events, last_events = ([event for cut in cuts for event in events.get(cut.key, ())] for cuts in (first, last))
    return first_events, last_events


def _find_session(app: "App", prefix: str, scoped: Scoped) -> SessionInfo:
    stored = app.storage.events.list_sessions(Scope(project=scoped.project), _SESSIONS)
    exact = [s for s in stored if s.session_id == prefix]
    if not exact:
        holder = _holder_of(app, prefix)
        exact = [s for s in stored if s.session_id == holder]
    alike = exact or [s for s in stored if s.session_id.startswith(prefix)]
    if len(alike) != 1:
        names = ", ".join(s.session_id for s in (alike or stored)[:_NEAREST])
        why = "several sessions begin with" if alike else "no session"
        raise NotFound(f"{why} {prefix} in {scoped.words}", f"Sessions, latest first: {names or 'none yet'}.")
    return alike[0]


def _holder_of(app: "App", session_id: str) -> str:
    """Return the session that a copy begins with; "" for no copy."""
    pairs = app.storage.events.find_duplicates(event.event_id for event in app.storage.events.list_events(Scope(), session_id, 1))
    shown_events = app.storage.events.get_events(pairs.values()).values() if pairs else ()
    return next((event.session_id for event in shown_events if event.session_id != session_id), "")
