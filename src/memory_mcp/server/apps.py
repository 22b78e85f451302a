"""Pages for clients that show them beside an answer (extension io.modelcontextprotocol/ui): the timeline, and the evidence.

Invariants
1. A page is one HTML document without a request to anybody; what it shows comes from its host, and is shown as text.
2. A client that does not declare the extension is told of the pages by `_meta` of three tools, and nowhere else.

Change here: a page of MCP Apps, or add one.
"""

from functools import cache, partial
from importlib.resources import files

from mcp.server.apps import APP_MIME_TYPE, client_supports_apps
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resources import FunctionResource

from memory_mcp.requests.entry import EVIDENCE_PAGE, TIMELINE_PAGE

#: The pages by their addresses, with their scripts: name, title and description.
_PAGES = {
    TIMELINE_PAGE: ("timeline", "Timeline", "Pages of the time tree to walk through, with the quotations that prove them"),
    EVIDENCE_PAGE: ("evidence", "Evidence", "What was found, and each quotation in its conversation"),
}
#: No domain is needed by any page.
_META = {"ui": {"csp": {}, "prefersBorder": True}}


def page_meta(uri: str) -> dict[str, object]:
    """Return the `_meta` that names the page of a tool's answers."""
    return {"ui": {"resourceUri": uri}}


def add_apps(server: MCPServer) -> None:
    """Register the two pages (timeline, evidence) as resources of the server."""
    for uri, (name, title, description) in _PAGES.items():
        resource = FunctionResource(
            uri=uri,
            name=name,
            title=title,
            description=description,
            mime_type=APP_MIME_TYPE,
            meta=_META,
            fn=partial(page, name),
        )
        server.add_resource(resource)


async def hide_pages(ctx: ServerRequestContext, call_next: CallNext) -> HandlerResult:
    """Leave the pages out of lists for clients that show none."""
    response = await call_next(ctx)
    if ctx.method != "resources/list" or not isinstance(response, dict) or client_supports_apps(ctx):
        return response
    return {**response, "resources": [resource for resource in response["resources"] if resource["uri"] not in _PAGES]}


@cache
def page(name: str) -> str:
    """Return the page `name` as one HTML document.

    It holds its style and scripts; `name` is timeline or evidence. It is read from the package once and kept. Raises
    FileNotFoundError for another name.
    """
    views = files("memory_mcp.server") / "views"
    style, bridge, script = ((views / f).read_text(encoding="utf-8") for f in ("view.css", "view.js", f"{name}.js"))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Memory: {name}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        '<main id="view" aria-live="polite"><p class="soft">Waiting for the answer…</p></main>\n'
        f"<script>\n{bridge}{script}</script>\n</body>\n</html>\n"
    )
