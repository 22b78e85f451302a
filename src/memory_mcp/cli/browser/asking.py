"""Sends reading requests by name to the daemon, or to a memory opened here, without blocking the caller's thread.

Invariants
1. A request that is cancelled is ended where it is answered.
2. Errors are ours, wherever they were raised.
"""

import asyncio
import socket
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Protocol

from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.cli.failures import ours
from memory_mcp.client import link

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.requests.scope import Caller

#: After a daemon ended, the request is sent to the next one.
_TRIES = 3


class Asking(Protocol):
    """Sends requests and returns their responses."""

    async def ask(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the response of a reading request as JSON values; raise MemoryMcpError when it fails."""
        ...


class Here:
    """A memory opened in this process."""

    def __init__(self, app: "App", caller: "Caller") -> None:
        """Keep the open memory, and the caller by whose project requests are answered."""
        from memory_mcp.server.host import Host

        self._host, self._caller = Host.of(app), caller

    async def ask(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Answer a reading request by its name and arguments in a thread, on the memory opened here.

        Ended when its caller is cancelled. Raises MemoryMcpError where the request is unknown, its arguments are wrong, or
        it fails.
        """
        from memory_mcp.requests.registry import answer, reading

        request = reading(name, arguments)
        return await self._host.read(lambda app: answer(app, request, self._caller))


class There:
    """The memory of the daemon; closing a request's connection cancels it."""

    def __init__(self, wanted: link.Wanted) -> None:
        """Store which daemon to ask, without connecting or starting one."""
        self._wanted = wanted

    async def ask(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Have the daemon answer a reading request while a thread waits; starts a daemon where none runs.

        When the caller is cancelled, the request is ended in the daemon. Raises MemoryMcpError when it fails, LayerUnavailable
        where no daemon can be reached.
        """
        one = _Request(self._wanted, {"name": name, "arguments": arguments})
        try:
            return await asyncio.to_thread(one.answer)
        except asyncio.CancelledError:
            one.cancel()
            raise


class _Request:
    """One running request, answered in one thread and cancelled from another."""

    def __init__(self, wanted: link.Wanted, params: dict[str, Any]) -> None:
        """Store `params`, the request's name and arguments, for the daemon of `wanted`, without sending them."""
        self._wanted, self._params = wanted, params
        self._line: link.Line | None = None
        self._is_cancelled = False

    def answer(self) -> dict[str, Any]:
        """Send the request, wait, and return its response; blocks the calling thread.

        When a daemon ends meanwhile the next is asked, three tries in all. Raises the error that the daemon
        reports as one of ours, and LayerUnavailable where no daemon can be reached or the request was cancelled.
        """
        for left in reversed(range(_TRIES)):
            try:
                with closing(link.reach(self._wanted, "rpc")) as line:
                    # For `cancel`, which may have come meanwhile.
                    self._line = line
                    if self._is_cancelled:
                        raise ConnectionAbortedError("nobody waits for the answer")
                    return link.converse(line, "request/ask", self._params, lambda _: None)
            except link.Refused as error:
                raise ours(error) from None
            except OSError as error:
                if self._is_cancelled or not left or isinstance(error, link.Unreachable):
                    hint = "memory-mcp daemon status says how it is."
                    raise LayerUnavailable(f"the daemon cannot be reached: {error}", hint) from None
        raise AssertionError

    def cancel(self) -> None:
        """Shut the connection, from any thread, so that the daemon cancels the request and the waiting thread goes on."""
        self._is_cancelled = True
        if self._line is not None:
            with suppress(OSError):
                self._line.sock.shutdown(socket.SHUT_RDWR)
