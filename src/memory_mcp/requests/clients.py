"""The programs on this machine that can use the memory, as their own configuration says."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.install.base import Environment
from memory_mcp.install.status import statuses, trusting
from memory_mcp.model.event import HOOK
from memory_mcp.requests.entry import answers
from memory_mcp.requests.scope import Caller

if TYPE_CHECKING:
    from memory_mcp.app import App


@dataclass(frozen=True, slots=True)
class ListClients:
    """Request for the programs that were found, or whose configuration names the memory."""


@dataclass(frozen=True, slots=True)
class ClientFound:
    """One program: whether it starts the memory, and how many of its hooks hand over what happens."""

    client: str
    title: str
    uses_memory: bool
    hooks_on: int
    hooks: int
    #: What is wrong with its configuration, in words.
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientList:
    """The programs, in the order of the installer's table."""

    clients: Sequence[ClientFound]
    #: Why the programs cannot be found out; "" where they can.
    problem: str = ""


@answers("list_clients", ListClients)
def list_clients(app: "App", _: ListClients, caller: Caller) -> ClientList:
    """Return the programs that were found or are configured.

    Where that cannot be found out at all the list is empty and `problem` says why. Raises InvalidQuery for a
    caller bound to one project.
    """
    caller.refuse_all(app, "the list of programs")
    home = str(Path.home())
    try:
        hook_clients = {source.removeprefix(HOOK) for source in app.storage.latest_times() if source.startswith(HOOK)}
        reports = [trusting(report, hook_clients) for report in statuses(Environment(sys.platform, os.environ, home, home))]
    except MemoryMcpError as error:
        return ClientList(clients=[], problem=error.message)
    clients = []
    for report in reports:
        if report.found or report.configured or report.recording:
            missing = [f"it would start {server.command}, which is not there" for server in report.servers if not server.runs]
            on, of = max(((on - report.untrusted.get(level, 0), of) for level, (on, of) in report.hooks.items()), default=(0, 0))
            untrusted = [f"{line}: {report.meanwhile}" for line in report.hook_lines() if report.untrusted]
            doubled = [f"{report.doubled}: {report.undoubling_command}"] if report.doubled else []
            problems = [*missing, *untrusted, *doubled, *report.unreadable]
            clients.append(ClientFound(report.client, report.title, report.configured, on, of, problems))
    return ClientList(clients=clients)
