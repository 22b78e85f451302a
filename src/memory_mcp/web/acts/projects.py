"""The acts that merge and split projects, and choose what is recorded."""

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.scope import is_place
from memory_mcp.requests.capturing import PauseCapture, ResumeCapture
from memory_mcp.requests.excluding import Exclude, Include
from memory_mcp.requests.limits import PAGE
from memory_mcp.requests.projects import AliasProject, ListProjects, SplitProject, UndoProject
from memory_mcp.web.asking import Ask, Done
from memory_mcp.web.rendering import count

#: Shows every act of this module.
_PAGE = "projects"
_ALL = "*"
_KINDS = ("project", "path", "tool")


async def alias(ask: Ask) -> Done:
    """Show two projects, the fields `pick.N` of the form, as one: under the name that is no folder, else that of more events.

    Raises InvalidQuery unless exactly two are picked, and what the request raises. Next page: projects.
    """
    picked = [name for field, name in ask.form.items() if field.startswith("pick.")]
    if len(picked) != 2:
        raise InvalidQuery(f"{count(len(picked), 'project')} picked", "Pick the two cards that are one project, then Merge.")
    listed = (await ask.memory.ask(ListProjects(PAGE.most)))["projects"]
    events = {project["project"]: project["events"] for project in listed}
    old, new = sorted(picked, key=lambda name: (not is_place(name), events.get(name, 0)))
    done = await ask.memory.write(AliasProject(old, new, ask.by))
    return Done(f"{ask.short(done['project'])} is shown as {ask.short(done['shown_as'])} now.", _PAGE)


async def split(ask: Ask) -> Done:
    """Make the sessions below `folder` of project `name` a project of their own, called `new_name`; all are fields of the form.

    Errors of the request are passed on. The next page is that of the projects.
    """
    request = SplitProject(ask.argument("name"), ask.argument("folder"), name=ask.argument("new_name"), by=ask.by)
    done = await ask.memory.write(request)
    return Done(f"{ask.short(done['shown_as'])} is a project with {count(done['sessions'], 'session')} now.", _PAGE)


async def undo_project(ask: Ask) -> Done:
    """Take back the alias or split of the form's project `name`; errors of the request are passed on. Next page: projects."""
    done = await ask.memory.write(UndoProject(ask.argument("name"), ask.by))
    return Done(f"{ask.short(done['project'])} is as it was recorded again.", _PAGE)


async def pause(ask: Ask) -> Done:
    """Record nothing of the project `name` (* for all) for the form's `duration`, without one until it is resumed.

    Errors of the request are passed on. The next page is the one the form was on, else the projects.
    """
    done = await ask.memory.write(PauseCapture(ask.argument("name"), ask.argument("duration"), ask.by))
    until = f"until {done['until'][:16].replace('T', ' ')}" if done.get("until") else "until you resume it"
    return Done(f"Nothing of {_display_name(ask, done['project'], 'any project')} is recorded {until}.", ask.back or _PAGE)


async def resume(ask: Ask) -> Done:
    """Record the form's project `name` (* for all) again; errors of the request pass. Next page: the form's, else projects."""
    done = await ask.memory.write(ResumeCapture(ask.argument("name"), ask.by))
    return Done(f"{_display_name(ask, done['project'], 'Every project')} is recorded again.", ask.back or _PAGE)


async def exclude(ask: Ask) -> Done:
    """Record nothing from now on that the form's pattern of a project, path or tool matches; what is stored stays.

    The note says how many stored events match; next page: projects. Raises InvalidQuery for an unknown kind.
    """
    kind, pattern = _pattern(ask)
    done = await ask.memory.write(Exclude(**{kind: pattern}, by=ask.by))
    stays = f" {count(done['stored'], 'event')} of it stay until you forget them." if done.get("stored") else ""
    return Done(f"Nothing of {ask.short(pattern)} is recorded from now on.{stays}", _PAGE)


async def include(ask: Ask) -> Done:
    """Record again what the form's pattern of a project, path or tool excluded.

    Raises InvalidQuery for an unknown kind, and what the request raises. The next page is that of the projects.
    """
    kind, pattern = _pattern(ask)
    await ask.memory.write(Include(**{kind: pattern}, by=ask.by))
    return Done(f"{ask.short(pattern)} is recorded again.", _PAGE)


def _pattern(ask: Ask) -> tuple[str, str]:
    """Return (kind, pattern) of the form, the kind `project` if none is given; raise InvalidQuery for an unknown kind."""
    kind = ask.argument("kind", "project")
    if kind not in _KINDS:
        raise InvalidQuery(f"kind must be {' or '.join(_KINDS)}, not {kind[:20]!r}")
    return kind, ask.argument("pattern")


def _display_name(ask: Ask, project: str, everything: str) -> str:
    """Return a project's short name; `everything` for "*", which means all projects."""
    return everything if project == _ALL else ask.short(project)
