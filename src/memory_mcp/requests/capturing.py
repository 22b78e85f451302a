"""Pauses and resumes recording: what is said meanwhile is never recorded, by whichever door and whenever it comes."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base import pauses
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, ReadOnly
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import Argument, Flag
from memory_mcp.requests.scope import Caller, project_to_store
from memory_mcp.storage.lock import is_read_only

if TYPE_CHECKING:
    from memory_mcp.app import App

_DURATION = re.compile(r"(\d{1,4})\s*([mhd])")
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_Paused = Annotated[str, Argument("Default: the caller's; * for all", longest=500)]


@dataclass(frozen=True, slots=True)
class PauseCapture:
    """Record nothing of a project from now on, at the user's wish. What is said meanwhile is never recorded."""

    project: _Paused = ""
    duration: Annotated[
        str,
        Argument(
            "As 30m, 2h or 1d; default: until resumed",
            longest=20,
            flag=Flag("TIME", "as 30m, 2h or 1d (default: until resumed)", name="--for"),
        ),
    ] = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class ResumeCapture:
    """Record a paused project again, at the user's wish; what was said meanwhile stays unrecorded."""

    project: _Paused = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class ListPaused:
    """Request for every pause in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedNow:
    """Paused projects ("*": all) with the local time at which each pause ends; "" until it is resumed."""

    paused: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capturing:
    """The project that was meant, and the pauses in force now."""

    project: str
    paused: bool
    #: Local time at which the pause ends by itself.
    until: str = ""
    #: Every project that is paused now, as far as the caller may know; "*" stands for all.
    all_paused: Sequence[str] = ()


@answers("pause_capture", PauseCapture, "Pause recording", Effect.SETS)
def pause_capture(app: "App", request: PauseCapture, caller: Caller) -> Capturing:
    """Pause the recording of a project; return what is paused.

    A running pause of the same project is ended and a new one follows without a gap, so its end changes.
    Other names of the project are paused too. Writes the file of pauses and an entry of the audit log. Raises
    InvalidQuery for an invalid duration, when no project is known, when its name holds a secret, or for a
    caller bound to another project; ReadOnly where nothing can be stored.
    """
    project, directory = _resolve_project(app, request.project, caller), _get_directory(app)
    # Hooks compare names without reading the rules for secrets, so it could only be kept as it is.
    if app.gate.clean_name(project) != project:
        raise InvalidQuery("the project's name holds a secret, which is not written down", "Pause all projects: project *.")
    now, stored_pauses = app.clock.now_ms(), _read_pauses(directory)
    lasts, duration = 0, request.duration.strip().lower()
    if duration:
        match = _DURATION.fullmatch(duration)
        if not match or not int(match[1]):
            raise InvalidQuery(f"{request.duration!r} is no duration", "Say it as 30m, 2h or 1d.")
        lasts = int(match[1]) * _UNITS_MS[match[2]]
    unchanged_pauses = [p for p in stored_pauses if not (p.end is None or p.end > now) or p.projects[0] != project]
    ended_pauses = [p._replace(end=now) for p in stored_pauses if p not in unchanged_pauses]
    # A pause that is given another end goes on without a gap.
    names = app.storage.projects.names
    other_names = {alias.old for alias in names.aliases if names.resolve_alias(alias.old) == project} - {project}
    paused = pauses.Pause((project, *sorted(other_names)), now, now + lasts if lasts else None)
    pauses.write(directory, [*unchanged_pauses, *ended_pauses, paused])
    app.storage.audit.record_entry(AuditEntry("pause", now, request.by, project))
    return _make_response(app, directory, project, caller)


@answers("resume_capture", ResumeCapture, "Resume recording", Effect.SETS)
def resume_capture(app: "App", request: ResumeCapture, caller: Caller) -> Capturing:
    """End a project's pauses ("*": all); return what is still paused.

    What was said meanwhile stays unrecorded. Where nothing is paused, nothing is written. Raises InvalidQuery
    when the project is paused only because all are, or none is known; ReadOnly where nothing can be stored.
    """
    project, directory = _resolve_project(app, request.project, caller), _get_directory(app)
    now, stored_pauses = app.clock.now_ms(), _read_pauses(directory)
    ended = [p for p in stored_pauses if p.covers(project, now) and project in (pauses.ALL, *p.projects)]
    if project == pauses.ALL:
        ended = [p for p in stored_pauses if p.end is None or p.end > now]
    if not ended and any(p.covers(pauses.ALL, now) for p in stored_pauses):
        raise InvalidQuery(
            f"recording of {'all projects' if project == pauses.ALL else project} is not paused by itself",
            "All projects are paused; say project * to resume them.",
        )
    if not ended:
        return _make_response(app, directory, project, caller)
    pauses.write(directory, [p._replace(end=now) if p in ended else p for p in stored_pauses])
    app.storage.audit.record_entry(AuditEntry("resume", now, request.by, project))
    return _make_response(app, directory, project, caller)


@answers("list_paused", ListPaused)
def list_paused(app: "App", _: ListPaused, caller: Caller) -> PausedNow:
    """Return the pauses in force, as visible; InvalidQuery for a damaged file."""
    return PausedNow(paused={p: app.calendar.format_iso(end) if end else "" for p, end in sorted(in_force(app, caller).items())})


def in_force(app: "App", caller: Caller) -> dict[str, int | None]:
    """Return the paused projects that the caller may see.

    Each has the end of its pause (UTC ms, None: open). "*" stands for all projects and is shown to every caller; empty for a
    memory without a directory. Raises InvalidQuery for a damaged file of pauses.
    """
    if app.directory is None:
        return {}
    now = app.clock.now_ms()
    paused = {p.projects[0]: p.end for p in _read_pauses(str(app.directory)) if p.begin <= now and (p.end is None or now < p.end)}
    return {project: end for project, end in paused.items() if project == pauses.ALL or caller.sees(app, project)}


def _make_response(app: "App", directory: str, project: str, caller: Caller) -> Capturing:
    now = in_force(app, caller)
    end = now.get(project)
    is_paused = any(p.covers(project, app.clock.now_ms()) for p in _read_pauses(directory))
    return Capturing(project=project, paused=is_paused, until=app.calendar.format_iso(end) if end else "", all_paused=sorted(now))


def _get_directory(app: "App") -> str:
    """Return the data directory; InvalidQuery without one, ReadOnly if unwritable."""
    if app.directory is None:
        raise InvalidQuery("a memory without a directory records nothing that could be paused")
    if is_read_only(app.directory):
        raise ReadOnly(f"the data directory {app.directory} is read-only", ReadOnly.HINT)
    return str(app.directory)


def _read_pauses(directory: str) -> list[pauses.Pause]:
    """Return all stored pauses, past ones too; InvalidQuery for damage."""
    try:
        return pauses.read(directory)
    except ValueError as error:
        raise InvalidQuery(str(error), f"Move it out of {directory} and pause again.") from None


def _resolve_project(app: "App", name: str, caller: Caller) -> str:
    """Return the shown name of a request's project; "*" for all.

    Without a name it is the caller's. Raises InvalidQuery where no project is known, for "*" from a caller bound to one
    project, and for any other project than that one.
    """
    if name == pauses.ALL:
        caller.refuse_all(app, "pausing everything")
        return name
    project = app.storage.projects.names.resolve_alias(project_to_store(app, name, caller))
    if not project:
        raise InvalidQuery("no project is known here", "Name one, or * for all projects.")
    return project
