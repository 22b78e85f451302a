"""The status of the memory and its process."""

from starlette.responses import Response

from memory_mcp.requests.clients import ListClients
from memory_mcp.requests.jobs import ListJobs
from memory_mcp.requests.limits import Detail
from memory_mcp.requests.overview import GetOverview
from memory_mcp.requests.status import GetStatus
from memory_mcp.web.asking import Ask


async def status(ask: Ask) -> Response:
    """Show layers, store, clients, queues, jobs, and what leaves the machine; for a script only `part` jobs or now."""
    part = ask.given("part")
    if ask.part and part == "jobs":
        return ask.page("part_jobs.html", jobs=await _jobs(ask))
    found = await ask.memory.ask(GetStatus(Detail.FULL))
    process = await ask.memory.process()
    if ask.part and part == "now":
        return ask.page("part_status.html", found=found, process=process)
    overview = await ask.memory.ask(GetOverview())
    programs = await ask.memory.ask(ListClients())
    return ask.page("status.html", found=found, process=process, overview=overview, programs=programs, jobs=await _jobs(ask))


async def _jobs(ask: Ask) -> object:
    """Return the list `jobs` of the response to ListJobs: jobs of the background process; errors are passed on."""
    return (await ask.memory.ask(ListJobs()))["jobs"]
