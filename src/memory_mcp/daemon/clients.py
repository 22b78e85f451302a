"""Who is connected, as `daemon status` tells it."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Client:
    """One connection."""

    #: mcp, rpc or http.
    kind: str
    pid: int = 0
    cwd: str = ""
    #: As the client names itself; "" until it has.
    name: str = ""
    version: str = ""
    #: Protocol revision it speaks.
    era: str = ""
    since: float = field(default_factory=time.monotonic)

    @property
    def connected_s(self) -> float:
        """How long it has been connected, seconds."""
        return round(time.monotonic() - self.since, 1)

    def shape(self) -> dict[str, Any]:
        """For status answers."""
        return {
            "kind": self.kind,
            "name": self.name,
            "version": self.version,
            "pid": self.pid,
            "era": self.era,
            "cwd": self.cwd,
            "connected_s": self.connected_s,
        }


class Clients:
    """All connections now open, and since when there are none."""

    def __init__(self) -> None:
        self._open: list[Client] = []
        self._touched = time.monotonic()
        self.served = 0

    @contextmanager
    def connected(self, client: Client) -> Iterator[Client]:
        """Counted while the block runs."""
        self._open.append(client)
        self.served += 1
        try:
            yield client
        finally:
            self._open.remove(client)
            self.touch()

    def touch(self) -> None:
        """Something happened that counts as use."""
        self._touched = time.monotonic()

    def __len__(self) -> int:
        """Connections now open."""
        return len(self._open)

    def idle_s(self) -> float:
        """Seconds since the last one left; 0 while there is one."""
        return 0.0 if self._open else time.monotonic() - self._touched

    def shapes(self) -> list[dict[str, Any]]:
        """For status answers; commands of this program are not clients."""
        return [c.shape() for c in self._open if c.kind != "rpc"]

    def commands(self) -> list[dict[str, Any]]:
        """Return the commands and hooks that are connected; one that asks for the status is among them."""
        return [{"pid": c.pid, "connected_s": c.connected_s} for c in self._open if c.kind == "rpc"]


def resident_bytes() -> int:
    """Memory of this process that is in use now; its highest where the platform tells no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123 - one read, no path arithmetic
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource
        import sys

        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest if sys.platform == "darwin" else highest * 1024
