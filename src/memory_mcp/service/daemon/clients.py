"""The open connections, as `daemon status` shows them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, field
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.running import CallerProcess


@dataclass(slots=True)
class Client:
    """One connection."""

    #: mcp, or rpc for commands and hooks of this program.
    kind: str
    #: As the client names itself; "" until it has.
    name: str = ""
    version: str = ""
    pid: int = 0
    #: Protocol revision it speaks.
    era: str = ""
    cwd: str = ""
    #: The processes above it, the nearest first, and the ids of sessions that its environment names.
    above: tuple[int, ...] = ()
    sessions: frozenset[str] = frozenset()
    since: float = field(default_factory=time.monotonic)

    @property
    def connected_s(self) -> float:
        """Seconds since it connected, with one decimal."""
        return round(time.monotonic() - self.since, 1)

    @property
    def connection(self) -> CallerProcess:
        """The connection as searches take it, under its present name."""
        return CallerProcess(self.name, self.cwd, self.above, self.sessions, is_server=self.kind == "mcp")

    def shape(self) -> dict[str, Any]:
        """Return the connection as JSON values.

        kind, name, version, pid, era, cwd, and connected_s (seconds until now).
        """
        fields = asdict(self)
        for name in ("since", "above", "sessions"):
            del fields[name]
        return fields | {"connected_s": self.connected_s}


class Clients:
    """All open connections, and the time of the last use."""

    def __init__(self) -> None:
        self._open: list[Client] = []
        self._touched = time.monotonic()
        self.served = 0

    @contextmanager
    def count_client(self, client: Client) -> Iterator[Client]:
        """Count a connection as open while the block runs."""
        self._open.append(client)
        self.served += 1
        try:
            yield client
        finally:
            self._open.remove(client)
            self.touch()

    def touch(self) -> None:
        """Count this moment as the last use."""
        self._touched = time.monotonic()

    def __len__(self) -> int:
        return len(self._open)

    def idle_s(self) -> float:
        """Return the seconds since the last connection closed, or since `touch`."""
        return 0.0 if self._open else time.monotonic() - self._touched

    def shapes(self) -> list[dict[str, Any]]:
        """Return the open MCP connections, oldest first, each as `Client.shape`."""
        return [c.shape() for c in self._open if c.kind != "rpc"]

    def commands(self) -> list[dict[str, Any]]:
        """Return the connected commands and hooks, oldest first.

        Each {"pid", "connected_s" (seconds)}, the asking one included.
        """
        return [{"pid": c.pid, "connected_s": c.connected_s} for c in self._open if c.kind == "rpc"]
