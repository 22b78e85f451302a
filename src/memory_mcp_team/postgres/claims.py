"""Claims: work of a memory that one process does at a time, whichever of several servers it is.

Invariants
1. At most one process holds a claim; what a holder that lost its claim still writes is refused (see `Connection.fenced`).
2. A process that dies holds its claims no longer than `LEASE` seconds.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from memory_mcp.base.errors import Busy, MemoryMcpError
from memory_mcp_team.postgres.connection import Connection
from memory_mcp_team.postgres.database import sql

#: How long a claim holds without being renewed (seconds).
LEASE = 15.0
#: How long another holder is waited for (seconds), and how often it is asked meanwhile.
_PATIENCE, _TICK = 2 * LEASE, 0.05
#: Now, by the database's clock (milliseconds): those of several machines differ.
NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_TAKE = f"""INSERT INTO work (tenant, space, name, holder, epoch, until_ms)
  VALUES (%(tenant)s, %(space)s, %(name)s, %(holder)s, 1, {NOW} + %(lease)s)
  ON CONFLICT (tenant, space, name) DO UPDATE
    SET holder = excluded.holder, epoch = work.epoch + 1, until_ms = excluded.until_ms
    WHERE work.until_ms < {NOW}
  RETURNING epoch"""
_MINE = "tenant = %(tenant)s AND space = %(space)s AND name = %(name)s AND holder = %(holder)s AND epoch = %(epoch)s"
_RENEW = f"UPDATE work SET until_ms = {NOW} + %(lease)s WHERE {_MINE}"
_LET_GO = f"UPDATE work SET until_ms = 0, holder = '' WHERE {_MINE}"
#: This process, as others see it.
HOLDER = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@dataclass(slots=True)
class _Claim:
    """The state of one claim in this process."""

    #: Threads of this process wait for each other here.
    here: threading.RLock = field(default_factory=threading.RLock)
    depth: int = 0
    #: The epoch under which this process held it last.
    epoch: int = -1


class Claims:
    """The claims that this process holds on one memory."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._lock = threading.Lock()
        self._known: dict[str, _Claim] = {}

    @contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Hold a claim while the block runs.

        Yields whether another process held it since this one did, True at the first time. A thread that holds it may
        hold it again (yields False); other threads of this process wait without a bound. Raises Busy when another
        process keeps it for longer than two leases (30 s). It is renewed meanwhile by a thread; writes of the block
        raise Busy once it was lost all the same.
        """
        with self._lock:
            claim = self._known.setdefault(name, _Claim())
        with claim.here:
            if claim.depth:
                yield False
                return
            end = time.monotonic() + _PATIENCE
            while True:
                with self._con.database.connection(None) as raw:
                    row = raw.execute(sql(_TAKE), self._given(name)).fetchone()
                if row:
                    break
                if time.monotonic() > end:
                    raise Busy(f"another process is busy with this memory: {name}", "Call again in a while.")
                time.sleep(_TICK)
            with self.adopt_claim(name, int(row[0])) as changed:
                yield changed

    @contextmanager
    def adopt_claim(self, name: str, epoch: int) -> Iterator[bool]:
        """Hold for a block a claim that this process took with another statement under `HOLDER`, with that epoch.

        As with `held`, it is renewed meanwhile, released at the end, and yielded is whether another process held it since
        this one did. It is not waited for, and this thread must not hold it already. If releasing fails, the claim runs out
        by itself.
        """
        with self._lock:
            claim = self._known.setdefault(name, _Claim())
        with claim.here:
            changed = epoch != claim.epoch + 1
            claim.epoch = epoch
            over = threading.Event()
            threading.Thread(target=self._renew, args=(name, epoch, over), name=f"claim of {name}", daemon=True).start()
            claim.depth = 1
            try:
                with self._con.fence_writes(name, epoch):
                    yield changed
            finally:
                claim.depth = 0
                over.set()
                # Not let go, it runs out.
                with suppress(MemoryMcpError):
                    self._run(_LET_GO, name, epoch)

    def _given(self, name: str, epoch: int = 0) -> dict[str, object]:
        """Return the parameters of the statements about a claim: tenant, space, name, holder, lease (milliseconds) and epoch."""
        memory = {"tenant": self._con.tenant, "space": self._con.space}
        return {**memory, "name": name, "holder": HOLDER, "lease": int(LEASE * 1000), "epoch": epoch}

    def _renew(self, name: str, epoch: int, over: threading.Event) -> None:
        """Renew a claim every third of a lease until `over` is set; errors are passed over, and tried again."""
        while not over.wait(LEASE / 3):
            with suppress(MemoryMcpError):
                self._run(_RENEW, name, epoch)

    def _run(self, statement: str, name: str, epoch: int) -> None:
        """Run and commit a statement about a claim on a connection bound to nobody, outside this thread's transactions."""
        with self._con.database.connection(None) as raw:
            raw.execute(sql(statement), self._given(name, epoch))
