"""The time tree: a node with its statements, its children, and the way up."""

from starlette.responses import Response

from memory_mcp.requests.nodes import Browse
from memory_mcp.web.asking import Ask

#: Children of a page.
_CHILDREN = 100


async def root(ask: Ask) -> Response:
    """Show the years."""
    return await _shown(ask, "")


async def node(ask: Ask) -> Response:
    """Show one node."""
    return await _shown(ask, ask.path("node_id"))


async def _shown(ask: Ask, node_id: str) -> Response:
    request = Browse(node_id, _CHILDREN, ask.given("cursor"), ask.given("project"), "" if ask.given("project") else "all")
    return ask.page("tree.html", found=await ask.memory.ask(request))
