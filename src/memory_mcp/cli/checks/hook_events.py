"""Tells which clients' hooks have handed over an event: stored by the daemon or here, or waiting in the spool."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from memory_mcp.base import paths
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli.checks.base import Look
from memory_mcp.install.base import Place
from memory_mcp.install.status import ClientStatus, statuses, trusting
from memory_mcp.model.event import HOOK
from memory_mcp.service.client import link
from memory_mcp.service.client.spoolfile import client_of


def running(look: Look) -> link.Line | None:
    """Return a connection to the daemon of the data directory; None where none runs or can run. None is started."""
    if not link.usable():
        return None
    try:
        return link.reach(link.Wanted(str(look.directory.absolute()), look.config), "rpc", start=False)
    except (OSError, ValueError):
        return None


def client_statuses(look: Look) -> list[ClientStatus]:
    """Return the status of every client, in which hooks that handed over an event count as trusted.

    The store is only read, and only if hooks of a client wait for trust. Raises InstallRefused where the records of
    install cannot be read.
    """
    all_statuses = statuses(Place(sys.platform, look.environ, str(look.home), str(Path.cwd())))
    if not any(status.untrusted for status in all_statuses):
        return all_statuses
    clients = {source.removeprefix(HOOK) for source in _list_sources(look) if source.startswith(HOOK)}
    clients.update(_iter_spooled_clients(look))
    return [trusting(status, clients) for status in all_statuses]


def _list_sources(look: Look) -> list[str]:
    """Return the sources of stored events, as the daemon or the store tells; empty where neither can be asked."""
    if (line := running(look)) is not None:
        try:
            return list(link.converse(line, "memory/sources", {})["sources"])
        except (link.Refused, OSError, ValueError, KeyError):
            return []
        finally:
            line.close()
    if not (look.directory / "memory.duckdb").is_file():
        return []
    from memory_mcp.storage.duckdb import look_at

    try:
        storage = look_at(look.directory)
    except MemoryMcpError:
        return []
    try:
        return list(storage.latest_times())
    finally:
        storage.close()


def _iter_spooled_clients(look: Look) -> Iterator[str]:
    """Yield the client of each payload that waits in the spool."""
    with suppress(OSError):
        for payload in (Path(paths.spool_dir(str(look.directory))) / "new").iterdir():
            with suppress(ValueError):
                yield client_of(payload.name)
