"""Find the session that a caller runs in, from recorded hooks and transcripts.

Invariants
1. A call comes from within a turn: a session whose last turn has ended, or that has ended itself, is not the caller's.
2. A session is the caller's for sure where both have the client's process; else by client and working directory, where it
was heard of lately. Where that fits several, all of them are left out: one of them asks.
"""

import threading
from collections.abc import Iterable
from dataclasses import field

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
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
class CallerProcess:
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

    def observe_events(self, events: Iterable[Event]) -> None:
        """Note newly stored events that a client recorded."""
        now = self.clock.now_ms()
        with self._lock:
            for event in events:
                if now - event.timestamp < _LONG_TURN and _is_by_client(event):
                    self._observe_event(event)
            for name in list(self._sessions)[: max(0, len(self._sessions) - _MOST)]:
                del self._sessions[name]

    def find_sessions(self, caller: CallerProcess) -> frozenset[ExcludedSession]:
        """Return the sessions that a caller runs in.

        Each with the time from which its agent still knows it.
        """
        now = self.clock.now_ms()
        if not self._is_loaded:
            last = self.store.last_seq()
            recent = self.store.list_arrivals(max(0, last - _RECENT), last, Scope()) if last else []
            self.observe_events(sorted(recent, key=lambda e: e.order))
            self._is_loaded = True
        with self._lock:
            alive = {n: s for n, s in self._sessions.items() if now - s.heard_ms < _LONG_TURN}
        names = (
            [n for n in alive if n in caller.sessions]
            or _match_processes(caller, alive, now)
            or _match_directory(caller, alive, now)
        )
        return frozenset(ExcludedSession(name, self.known_from(name)) for name in names)

    def known_from(self, session: str) -> int:
        """Return when a session was last compacted (UTC ms), else 0.

        What came before is forgotten by its agent.
        """
        with self._lock:
            known_session = self._sessions.get(session)
        if known_session is not None and known_session.compacted_ms is not None:
            return known_session.compacted_ms
        if known_session is None:
            return 0
        moment = max((e.timestamp for e in self.store.list_recaps([known_session.stream])), default=0)
        known_session.compacted_ms = max(moment, known_session.compacted_ms or 0)
        return known_session.compacted_ms

    def _observe_event(self, event: Event) -> None:
        """The lock is held."""
        session = self._sessions.pop(event.session_id, None) or _Session(event.agent, event.stream)
        session.stream = session.stream if event.thread else event.stream
        self._sessions[event.session_id] = session
        session.cwd = event.metadata.get("cwd", "") or session.cwd
        if pid_text := mark_of(event, PIDS):
            session.pids = tuple(int(pid) for pid in pid_text.split() if pid.isdecimal())
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


def _match_processes(caller: CallerProcess, sessions: dict[str, _Session], now_ms: int) -> list[str]:
    """Return sessions within a turn that share the caller's processes."""
    distances: dict[str, int] = {}
    for name, session in sessions.items():
        above = session.pids[:_ABOVE]
        distance = next((index for index, pid in enumerate(caller.pids[:_ABOVE]) if pid in above), None)
        if distance is not None and now_ms < session.turn_until_ms and _is_client(caller, session, unknown=True):
            distances[name] = distance
    least = min(distances.values(), default=0)
    return [name for name, distance in distances.items() if distance == least]


def _match_directory(caller: CallerProcess, sessions: dict[str, _Session], now_ms: int) -> list[str]:
    """Return recent sessions of the caller's client in its directory.

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
        and _is_client(caller, session, unknown=False)
    ]


def _is_client(caller: CallerProcess, session: _Session, unknown: bool) -> bool:
    """Return whether the caller's client may be the session's.

    "codex-mcp-client" is codex; `unknown`: the result if it has no name.
    """
    if not caller.agent:
        return unknown
    return bool(session.agent) and caller.agent.lower().replace(" ", "-").startswith(session.agent.lower())


def _is_by_client(event: Event) -> bool:
    return bool(event.agent) and (event.source.startswith(HOOK) or event.source == event.agent)
