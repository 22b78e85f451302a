"""get_today: where each project was left off, and what each client recorded in the last 24 hours."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import EVERY_DAY, TimeWindow
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import PROJECTS, Argument, Flag
from memory_mcp.requests.notes import is_notes
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.requests.shapes import NAMES_SHOWN, NO_NAME, newest_first
from memory_mcp.storage.values import Activity, Scope, SessionInfo
from memory_mcp.tree.toc.statements import QuotedStatement, StretchView, stretch_results, stretch_rules, title_of, work_facts
from memory_mcp.tree.toc.told import latest_cuts, load_stretches

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Days that hold anything within which a project counts as recent.
_DAYS = 14
#: Segments of a project that are looked through, used, and read in full, as for a briefing.
_CUTS, _STRETCHES, _IN_FULL = 40, 6, 3
#: Statements of each kind.
_MOST = 4
_DAY_MS = 86_400_000
#: Sessions of the last 24 hours that are counted.
_SESSIONS = 10_000


@dataclass(frozen=True, slots=True)
class GetToday:
    """Request for `limit` projects, the latest first."""

    limit: Annotated[int, Argument(range=PROJECTS, flag=Flag("N", f"projects to show (default {PROJECTS.default})"))] = (
        PROJECTS.default
    )
    project: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement, and its grip."""

    text: str
    #: The quotation that proves it.
    grip: str = ""
    #: Who said it: user, agent or note.
    who: str = ""
    #: As a briefing labels it: decision, fixed, not finished, ...
    label: str = ""
    #: The grip of a later statement that says otherwise.
    superseded_by: str = ""
    #: What the repository says since of the code that it is about.
    since: str = ""
    #: The segment that holds it.
    node_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOff:
    """The newest segment of a project that holds statements."""

    node_id: str
    title: str
    start: str
    end: str
    agent: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectToday:
    """One project: where it was left off, and what to know to go on."""

    project: str
    #: Local time of its newest event.
    last: str
    left_off: LeftOff | None = None
    asked: Statement | None = None
    #: What came of it, the last first.
    results: Sequence[Statement] = ()
    decisions: Sequence[Statement] = ()
    #: What is open, apart from the next step.
    open: Sequence[Statement] = ()
    #: None where the last session left nothing open.
    next_step: Statement | None = None
    #: Commits, tests, branch and pull request, in words.
    facts: str = ""
    files: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientToday:
    """What one agent recorded in the last 24 hours."""

    agent: str
    events: int
    sessions: int
    #: Local time of its newest event.
    last: str
    projects: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Today(Recalled):
    """Recent projects and clients, the latest first."""

    now: str
    timezone: str
    scope: str
    projects: Sequence[ProjectToday]
    #: Counted by the time of the events themselves, not by when they were imported.
    clients: Sequence[ClientToday]


@answers("get_today", GetToday)
def get_today(app: "App", request: GetToday, caller: Caller) -> Today:
    """Return where each recent project was left off, latest first.

    Also what each agent recorded in the last 24 hours. At most `limit` projects with an event within the last `_DAYS` days that
    hold anything. Raises InvalidQuery for a limit out of range or an unknown project.
    """
    limit = PROJECTS.check(request.limit)
    scoped = scope_of(app, request.project, request.scope, caller)
    now = app.clock.now_ms()
    window = TimeWindow(now - _DAY_MS, now + 1)
    sessions = app.storage.events.list_sessions(Scope(project=scoped.project, window=window), _SESSIONS)
    by_agent: dict[str, list[SessionInfo]] = {}
    for entry in sessions:
        by_agent.setdefault(entry.agent, []).append(entry)
    clients = []
    for agent, several in by_agent.items():
        projects = dict.fromkeys(entry.project for entry in several if entry.project)
        clients.append(
            ClientToday(
                agent=agent or NO_NAME,
                events=sum(entry.events for entry in several),
                sessions=len({entry.session_id for entry in several}),
                last=app.calendar.format_iso(max(entry.end_ms for entry in several)),
                projects=list(projects)[:NAMES_SHOWN],
            )
        )
    days = app.storage.toc.list_days(scoped.project, *EVERY_DAY)[-_DAYS:]
    activities = [
        entry for entry in app.storage.projects.list_projects() if scoped.project is None or entry.name == scoped.project
    ]
    recent = newest_first(entry for entry in activities if days and app.calendar.day_of(entry.end_ms) >= days[0])
    # What belongs to no project comes last: often it was dated by its import.
    recent.sort(key=lambda entry: not entry.name)
    return Today(
        now=app.calendar.format_iso(now),
        timezone=app.calendar.zone_name,
        scope=scoped.words,
        projects=[_project(app, entry, caller.directory) for entry in recent[:limit]],
        clients=sorted(clients, key=lambda entry: entry.last, reverse=True),
    )


def _project(app: "App", activity: Activity, directory: str) -> ProjectToday:
    loaded = load_stretches(app.storage, latest_cuts(app.storage, activity.name, _CUTS), _STRETCHES, _IN_FULL, app.work_reader)
    stretches = app.later_changes.mark_stretches(loaded, directory)
    name, last = activity.name or NO_NAME, app.calendar.format_iso(activity.end_ms)
    decisions = _first(_list_statements(stretches, stretch_rules))
    # Notes and corrections are no work that was left off.
    sessions = [entry for entry in stretches if not is_notes(entry.session)]
    if not sessions:
        return ProjectToday(project=name, last=last, decisions=decisions)
    newest = sessions[0]
    ends = _list_statements(sessions, lambda entry: entry.open_ends)
    # What an earlier session left open is no next step.
    step = ends[0] if newest.open_ends else None
    return ProjectToday(
        project=name,
        last=last,
        left_off=LeftOff(
            node_id=newest.node_id,
            title=title_of(newest.title),
            start=app.calendar.format_iso(newest.at_ms),
            end=app.calendar.format_iso(newest.end_ms),
            agent=newest.agent,
            session_id=newest.session,
        ),
        asked=None if newest.first_request is None else _statement(newest, newest.first_request, ""),
        results=_first(_list_statements([entry for entry in sessions if entry.session == newest.session], stretch_results)),
        decisions=decisions,
        open=_first(entry for entry in ends if step is None or entry.grip != step.grip),
        next_step=step,
        facts=work_facts(newest.work),
        files=newest.work.files,
    )


def _list_statements(
    stretches: Iterable[StretchView], find: Callable[[StretchView], Iterable[tuple[QuotedStatement, str]]]
) -> list[Statement]:
    return [_statement(stretch, quoted, label) for stretch in stretches for quoted, label in find(stretch)]


def _first(statements: Iterable[Statement]) -> list[Statement]:
    by_text: dict[str, Statement] = {}
    for statement in statements:
        if len(by_text) < _MOST:
            by_text.setdefault(statement.text.casefold(), statement)
    return list(by_text.values())


def _statement(of: StretchView, quoted: QuotedStatement, label: str) -> Statement:
    return Statement(
        text=quoted.text,
        grip=quoted.grip_id,
        who=quoted.speaker,
        label=label,
        superseded_by=quoted.contradicted_by,
        since=quoted.since,
        node_id=of.node_id,
    )
