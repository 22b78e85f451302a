"""Work of a memory that one process does at a time, whichever of several servers it is.

Invariants
1. At most one process holds a claim; what a holder that lost its claim still writes is refused (see `Connection.fenced`).
2. A process that dies holds its claims no longer than `LEASE` seconds.
"""

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from memory_mcp.errors import MemoryMcpError
from memory_mcp.storage.postgres.connection import Connection
from memory_mcp.storage.postgres.database import sql

#: How long a claim holds without being renewed (seconds).
LEASE = 15.0
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
_LET_GO = f"UPDATE work SET until_ms = 0 WHERE {_MINE}"
#: This process, as others see it.
HOLDER = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Claims:
    """Claims of one memory by this process."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._lock = threading.Lock()
        #: By name, the threads that hold it here wait for each other.
        self._here: dict[str, threading.RLock] = {}
        self._depth: dict[str, int] = {}

    @contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Hold a claim while the block runs; False where another process holds it. Within itself it is held already."""
        with self._lock:
            here = self._here.setdefault(name, threading.RLock())
        with here:
            if self._depth.get(name):
                yield True
                return
            epoch = self._take(name)
            if epoch is None:
                yield False
                return
            over = threading.Event()
            renewing = threading.Thread(target=self._renew, args=(name, epoch, over), name=f"claim of {name}", daemon=True)
            renewing.start()
            self._depth[name] = 1
            try:
                with self._con.fenced(name, epoch):
                    yield True
            finally:
                self._depth[name] = 0
                over.set()
                with suppress(MemoryMcpError):
                    self._run(_LET_GO, name, epoch)

    def _take(self, name: str) -> int | None:
        with self._con.database.connection(None) as raw:
            row = raw.execute(sql(_TAKE), self._given(name)).fetchone()
        return int(row[0]) if row else None

    def _given(self, name: str, epoch: int = 0) -> dict[str, object]:
        memory = {"tenant": self._con.tenant, "space": self._con.space}
        return {**memory, "name": name, "holder": HOLDER, "lease": int(LEASE * 1000), "epoch": epoch}

    def _renew(self, name: str, epoch: int, over: threading.Event) -> None:
        while not over.wait(LEASE / 3):
            with suppress(MemoryMcpError):
                self._run(_RENEW, name, epoch)

    def _run(self, statement: str, name: str, epoch: int) -> None:
        with self._con.database.connection(None) as raw:
            raw.execute(sql(statement), self._given(name, epoch))
