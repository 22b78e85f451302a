"""The page of what was done to the memory itself: corrected, forgotten, restored."""

from starlette.responses import Response

from memory_mcp.requests.correct import Audit
from memory_mcp.web.asking import Ask

#: Acts of a page, and most of it.
_ACTS, _MOST = 100, 1000


async def show_audit(ask: Ask) -> Response:
    """Show the acts upon the memory, newest first.

    100, or the address's `limit`, at most 1000; InvalidQuery for no whole number.
    """
    limit = min(ask.number("limit", _ACTS), _MOST)
    response = await ask.memory.ask(Audit(limit))
    return ask.page("audit.html", found=response, limit=limit, most=_MOST)
