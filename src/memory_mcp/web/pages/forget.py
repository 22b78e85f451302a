"""Forgetting: a search whose results are ticked, the form, a preview of what would go, and its progress."""

from starlette.responses import Response

from memory_mcp.base.errors import NotFound
from memory_mcp.web.asking import Ask

#: Fields that an address may fill in; a value never is in one.
_FIELDS = ("event", "session", "of_project", "since", "until", "topic")


async def show_form(ask: Ask) -> Response:
    """Show the forms and what this visit found to tick.

    Filled in from the address, but for the value, which none may contain.
    """
    return ask.page("forget.html", given={name: ask.argument(name) for name in _FIELDS}, found=ask.visit.to_forget)


async def show_pending(ask: Ask) -> Response:
    """Show a request to forget: preview, seconds left, or result."""
    later = ask.visit.later
    request = later.find(ask.visit.name, ask.path("id"))
    if request is None:
        raise NotFound("this was not started here, or too long ago", "What was forgotten is in the list of acts.")
    return ask.render("pending", pending=request, left=int(later.left_s(request)))
