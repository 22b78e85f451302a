"""Finds the project that a request is limited to, with the one rule of matching project names."""

import re
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.scope import is_place
from memory_mcp.model.event import ExcludedSession
from memory_mcp.requests.limits import parse_choice

if TYPE_CHECKING:  # what builds flags loads none of it
    from memory_mcp.app import App
    from memory_mcp.capture.evidence import ExpandedGrip
    from memory_mcp.capture.running import CallerProcess

ALL_PROJECTS = "all projects"
_LOCKED = "It is bound to its project (server.scope_lock); the person may use the memory-mcp command."
#: Projects that an error names.
_NAMED = 10


class ScopeName(StrEnum):
    """Values of a request's `scope`."""

    PROJECT = "project"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that sends a request, as the MCP server or the command line knows it."""

    #: The project that the caller works on; "" if unknown.
    project: str = ""
    #: Error of the last failed run of the background deriver; "" for none.
    deriver_error: str = ""
    #: Whether the caller may see that project alone (`server.scope_lock`).
    locked: bool = False
    #: The process that it runs in, where that is known.
    connection: "CallerProcess | None" = None

    @property
    def directory(self) -> str:
        """Where a caller on this machine works; "" for one that came over the network."""
        return self.connection.cwd if self.connection is not None else ""

    def excluded(self, app: "App", include_current: bool) -> frozenset[ExcludedSession]:
        """Return the sessions that a search leaves out."""
        return frozenset() if include_current or self.connection is None else app.running.find_sessions(self.connection)

    def bound(self, app: "App") -> str | None:
        """Return the only project that the caller may see, or None.

        None stands for all. Raises InvalidQuery if that project is unknown.
        """
        if not self.locked:
            return None
        if own_project := _resolve_caller(app, self.project):
            return own_project
        hint = "Start the client in the project's directory, or set server.project; server.scope_lock = false lifts this."
        raise InvalidQuery("this connection is bound to its project, and none is known", hint)

    def sees(self, app: "App", project: str) -> bool:
        """Return whether a project is visible; InvalidQuery if the caller's is unknown."""
        own_project = self.bound(app)
        return own_project is None or app.storage.projects.names.resolve_alias(project) == own_project

    def elsewhere(self, app: "App", project: str) -> str:
        """Return another project's shown name; "" for the caller's own or none."""
        shown_name = app.storage.projects.names.resolve_alias(project)
        return "" if not self.project or shown_name == _resolve_caller(app, self.project) else shown_name

    def refuse_all(self, app: "App", what: str) -> None:
        """Raise InvalidQuery if the caller is bound to one project."""
        if self.bound(app) is not None:
            raise InvalidQuery(f"{what} concerns more than the project of this connection", _LOCKED)


@dataclass(frozen=True, slots=True)
class Scoped:
    """The project that a request is limited to (None: all), and whether that is only the default."""

    project: str | None
    by_default: bool = False
    #: The caller's project, where it holds nothing and everything is searched instead.
    widened_from: str = ""
    #: Whether nothing else may be searched.
    locked: bool = False

    @property
    def words(self) -> str:
        """The scope as responses show it: the project's name, or `ALL_PROJECTS`."""
        return ALL_PROJECTS if self.project is None else self.project

    def notices(self, app: "App", any_found: bool) -> list[str]:
        """Return notices that the scope was widened or holds nothing.

        `any_found` says whether there are results; then, and where all projects were asked for, there is no
        notice but the first.
        """
        if self.widened_from:
            return [f"nothing is stored of project {self.widened_from} yet; every project was searched"]
        if any_found or self.project is None:
            return []
        leave = "" if self.by_default else " without project"
        events = app.tree.tally(self.project).events
        if self.locked:
            return [f"0 of {events:,} events in project {self.project}"]
        return [f"0 of {events:,} events in project {self.project}; scope='all'{leave} searches every project"]


def scope_of(app: "App", project: str, scope: str, caller: Caller, widens: bool = True) -> Scoped:
    """Return the scope of a request: its project, else a default.

    By the setting server.scope the default is the caller's project or all of them. If the caller's project is empty, all
    projects are searched, unless the request asks for its project. A caller that is bound to a project always gets that one.

    Args:
        app: The open memory.
        project: A project's name or its last parts; "" for none.
        scope: A value of ScopeName; "" for the default of the settings.
        caller: The client.
        widens: Whether an empty project of the caller is widened to all; False for requests that write.

    Raises:
        InvalidQuery: the project is unknown or ambiguous, the caller's is asked for and unknown, or the caller is limited
            to another project.

    """
    scope_name, bound = parse_choice(ScopeName, "scope", scope), caller.bound(app)
    if bound is not None:
        if scope_name is ScopeName.ALL or (project and not _is_named(app, bound, project)):
            raise _make_refusal(bound)
        return Scoped(bound, by_default=not project, locked=True)
    if project:
        return Scoped(known_project(app, project))
    own_project = _resolve_caller(app, caller.project)
    if scope_name is ScopeName.PROJECT and not own_project:
        raise InvalidQuery("the caller's project is not known", "Name one with project, or use scope='all'.")
    if scope_name is ScopeName.PROJECT:
        return Scoped(own_project, by_default=True)
    if scope_name is ScopeName.ALL or not own_project or app.settings.server.scope != ScopeName.PROJECT:
        return Scoped(None)
    return (
        Scoped(None, widened_from=own_project)
        if widens and not app.tree.has_events(own_project)
        else Scoped(own_project, by_default=True)
    )


def known_project(app: "App", name: str) -> str:
    """Return the stored project that a name, or its end, means.

    Raises InvalidQuery when there is no such project, or there are several; the message names candidates.
    """
    matches, short = _find_matching(app, name), app.tree.short_names()
    if len(matches) == 1:
        return matches[0]
    if matches:
        several = " or ".join(short.get(project, project) for project in matches[:_NAMED])
        raise InvalidQuery(f"project {name!r} may be {several}", "Give one of these names.")
    by_short_name = {short.get(project, project): project for project in app.tree.tally().projects if project}
    ends = {re.split(r"[\\/]", project)[-1]: short_name for short_name, project in by_short_name.items()}
    near = get_close_matches(name, [*by_short_name, *ends], n=1)
    meant = f"Did you mean {ends.get(near[0], near[0])}? " if near else ""
    names = ", ".join(list(by_short_name)[:_NAMED])
    raise InvalidQuery(f"no project is called {name!r}", f"{meant}Projects: {names or 'none yet'}.")


def visible_evidence(app: "App", caller: Caller, grip_id: str, before: int = 0, after: int = 0) -> "ExpandedGrip":
    """Return a citation with its events and those around them.

    Raises NotFound for an unknown citation, or one whose project the caller may not see.
    """
    citation = app.evidence.expand_grip(grip_id, before, after)
    if not caller.sees(app, citation.excerpt[0].project):
        from memory_mcp.capture.evidence import make_unknown_grip

        raise make_unknown_grip(grip_id)
    return citation


def project_to_store(app: "App", name: str, caller: Caller) -> str:
    """Return the project under which something is to be stored.

    It is a known one of that name, else the name itself. For "" it is the caller's, which may be "", and for a bound caller its
    only one. Raises InvalidQuery when several are meant, or the caller is bound to another.
    """
    bound = caller.bound(app)
    if bound is not None:
        if name and not _is_named(app, bound, name):
            raise _make_refusal(bound)
        return bound
    if not name:
        return caller.project
    return known_project(app, name) if _find_matching(app, name) else name


def _is_named(app: "App", project: str, name: str) -> bool:
    return app.storage.projects.names.resolve_alias(name) == project or project.endswith("/" + name.strip("/"))


def _make_refusal(project: str) -> InvalidQuery:
    """Return the error about another project, whether or not it exists."""
    return InvalidQuery(f"this connection is bound to project {project}", f"Leave out project and scope. {_LOCKED}")


def _resolve_caller(app: "App", caller: str) -> str:
    """Return the shown name of the caller's project.

    The last parts of a name mean a project where they fit only one. A name that fits none or several is returned as it is; ""
    for "".
    """
    caller = app.storage.projects.names.resolve_alias(caller)
    if not caller or is_place(caller) or app.tree.has_events(caller):
        return caller
    matches = _find_matching(app, caller)
    return matches[0] if len(matches) == 1 else caller


def _find_matching(app: "App", name: str) -> list[str]:
    """Return the stored projects that a name may mean, sorted.

    The one of that name, else those that end in its parts. A name that stands for another project's means that one. [] for an
    unknown name.
    """
    names = app.storage.projects.names
    projects, resolved = app.tree.tally().projects, names.resolve_alias(name)
    if resolved in projects or app.tree.has_events(resolved):
        return [resolved]
    # A name as it is shown means that project, whatever other names end so.
    spelled = name.replace("\\", "/").strip("/")
    if by_short_name := [p for p, short in app.tree.short_names().items() if short.replace("\\", "/") == spelled]:
        return by_short_name
    ends = "/" + spelled
    other_names = {names.resolve_alias(alias.old) for alias in names.aliases if alias.old.endswith(ends)}
    return sorted({p for p in projects if p.replace("\\", "/").endswith(ends)} | other_names.intersection(projects))
