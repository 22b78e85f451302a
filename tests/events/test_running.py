"""Which session a caller runs in, as far as hooks and transcripts tell."""

from dataclasses import replace

import pytest

from memory_mcp.capture.running import PIDS, CallerProcess, RunningSessions
from memory_mcp.model.event import HOOK, RECAP, Event, EventType, ExcludedSession, Role
from memory_mcp.storage.duckdb.store import DuckStorage
from tests.factories import event
from tests.fakes import FakeClock

NOW = 1_768_200_000_000
MINUTE = 60_000
SERVER = CallerProcess("claude-code", "/w", (10, 1000), is_server=True)


def prompt(session: str, at: int = NOW, pids: str = "", cwd: str = "/w", agent: str = "claude-code") -> Event:
    told = {"cwd": cwd} | ({PIDS: pids} if pids else {})
    return replace(event(f"{session} {at}", at, session, metadata=told, agent=agent), source=HOOK + agent)


def end_of_turn(session: str, at: int) -> Event:
    return replace(event("Done.", at, session, Role.ASSISTANT), source=f"{HOOK}claude-code")


@pytest.fixture
def running(storage: DuckStorage) -> RunningSessions:
    return RunningSessions(storage.events, FakeClock(NOW + MINUTE))


def names(found: frozenset[ExcludedSession]) -> set[str]:
    return {one.session_id for one in found}


def test_a_session_is_known_by_the_process_of_its_client(running: RunningSessions) -> None:
    running.observe_events([prompt("mine", pids="11 10 1000"), prompt("other", pids="21 20 1000")])
    assert names(running.find_sessions(SERVER)) == {"mine"}
    assert names(running.find_sessions(replace(SERVER, pids=(20, 1000)))) == {"other"}
    assert names(running.find_sessions(replace(SERVER, agent="codex-mcp-client"))) == set()
    # A client without a name is believed by its process.
    assert names(running.find_sessions(replace(SERVER, agent=""))) == {"mine"}


def test_without_processes_those_of_its_client_and_directory_that_are_within_a_turn_are_left_out(
    running: RunningSessions,
) -> None:
    running.observe_events([
        *(prompt("one"), prompt("two", cwd="/elsewhere"), prompt("three", agent="codex"), prompt("four"), prompt("long")),
        end_of_turn("four", NOW + 1),
    ])  # fmt: skip
    blind = replace(SERVER, pids=())
    assert names(running.find_sessions(blind)) == {"one", "long"}
    running.clock.now_ms = lambda: NOW + 40 * MINUTE  # type: ignore[method-assign]
    assert names(running.find_sessions(blind)) == set()


def test_a_command_that_a_person_types_is_in_no_session(running: RunningSessions) -> None:
    running.observe_events([prompt("mine", pids="11 10 1000")])
    assert running.find_sessions(CallerProcess(cwd="/w")) == frozenset()
    assert names(running.find_sessions(CallerProcess(cwd="/w", sessions=frozenset({"mine"})))) == {"mine"}


def test_a_turn_that_has_ended_asks_nothing(running: RunningSessions) -> None:
    running.observe_events([prompt("mine", pids="11 10"), end_of_turn("mine", NOW + 1)])
    assert running.find_sessions(SERVER) == frozenset()
    running.observe_events([prompt("mine", NOW + 2)])
    assert names(running.find_sessions(SERVER)) == {"mine"}
    over = replace(
        event("Session ended (exit)", NOW + 3, "mine", Role.SYSTEM, EventType.SESSION_END), source=f"{HOOK}claude-code"
    )
    running.observe_events([over])
    assert running.find_sessions(SERVER) == frozenset()


def test_what_came_before_a_compaction_is_forgotten_by_the_agent_also_after_a_restart(storage: DuckStorage) -> None:
    recap = replace(
        event("So far.", NOW + 5, "mine", Role.SYSTEM, EventType.NOTE, metadata={RECAP: "true"}), source=f"{HOOK}claude-code"
    )
    events = [prompt("mine", pids="11 10"), recap, prompt("mine", NOW + 9)]
    clock = FakeClock(NOW + MINUTE)
    running = RunningSessions(storage.events, clock)
    running.observe_events(events)
    expected = frozenset({ExcludedSession("mine", NOW + 5)})
    assert running.find_sessions(SERVER) == expected
    storage.events.append(events)
    assert RunningSessions(storage.events, clock).find_sessions(SERVER) == expected


def test_a_followed_transcript_tells_of_its_session_too(running: RunningSessions) -> None:
    running.observe_events([replace(prompt("mine"), source="claude-code")])
    assert names(running.find_sessions(SERVER)) == {"mine"}
    # Events of a file that anyone may have written do not.
    running.observe_events([replace(prompt("file"), source="jsonl")])
    assert names(running.find_sessions(SERVER)) == {"mine"}
