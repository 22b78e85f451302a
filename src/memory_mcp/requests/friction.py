"""get_friction: errors that come again, commands that usually fail first, and instructions that the user repeats.

Change here: what counts as friction.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import EVERY_DAY, TimeWindow
from memory_mcp.model.ids import EventId, span_grip_id
from memory_mcp.model.tool_run import FailureTally, KeyKind, StoredRun
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import Argument, Flag, Range
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.run_statements import RunTeller, Statement, describe_call
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.storage.values import Scope
from memory_mcp.tree.outcomes.endings import find_ending
from memory_mcp.tree.toc.instructions import Instruction, group_repeated, list_instructions

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.storage.records import ToolRunStore

#: Days that hold anything, back from the last one, in which frictions are looked for.
DAYS = 30
#: Sessions from which something is a friction.
_SESSIONS = 3
#: Keys of failures that are looked at, runs that are read at once, and courses of an error of which one that ended is looked for.
_TALLIED, _RUNS, _COURSES = 24, 1000, 3
#: A person's messages that are read, the newest, and citations of an instruction.
_MESSAGES, _CITED = 3000, 5
#: Characters of the wording that is liked best: neither a fragment nor a speech.
_WORDING = 50
MOST = 20
_LIMIT = Range(MOST, most=MOST)


@dataclass(frozen=True, slots=True)
class GetFriction:
    """Request for what costs the user time again and again, `limit` of each kind."""

    limit: Annotated[int, Argument(range=_LIMIT, flag=Flag("N", f"of each kind (default {_LIMIT.default})"))] = _LIMIT.default
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Friction:
    """One thing that came again in several sessions, with its proof."""

    #: As it was last printed, called or said.
    text: str
    grip: str
    sessions: int
    #: Of how many sessions that called the command; 0 for others.
    of_sessions: int = 0
    #: Local time of the last time.
    when: str
    #: Else the scope's.
    project: str = ""
    #: Citations of an instruction, one a session, the last one first.
    grips: Sequence[str] = ()
    #: What ended an error last, or the form of a command that works; None if nothing did.
    remedy: Statement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrictionReport(Recalled):
    """Frictions of each kind, those of most sessions first."""

    errors: Sequence[Friction]
    commands: Sequence[Friction]
    instructions: Sequence[Friction]
    scope: str
    since: str = ""


@answers("get_friction", GetFriction)
def get_friction(app: "App", request: GetFriction, caller: Caller) -> FrictionReport:
    """Return what came again in three sessions or more of the last `DAYS` days that hold anything.

    Raises InvalidQuery for a limit out of range or an unknown project.
    """
    limit = _LIMIT.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    window = find_window(app, scoped.project)
    if window is None:
        return FrictionReport(errors=(), commands=(), instructions=(), scope=scoped.words)
    return FrictionReport(
        errors=list_errors(app, scoped.project, window, limit),
        commands=list_commands(app, scoped.project, window, limit),
        instructions=list_repeated(app, scoped.project, window, limit),
        scope=scoped.words,
        since=app.calendar.day_of(window.start_ms),
    )


def find_window(app: "App", project: str | None) -> TimeWindow | None:
    """Return the time of the last `DAYS` days that hold anything; None if none does."""
    days = app.storage.toc.list_days(project, *EVERY_DAY)[-DAYS:]
    return TimeWindow(app.calendar.midnight_of(dt.date.fromisoformat(days[0])), app.clock.now_ms() + 1) if days else None


def list_errors(app: "App", project: str | None, window: TimeWindow, limit: int) -> list[Friction]:
    """Return the errors of several sessions, each with what ended it last."""
    store = app.storage.tool_runs
    tallies = store.tally_failures(KeyKind.ERROR, project, window, _SESSIONS, _TALLIED)
    distinct = list(islice(_iter_distinct(_find_runs(store, KeyKind.ERROR, tallies, project, window)), limit))
    streams = {tally.value: list(dict.fromkeys(stored.stream for stored in failed))[:_COURSES] for tally, failed in distinct}
    by_stream = store.list_stream_runs({stream for several in streams.values() for stream in several})
    ends = {value: _find_end([by_stream[stream] for stream in several], value) for value, several in streams.items()}
    teller = RunTeller(app, project)
    teller.read_runs([*(failed[0] for _, failed in distinct), *filter(None, ends.values())])
    return [
        _make_friction(teller.tell_failure("seen", failed[0]), tally.failing, teller.tell_call("ended", end) if end else None)
        for tally, failed in distinct
        for end in (ends[tally.value],)
    ]


def _find_runs(
    store: "ToolRunStore", kind: KeyKind, tallies: Sequence[FailureTally], project: str | None, window: TimeWindow
) -> Iterator[tuple[FailureTally, list[StoredRun]]]:
    """Yield each key with its runs, newest first; of too many each key's newest, so that no key takes those of another."""
    runs = store.find_runs(kind, [tally.value for tally in tallies], project, _RUNS, window)
    for tally in tallies:
        if len(runs) < _RUNS:
            yield tally, [stored for stored in runs if tally.value in stored.run.hashes(kind)]
        else:
            yield tally, store.find_runs(kind, [tally.value], project, _RUNS, window)


def _iter_distinct(runs_of: Iterable[tuple[FailureTally, list[StoredRun]]]) -> Iterator[tuple[FailureTally, list[StoredRun]]]:
    """Yield errors with their runs, newest first; of several lines of one error only the first."""
    known_runs = set[StoredRun]()
    for tally, runs in runs_of:
        failed = [stored for stored in runs if stored.run.failed]
        if failed and 2 * len(known_runs.intersection(failed)) < len(failed):
            yield tally, failed
        known_runs.update(failed)


def _find_end(streams: Sequence[Sequence[StoredRun]], sign: int) -> StoredRun | None:
    """Return the change or call after which the error of the newest course that ended did not return."""
    for runs in streams:
        course = find_ending(runs, {sign})
        if course is not None and course.success is not None:
            return course.changes[0] if course.changes else course.success
    return None


def list_commands(app: "App", project: str | None, window: TimeWindow, limit: int) -> list[Friction]:
    """Return the commands whose first call of a session usually fails, each with another form of it that works."""
    store = app.storage.tool_runs
    tallies = store.tally_failures(KeyKind.COMMAND, project, window, _SESSIONS, _TALLIED)
    usual = [tally for tally in tallies if tally.failing_first >= _SESSIONS and 2 * tally.failing_first >= tally.sessions]
    runs_of = _find_runs(store, KeyKind.COMMAND, usual, project, window)
    pairs = [(tally, *pair) for tally, runs in runs_of if (pair := _pair_forms(runs)) is not None]
    teller = RunTeller(app, project)
    teller.read_runs(stored for _, failed, works in pairs for stored in (failed, works))
    by_call: dict[EventId, Friction] = {}
    for tally, failed, works in pairs:
        call = teller.call_of(failed)
        statement = teller.tell_failure("failed", failed, f"{describe_call(call)}: ")
        remedy = teller.tell_call("works", works)
        # Of a line with several programs one is enough.
        if call.metadata.get("command"):
            by_call.setdefault(call.event_id, _make_friction(statement, tally.failing_first, remedy, tally.sessions))
    return list(by_call.values())[:limit]


def _pair_forms(runs: Sequence[StoredRun]) -> tuple[StoredRun, StoredRun] | None:
    """Return the last failure of a program, and the last success of another form of it; None if there is none."""
    failed = next((stored for stored in runs if stored.run.failed), None)
    forms = failed.run.hashes(KeyKind.INVOCATION) if failed is not None else frozenset()
    works = (stored for stored in runs if not stored.run.failed and not forms & stored.run.hashes(KeyKind.INVOCATION))
    success = next(works, None)
    return (failed, success) if failed is not None and success is not None else None


def _make_friction(statement: Statement, sessions: int, remedy: Statement | None, of_sessions: int = 0) -> Friction:
    return Friction(
        text=statement.text,
        grip=statement.grip,
        sessions=sessions,
        of_sessions=of_sessions,
        when=statement.when,
        project=statement.project,
        remedy=remedy,
    )


def list_repeated(app: "App", project: str | None, window: TimeWindow, limit: int) -> list[Friction]:
    """Return the instructions that the user gave again in other words, with their citations."""
    newest = app.storage.events.search_words(Scope(project=project, window=window, role="user"), (), _MESSAGES)
    groups = group_repeated(list_instructions(newest[::-1]))
    return [_tell_repeated(app, project, group) for group in groups[:limit]]


def _tell_repeated(app: "App", project: str | None, group: Sequence[Instruction]) -> Friction:
    """Return an instruction in its most telling wording, the last one of equals."""
    by_session = {instruction.event.session_id: instruction for instruction in group}
    cited = sorted(by_session.values(), key=lambda instruction: instruction.event.order, reverse=True)
    best = max(
        group, key=lambda instruction: (instruction.binds, -abs(len(instruction.text) - _WORDING), instruction.event.order)
    )
    grips = [span_grip_id(instruction.event.event_id, instruction.start, instruction.end) for instruction in cited[:_CITED]]
    statement = RunTeller(app, project).make_statement(
        "asked",
        best.text,
        span_grip_id(best.event.event_id, best.start, best.end),
        cited[0].event.timestamp,
        best.event.project,
    )
    return replace(_make_friction(statement, len(by_session), None), grips=grips)
