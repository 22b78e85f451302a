"""The latest events, chosen in memory, and those that were read."""

from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.capture.log import EventLog
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event, ExcludedSession
from memory_mcp.model.ids import event_id
from memory_mcp.storage.duckdb import events as duck_events
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.duckdb.recent import RecentEvents
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.values import Scope
from tests.factories import a_small_history, run_of
from tests.fakes import FakeClock
from tests.work import asked_of_the_store


def test_arrivals_are_chosen_in_memory_as_in_the_file(data_dir: Path) -> None:
    store = open_storage(data_dir, "Europe/Berlin")
    assert isinstance(store, DuckStorage)
    drafts = a_small_history(1)
    log = EventLog(store.events, FakeClock())
    for start in range(0, len(drafts), 50):
        log.append(drafts[start : start + 50], "test")
    # A copy, which is hidden, and letters that are folded in other ways.
    log.append([replace(drafts[-1], source_id="again", session_id="again")], "other")
    log.append([replace(drafts[-1], text="Größe und İstanbul", source_id="more")], "other")
    day = drafts[0].timestamp or 0
    scopes = [
        Scope(),
        Scope(project=drafts[0].project),
        Scope(agent=drafts[0].agent, window=TimeWindow(day, day + 86_400_000)),
        Scope(role="user", excluded=frozenset([ExcludedSession(drafts[0].session_id, day)])),
        Scope(speaker="nobody"),
    ]
    questions = [(after, scope, probes) for after in (0, 40) for scope in scopes for probes in ((), ("the",), ("istan", "zzz"))]

    def list_all() -> list[list[Event]]:
        return [store.events.list_arrivals(after, store.events.last_seq(), scope, probes) for after, scope, probes in questions]

    in_memory = list_all()
    store.events.drop_recent()
    assert in_memory == list_all()
    assert len({len(found) for found in in_memory}) > 4
    store.close()


def test_arrivals_are_chosen_in_memory_while_others_are_being_stored(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_storage(data_dir, "Europe/Berlin")
    events = run_of(80)
    store.events.append(events[:60])
    seen: list[tuple[list[Event], list[str]]] = []

    def look(name: str) -> None:
        if name == "events.before_commit":
            with asked_of_the_store() as read:
                seen.append((store.events.list_arrivals(0, store.events.last_seq(), Scope()), read.statements))

    monkeypatch.setattr(duck_events, "failpoint", look)
    store.events.append(events[60:])
    assert seen == [(events[:60], [])]
    assert store.events.list_arrivals(0, store.events.last_seq(), Scope()) == events
    store.close()


def test_read_events_are_kept_up_to_a_bound_and_none_that_was_read_before_all_were_dropped(data_dir: Path) -> None:
    store = open_storage(data_dir, "Europe/Berlin")
    EventLog(store.events, FakeClock()).append(a_small_history(1), "test")
    event = next(iter(store.events.iter_all()))[0].event
    recent, drop_count = RecentEvents(), 0
    recent.drop_all()
    recent.keep_read({event.event_id: event}, drop_count)
    assert recent.find_events([event.event_id]) == {}
    recent.keep_read({event.event_id: event}, recent.drops)
    assert recent.find_events([event.event_id]) == {event.event_id: event}
    others = [replace(event, event_id=event_id(number, "other"), text="word " * 20_000) for number in range(40)]
    for other in others:
        recent.keep_read({other.event_id: other}, recent.drops)
    kept = recent.find_events([event.event_id, *(other.event_id for other in others)])
    assert list(kept.values()) == others[-len(kept) :]
    assert 5 < len(kept) < 40
    store.close()
