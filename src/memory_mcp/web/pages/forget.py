"""What is to be forgotten, what that would take, and how far it is."""

from starlette.responses import Response

from memory_mcp.errors import NotFound
from memory_mcp.web.asking import Ask

#: Fields that an address may fill in; a value never is in one.
_FIELDS = ("event", "session", "of_project", "since", "until", "topic")


async def form(ask: Ask) -> Response:
    """Show what can be forgotten."""
    return ask.page("forget.html", given={name: ask.given(name) for name in _FIELDS})


async def pending(ask: Ask) -> Response:
    """Show one that was tried out, waits, or was carried out."""
    later = ask.visit.later
    found = later.find(ask.visit.name, ask.path("id"))
    if found is None:
        raise NotFound("this was not started here, or too long ago", "What was forgotten is in the list of acts.")
    template = "part_pending.html" if ask.part else "pending.html"
    return ask.page(template, pending=found, left=int(later.left_s(found)))
