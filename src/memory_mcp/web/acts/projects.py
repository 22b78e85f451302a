"""The acts on projects, on what is recorded, and on jobs of the background process."""

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.scope import is_place
from memory_mcp.requests.capturing import PauseCapture, ResumeCapture
from memory_mcp.requests.excluding import Exclude, Include
from memory_mcp.requests.jobs import PauseJob, ResumeJob, RunJob
from memory_mcp.requests.limits import PAGE
from memory_mcp.requests.projects import AliasProject, ListProjects, SplitProject, UndoProject
from memory_mcp.web.asking import ActResult, PageRequest
from memory_mcp.web.rendering import count

#: Shows every act of this module.
_PAGE = "projects"
_ALL = "*"
_KINDS = ("project", "path", "tool")
_STATUS = "status"


async def alias_projects(ask: PageRequest) -> ActResult:
    """Show two projects, the fields `pick.N`, as one."""
    picked = [name for field, name in ask.form.items() if field.startswith("pick.")]
    if len(picked) != 2:
        raise InvalidQuery(f"{count(len(picked), 'project')} picked", "Pick the two cards that are one project, then Merge.")
    listed = (await ask.memory.ask(ListProjects(PAGE.most)))["projects"]
    events = {project["project"]: project["events"] for project in listed}
    old, new = sorted(picked, key=lambda name: (not is_place(name), events.get(name, 0)))
    done = await ask.memory.write(AliasProject(old, new, ask.author))
    return ActResult(f"{ask.short_project(done['project'])} is shown as {ask.short_project(done['shown_as'])} now.", _PAGE)


async def split_project(ask: PageRequest) -> ActResult:
    """Make the sessions below `folder` a project of their own."""
    request = SplitProject(ask.argument("name"), ask.argument("folder"), name=ask.argument("new_name"), by=ask.author)
    done = await ask.memory.write(request)
    return ActResult(f"{ask.short_project(done['shown_as'])} is a project with {count(done['sessions'], 'session')} now.", _PAGE)


async def undo_project(ask: PageRequest) -> ActResult:
    """Take back an alias or split."""
    done = await ask.memory.write(UndoProject(ask.argument("name"), ask.author))
    return ActResult(f"{ask.short_project(done['project'])} is as it was recorded again.", _PAGE)


async def pause_project(ask: PageRequest) -> ActResult:
    """Record nothing of a project (* for all) for `duration`."""
    done = await ask.memory.write(PauseCapture(ask.argument("name"), ask.argument("duration"), ask.author))
    until = f"until {done['until'][:16].replace('T', ' ')}" if done.get("until") else "until you resume it"
    return ActResult(f"Nothing of {_display_name(ask, done['project'], 'any project')} is recorded {until}.", ask.back or _PAGE)


async def resume_project(ask: PageRequest) -> ActResult:
    """Record a project (* for all) again."""
    done = await ask.memory.write(ResumeCapture(ask.argument("name"), ask.author))
    return ActResult(f"{_display_name(ask, done['project'], 'Every project')} is recorded again.", ask.back or _PAGE)


async def exclude_pattern(ask: PageRequest) -> ActResult:
    """Exclude a pattern from recording; what is stored stays."""
    kind, pattern = _pattern(ask)
    done = await ask.memory.write(Exclude(**{kind: pattern}, by=ask.author))
    stays = f" {count(done['stored'], 'event')} of it stay until you forget them." if done.get("stored") else ""
    return ActResult(f"Nothing of {ask.short_project(pattern)} is recorded from now on.{stays}", _PAGE)


async def include_pattern(ask: PageRequest) -> ActResult:
    """Record again what a pattern excluded."""
    kind, pattern = _pattern(ask)
    await ask.memory.write(Include(**{kind: pattern}, by=ask.author))
    return ActResult(f"{ask.short_project(pattern)} is recorded again.", _PAGE)


def _pattern(ask: PageRequest) -> tuple[str, str]:
    kind = ask.argument("kind", "project")
    if kind not in _KINDS:
        raise InvalidQuery(f"kind must be {' or '.join(_KINDS)}, not {kind[:20]!r}")
    return kind, ask.argument("pattern")


def _display_name(ask: PageRequest, project: str, everything: str) -> str:
    return everything if project == _ALL else ask.short_project(project)


async def run_job(ask: PageRequest) -> ActResult:
    """Run a job now, and wait for it."""
    done = await ask.memory.write(RunJob(ask.argument("name")))
    return ActResult(f"{done['name']}: {done['report']}", _STATUS)


async def pause_job(ask: PageRequest) -> ActResult:
    """Pause a job until it is resumed."""
    done = await ask.memory.write(PauseJob(ask.argument("name")))
    return ActResult(f"{done['name']} is paused.", _STATUS)


async def resume_job(ask: PageRequest) -> ActResult:
    """Let a paused job run by its schedule again."""
    done = await ask.memory.write(ResumeJob(ask.argument("name")))
    return ActResult(f"{done['name']} runs by its schedule again.", _STATUS)
