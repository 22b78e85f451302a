"""Lists projects and agents, and records that two projects are one or that one is two; all of it can be taken back."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.project import GUESS, PERSON, REFUSED, Alias, Split
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import PAGE, Argument, Flag
from memory_mcp.requests.response import offset_cursor, offset_of
from memory_mcp.requests.scope import Caller, known_project
from memory_mcp.requests.shapes import NO_NAME, newest_first
from memory_mcp.storage.values import Activity, Scope

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Agents that one project names, and projects that one agent names.
_NAMED = 20
#: Sessions of one agent that are counted where a caller is bound to one project.
_SESSIONS = 100_000


_Name = Annotated[str, Argument("A project as list_projects shows it, or its last parts", longest=500)]


@dataclass(frozen=True, slots=True)
class ListProjects:
    """Projects with their activity and other names, the latest first."""

    limit: Annotated[int, Argument(range=PAGE, flag=Flag("N", f"projects to show (default {PAGE.default})"))] = PAGE.default
    cursor: arguments.NextCursor = ""


@dataclass(frozen=True, slots=True)
class ListAgents:
    """Agents with their activity, the latest first."""


@dataclass(frozen=True, slots=True)
class AliasProject:
    """Show all of a project, stored and to come, under another's name. Ask the user first; undo_project takes it back."""

    project: _Name
    same_as: _Name
    by: str = ""


@dataclass(frozen=True, slots=True)
class SplitProject:
    """Make sessions of a project one of their own. Ask the user first; undo_project takes it back."""

    project: _Name
    folder: Annotated[str, Argument("Sessions that began there or below", longest=1000)] = ""
    sessions: Annotated[tuple[str, ...], Argument("Session ids", longest=200)] = ()
    #: Without a folder it is the project's name with the first session's id.
    name: Annotated[str, Argument("Default: the folder", longest=500)] = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class UndoProject:
    """Take back an alias, a guess or a split, by the name that it was made for."""

    project: _Name
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherName:
    """A name that a project was recorded with, and who says that it is this project's: person or guess."""

    name: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInfo:
    """One project and what is stored of it; times are local."""

    project: str
    events: int
    sessions: int
    first: str
    last: str
    agents: Sequence[str] = ()
    aliases: Sequence[OtherName] = ()
    #: The project that it was split from.
    split_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectList:
    """A page, and how many there are."""

    projects: Sequence[ProjectInfo]
    total: int
    next_cursor: str = ""
    #: The caller's own, as it is shown.
    yours: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInfo:
    """One agent and what is stored of it; times are local."""

    agent: str
    events: int
    sessions: int
    first: str
    last: str
    projects: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentList:
    """Every agent."""

    agents: Sequence[AgentInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChanged:
    """What holds now of the project that was named, and how to take that back."""

    project: str
    shown_as: str
    sessions: int
    undo: str = ""


@answers("list_projects", ListProjects, "Projects")
def list_projects(app: "App", request: ListProjects, caller: Caller) -> ProjectList:
    """Return a page of projects, the newest event first.

    Only those that the caller may see. Raises InvalidQuery for a limit out of range or a cursor of another question.
    """
    limit = PAGE.check(request.limit)
    offset = offset_of(request.cursor, "list_projects")
    visible = [activity for activity in newest_first(app.storage.projects.list_projects()) if caller.sees(app, activity.name)]
    names = app.storage.projects.names
    split_from = {names.resolve_alias(s.new): names.resolve_alias(s.project) for s in names.splits}
    page = [
        ProjectInfo(
            project=activity.name or NO_NAME,
            events=activity.events,
            sessions=activity.sessions,
            first=app.calendar.format_iso(activity.start_ms),
            last=app.calendar.format_iso(activity.end_ms),
            agents=activity.counterparts[:_NAMED],
            aliases=[OtherName(name=a.old, by=a.author) for a in names.aliases_of(activity.name)],
            split_from=split_from.get(activity.name, ""),
        )
        for activity in visible[offset : offset + limit]
    ]
    reached = offset + len(page)
    further = offset_cursor(reached, "list_projects") if page and reached < len(visible) else ""
    return ProjectList(projects=page, total=len(visible), next_cursor=further, yours=names.resolve_alias(caller.project))


@answers("list_agents", ListAgents, "Agents")
def list_agents(app: "App", _: ListAgents, caller: Caller) -> AgentList:
    """Return the agents, newest event first.

    A bound caller gets its project's agents with what they did there.
    """
    bound, activities = caller.bound(app), list(app.storage.projects.list_agents())
    if bound is not None:
        everybody, activities = activities, list[Activity]()
        for activity in everybody:
            scope = Scope(project=bound, agent=activity.name)
            if bound in activity.counterparts and (sessions := app.storage.events.list_sessions(scope, _SESSIONS)):
                start, end = min(s.start_ms for s in sessions), max(s.end_ms for s in sessions)
                activities.append(Activity(activity.name, sum(s.events for s in sessions), len(sessions), start, end, (bound,)))
    agents = [
        AgentInfo(
            agent=activity.name or NO_NAME,
            events=activity.events,
            sessions=activity.sessions,
            first=app.calendar.format_iso(activity.start_ms),
            last=app.calendar.format_iso(activity.end_ms),
            projects=activity.counterparts[:_NAMED],
        )
        for activity in newest_first(activities)
    ]
    return AgentList(agents=agents)


@answers("alias_project", AliasProject, "Two projects are one", Effect.SETS)
def alias_project(app: "App", request: AliasProject, caller: Caller) -> ProjectChanged:
    """Show a project under another's name; return what holds now.

    The tree is filed again; a repeat changes nothing. Raises InvalidQuery when one of them is unknown or ambiguous, they are
    the same, or the second is shown under the first's name, and for a caller bound to one project.
    """
    caller.refuse_all(app, "an alias")
    names = app.storage.projects.names
    # A project that no event is shown under any more, because it is an alias, can be named, too.
    matching_names = _match_names(app.storage.projects.list_recorded(), request.project)
    old = matching_names[0] if len(matching_names) == 1 else known_project(app, request.project)
    new = known_project(app, request.same_as)
    if names.resolve_alias(old) == new and old != new:
        return _as_it_is(app, old, undo=old)
    if names.resolve_alias(new) == old or old == new:
        raise InvalidQuery(f"{new} is shown as {old}", f"Take that back first: memory-mcp projects undo {new}")
    alias = Alias(old, new, PERSON, app.clock.now_ms())
    with _refiling(app):
        app.storage.projects.add_alias(alias)
    return _recorded_as(app, "alias", request.by, _as_it_is(app, old, undo=old))


@answers("split_project", SplitProject, "One project is two", Effect.SETS)
def split_project(app: "App", request: SplitProject, caller: Caller) -> ProjectChanged:
    """Show some sessions of a project as a project.

    The tree is filed again; returns what holds now; a repeat changes nothing. Raises InvalidQuery when the project is unknown,
    neither or both of folder and sessions are given, or the name is taken, and for a bound caller; NotFound, with the rule
    taken back, when none of its sessions is meant.
    """
    caller.refuse_all(app, "a split")
    project = known_project(app, request.project)
    if bool(request.folder) == bool(request.sessions):
        raise InvalidQuery("say what is to be split off", "Give a folder or sessions, not both.")
    folder = request.folder.rstrip("\\/") if request.folder else ""
    new = app.gate.clean_name(request.name) or folder or f"{project}#{request.sessions[0][:8]}"
    at_ms, sessions = app.clock.now_ms(), request.sessions or ("",)
    splits = [Split(project, session, folder, new, at_ms) for session in sessions]
    if {replace(s, at_ms=at_ms) for s in app.storage.projects.names.splits}.issuperset(splits):
        return _as_it_is(app, new, undo=new)
    if new == project or _activity(app, new):
        raise InvalidQuery(
            f"there is a project {new} already",
            "Give the part another name, or make both one afterwards: memory-mcp projects alias A B.",
        )
    with _refiling(app):
        app.storage.projects.add_splits(splits)
    changed = _as_it_is(app, new, undo=new)
    if not changed.sessions:
        with _refiling(app):
            app.storage.projects.drop_splits(new)
        what = f"began in {folder}" if folder else f"is called {', '.join(request.sessions)}"
        raise NotFound(f"no session of {project} {what}", "`memory-mcp query events --project P` shows its sessions.")
    return _recorded_as(app, "split", request.by, changed)


@answers("undo_project", UndoProject, "Take back an alias or a split", Effect.SETS)
def undo_project(app: "App", request: UndoProject, caller: Caller) -> ProjectChanged:
    """Take back the alias or split of a name.

    The tree is filed again; a guess that is taken back is not made again. A project of which no rule speaks is returned as it
    is. Raises InvalidQuery when several names are meant and for a bound caller, NotFound for an unknown name.
    """
    caller.refuse_all(app, "taking an alias or a split back")
    projects, requested_name = app.storage.projects, request.project.strip()
    aliases = {a.old: a for a in projects.names.aliases if a.author != REFUSED}
    ruled_names = sorted({*aliases, *(s.new for s in projects.names.splits)})
    matching_names = _match_names(ruled_names, requested_name)
    if not matching_names and (activity := _activity(app, requested_name)):
        return _as_it_is(app, activity.name)
    if not matching_names:
        hint = f"Names that can be taken back: {', '.join(ruled_names[:_NAMED]) or 'none'}."
        raise NotFound(f"nothing was said of {requested_name!r} that could be taken back", hint)
    if len(matching_names) > 1:
        raise InvalidQuery(f"{requested_name!r} may be {' or '.join(matching_names[:_NAMED])}", "Give the whole name.")
    (name,) = matching_names
    alias = aliases.get(name)
    with _refiling(app):
        if alias is None:
            projects.drop_splits(name)
        elif alias.author == GUESS:
            projects.add_alias(replace(alias, author=REFUSED, at_ms=app.clock.now_ms()))
        else:
            projects.drop_alias(name)
    return _recorded_as(app, "undo alias" if alias else "undo split", request.by, _as_it_is(app, name))


def _match_names(names: Collection[str], name: str) -> list[str]:
    return [name] if name in names else [other for other in names if other.endswith("/" + name.strip("/"))]


def _recorded_as(app: "App", what: str, by: str, changed: ProjectChanged) -> ProjectChanged:
    counts = {"sessions": changed.sessions} if changed.sessions else {}
    subject = changed.project if changed.shown_as == changed.project else f"{changed.project} {changed.shown_as}"
    app.storage.audit.record_entry(AuditEntry(what, app.clock.now_ms(), app.gate.clean_name(by), subject, counts=counts))
    return changed


@contextmanager
def _refiling(app: "App") -> Iterator[None]:
    """Run the body, which changes rules, then file everything again, publishing nothing meanwhile."""
    with app.derivation.publishing:
        yield
        app.derivation.run()


def _as_it_is(app: "App", project: str, undo: str = "") -> ProjectChanged:
    shown_name = app.storage.projects.names.resolve_alias(project)
    activity = _activity(app, shown_name)
    return ProjectChanged(project=project, shown_as=shown_name, sessions=activity.sessions if activity else 0, undo=undo)


def _activity(app: "App", project: str) -> Activity | None:
    return next((activity for activity in app.storage.projects.list_projects() if activity.name == project), None)
