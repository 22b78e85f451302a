"""The content of another page as a file."""

from typing import Any

from starlette.responses import Response

from memory_mcp.requests.limits import AROUND
from memory_mcp.requests.shown import ExportShown
from memory_mcp.web.asking import Ask
from memory_mcp.web.headers import HEADERS

_TEXTS = ("node", "session", "grip", "since", "until", "agent", "role", "speaker", "cursor", "start", "end", "project")


async def download_shown(ask: Ask) -> Response:
    """Return what another page shows as a file to download."""
    arguments: dict[str, Any] = {name: ask.argument(name) for name in _TEXTS}
    scope = "" if arguments["project"] else "all"
    arguments |= {side: ask.number(side, AROUND.default) for side in ("before", "after")}
    limit, query = ask.number("limit", 0), ask.argument("q")
    request = ExportShown(form=ask.argument("form"), query=query, limit=limit, scope=scope, **arguments)
    file = await ask.memory.ask(request)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{file["name"]}"'}
    return Response(file["text"].encode("utf-8", "replace"), 200, headers, file["media_type"])
