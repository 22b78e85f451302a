"""Table `work`: claims that one process at a time holds, and work that is due, claimed by whichever server is free.

Invariants
1. At most one process holds a claim; what a holder that lost its claim still writes is refused (see `Connection.fence_writes`).
2. A process that dies holds its claims no longer than `LEASE` seconds; its work is due again then.
3. Work that comes while work of its kind is done is due again afterwards.
4. Rows hold no word of any text: they alone are read across tenants.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import Busy, MemoryMcpError
from memory_mcp_team.postgres.connection import Connection
from memory_mcp_team.postgres.database import Database, sql

#: How long a claim holds without being renewed (seconds).
LEASE = 15.0
#: How long another holder is waited for (seconds), and how often it is asked meanwhile.
_PATIENCE, _TICK = 2 * LEASE, 0.05
#: Now, by the database's clock (milliseconds): those of several machines differ.
NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_TAKE_CLAIM = f"""INSERT INTO work (tenant, space, name, holder, epoch, until_ms)
  VALUES (%(tenant)s, %(space)s, %(name)s, %(holder)s, 1, {NOW} + %(lease)s)
  ON CONFLICT (tenant, space, name) DO UPDATE
    SET holder = excluded.holder, epoch = work.epoch + 1, until_ms = excluded.until_ms
    WHERE work.until_ms < {NOW}
  RETURNING epoch"""
_OWN_CLAIM = "tenant = %(tenant)s AND space = %(space)s AND name = %(name)s AND holder = %(holder)s AND epoch = %(epoch)s"
_RENEW = f"UPDATE work SET until_ms = {NOW} + %(lease)s WHERE {_OWN_CLAIM}"
_RELEASE = f"UPDATE work SET until_ms = 0, holder = '' WHERE {_OWN_CLAIM}"
#: This process, as others see it.
HOLDER = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@dataclass(slots=True)
class _Claim:
    #: Threads of this process wait for each other here.
    thread_lock: threading.RLock = field(default_factory=threading.RLock)
    depth: int = 0
    #: The epoch under which this process held it last.
    epoch: int = -1


class Claims:
    """The claims that this process holds on one memory."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._lock = threading.Lock()
        self._claims: dict[str, _Claim] = {}

    @contextmanager
    def hold_claim(self, name: str) -> Iterator[bool]:
        """Hold a claim while the block runs.

        Yields whether another process held it since this one did, True at the first time. A thread that holds it may
        hold it again; other threads of this process wait without a bound. Raises Busy if another process keeps it for
        over 30 s. Writes of the block raise Busy if it was lost all the same.
        """
        with self._lock:
            claim = self._claims.setdefault(name, _Claim())
        with claim.thread_lock:
            if claim.depth:
                yield False
                return
            end = time.monotonic() + _PATIENCE
            while True:
                with self._con.database.lend_connection(None) as raw:
                    row = raw.execute(sql(_TAKE_CLAIM), self._make_parameters(name)).fetchone()
                if row:
                    break
                if time.monotonic() > end:
                    raise Busy(f"another process is busy with this memory: {name}", "Call again in a while.")
                time.sleep(_TICK)
            with self.adopt_claim(name, int(row[0])) as changed:
                yield changed

    @contextmanager
    def adopt_claim(self, name: str, epoch: int) -> Iterator[bool]:
        """Hold for a block a claim that `WorkTable.claim_next` took.

        As `hold_claim`, without waiting; this thread must not hold it already.
        """
        with self._lock:
            claim = self._claims.setdefault(name, _Claim())
        with claim.thread_lock:
            changed = epoch != claim.epoch + 1
            claim.epoch = epoch
            over = threading.Event()
            threading.Thread(target=self._renew_claim, args=(name, epoch, over), name=f"claim of {name}", daemon=True).start()
            claim.depth = 1
            try:
                with self._con.fence_writes(name, epoch):
                    yield changed
            finally:
                claim.depth = 0
                over.set()
                # Not let go, it runs out.
                with suppress(MemoryMcpError):
                    self._run_statement(_RELEASE, name, epoch)

    def _make_parameters(self, name: str, epoch: int = 0) -> dict[str, object]:
        memory = {"tenant": self._con.tenant, "space": self._con.space}
        return {**memory, "name": name, "holder": HOLDER, "lease": int(LEASE * 1000), "epoch": epoch}

    def _renew_claim(self, name: str, epoch: int, over: threading.Event) -> None:
        while not over.wait(LEASE / 3):
            with suppress(MemoryMcpError):
                self._run_statement(_RENEW, name, epoch)

    def _run_statement(self, statement: str, name: str, epoch: int) -> None:
        """Run a statement outside this thread's transactions."""
        with self._con.database.lend_connection(None) as raw:
            raw.execute(sql(statement), self._make_parameters(name, epoch))


_CLAIM_NEXT = f"""WITH next AS (
    SELECT tenant, space, name FROM work
    WHERE name = ANY (%(names)s) AND until_ms < {NOW} AND (due_ms <= {NOW} OR holder <> '')
    ORDER BY due_ms NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED)
  UPDATE work SET holder = %(holder)s, epoch = work.epoch + 1, until_ms = {NOW} + %(lease)s, due_ms = NULL
    FROM next WHERE work.tenant = next.tenant AND work.space = next.space AND work.name = next.name
    RETURNING work.tenant, work.space, work.name, work.epoch"""
_PUT_DUE = f"""INSERT INTO work (tenant, space, name, due_ms) VALUES (%(tenant)s, %(space)s, %(name)s, {NOW} + %(after)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET due_ms = least(work.due_ms, excluded.due_ms)"""
_PUT_DUE_ONCE = f"""INSERT INTO work (tenant, space, name, due_ms) VALUES (%(tenant)s, %(space)s, %(name)s, {NOW} + %(after)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET due_ms = excluded.due_ms WHERE work.due_ms IS NULL AND work.holder = ''"""
_RELEASE_ALL = "UPDATE work SET until_ms = 0, due_ms = coalesce(due_ms, 0), holder = '' WHERE holder = %s"
_NEXT_DUE = f"SELECT min(due_ms) - {NOW} FROM work WHERE name = ANY (%(names)s) AND due_ms IS NOT NULL AND until_ms < {NOW}"
_COUNT_DUE = f"SELECT name, count(*) FROM work WHERE due_ms <= {NOW} GROUP BY name"


@dataclass(frozen=True, slots=True)
class ClaimedWork:
    """Work that this process has claimed."""

    tenant: int
    space: int
    name: str
    epoch: int


class WorkTable:
    """The table `work` of a database. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim_next(self, names: Sequence[str]) -> ClaimedWork | None:
        """Claim the work that has been due for longest, or None.

        Work whose holder's lease is over comes first.
        """
        parameters = {"names": list(names), "holder": HOLDER, "lease": int(LEASE * 1000)}
        with self._database.lend_connection(None) as raw:
            row = raw.execute(sql(_CLAIM_NEXT), parameters).fetchone()
        return ClaimedWork(*row) if row else None

    def put_due(self, tenant: int, space: int, name: str, after: float) -> None:
        """Have work done in `after` seconds at the latest."""
        self._run_statement(_PUT_DUE, tenant, space, name, after)

    def put_due_once(self, tenant: int, space: int, name: str, after: float) -> None:
        """Have work done in `after` seconds, unless it is due."""
        self._run_statement(_PUT_DUE_ONCE, tenant, space, name, after)

    def _run_statement(self, statement: str, tenant: int, space: int, name: str, after: float) -> None:
        parameters = {"tenant": tenant, "space": space, "name": name, "after": int(after * 1000)}
        with self._database.lend_connection(None) as raw:
            raw.execute(sql(statement), parameters)

    def release_all(self) -> None:
        """Release everything that this process holds; it is due at once."""
        with self._database.lend_connection(None) as raw:
            raw.execute(_RELEASE_ALL, [HOLDER])

    def seconds_until_due(self, names: Sequence[str], longest: float) -> float:
        """Return the seconds until work is due, at most `longest`."""
        with self._database.lend_connection(None) as raw:
            row = raw.execute(sql(_NEXT_DUE), {"names": list(names)}).fetchone()
        return longest if row is None or row[0] is None else min(max(int(row[0]) / 1000, 0.0), longest)

    def count_due(self) -> dict[str, int]:
        """Return by kind how many memories wait for work."""
        with self._database.lend_connection(None) as raw:
            return {str(name): int(count) for name, count in raw.execute(sql(_COUNT_DUE)).fetchall()}
