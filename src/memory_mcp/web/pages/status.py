"""How the memory and its process are."""

from starlette.responses import Response

from memory_mcp.requests.limits import Detail
from memory_mcp.requests.status import GetStatus
from memory_mcp.web.asking import Ask


async def status(ask: Ask) -> Response:
    """Show layers, store, clients and queues."""
    found = await ask.memory.ask(GetStatus(Detail.FULL))
    return ask.page("status.html", found=found, process=await ask.memory.process())
