"""The memory as pages see it: requests of the application layer, and the state of the serving process."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from memory_mcp.app import App
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.response import with_loss
from memory_mcp.requests.scope import Caller

T = TypeVar("T")


class Host(Protocol):
    """Runs work on the open memory in a thread."""

    async def read(self, work: Callable[[App], T]) -> T:
        """Run a reading call in a thread; cancelled with its caller."""
        ...

    async def write(self, work: Callable[[App], T]) -> T:
        """Run a writing call in a thread; it goes on when cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Pulse:
    """The version of the memory: it changed where this differs."""

    #: Number of the last event.
    event: int = 0
    #: Number of the last change of the tree.
    change: int = 0


@dataclass(slots=True)
class Memory:
    """The open memory and the state of the serving process."""

    host: Host
    #: What `memory-mcp daemon status` shows, as JSON values.
    process: Callable[[], Awaitable[Mapping[str, Any]]]
    #: Cheap, and no reading call: background work does not hurry for it.
    pulse: Callable[[], Pulse]
    #: Short names of all projects by their whole names, as of the last request.
    project_names: Mapping[str, str] = field(default_factory=dict)

    async def ask(self, request: Any) -> dict[str, Any]:
        """Return the response of a reading request as JSON values.

        Bound to no project. Cancelled with its caller. Raises what its handler raises.
        """
        response, self.project_names = await self.host.read(partial(_respond, request))
        return response

    async def write(self, request: Any) -> dict[str, Any]:
        """Return the response of a writing request as JSON values.

        Bound to no project. It goes on to its end if its caller is cancelled. Raises what its handler raises.
        """
        response, self.project_names = await self.host.write(partial(_respond, request))
        return response


def _respond(request: Any, app: App) -> tuple[dict[str, Any], Mapping[str, str]]:
    return with_loss(app, as_json(respond(app, request, Caller()))), app.tree.short_names()
