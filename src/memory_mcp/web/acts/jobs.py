"""The acts that run, pause and resume a job of the background process."""

from memory_mcp.requests.jobs import PauseJob, ResumeJob, RunJob
from memory_mcp.web.asking import Ask, Done

_PAGE = "status"


async def run(ask: Ask) -> Done:
    """Run the job called `name` in the form now, and wait for it; errors of the request are passed on. Next page: status."""
    done = await ask.memory.write(RunJob(ask.argument("name")))
    return Done(f"{done['name']}: {done['report']}", _PAGE)


async def pause(ask: Ask) -> Done:
    """Pause the job called `name` in the form until it is resumed; errors of the request are passed on. Next page: status."""
    done = await ask.memory.write(PauseJob(ask.argument("name")))
    return Done(f"{done['name']} is paused.", _PAGE)


async def resume(ask: Ask) -> Done:
    """Let the paused job `name` of the form run by its schedule again; errors of the request are passed on. Next page: status."""
    done = await ask.memory.write(ResumeJob(ask.argument("name")))
    return Done(f"{done['name']} runs by its schedule again.", _PAGE)
