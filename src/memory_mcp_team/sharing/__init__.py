"""Shares chosen projects with a space of a team's server, and takes in what others shared there.

Here are its requests, its job, and what the overview says of it; the rest is loaded when it is used.
"""

from collections.abc import Iterator

from memory_mcp.app import App
from memory_mcp.requests.overview import Outgoing
from memory_mcp.upkeep.jobs.base import Job, JobReport
from memory_mcp.upkeep.jobs.calls import ShouldStop, WaitingFunctionJob
from memory_mcp.upkeep.jobs.schedule import Every
from memory_mcp_team.sharing.files import FOLDER, ShareFolder

#: The module of each request.
SHARE_TO = SHARE_PROJECT = UNSHARE_PROJECT = SHARE_NOW = SHARE_STATUS = SHARE_OFF = "memory_mcp_team.sharing.requests"


def make_job(app: App) -> Job:
    """Return the job that exchanges events with a team's server."""

    def work(should_stop: ShouldStop) -> JobReport:
        if app.is_importing:
            return JobReport("an import is under way")
        if app.directory is None or not (app.directory / FOLDER).is_dir():
            return JobReport(_OFF)
        from memory_mcp_team.sharing.run import run_job

        return JobReport(run_job(app, should_stop) or _OFF)

    # Others see what was said within some minutes; a run that finds nothing asks two small questions. A server may be slow.
    about = "publish shared projects to a team's server, and take in what others published"
    return WaitingFunctionJob("share", about, Every(120), work)


_OFF = "off (memory-mcp share to URL)"


def iter_outgoing(app: App) -> Iterator[Outgoing]:
    """Yield the projects that are shared and the server they go to."""
    if app.directory is not None and (sharing := ShareFolder(app.directory).load_sharing()).url:
        projects = ", ".join(sharing.projects) or "none"
        yield Outgoing(what=f"events of shared projects ({projects})", where=sharing.url, setting="memory-mcp share status")
