"""One host for many memories: each call runs on the App of the space that its caller works in, as that caller.

Invariants
1. A call reads and writes as its caller's member: row-level security shows it nothing that the member has no grant for. What
   runs beside it (opening, upkeep of indexes, derivation) is the program's.
2. A caller's role is looked at before the memory is opened, and the database is asked whether it shows the memory to the
   member before anything that is kept of it in this process is used.
3. A caller sees what he has written: where a replica is behind that, the primary answers.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from memory_mcp.app import App
from memory_mcp.base.errors import NotFound, PermissionDenied, Unauthenticated, no_such_space
from memory_mcp.config import Settings
from memory_mcp.requests.response import with_loss
from memory_mcp.search.layers.budget import leave_out
from memory_mcp.server.host import Host
from memory_mcp_team.access.who import Grant, Principal, check
from memory_mcp_team.postgres.connection import ACTING, Connection
from memory_mcp_team.postgres.store import PostgresStorage
from memory_mcp_team.server.opened import Memory, MemoryKey, OpenMemories
from memory_mcp_team.server.replica import Replica

T = TypeVar("T")

#: How long a replica may take to reach what the caller wrote before the primary is asked (seconds), and how often it is looked.
_REACHED, _TICK = 0.25, 0.02
#: Writes of members that are remembered at most.
_WRITES = 10_000
#: Tools that act upon the machine of the memory, which a team's server is for all of its spaces.
_OF_A_MACHINE = frozenset({"pause_capture", "resume_capture", "exclude", "include", "list_paused", "list_excluded"})
#: What tools do whose names no request has.
_SAME_AS = {"get_toc_root": "get_node"}
#: Tools that are not about one space.
ABOUT_ALL = frozenset({"list_spaces", "search_spaces"})
#: Tools that open an id: one of another space than the call's is looked for in the caller's other spaces.
_BY_ID = frozenset({"expand_grip", "get_node", "get_events"})


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls, and the space that the call is about."""

    principal: Principal
    #: None where the caller has no space.
    grant: Grant | None
    #: Whether the call named another space, and this one is looked in because that did not hold what it asked for.
    is_elsewhere: bool = False

    @property
    def space(self) -> Grant:
        """The space of the call.

        Raises NotFound where the caller has none.
        """
        if self.grant is None:
            raise no_such_space()
        return self.grant


#: The caller of the request that is being answered; tasks and threads begun for it inherit it.
SERVED: ContextVar[CallContext | None] = ContextVar("served", default=None)
#: The tool that is being called; "" where none is.
TOOL: ContextVar[str] = ContextVar("tool", default="")
#: The memory that the running call has.
_LENT: ContextVar[Memory | None] = ContextVar("lent", default=None)


def get_caller() -> CallContext:
    """Return who sent the request that is being answered.

    Raises Unauthenticated where the caller is not known.
    """
    caller = SERVED.get()
    if caller is None:
        raise Unauthenticated("nobody is known to call", "Send a token or a key.")
    return caller


def connection_of(app: App) -> Connection:
    """Return the connection of a memory of this server."""
    return cast("PostgresStorage", app.storage).connection


def check_tool(tool: str) -> None:
    """Check that the caller may use a tool in the space of the call, and note the tool in `TOOL`.

    Raises PermissionDenied for a tool that acts on one machine, NotFound for a caller without a space, Unauthenticated for
    an unknown caller, and what `who.check` raises.
    """
    caller = get_caller()
    TOOL.set(tool)
    if tool in _OF_A_MACHINE:
        raise PermissionDenied(f"{tool} is not offered to teams", "Use it on the machine whose capture is meant.")
    if tool not in ABOUT_ALL:
        check(caller.principal, caller.space.space, _SAME_AS.get(tool, tool))


class TeamHost(Host):
    """Runs each call on the memory of the space that its caller works in, as that caller."""

    def __init__(self, settings: Settings, opened: OpenMemories, replica: Replica | None = None) -> None:
        super().__init__(settings, self._refuse_memory)
        self._opened, self._replica = opened, replica
        self._lock = threading.Lock()
        #: The last change after each member's last write, by tenant, space and member.
        self._reached: dict[tuple[int, int, int], tuple[int, int]] = {}
        #: Writing calls now running.
        self._writing = 0

    @staticmethod
    def _refuse_memory() -> App:
        """Raise NotFound: there is no memory but those of spaces."""
        raise no_such_space()

    @property
    def calls(self) -> int:
        """The number of calls that run now."""
        return len(self._running) + self._writing

    async def read(self, work: Callable[[App], T]) -> T:
        """Run `work` on the memory of the call's space in a thread, and return its result; cancelled, its queries are stopped.

        When a tool that opens an id (`_BY_ID`) finds none there, the caller's other spaces are tried one by one in the
        order of their names. Raises what `work` raises; NotFound where no space has the id.
        """
        try:
            return await super().read(work)
        except NotFound:
            if TOOL.get() not in _BY_ID:
                raise
            caller = get_caller()
            for grant in caller.principal.grants:
                if grant == caller.grant or caller.principal.role_in(grant.space) is None:
                    continue
                other = SERVED.set(CallContext(caller.principal, grant, is_elsewhere=True))
                try:
                    return await super().read(work)
                except NotFound:
                    continue
                finally:
                    SERVED.reset(other)
            raise

    @contextmanager
    def lent(self, writing: bool = False, by_primary: bool = False, only_appends: bool = False) -> Iterator[App]:
        """Lend the App of the caller's space.

        Statements within are bound to the caller's member. `writing` checks for the right to write and keeps the
        replica out; `by_primary` keeps the replica out of a read. `only_appends`: for a call that shows nothing, and
        whose write asks the database itself whether the member may see the memory. Raises what `who.check` raises,
        NotFound where the database does not show the space, and what opening raises.
        """
        caller = get_caller()
        member, space = caller.principal.member, caller.space.space
        check(caller.principal, space, "remember" if writing else "get_node")
        began = time.monotonic()
        whose = (caller.principal.tenant, space, member)
        memory_key = MemoryKey(caller.principal.tenant, space)
        replica = replace(memory_key, is_replica=True)
        if self._replica is not None and not (writing or by_primary) and self._has_reached(replica, whose):
            memory_key = replica
        with self._opened.lent(memory_key, reading=not writing) as memory:
            leave_out(time.monotonic() - began)
            acting, lent = ACTING.set(member), _LENT.set(memory)
            try:
                visible_head = "SELECT 1 FROM head WHERE tenant = %(tenant)s AND space = %(space)s"
                if not only_appends and connection_of(memory.app).row(visible_head) is None:
                    # The database is asked as the member.
                    raise no_such_space()
                with self._count_write(memory, whose, writing):
                    yield memory.app
            finally:
                ACTING.reset(acting)
                _LENT.reset(lent)

    @contextmanager
    def lend_as(self, principal: Principal, grant: Grant, writing: bool) -> Iterator[App]:
        """Lend the memory of a space, the primary's, to a thread that answers a caller; raises what `lent` raises."""
        served = SERVED.set(CallContext(principal, grant))
        try:
            # A replica that is behind a cursor looks like a store that was brought back to an earlier state.
            with self.lent(writing, by_primary=True) as app:
                yield app
        finally:
            SERVED.reset(served)

    @contextmanager
    def _count_write(self, memory: Memory, whose: tuple[int, int, int], writing: bool) -> Iterator[None]:
        """Count a write while it runs, and remember how far the memory is after it; do nothing for a read.

        Its writer's next read sees at least that. Only remembered where there is a replica, for the last 10,000 writers.
        """
        if not writing:
            yield
            return
        with self._lock:
            self._writing += 1
        try:
            yield
        finally:
            with self._lock:
                self._writing -= 1
            if self._replica is not None:
                head = connection_of(memory.app).head()
                with self._lock:
                    self._reached.pop(whose, None)
                    self._reached[whose] = (head.last_change, head.resets)
                    while len(self._reached) > _WRITES:
                        del self._reached[next(iter(self._reached))]

    def _has_reached(self, memory_key: MemoryKey, whose: tuple[int, int, int]) -> bool:
        """Return whether a replica has what a member has written.

        Waits for that a quarter of a second at most.

        True where nothing is remembered; what was reached is remembered no more.
        """
        written = self._reached.get(whose)
        if written is None:
            return True
        with self._opened.lent(memory_key) as memory:
            connection, end = connection_of(memory.app), time.monotonic() + _REACHED
            while True:
                connection.heard()
                head = connection.head()
                if (head.last_change, head.resets) >= written:
                    with self._lock:
                        if self._reached.get(whose) == written:
                            del self._reached[whose]
                    return True
                if time.monotonic() > end:
                    return False
                time.sleep(_TICK)

    def with_notices(self, app: App, response: dict[str, Any]) -> dict[str, Any]:
        """Return a response with lines added to its `notices`, as a copy; the same one where there is nothing to tell.

        They tell of losses, of another space than the call's, and how far a replica it was read from is behind.
        """
        response, memory, caller = with_loss(app, response), _LENT.get(), SERVED.get()
        notices = list[str]()
        if caller is not None and caller.is_elsewhere:
            notices.append(f"found in the space {caller.space.name}")
        if memory is not None and memory.place.is_replica and self._replica is not None:
            event, lag_secs = connection_of(app).head().last_event, self._replica.get_lag()
            notices.append(f"read from a replica that has reached event {event}, {lag_secs:.1f} seconds behind")
        return {**response, "notices": [*response.get("notices", ()), *notices]} if notices else response
