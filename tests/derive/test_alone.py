"""What one event that arrives alone makes the store do, counted: statements, published nodes, bytes; never seconds."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import duckdb
import pytest

from memory_mcp.app import App
from memory_mcp.base.clock import SystemClock
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.calendar import TocLevel, level_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.ids import NodeId
from memory_mcp.server import service as services
from memory_mcp.server.service import Service
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.derive.deriver import Patience
from tests.factories import a_day_of_drafts, a_small_history, draft
from tests.filled import filled
from tests.toc.helpers import findings
from tests.waiting import until

#: Statements of an append and of a derivation to which the roll-up belongs, transactions included: each takes half a
#: millisecond or more, whatever it does.
MOST_APPEND, MOST_DERIVE = 4, 17


class Counting:
    """A DuckDB connection, or a cursor of it, that notes what it executes."""

    def __init__(self, con: Any, noted: list[str]) -> None:
        self._con = con
        self._noted = noted

    def execute(self, sql: str | duckdb.Statement, *rest: Any) -> "Counting":
        text = sql if isinstance(sql, str) else sql.query
        if not text.startswith("PRAGMA"):
            self._noted.append(" ".join(text.split()))
        self._con.execute(sql, *rest)
        return self

    def cursor(self) -> "Counting":
        return Counting(self._con.cursor(), self._noted)

    def __enter__(self) -> "Counting":
        return self

    def __exit__(self, *error: object) -> None:
        self._con.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    usual = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *given, **options: Counting(usual(*given, **options), found))
    return found


def one_after_another(app: App, noted: list[str]) -> tuple[list[str], list[str]]:
    """Statements of the append and of the derivation of an event that continues a session, and of its periods."""
    for number in range(4):
        noted.clear()
        app.write(
            [draft(f"Thought number {number} of the afternoon.", at=f"2026-10-30 15:0{number}:17", session="alone")], "test"
        )
        stored = list(noted)
        noted.clear()
        app.derivation.run_together()
    return stored, list(noted)


def test_an_event_alone_costs_few_statements_and_as_many_in_a_larger_store(data_dir: Path, noted: list[str]) -> None:
    counts = []
    for number, drafts in enumerate((a_day_of_drafts(), a_small_history(1))):
        app = App(filled(data_dir / str(number), drafts, SystemClock()))
        stored, derived = one_after_another(app, noted)
        assert len(stored) <= MOST_APPEND, stored
        assert len(derived) <= MOST_DERIVE, derived
        assert not [sql for sql in derived if sql.startswith("SELECT")], "what was just written is read from memory"
        counts.append((len(stored), len(derived)))
        assert findings(app) == []
        app.close()
    assert counts[0] == counts[1]


@pytest.fixture
def served(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """Make a service with these patiences for events and periods; its store holds a day and has been rolled up."""
    made: list[Service] = []

    def serve(events: Patience, periods: Patience, indexes: bool = False) -> Service:
        monkeypatch.setattr(services, "_EVENTS", events)
        monkeypatch.setattr(services, "_PERIODS", periods)
        drafts = [*a_day_of_drafts(), draft("The first thought.", at="2026-10-30 15:00", session="alone")]
        found = Service(replace(filled(data_dir, drafts, SystemClock()), teleport=TeleportSettings(enabled=indexes)))
        made.append(found)
        found.host.app()
        until(lambda: not found.deriving and not found.indexing)
        # An index that nobody has begun to build is at rest, too.
        kept = found.host.app().accelerators.index_statuses
        until(
            lambda: all(status.health == "healthy" for name, status in kept().items() if name != "topics") and not found.indexing
        )
        return found

    yield serve
    for one in made:
        one.close()


def test_indexes_follow_an_event_alone_without_a_read_or_a_write_of_files(data_dir: Path, noted: list[str]) -> None:
    app = App(filled(data_dir, a_day_of_drafts(), SystemClock()))
    app.storage.copy_rows(lambda: False)
    app.accelerators.catch_up()
    one_after_another(app, noted)
    app.accelerators.maintain()
    app.write([draft("Does the afternoon have a reply?", at="2026-10-30 15:09", session="alone")], "test")
    app.derivation.run_together()
    noted.clear()
    before = sizes_of(data_dir)
    app.accelerators.maintain()
    assert noted == []
    assert sizes_of(data_dir) == before
    assert app.accelerators.remaining_work(app.storage.toc.current_version()) is None
    events = app.storage.events.list_events(Scope(), "alone")
    noted.clear()
    later = [app.storage.events.get_neighbours(event, 0, 3) for event in events]
    assert noted == []
    assert isinstance(app.storage, DuckStorage)
    app.storage.events.drop_recent()
    assert later == [app.storage.events.get_neighbours(event, 0, 3) for event in events]
    assert later[0] == ([], events[1:4])
    app.close()


def sizes_of(folder: Path) -> dict[Path, tuple[int, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def published(app: App, since: int) -> set[NodeId]:
    changes = app.storage.outbox.read_after(since, 1000)
    return {NodeId(c.subject) for c in changes if c.kind is not ChangeKind.EVENTS_APPENDED}


def levels(nodes: set[NodeId]) -> set[TocLevel]:
    return {level_of(node) for node in nodes}


def test_a_segment_is_published_after_a_silence_and_its_periods_after_a_longer_one(served: Callable[..., Service]) -> None:
    service = served(Patience(0, 0), Patience(1.5, 3600))
    app = service.host.app()
    before = app.storage.toc.current_version()
    app.write([draft("A second thought that says much more of Norway.", at="2026-10-30 15:01", session="alone")], "test")
    until(lambda: not service.pending)
    assert levels(published(app, before)) == {TocLevel.SEGMENT}
    day = NodeId("toc:day:2026-10-30")
    assert app.tree.node(day).event_count == 1
    until(lambda: app.tree.node(day).event_count == 2)
    assert {TocLevel.SEGMENT, TocLevel.DAY} <= levels(published(app, before))
    assert findings(app) == []


def test_a_day_without_a_node_is_rolled_up_at_once(served: Callable[..., Service]) -> None:
    service = served(Patience(0, 0), Patience(3600, 3600))
    app = service.host.app()
    app.write([draft("The first thought of another month.", at="2026-11-05 15:00", session="later")], "test")
    until(lambda: "toc:day:2026-11-05" in app.tree.nodes([NodeId("toc:day:2026-11-05")]))
    until(lambda: not service.deriving)
    assert findings(app) == []


def test_whoever_reads_has_what_was_written_derived_at_once(served: Callable[..., Service]) -> None:
    service = served(Patience(3600, 3600), Patience(3600, 3600))
    app = service.host.app()
    app.write([draft("A thought nobody has asked for yet.", at="2026-10-30 15:02", session="alone")], "test")
    assert service.pending == 1
    anyio.run(service.host.read, lambda opened: opened.tree.root())
    until(lambda: not service.pending)


def test_jobs_that_find_nothing_to_do_write_nothing(served: Callable[..., Service], data_dir: Path) -> None:
    service = served(Patience(), Patience(), indexes=True)
    app = service.host.app()
    often = [job.name for job in app.scheduler.statuses() if job.schedule.startswith("every ")]
    assert len(often) > 5

    def round_of_jobs() -> None:
        for name in often:
            app.scheduler.run_now(name)
        until(lambda: not any(t.name == "improving" for t in threading.enumerate()))

    round_of_jobs()
    before = sizes_of(data_dir)
    for _ in range(3):
        round_of_jobs()
    assert sizes_of(data_dir) == before
