"""The form that changes a node's title and statements, with the events they cite beside it."""

from starlette.responses import Response

from memory_mcp.requests.refine_show import RefineShow
from memory_mcp.web.asking import Ask

#: Most tokens of the events that are shown.
_TOKENS = 6000


async def show_form(ask: Ask) -> Response:
    """Show the form of a node's text, with events to cite."""
    node = await ask.memory.ask(RefineShow(ask.path("node_id"), _TOKENS, **ask.scope_arguments))
    fields = {"node_id": node["node_id"], "title": node["title"]}
    for n, bullet in enumerate(node.get("bullets", ())):
        fields |= {f"text.{n}": bullet["text"], f"grips.{n}": " ".join(bullet["grip_ids"]), f"kind.{n}": bullet.get("kind", "")}
    return ask.page("refine.html", found=node, given=fields)
