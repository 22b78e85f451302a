"""What another page shows, as a file."""

from starlette.responses import Response

from memory_mcp.requests.shown import ExportShown
from memory_mcp.web.asking import Ask
from memory_mcp.web.headers import HEADERS

_TEXTS = ("node", "session", "grip", "since", "until", "agent", "role", "speaker", "cursor", "project")


async def export(ask: Ask) -> Response:
    """Return the file."""
    given = {name: ask.given(name) for name in _TEXTS}
    scope = "" if given["project"] else "all"
    request = ExportShown(
        form=ask.given("form"), query=ask.given("q"), limit=ask.number("limit", 0), scope=scope, **given
    )  # fmt: skip
    found = await ask.memory.ask(request)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{found["name"]}"'}
    return Response(found["text"].encode("utf-8", "replace"), 200, headers, found["media_type"])
