"""The shapes of get_events."""

from memory_mcp.server.wire import Event, Recalled, Wire


class QuotedSpan(Wire):
    """A citation of an event."""

    grip_id: str
    start: int
    end: int
    over: bool | None = None


class FullEvent(Event):
    """An event with its origin and the citations of it."""

    agent: str = ""
    project: str = ""
    thread: str = ""
    trust: str = ""
    size: int | None = None
    offset: int | None = None
    metadata: dict[str, str] = {}
    quotes: list[QuotedSpan] = []


class EventsAnswer(Recalled):
    """get_events."""

    events: list[FullEvent]
    next_cursor: str = ""
    scope: str
    truncated: bool | None = None
