"""The status of the memory and its process."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from memory_mcp.requests.clients import ListClients
from memory_mcp.requests.jobs import ListJobs
from memory_mcp.requests.limits import Detail
from memory_mcp.requests.overview import GetOverview
from memory_mcp.requests.status import GetStatus
from memory_mcp.web.asking import Ask


async def show_status(ask: Ask) -> Response:
    """Show the status, or for a script `part` jobs or now."""
    part = ask.argument("part")
    if ask.part and part == "jobs":
        return ask.page("part_jobs.html", jobs=await _jobs(ask))
    memory_status = await ask.memory.ask(GetStatus(Detail.FULL))
    process = await ask.memory.process()
    if ask.part and part == "now":
        return ask.page("part_status.html", found=memory_status, process=process)
    overview = await ask.memory.ask(GetOverview())
    programs = await ask.memory.ask(ListClients())
    jobs = await _jobs(ask)
    values = {"found": memory_status, "process": process, "overview": overview, "programs": programs, "jobs": jobs}
    return ask.page("status.html", **values, problems=_problems(memory_status, process, programs, jobs))


async def _jobs(ask: Ask) -> Sequence[Mapping[str, Any]]:
    jobs: Sequence[Mapping[str, Any]] = (await ask.memory.ask(ListJobs()))["jobs"]
    return jobs


def _problems(
    memory_status: Mapping[str, Any], process: Mapping[str, Any], programs: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]
) -> list[str]:
    layers = [entry for entry in memory_status["layers"] if entry.get("enabled") and not entry.get("healthy")]
    error = memory_status.get("lag", {}).get("error") or process.get("last_error")
    failed = [entry for entry in jobs if entry.get("last_result") and not entry["last_result"].startswith("ok")]
    return [
        *(f"{entry['name']}: {entry.get('reason') or 'does not work'}" for entry in layers),
        *([error] if error else ()),
        *(f"{entry['title']}: {problem}" for entry in programs.get("clients", ()) for problem in entry.get("problems", ())),
        *(f"{entry['name'].replace('_', ' ')}: {entry['last_result']}" for entry in failed),
    ]
