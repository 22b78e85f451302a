"""Find the session that a caller runs in, from what hooks and followed transcripts recorded of it.

Invariants
1. A call comes from within a turn: a session whose last turn has ended, or that has ended itself, is not the caller's.
2. A session is the caller's for sure where both have the client's process; else by client and working directory, where it was
   heard of lately. Where that fits several, all of them are left out: one of them asks.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from memory_mcp.base.clock import Clock
from memory_mcp.model.event import HOOK, MARK, Event, EventType, ExcludedSession, Role, is_recap, mark_of
from memory_mcp.storage.base import EventStore
from memory_mcp.storage.values import Scope

#: Metadata key of a prompt: the processes above its hook, the nearest first. On disk.
PIDS = f"{MARK}pids"
#: A session not heard of for so long is taken to be over, milliseconds: one known by its process, and any other.
_LONG_TURN, _LATELY = 12 * 3_600_000, 30 * 60_000
#: Milliseconds that an assistant's words in a transcript may be the beginning of more: no record there says that a turn ends.
_GOES_ON = 120_000
#: Newest events from which the running sessions are found after a start.
_RECENT = 1000
#: Places above a caller and above a hook at which a shell or a starter may stand between it and the client.
_ABOVE = 3
#: Sessions remembered.
_MOST = 500
_USES = frozenset({EventType.TOOL_CALL, EventType.TOOL_RESULT})
_ENDS = frozenset({EventType.ASSISTANT_STOP, EventType.SESSION_START, EventType.SESSION_END})
_COMPACTED = "(compact)"


@dataclass(frozen=True, slots=True)
class Connection:
    """What is known of the process that a caller runs in."""

    #: As the client names itself; "" if unknown.
    agent: str = ""
    cwd: str = ""
    #: The processes above it, the nearest first.
    pids: tuple[int, ...] = ()
    #: Ids of sessions that its environment names.
    sessions: frozenset[str] = frozenset()
    #: Whether it is a client's own server, not a command that anyone may have typed.
    is_server: bool = False


@dataclass(slots=True)
class _Session:
    """A session as last heard of."""

    agent: str
    #: The stream of its main thread.
    stream: int
    cwd: str = ""
    pids: tuple[int, ...] = ()
    heard_ms: int = 0
    #: Until when it is within a turn, UTC milliseconds.
    turn_until_ms: int = 0
    #: When it was compacted last; None: not looked up yet.
    compacted_ms: int | None = None


@dataclass(slots=True)
class RunningSessions:
    """The sessions of clients that were heard of lately."""

    store: EventStore
    clock: Clock
    _sessions: dict[str, _Session] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_loaded: bool = False

    def observe(self, events: Iterable[Event]) -> None:
        """Take notice of events that were stored just now; those that no client recorded are passed over."""
        now = self.clock.now_ms()
        with self._lock:
            for event in events:
                if now - event.timestamp < _LONG_TURN and _is_by_client(event):
                    self._observe(event)
            for name in list(self._sessions)[: max(0, len(self._sessions) - _MOST)]:
                del self._sessions[name]

    def of(self, caller: Connection) -> frozenset[ExcludedSession]:
        """Return the sessions that a caller runs in, each with the moment from which its agent still knows it."""
        now = self.clock.now_ms()
        self._load()
        with self._lock:
            alive = {n: s for n, s in self._sessions.items() if now - s.heard_ms < _LONG_TURN}
        names = [n for n in alive if n in caller.sessions] or _nearest(caller, alive, now) or _likely(caller, alive, now)
        return frozenset(ExcludedSession(name, self.known_from(name)) for name in names)

    def known_from(self, session: str) -> int:
        """Return when a session was compacted last, UTC milliseconds: what came before is forgotten; 0 for never."""
        with self._lock:
            found = self._sessions.get(session)
        if found is not None and found.compacted_ms is not None:
            return found.compacted_ms
        if found is None:
            return 0
        moment = max((e.timestamp for e in self.store.list_recaps([found.stream])), default=0)
        found.compacted_ms = max(moment, found.compacted_ms or 0)
        return found.compacted_ms

    def _load(self) -> None:
        """Observe the newest stored events, once."""
        if not self._is_loaded:
            last = self.store.last_seq()
            recent = self.store.list_arrivals(max(0, last - _RECENT), last, Scope()) if last else []
            self.observe(sorted(recent, key=lambda e: e.order))
            self._is_loaded = True

    def _observe(self, event: Event) -> None:
        """Note one event of a client in its session; the lock is held."""
        session = self._sessions.pop(event.session_id, None) or _Session(event.agent, event.stream)
        session.stream = session.stream if event.thread else event.stream
        self._sessions[event.session_id] = session
        session.cwd = event.metadata.get("cwd", "") or session.cwd
        if told := mark_of(event, PIDS):
            session.pids = tuple(int(pid) for pid in told.split() if pid.isdecimal())
        if is_recap(event) or (event.type is EventType.SESSION_START and _COMPACTED in event.text):
            session.compacted_ms = max(event.timestamp, session.compacted_ms or 0)
        if event.timestamp < session.heard_ms:
            return
        session.heard_ms = event.timestamp
        if event.type in _ENDS and _COMPACTED not in event.text:
            session.turn_until_ms = 0
        elif event.type in _USES or (event.type is EventType.USER_MESSAGE and event.role is Role.USER):
            session.turn_until_ms = event.timestamp + _LONG_TURN
        elif event.type is EventType.ASSISTANT_MESSAGE and not event.thread:
            session.turn_until_ms = 0 if event.source.startswith(HOOK) else event.timestamp + _GOES_ON


def _nearest(caller: Connection, sessions: dict[str, _Session], now_ms: int) -> list[str]:
    """Return the sessions within a turn whose hooks have the caller's client above them."""
    places: dict[str, int] = {}
    for name, session in sessions.items():
        above = session.pids[:_ABOVE]
        place = next((at for at, pid in enumerate(caller.pids[:_ABOVE]) if pid in above), None)
        if place is not None and now_ms < session.turn_until_ms and _fits(caller, session, unknown=True):
            places[name] = place
    least = min(places.values(), default=0)
    return [name for name, place in places.items() if place == least]


def _likely(caller: Connection, sessions: dict[str, _Session], now_ms: int) -> list[str]:
    """Return the sessions of the caller's client in its directory that were heard of lately and are within a turn.

    A session known by another client's process is not the caller's.
    """
    return [
        name
        for name, session in sessions.items()
        if caller.is_server
        and not (caller.pids and session.pids)
        and caller.cwd
        and session.cwd == caller.cwd
        and now_ms < min(session.turn_until_ms, session.heard_ms + _LATELY)
        and _fits(caller, session, unknown=False)
    ]


def _fits(caller: Connection, session: _Session, unknown: bool) -> bool:
    """Return whether the caller's client may be the session's: "codex-mcp-client" is codex; `unknown`: where it has no name."""
    if not caller.agent:
        return unknown
    return bool(session.agent) and caller.agent.lower().replace(" ", "-").startswith(session.agent.lower())


def _is_by_client(event: Event) -> bool:
    """Return whether a client recorded an event, by its hook or in its own transcript."""
    return bool(event.agent) and (event.source.startswith(HOOK) or event.source == event.agent)
