"""The acts that run, pause and resume a job of the background process."""

from memory_mcp.requests.jobs import PauseJob, ResumeJob, RunJob
from memory_mcp.web.asking import Ask, Done

_PAGE = "status"


async def run_job(ask: Ask) -> Done:
    """Run a job now, and wait for it."""
    done = await ask.memory.write(RunJob(ask.argument("name")))
    return Done(f"{done['name']}: {done['report']}", _PAGE)


async def pause_job(ask: Ask) -> Done:
    """Pause a job until it is resumed."""
    done = await ask.memory.write(PauseJob(ask.argument("name")))
    return Done(f"{done['name']} is paused.", _PAGE)


async def resume_job(ask: Ask) -> Done:
    """Let a paused job run by its schedule again."""
    done = await ask.memory.write(ResumeJob(ask.argument("name")))
    return Done(f"{done['name']} runs by its schedule again.", _PAGE)
