"""Which projects are one, and whether they are recorded."""

from memory_mcp.requests.capturing import PauseCapture, ResumeCapture
from memory_mcp.requests.projects import AliasProject, SplitProject, UndoProject
from memory_mcp.web.asking import Ask, Done
from memory_mcp.web.rendering import count, short

#: Shows every act of this module.
_PAGE = "projects"
_ALL = "*"


async def alias(ask: Ask) -> Done:
    """Show a project under another's name."""
    done = await ask.memory.write(AliasProject(ask.given("name"), ask.given("same_as"), ask.by))
    return Done(f"{short(done['project'])} is shown as {short(done['shown_as'])} now.", _PAGE)


async def split(ask: Ask) -> Done:
    """Make the sessions of a folder a project."""
    request = SplitProject(ask.given("name"), ask.given("folder"), name=ask.given("new_name"), by=ask.by)
    done = await ask.memory.write(request)
    return Done(f"{short(done['shown_as'])} is a project with {count(done['sessions'], 'session')} now.", _PAGE)


async def undo_project(ask: Ask) -> Done:
    """Take back an alias or a split."""
    done = await ask.memory.write(UndoProject(ask.given("name"), ask.by))
    return Done(f"{short(done['project'])} is as it was recorded again.", _PAGE)


async def pause(ask: Ask) -> Done:
    """Record nothing of a project for a while."""
    done = await ask.memory.write(PauseCapture(ask.given("name"), ask.given("duration"), ask.by))
    until = f"until {done['until'][:16].replace('T', ' ')}" if done.get("until") else "until you resume it"
    return Done(f"Nothing of {_called(done['project'])} is recorded {until}.", ask.back or _PAGE)


async def resume(ask: Ask) -> Done:
    """Record a project again."""
    done = await ask.memory.write(ResumeCapture(ask.given("name"), ask.by))
    return Done(f"{_called(done['project']).capitalize()} is recorded again.", ask.back or _PAGE)


def _called(project: str) -> str:
    return "any project" if project == _ALL else short(project)
