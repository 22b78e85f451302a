"""The shapes of forgetting."""

from memory_mcp.server.wire import Wire


class Sample(Wire):
    """An event that goes or loses a value."""

    event_id: str
    when: str


class Forgotten(Wire):
    """forget."""

    forgotten: bool
    counts: dict[str, int]
    events: list[Sample]
    note: str = ""
