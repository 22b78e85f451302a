"""A request's project and scope in, the project that it is bound to out; the one rule of matching project names."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery
from memory_mcp.events.evidence import Expanded, unknown_grip
from memory_mcp.requests.limits import choice
from memory_mcp.scope import is_place
from memory_mcp.storage.values import Scope

ALL_PROJECTS = "all projects"
_LOCKED = "It is bound to its project (server.scope_lock); the person may use the memory-mcp command."
#: Projects that an error names.
_NAMED = 10


class ScopeName(StrEnum):
    """What a request may say about its scope."""

    PROJECT = "project"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Caller:
    """What a door knows of who asks."""

    #: The project that the caller works on; "" when it is not known.
    project: str = ""
    #: What the last failed run of the process's background deriver said.
    deriver_error: str = ""
    #: Whether nothing but that project exists for the caller: `server.scope_lock`.
    locked: bool = False

    def bound(self, app: App) -> str | None:
        """Return the only project that exists for the caller, None where all do; InvalidQuery where it is not known."""
        if not self.locked:
            return None
        if own := _meant(app, self.project):
            return own
        hint = "Start the client in the project's directory, or set server.project; server.scope_lock = false lifts this."
        raise InvalidQuery("this connection is bound to its project, and none is known", hint)

    def sees(self, app: App, project: str) -> bool:
        """Whether what belongs to a project exists for the caller."""
        own = self.bound(app)
        return own is None or app.storage.projects.names.of(project) == own

    def elsewhere(self, app: App, project: str) -> str:
        """Return a project as an answer names it: "" where it is the caller's own, or where that is not known."""
        shown = app.storage.projects.names.of(project)
        return "" if not self.project or shown == _meant(app, self.project) else shown

    def refuse_all(self, app: App, what: str) -> None:
        """Refuse, with InvalidQuery, what concerns every project, where the caller is bound to one."""
        if self.bound(app) is not None:
            raise InvalidQuery(f"{what} concerns more than the project of this connection", _LOCKED)


@dataclass(frozen=True, slots=True)
class Scoped:
    """The project that a request is bound to (None: all), and whether only the default bound it."""

    project: str | None
    by_default: bool = False
    #: The caller's project, where it holds nothing and everything is searched instead.
    widened_from: str = ""
    #: Whether nothing else may be searched.
    locked: bool = False

    @property
    def words(self) -> str:
        """The scope as responses name it."""
        return ALL_PROJECTS if self.project is None else self.project

    def notices(self, app: App, found: bool) -> list[str]:
        """Return what a response says of its scope: that it was widened; without results, how much it held."""
        if self.widened_from:
            return [f"nothing is stored of project {self.widened_from} yet; every project was searched"]
        if found or self.project is None:
            return []
        leave = "" if self.by_default else " without project"
        events = app.tree.tally(self.project).events
        if self.locked:
            return [f"0 of {events:,} events in project {self.project}"]
        return [f"0 of {events:,} events in project {self.project}; scope='all'{leave} searches every project"]


def scope_of(app: App, project: str, scope: str, caller: Caller, widens: bool = True) -> Scoped:
    """Return the scope of a request: its project, else the caller's, else everything.

    A caller's project that holds nothing bounds nothing, unless the request says that it is to.

    Args:
        app: The memory that is asked.
        project: A project's name or its last parts; "" when the request names none.
        scope: A value of ScopeName; "" for the caller's project where the settings want that.
        caller: Who asks.
        widens: Whether everything is meant where the caller's project holds nothing; not of a request that writes.

    Raises:
        InvalidQuery: the project is unknown or ambiguous, the caller's is wanted and not known, or another is wanted of a
            connection that is bound to its own.

    """
    wanted, bound = choice(ScopeName, "scope", scope), caller.bound(app)
    if bound is not None:
        if wanted is ScopeName.ALL or (project and not _is_named(app, bound, project)):
            raise _refused(bound)
        return Scoped(bound, by_default=not project, locked=True)
    if project:
        return Scoped(known_project(app, project))
    own = _meant(app, caller.project)
    if wanted is ScopeName.PROJECT and not own:
        raise InvalidQuery("the caller's project is not known", "Name one with project, or use scope='all'.")
    if wanted is ScopeName.PROJECT:
        return Scoped(own, by_default=True)
    if wanted is ScopeName.ALL or not own or app.settings.server.scope != ScopeName.PROJECT:
        return Scoped(None)
    return Scoped(None, widened_from=own) if widens and not _holds(app, own) else Scoped(own, by_default=True)


def known_project(app: App, name: str) -> str:
    """Return the stored project of that name, or the only one whose last parts it is.

    Raises:
        InvalidQuery: there is no such project, or there are several.

    """
    found = _matching(app, name)
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidQuery(f"project {name!r} may be {' or '.join(found[:5])}", "Give the whole name.")
    known = [p for p in app.tree.tally().projects if p]
    ends = {re.split(r"[\\/]", p)[-1]: p for p in known}
    near = get_close_matches(name, ends, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    raise InvalidQuery(f"no project is called {name!r}", f"{meant}Projects: {', '.join(known[:_NAMED]) or 'none yet'}.")


def visible_evidence(app: App, caller: Caller, grip_id: str, before: int = 0, after: int = 0) -> Expanded:
    """Return a citation with so many events around it.

    Raises:
        NotFound: there is no such citation, or the caller may not see its project.

    """
    found = app.evidence.expand(grip_id, before, after)
    if not caller.sees(app, found.excerpt[0].project):
        raise unknown_grip(grip_id)
    return found


def project_to_store(app: App, name: str, caller: Caller) -> str:
    """Return the project of that name as it is stored, else the name itself.

    Raises:
        InvalidQuery: there are several, or the caller is bound to another.

    """
    bound = caller.bound(app)
    if bound is not None:
        if name and not _is_named(app, bound, name):
            raise _refused(bound)
        return bound
    if not name:
        return caller.project
    return known_project(app, name) if _matching(app, name) else name


def _is_named(app: App, own: str, name: str) -> bool:
    """Whether a name means the project `own`: what else it may mean is not looked at."""
    return app.storage.projects.names.of(name) == own or own.endswith("/" + name.strip("/"))


def _refused(own: str) -> InvalidQuery:
    """The same whether another project of that name exists or not."""
    return InvalidQuery(f"this connection is bound to project {own}", f"Leave out project and scope. {_LOCKED}")


def _meant(app: App, caller: str) -> str:
    """Return the caller's project as it is shown; one that is named by its last parts alone is the only one they fit."""
    caller = app.storage.projects.names.of(caller)
    if not caller or is_place(caller) or _holds(app, caller):
        return caller
    found = _matching(app, caller)
    return found[0] if len(found) == 1 else caller


def _holds(app: App, project: str) -> bool:
    """Whether anything is stored of a project; what came a moment ago is not in the tree yet."""
    return bool(app.tree.tally(project).events or app.storage.events.sessions(Scope(project=project), 1))


def _matching(app: App, name: str) -> list[str]:
    """Return the stored projects that a name may mean: the one of that name, else those that end in its parts.

    A name that stands for another project's means that one.
    """
    names = app.storage.projects.names
    known, whole = app.tree.tally().projects, names.of(name)
    if whole in known or _holds(app, whole):
        return [whole]
    ends = "/" + name.strip("/")
    others = {names.of(alias.old) for alias in names.aliases if alias.old.endswith(ends)}
    return sorted({p for p in known if p.endswith(ends)} | others.intersection(known))
