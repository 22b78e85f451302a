"""The projects: what was recorded of each, its other names, and whether it is recorded."""

from starlette.responses import Response

from memory_mcp.requests.capturing import ListPaused
from memory_mcp.requests.excluding import ListExcluded
from memory_mcp.requests.projects import ListProjects
from memory_mcp.web.asking import Ask

#: Projects of a page.
_PROJECTS = 50


async def show_projects(ask: Ask) -> Response:
    """Show 50 projects, and what is paused and excluded."""
    page = await ask.memory.ask(ListProjects(_PROJECTS, ask.argument("cursor")))
    paused = (await ask.memory.ask(ListPaused()))["paused"]
    excluded = await ask.memory.ask(ListExcluded())
    return ask.page("projects.html", found=page, paused=paused, excluded=excluded)
