"""Acts that wait: shown first, then carried out by this process after some seconds, unless they are undone before.

Invariants
1. Nothing of a waiting act is written anywhere: if the process or the server ends before, nothing was done.
2. An act is carried out once at most, and never after it was undone.
3. What an act needs is dropped as it begins, and when it is undone: a value to be forgotten outlives neither.
"""

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

import anyio

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import MemoryMcpError

log = logging.getLogger(__name__)

#: How long an act waits (seconds).
WAIT = 10.0
#: How long a page waits for what an act would change (seconds); what takes longer is found out in the background.
PATIENCE = 1.0
#: Acts that are known; the oldest that neither waits nor runs goes for one more.
_MOST = 64

Work = Callable[[], Awaitable[Mapping[str, Any]]]


class Stage(StrEnum):
    """How far an act has come."""

    LOOKING = "looking"
    SHOWN = "shown"
    WAITING = "waiting"
    UNDONE = "undone"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Pending:
    """One act of one visit."""

    owner: str
    #: What a page says of it.
    shown: Mapping[str, Any]
    work: Work | None = field(repr=False)
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    stage: Stage = Stage.LOOKING
    #: What it would change.
    found: Mapping[str, Any] = field(default_factory=dict)
    #: The response of the act once it is done.
    result: Mapping[str, Any] = field(default_factory=dict)
    error: MemoryMcpError | None = None
    #: When it is carried out, by the clock.
    due: float = 0.0
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)


class WaitingActs:
    """The acts that wait; used from the event loop's thread alone."""

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        patience_s: float = PATIENCE,
    ) -> None:
        """`patience_s` is how long `preview_act` waits for a preview (seconds)."""
        self._patience_s = patience_s
        self._sleep = sleep
        self._known: OrderedDict[str, Pending] = OrderedDict()

    async def preview_act(self, owner: str, subject: Mapping[str, Any], look: Work, work: Work) -> Pending:
        """Keep an act that is previewed first by `look`.

        `work` carries it out later. Waits a second for `look`: the act is then SHOWN; if it takes longer it goes on in a task,
        and the act is returned as LOOKING. Beyond 64 acts the oldest that neither waits nor runs is forgotten. Raises what
        `look` raises.
        """
        pending = Pending(owner, subject, work)
        looking = asyncio.ensure_future(look())
        try:
            done, _ = await asyncio.wait({looking}, timeout=self._patience_s)
        except asyncio.CancelledError:
            looking.cancel()
            raise
        if done:
            pending.found, pending.stage = looking.result(), Stage.SHOWN
        else:
            pending.task = asyncio.get_running_loop().create_task(self._look(pending, looking))
        self._known[pending.id] = pending
        idle = [p.id for p in self._known.values() if p.stage not in (Stage.LOOKING, Stage.WAITING, Stage.RUNNING)]
        for gone in idle[: max(0, len(self._known) - _MOST)]:
            del self._known[gone]
        return pending

    def find_act(self, owner: str, pending_id: str) -> Pending | None:
        """Return an act of a visit; None for unknown and foreign ones."""
        pending = self._known.get(pending_id)
        return pending if pending is not None and pending.owner == owner else None

    def start_wait(self, pending: Pending) -> None:
        """Start the waiting time of an act that is shown."""
        if pending.stage is not Stage.SHOWN:
            return
        pending.stage, pending.due = Stage.WAITING, time.monotonic() + WAIT
        pending.task = asyncio.get_running_loop().create_task(self._run(pending))

    def undo_act(self, pending: Pending) -> bool:
        """Drop an act that has not begun; return whether it is undone."""
        if pending.stage in (Stage.LOOKING, Stage.SHOWN, Stage.WAITING):
            pending.stage, pending.work = Stage.UNDONE, None
            if pending.task is not None:
                pending.task.cancel()
        return pending.stage is Stage.UNDONE

    def left_s(self, pending: Pending) -> float:
        """Return the seconds until an act is carried out."""
        return max(0.0, pending.due - time.monotonic())

    def undo_all(self) -> None:
        """Undo every act that has not begun; others go on."""
        for pending in self._known.values():
            self.undo_act(pending)

    async def _run(self, pending: Pending) -> None:
        await self._sleep(WAIT)
        work, pending.work = pending.work, None
        if pending.stage is not Stage.WAITING or work is None:
            return
        pending.stage = Stage.RUNNING
        if (result := await _await_outcome(pending, work())) is not None:
            pending.result, pending.stage = result, Stage.DONE

    async def _look(self, pending: Pending, looking: Awaitable[Mapping[str, Any]]) -> None:
        if (preview := await _await_outcome(pending, looking)) is not None and pending.stage is Stage.LOOKING:
            pending.found, pending.stage = preview, Stage.SHOWN


async def _await_outcome(pending: Pending, doing: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Log errors by their type alone: texts may repeat what was forgotten."""
    try:
        return await doing
    except MemoryMcpError as error:
        pending.error, pending.stage = error, Stage.FAILED
    except Exception as error:
        # Its text and traceback may repeat what it was about.
        log.error("an act of the explorer failed: %s", type(error).__name__)  # noqa: TRY400
        pending.error = MemoryMcpError("it could not be carried out", "memory-mcp doctor looks into it; then try again.")
        pending.stage = Stage.FAILED
    pending.work = None
    return None
