"""Builds the MCP server, and serves it over stdio in this process."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import NoReturn

import anyio
from mcp.server import CacheHint
from mcp.server.mcpserver.tools import Tool

from memory_mcp.app import App
from memory_mcp.base import paths
from memory_mcp.base.children import few_collections
from memory_mcp.base.scope import caller_project
from memory_mcp.config import Settings
from memory_mcp.requests.registry import load_entry
from memory_mcp.server.apps import add_apps
from memory_mcp.server.calls import SERVER_INFO, Kit, make_kit
from memory_mcp.server.completion import add_completion
from memory_mcp.server.ending import signals_of_end
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from memory_mcp.server.pipe import serve_pipe
from memory_mcp.server.prompts import add_prompts
from memory_mcp.server.resources import add_resources
from memory_mcp.server.service import Service
from memory_mcp.server.tools import make_tool
from memory_mcp.storage.lock import make_locked_error, prepare_directory

#: Tools and templates never change while a server runs.
_HINT = CacheHint(ttl_ms=600_000, scope="private")


def build_server(app: App, project: str) -> MemoryServer:
    """Return a server over an open App."""
    return assemble(Host.of(app), project)


def assemble(host: Host, project: str = "", more: Sequence[Callable[[Kit], list[Tool]]] = ()) -> MemoryServer:
    """Return the MCP server of a host.

    It has the tools of the settings' profile and those of `more`, resources, pages, prompts and completion. `project` is used
    for connections that name none; where it is "" too, the setting server.project.
    """
    kit = make_kit(host, project)
    makers: dict[str, Callable[[], Tool]] = {name: partial(_load_tool, kit, name) for name in kit.tools}
    makers |= {tool.name: partial(_return_tool, tool) for group in more for tool in group(kit)}
    server = MemoryServer(
        tools=makers,
        **SERVER_INFO,
        instructions=instructions(),
        log_level="WARNING",
        subscriptions=False,
        cache_hints={"tools/list": _HINT, "prompts/list": _HINT, "resources/templates/list": _HINT},
    )
    add_resources(server, kit)
    add_apps(server)
    add_prompts(server, kit)
    add_completion(server, kit)
    return server


def _load_tool(kit: Kit, name: str) -> Tool:
    return make_tool(kit, load_entry(name))


def _return_tool(tool: Tool) -> Tool:
    return tool


def instructions() -> str:
    """Return the package's instructions for clients that connect."""
    return files("memory_mcp.server").joinpath("instructions.md").read_text(encoding="utf-8")


def serve_stdio(settings: Settings, project: str = "", in_use: bool = False) -> None:
    """Serve one client on stdin and stdout, then end the process.

    The end is the client's, or a signal that asks for it. It never returns (os._exit). The store is opened in the background and
    what was left underived is caught up with; neither delays the handshake.

    Args:
        settings: The settings in force.
        project: The project that the command line names; the environment comes first.
        in_use: Another process has the store open: it is never opened here, and each call answers with that error.

    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(levelname)s: %(message)s")
    service = None if in_use else Service(settings)
    host = Host(settings, partial(_refuse_opening, settings)) if service is None else service.host
    environ = {**os.environ, paths.PROJECT: os.environ.get(paths.PROJECT) or project}
    project = caller_project(environ, str(Path.cwd()), configured=settings.server.project)
    with few_collections():
        server = assemble(host, project)
    anyio.run(_serve_client, server, make_kit(host, project), service)
    _end_process()


def _refuse_opening(settings: Settings) -> NoReturn:
    """Raise StorageLocked, or why the directory cannot be used."""
    directory = settings.storage.directory.absolute()
    prepare_directory(directory)
    raise make_locked_error(directory)


def _end_process() -> NoReturn:
    """Flush stderr and end this process at once with status 0.

    Everything must be closed and committed. A thread may still wait in a read of stdin, or be loading an engine; an interpreter
    that is taken down under it aborts.
    """
    sys.stderr.flush()
    os._exit(0)


async def _serve_client(server: MemoryServer, kit: Kit, service: Service | None) -> None:
    """Serve the client on stdin and stdout, then close the service."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_on_signal, service)
        if service is not None:
            service.host.start()
        await serve_pipe(server, kit)
        tasks.cancel_scope.cancel()
    if service is not None:
        service.close()


async def _end_on_signal(service: Service | None) -> None:
    with signals_of_end() as received:
        async for _ in received:
            if service is not None:
                service.close()
            _end_process()
