"""The status of the memory, its projects, what was done to it, and the forms to forget."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from memory_mcp.base.errors import NotFound
from memory_mcp.requests.capturing import ListPaused
from memory_mcp.requests.clients import ListClients
from memory_mcp.requests.correct import Audit
from memory_mcp.requests.excluding import ListExcluded
from memory_mcp.requests.jobs import ListJobs
from memory_mcp.requests.limits import Detail
from memory_mcp.requests.overview import GetOverview
from memory_mcp.requests.projects import ListProjects
from memory_mcp.requests.status import GetStatus
from memory_mcp.web.asking import PageRequest

#: Projects of a page.
_PROJECTS = 50
#: Acts of a page, and most of it.
_ACTS, _MOST = 100, 1000
#: Fields that an address may fill in; a value never is in one.
_FIELDS = ("event", "session", "of_project", "since", "until", "topic")


async def show_status(ask: PageRequest) -> Response:
    """Show the status, or for a script `part` jobs or now."""
    part = ask.argument("part")
    if ask.part and part == "jobs":
        return ask.render_template("part_jobs.html", jobs=await _jobs(ask))
    memory_status = await ask.memory.ask(GetStatus(Detail.FULL))
    process = await ask.memory.process()
    if ask.part and part == "now":
        return ask.render_template("part_status.html", found=memory_status, process=process)
    overview = await ask.memory.ask(GetOverview())
    programs = await ask.memory.ask(ListClients())
    jobs = await _jobs(ask)
    values = {"found": memory_status, "process": process, "overview": overview, "programs": programs, "jobs": jobs}
    return ask.render_template("status.html", **values, problems=_problems(memory_status, process, programs, jobs))


async def _jobs(ask: PageRequest) -> Sequence[Mapping[str, Any]]:
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


async def show_projects(ask: PageRequest) -> Response:
    """Show 50 projects, and what is paused and excluded."""
    page = await ask.memory.ask(ListProjects(_PROJECTS, ask.argument("cursor")))
    paused = (await ask.memory.ask(ListPaused()))["paused"]
    excluded = await ask.memory.ask(ListExcluded())
    return ask.render_template("projects.html", found=page, paused=paused, excluded=excluded)


async def show_audit(ask: PageRequest) -> Response:
    """Show the acts upon the memory, newest first.

    100, or the address's `limit`, at most 1000; InvalidQuery for no whole number.
    """
    limit = min(ask.int_argument("limit", _ACTS), _MOST)
    response = await ask.memory.ask(Audit(limit))
    return ask.render_template("audit.html", found=response, limit=limit, most=_MOST)


async def show_forget(ask: PageRequest) -> Response:
    """Show the forms and what this visit found to tick.

    Filled in from the address, but for the value, which none may contain.
    """
    return ask.render_template("forget.html", given={name: ask.argument(name) for name in _FIELDS}, found=ask.visit.to_forget)


async def show_pending(ask: PageRequest) -> Response:
    """Show a request to forget: preview, seconds left, or result."""
    later = ask.visit.later
    request = later.find_act(ask.visit.name, ask.path_argument("id"))
    if request is None:
        raise NotFound("this was not started here, or too long ago", "What was forgotten is in the list of acts.")
    return ask.render_page("pending", pending=request, left=int(later.left_s(request)))
