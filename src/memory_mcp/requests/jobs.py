"""list_jobs, run_job, pause_job and resume_job: the jobs that run by themselves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.requests.entry import answers
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.scope import Caller

if TYPE_CHECKING:
    from memory_mcp.app import App


@dataclass(frozen=True, slots=True)
class ListJobs:
    """Request for every job."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Request to run the job `name` (as list_jobs shows it) at once, paused or not."""

    name: str


@dataclass(frozen=True, slots=True)
class PauseJob:
    """Request to pause the job `name` (as list_jobs shows it) until it is resumed."""

    name: str


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """Request to resume the job `name` (as list_jobs shows it); what was due meanwhile runs once."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job; times are local, None where there is none."""

    name: str
    help: str
    schedule: str
    paused: bool
    running: bool
    last_started: str | None
    last_seconds: float | None
    last_result: str
    next_run: str | None
    runs: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """Every job, in the order of the table."""

    jobs: Sequence[Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """What a run came to; one that fails is an error instead."""

    name: str
    ok: bool
    report: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPaused:
    """Whether a job is paused now; local time of its next run where it is not."""

    name: str
    paused: bool
    next_run: str = ""


@answers("list_jobs", ListJobs)
def list_jobs(app: "App", _: ListJobs, caller: Caller) -> JobList:
    """Return every job with its times; InvalidQuery for a bound caller."""
    caller.refuse_all(app, "the list of jobs")
    return JobList(
        jobs=[
            copy_fields(
                Job, status, last_started=_format_time(app, status.last_started), next_run=_format_time(app, status.next_run)
            )
            for status in app.scheduler.statuses()
        ]
    )


@answers("run_job", RunJob)
def run_job(app: "App", request: RunJob, caller: Caller) -> JobRun:
    """Run a job now, in this call, and return its report.

    Raises InvalidQuery for an unknown name or a caller bound to one project, and what the job raises.
    """
    caller.refuse_all(app, "running a job")
    report = app.scheduler.run_now(request.name)
    return JobRun(name=request.name, ok=True, report=report.words, counts=dict(report.counts))


@answers("pause_job", PauseJob)
def pause_job(app: "App", request: PauseJob, caller: Caller) -> JobPaused:
    """Pause a job, not its run; InvalidQuery if unknown, or a bound caller."""
    caller.refuse_all(app, "pausing a job")
    app.scheduler.pause(request.name)
    return _describe_pause(app, request.name)


@answers("resume_job", ResumeJob)
def resume_job(app: "App", request: ResumeJob, caller: Caller) -> JobPaused:
    """Let a paused job run again; InvalidQuery if unknown, or a bound caller."""
    caller.refuse_all(app, "resuming a job")
    app.scheduler.resume(request.name)
    return _describe_pause(app, request.name)


def _describe_pause(app: "App", name: str) -> JobPaused:
    [status] = [status for status in app.scheduler.statuses() if status.name == name]
    return JobPaused(name=name, paused=status.paused, next_run=_format_time(app, status.next_run) or "")


def _format_time(app: "App", ms: int | None) -> str | None:
    return None if ms is None else app.calendar.format_iso(ms)
