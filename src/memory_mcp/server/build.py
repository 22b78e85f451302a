"""The server put together, and served over stdio in this process."""

import logging
import os
import signal
import sys
import threading
from importlib.resources import files
from pathlib import Path

import anyio
from mcp.server import CacheHint
from mcp.server.mcpserver.tools import Tool

from memory_mcp import __version__
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.jobs.deriver import Deriver
from memory_mcp.scope import caller_project
from memory_mcp.server.completion import add_completion
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from memory_mcp.server.prompts import add_prompts
from memory_mcp.server.resources import add_resources
from memory_mcp.server.tools.evidence import Evidence
from memory_mcp.server.tools.intelligent import Intelligent
from memory_mcp.server.tools.kit import Kit
from memory_mcp.server.tools.navigate import Navigate
from memory_mcp.server.tools.status import Status
from memory_mcp.server.tools.teleport import Teleport
from memory_mcp.server.tools.write import Write

log = logging.getLogger(__name__)

#: Groups in the order their tools are offered.
_DEFAULT = (Intelligent, Status, Navigate, Teleport, Evidence, Write)
#: Tools and templates never change while a server runs.
_HINT = CacheHint(ttl_ms=600_000, scope="private")
#: How long ending waits for work under way, in seconds.
_PATIENCE = 1.0


def build_server(app: App, project: str) -> MemoryServer:
    """The server over an open App, for a client that works on `project` ("" when that is not known)."""
    return assemble(Host.of(app), project)


def assemble(host: Host, project: str) -> MemoryServer:
    """The server over a host whose App may not be open yet."""
    kit = Kit(host, project)
    server = MemoryServer(
        "memory-mcp",
        _tools(kit, host.settings.server.profile),
        title="Memory",
        description="Long-term memory for coding agents: a time tree of cited evidence",
        instructions=instructions(),
        version=__version__,
        log_level="WARNING",
        subscriptions=False,
        cache_hints={"tools/list": _HINT, "prompts/list": _HINT, "resources/templates/list": _HINT},
    )
    add_resources(server, kit)
    add_prompts(server)
    add_completion(server, kit)
    return server


def _tools(kit: Kit, profile: str) -> list[Tool]:
    offered = [tool for group in _DEFAULT for tool in group(kit).tools()]
    if profile == "full":
        from memory_mcp.server.tools.curate import Curate
        from memory_mcp.server.tools.full import Full
        from memory_mcp.server.tools.loop import Loop

        offered += [tool for group in (Full, Loop, Curate) for tool in group(kit).tools()]
    return offered


def instructions() -> str:
    """What an agent is told on connecting."""
    return files("memory_mcp.server").joinpath("instructions.md").read_text(encoding="utf-8")


def serve_stdio(settings: Settings) -> None:
    """Serve one client on this process's stdin and stdout until it closes them or SIGTERM comes.

    The store is opened in the background and what was left underived is caught up with; neither delays the handshake.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(levelname)s: %(message)s")
    service = _Service(settings)
    server = assemble(service.host, caller_project(os.environ, str(Path.cwd())))
    anyio.run(_serve, server, service)


async def _serve(server: MemoryServer, service: "_Service") -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_on_signal, service)
        service.host.start()
        await server.run_stdio_async()
        tasks.cancel_scope.cancel()
    service.close()


async def _end_on_signal(service: "_Service") -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            service.close()
            sys.stderr.flush()
            # A thread still waits in a read of stdin that nothing can end; everything is closed and committed.
            os._exit(0)


class _Service:
    """The App of this process and its deriver, opened and closed together."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._deriver: Deriver | None = None
        self._caught_up = False
        self.host = Host(settings, self._open)

    def _open(self) -> App:
        app = App(self._settings)
        deriver = Deriver(lambda: self._derive(app))
        app.on_write = deriver.notify
        self.host.deriver_error = lambda: deriver.last_error
        deriver.start()
        self._deriver = deriver
        return app

    def _derive(self, app: App) -> None:
        with self.host.publishing:
            if self._caught_up:
                app.derive()
            else:
                app.catch_up()
                self._caught_up = True

    def close(self) -> None:
        """Stop deriving and close the store, waiting for work under way no longer than a client would."""
        app = self.host.opened
        if app is None:
            return
        ending = threading.Thread(target=self._end, args=(app,), name="closing", daemon=True)
        ending.start()
        ending.join(2 * _PATIENCE)
        if ending.is_alive():
            log.warning("ended before the last roll-up; the next start goes on from there")

    def _end(self, app: App) -> None:
        deriver = self._deriver
        if deriver is not None:
            stopping = threading.Thread(target=deriver.stop, name="stopping", daemon=True)
            stopping.start()
            stopping.join(_PATIENCE)
        app.close()
