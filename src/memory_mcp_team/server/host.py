"""One host for many memories: each call runs on the App of the space that its caller works in, as that caller.

Invariants
1. A call reads and writes as its caller's member: row-level security shows it nothing that the member has no grant for. What
   runs next to it (opening, upkeep of indexes, derivation) is the program's.
2. A caller's role is looked at before the memory is opened, and the database is asked whether it shows the memory to the
   member before anything that is kept of it in this process is used.
3. A caller sees what it has written: where a replica is behind that, the primary answers.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar, cast

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import MemoryMcpError, NotFound
from memory_mcp.config import Settings
from memory_mcp.requests.response import with_loss
from memory_mcp.search.layers.budget import leave_out
from memory_mcp.server.host import Host
from memory_mcp_team.access.permissions import Grant, Principal, check_request
from memory_mcp_team.errors import PermissionDenied, Unauthenticated, no_such_space
from memory_mcp_team.postgres.connection import ACTING_MEMBER, Connection
from memory_mcp_team.postgres.database import Database
from memory_mcp_team.postgres.store import PostgresStorage
from memory_mcp_team.server.open_memories import MemoryKey, OpenMemories, OpenMemory

_PRIMARY_POSITION = "SELECT pg_current_wal_lsn() - '0/0'"
_REPLICA_POSITION = """SELECT coalesce(pg_last_wal_replay_lsn(), '0/0') - '0/0', pg_is_in_recovery(),
  coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0)::float8"""
#: An answer is believed for so long (seconds).
_LAG_AGE = 0.5
#: Lag above which the age of the last replayed transaction is used instead of what was seen here (seconds).
_TRUSTED_LAG = 2.0


class Replica:
    """Measures how far a replica is behind its primary. Safe in any thread."""

    def __init__(self, primary: Database, database: Database) -> None:
        self._primary, self.database = primary, database
        self._lock = threading.Lock()
        #: Positions of the primary that the replica had not reached when it was asked last, with when they were seen.
        self._unreached: deque[tuple[float, int]] = deque()
        self._asked_at, self._lag_secs = float("-inf"), 0.0

    def get_lag(self) -> float:
        """Return how many seconds the replica is behind.

        Raises StorageAway if it does not answer.
        """
        with self._lock:
            if time.monotonic() - self._asked_at > _LAG_AGE:
                self._lag_secs = self._measure_lag()
                self._asked_at = time.monotonic()
            return self._lag_secs

    def _measure_lag(self) -> float:
        now = time.monotonic()
        try:
            with self._primary.lend_connection(None) as raw:
                row = raw.execute(_PRIMARY_POSITION).fetchone()
            self._unreached.append((now, int(row[0]) if row else 0))
        except MemoryMcpError:
            # The primary is away: what is known of it remains what the replica has to reach.
            pass
        with self.database.lend_connection(None) as raw:
            replica_row = raw.execute(_REPLICA_POSITION).fetchone()
        assert replica_row is not None
        reached, recovering, age = int(replica_row[0]), bool(replica_row[1]), float(replica_row[2])
        while self._unreached and (not recovering or self._unreached[0][1] <= reached):
            self._unreached.popleft()
        lag_secs = now - self._unreached[0][0] if self._unreached else 0.0
        return max(lag_secs, age) if lag_secs > _TRUSTED_LAG else lag_secs


T = TypeVar("T")

#: How long a replica may take to reach what the caller wrote before the primary is asked (seconds), and how often it is looked.
_REPLICA_WAIT, _TICK = 0.25, 0.02
#: Writes of members that are remembered at most.
_MAX_WRITES = 10_000
#: Tools that act upon the machine of the memory, which a team's server is for all of its spaces.
_MACHINE_TOOLS = frozenset({"pause_capture", "resume_capture", "exclude", "include", "list_paused", "list_excluded"})
#: Tools that are not about one space.
SPACELESS_TOOLS = frozenset({"list_spaces", "search_spaces"})
#: Tools that open an id: one of another space than the call's is looked for in the caller's other spaces.
_ID_TOOLS = frozenset({"expand_grip", "get_node", "get_events"})


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls, and the space that the call is about."""

    principal: Principal
    #: None where the caller has no space.
    grant: Grant | None
    #: Whether the call named another space, and this one is looked in because that did not hold what it asked for.
    is_other_space: bool = False

    @property
    def space(self) -> Grant:
        """The space of the call; NotFound if the caller has none."""
        if self.grant is None:
            raise no_such_space()
        return self.grant


#: The caller of the request that is being answered; tasks and threads begun for it inherit it.
CALL: ContextVar[CallContext | None] = ContextVar("served", default=None)
#: The tool that is being called; "" where none is.
TOOL: ContextVar[str] = ContextVar("tool", default="")
#: The memory that the running call has.
_LENT_MEMORY: ContextVar[OpenMemory | None] = ContextVar("lent", default=None)


def get_call() -> CallContext:
    """Return who sent the request, or raise Unauthenticated."""
    caller = CALL.get()
    if caller is None:
        raise Unauthenticated("the caller is not known", "Send a token or a key.")
    return caller


def get_connection(app: App) -> Connection:
    """Return the connection of a memory of this server."""
    return cast("PostgresStorage", app.storage).connection


def check_tool(tool: str) -> None:
    """Check that the caller may use a tool.

    Raises PermissionDenied for a tool that acts on one machine, and what `get_call` and `check_request` raise.
    """
    caller = get_call()
    TOOL.set(tool)
    if tool in _MACHINE_TOOLS:
        raise PermissionDenied(f"{tool} is not offered to teams", "Use it on the machine whose capture is meant.")
    if tool not in SPACELESS_TOOLS:
        check_request(caller.principal, caller.space.space, tool)


class TeamHost(Host):
    """Runs each call on the memory of the caller's space, as that caller."""

    def __init__(self, settings: Settings, opened: OpenMemories, replica: Replica | None = None) -> None:
        super().__init__(settings, self._refuse_memory)
        self._opened, self._replica = opened, replica
        self._lock = threading.Lock()
        #: The last change after each member's last write, by tenant, space and member.
        self._last_writes: dict[tuple[int, int, int], tuple[int, int]] = {}
        #: Writing calls now running.
        self._writes_running = 0

    @staticmethod
    def _refuse_memory() -> App:
        """Raise NotFound: there is no memory but those of spaces."""
        raise no_such_space()

    @property
    def calls(self) -> int:
        """The number of calls that run now."""
        return len(self._running) + self._writes_running

    async def read(self, work: Callable[[App], T]) -> T:
        """Run `work` on the memory of the call's space, in a thread.

        If a tool that opens an id finds none there, the caller's other spaces are tried in the order of their names.
        """
        try:
            return await super().read(work)
        except NotFound:
            if TOOL.get() not in _ID_TOOLS:
                raise
            caller = get_call()
            for grant in caller.principal.grants:
                if grant == caller.grant or caller.principal.find_role(grant.space) is None:
                    continue
                other = CALL.set(CallContext(caller.principal, grant, is_other_space=True))
                try:
                    return await super().read(work)
                except NotFound:
                    continue
                finally:
                    CALL.reset(other)
            raise

    @contextmanager
    def lent(self, writing: bool = False, by_primary: bool = False, only_appends: bool = False) -> Iterator[App]:
        """Lend the App of the caller's space, statements bound to its member.

        `writing` checks for the right to write; it and `by_primary` keep the replica out. `only_appends` is for a call that shows
        nothing and whose write asks the database whether the member may see the memory. Raises NotFound if the database does not
        show the space, and what `check_request` and opening raise.
        """
        caller = get_call()
        member, space = caller.principal.member, caller.space.space
        check_request(caller.principal, space, "remember" if writing else "get_node")
        began = time.monotonic()
        whose = (caller.principal.tenant, space, member)
        memory_key = MemoryKey(caller.principal.tenant, space)
        replica = replace(memory_key, is_replica=True)
        if self._replica is not None and not (writing or by_primary) and self._has_reached(replica, whose):
            memory_key = replica
        with self._opened.lend_memory(memory_key, reading=not writing) as memory:
            leave_out(time.monotonic() - began)
            acting, lent = ACTING_MEMBER.set(member), _LENT_MEMORY.set(memory)
            try:
                visible_head = "SELECT 1 FROM head WHERE tenant = %(tenant)s AND space = %(space)s"
                if not only_appends and get_connection(memory.app).row(visible_head) is None:
                    # The database is asked as the member.
                    raise no_such_space()
                with self._count_write(memory, whose, writing):
                    yield memory.app
            finally:
                ACTING_MEMBER.reset(acting)
                _LENT_MEMORY.reset(lent)

    @contextmanager
    def lend_as(self, principal: Principal, grant: Grant, writing: bool) -> Iterator[App]:
        """Lend the primary's memory of a space, as a caller."""
        served = CALL.set(CallContext(principal, grant))
        try:
            # A replica that is behind a cursor looks like a store that was brought back to an earlier state.
            with self.lent(writing, by_primary=True) as app:
                yield app
        finally:
            CALL.reset(served)

    @contextmanager
    def _count_write(self, memory: OpenMemory, whose: tuple[int, int, int], writing: bool) -> Iterator[None]:
        """Count a write, and note how far it got."""
        if not writing:
            yield
            return
        with self._lock:
            self._writes_running += 1
        try:
            yield
        finally:
            with self._lock:
                self._writes_running -= 1
            if self._replica is not None:
                head = get_connection(memory.app).get_head()
                with self._lock:
                    self._last_writes.pop(whose, None)
                    self._last_writes[whose] = (head.last_change, head.resets)
                    while len(self._last_writes) > _MAX_WRITES:
                        del self._last_writes[next(iter(self._last_writes))]

    def _has_reached(self, memory_key: MemoryKey, whose: tuple[int, int, int]) -> bool:
        """Return within 0.25 s whether a replica has a member's writes."""
        written = self._last_writes.get(whose)
        if written is None:
            return True
        with self._opened.lend_memory(memory_key) as memory:
            connection, end = get_connection(memory.app), time.monotonic() + _REPLICA_WAIT
            while True:
                connection.expire_head()
                head = connection.get_head()
                if (head.last_change, head.resets) >= written:
                    with self._lock:
                        if self._last_writes.get(whose) == written:
                            del self._last_writes[whose]
                    return True
                if time.monotonic() > end:
                    return False
                time.sleep(_TICK)

    def with_notices(self, app: App, response: dict[str, Any]) -> dict[str, Any]:
        """Return a response with its notices."""
        response, memory, caller = with_loss(app, response), _LENT_MEMORY.get(), CALL.get()
        notices = list[str]()
        if caller is not None and caller.is_other_space:
            notices.append(f"found in the space {caller.space.name}")
        if memory is not None and memory.key.is_replica and self._replica is not None:
            event, lag_secs = get_connection(app).get_head().last_event, self._replica.get_lag()
            notices.append(f"read from a replica that has reached event {event}, {lag_secs:.1f} seconds behind")
        return {**response, "notices": [*response.get("notices", ()), *notices]} if notices else response
