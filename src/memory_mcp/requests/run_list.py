"""list_runs: the calls that met one error, or that changed one file, newest first."""

from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.file_history import list_changes
from memory_mcp.requests.limits import Argument, Range
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.run_history import find_error_runs
from memory_mcp.requests.run_statements import RunTeller
from memory_mcp.requests.scope import Caller, scope_of, visible_evidence

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Characters of an error that are taken, and calls that are counted.
_ERROR, _COUNTED = 20_000, 1000
_LIMIT = Range(50, most=200)


@dataclass(frozen=True, slots=True)
class ListRuns:
    """Request for the calls that met an error, given as a text or as the citation of one, or that changed a file."""

    error: str = ""
    grip: str = ""
    file: str = ""
    limit: Annotated[int, Argument(range=_LIMIT)] = _LIMIT.default
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One call with its outcome."""

    #: What was called, and of a failure how it failed.
    text: str
    failed: bool
    grip: str
    #: Local time.
    when: str
    session_id: str
    #: Else the scope's.
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows(Recalled):
    """Calls, newest first, and how many there are in all, in how many sessions: of the newest `_COUNTED` that may be meant."""

    #: The words of the error that was cited.
    error: str = ""
    runs: tuple[RunRow, ...]
    total: int
    sessions: int
    scope: str


@answers("list_runs", ListRuns)
def list_runs(app: "App", request: ListRuns, caller: Caller) -> RunRows:
    """Return an error's or file's calls; InvalidQuery without either, NotFound if unknown."""
    limit = _LIMIT.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    teller = RunTeller(app, scoped.project)
    error = request.error
    if request.grip:
        error = visible_evidence(app, caller, request.grip).excerpt[0].text
    if error.strip():
        runs = find_error_runs(app, error[-_ERROR:], scoped.project, _COUNTED)
    elif request.file.strip():
        runs = list_changes(app, teller, [request.file.strip()], scoped.project, _COUNTED)[0]
    else:
        raise InvalidQuery("neither an error nor a file was given")
    teller.read_runs(runs[:limit])
    rows = []
    for stored in runs[:limit]:
        told = teller.tell_call("called", stored)
        how = f": {teller.tell_failure('failed', stored).text}" if stored.run.failed else ""
        row = RunRow(
            text=f"{told.text}{how}",
            failed=stored.run.failed,
            grip=told.grip,
            when=told.when,
            session_id=stored.session_id,
            project=told.project,
        )
        rows.append(row)
    return RunRows(
        error=error if request.grip else "",
        runs=tuple(rows),
        total=len(runs),
        sessions=len({stored.session_id for stored in runs}),
        scope=scoped.words,
    )
