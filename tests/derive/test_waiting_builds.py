"""Builds that wait for the next transaction: what readers see, what the file holds afterwards, what a kill leaves."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import duckdb
import pytest

from memory_mcp.app import App
from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import DiskFull, StorageError
from memory_mcp.config import Settings
from memory_mcp.indexes.base import Health
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import EventDraft
from memory_mcp.model.ids import NodeId
from memory_mcp.server import service as services
from memory_mcp.server.service import Service
from memory_mcp.storage.duckdb import space
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive.deriver import Patience
from tests.factories import a_day_of_drafts, draft
from tests.filled import filled
from tests.toc.helpers import findings, term_sets
from tests.waiting import until

#: What a build writes to.
TABLES = (
    *("node", "bullet", "bullet_grip", "node_parent", "segment_cut", "grip"),
    *("term_delta", "frequency", "outbox", "checkpoint", "tool_run", "event"),
)
WORDS = ("oak", "ash", "elm", "fir", "yew", "box", "bay", "fig", "plum", "pine")
DAY = NodeId("toc:day:2026-10-30")


def lone_drafts(first: int = 3) -> list[EventDraft]:
    """Events of a session that come one by one; two are alike, and one is of another day, whose node is new.

    With seconds: of a time of whole minutes it is looked up whether the message before has it too.
    """
    texts = [f"{number} {word} of the lighthouse went into Postgres." for number, word in enumerate(WORDS)]
    texts[6] = texts[5]
    return [
        draft(text, at=f"2026-10-{30 + number // 9} 15:{number:02}:17", session="alone") for number, text in enumerate(texts)
    ][first:]


def write_alone(app: App, drafts: list[EventDraft], may_wait: bool) -> None:
    for one in drafts:
        app.write([one], "test")
        app.derivation.run_together(may_wait)


def count_waiting(app: App) -> int:
    assert isinstance(app.storage, DuckStorage)
    assert app.storage.events.deferred is not None
    return len(app.storage.events.deferred._builds)


def dump_tables(app: App) -> dict[str, list[str]]:
    assert isinstance(app.storage, DuckStorage)
    fetch = app.storage.connection.fetch_rows
    return {table: sorted(map(repr, fetch(f"SELECT * FROM {table}"))) for table in TABLES}


@pytest.fixture
def open_app(data_dir: Path) -> Iterator[Callable[..., App]]:
    """Open a memory of a day by a name, one for each name, without indexes."""
    opened: list[App] = []

    def open_named(name: str = "a", drafts: list[EventDraft] | None = None, indexes: bool = False) -> App:
        settings = filled(data_dir / name, drafts or a_day_of_drafts(), SystemClock())
        app = App(replace(settings, teleport=TeleportSettings(enabled=indexes)))
        opened.append(app)
        # What is read by id is read from this copy, not from the file; what a deriver reads once is read.
        app.storage.copy_rows(lambda: False)
        write_alone(app, lone_drafts(0)[:3], may_wait=False)
        return app

    yield open_named
    for app in opened:
        app.close()


def copy_as_killed(settings: Settings, copy: Path) -> Settings:
    """Copy a data directory that is open, as a killed process would leave it."""
    shutil.copytree(settings.storage.directory, copy, ignore=shutil.ignore_patterns("lock", "owner.json"))
    return replace(settings, storage=StorageSettings(str(copy), "Europe/Berlin"))


def test_the_file_comes_to_hold_the_same_rows_whether_builds_wait_or_not(open_app: Callable[..., App]) -> None:
    together, alone = open_app("together"), open_app("alone")
    write_alone(together, lone_drafts(), may_wait=True)
    assert count_waiting(together) > 5
    write_alone(alone, lone_drafts(), may_wait=False)
    assert count_waiting(alone) == 0
    assert dump_tables(together) == dump_tables(alone)
    assert count_waiting(together) == 0
    assert findings(together) == []


def test_who_reads_sees_what_waits_and_the_next_build_goes_on_from_it(open_app: Callable[..., App]) -> None:
    together, alone = open_app("together"), open_app("alone")
    for one in lone_drafts():
        for app, may_wait in ((together, True), (alone, False)):
            write_alone(app, [one], may_wait)
        assert count_waiting(together) > 0
        # From memory, from the copy of rows and from the file; the last of them writes what waits.
        assert together.tree.node(DAY) == alone.tree.node(DAY)
        assert together.storage.toc.current_version() == alone.storage.toc.current_version()
        assert list(together.storage.toc.iter_nodes()) == list(alone.storage.toc.iter_nodes())
        assert count_waiting(together) == 0
    assert term_sets(together) == term_sets(alone)


def test_no_more_than_some_builds_wait(open_app: Callable[..., App]) -> None:
    app = open_app()
    counts = []
    for number in range(40):
        write_alone(
            app, [draft(f"Thought number {number} of the night.", at=f"2026-10-30 22:{number:02}:17", session="night")], True
        )
        counts.append(count_waiting(app))
    assert max(counts) > 5
    assert counts.count(0) >= 2


def test_a_killed_process_loses_no_event_and_the_next_one_derives_the_same_tree(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    app = open_app()
    write_alone(app, lone_drafts(), may_wait=True)
    assert count_waiting(app) > 5
    killed = App(copy_as_killed(app.settings, tmp_path / "copy"))
    assert killed.storage.events.last_seq() == app.storage.events.last_seq()
    assert killed.derivation.count_pending() == len(lone_drafts())
    killed.derivation.run()
    assert findings(killed) == []
    # It derived at once what came one by one: versions and numbers differ.
    versions = {node.node_id: (node.version, node.built) for node in app.storage.toc.iter_nodes()}
    derived = [
        replace(node, version=versions[node.node_id][0], built=versions[node.node_id][1])
        for node in killed.storage.toc.iter_nodes()
    ]
    assert derived == list(app.storage.toc.iter_nodes())
    assert term_sets(killed) == term_sets(app)
    killed.close()


def test_an_index_on_disk_is_never_ahead_of_the_file(open_app: Callable[..., App], tmp_path: Path) -> None:
    app = open_app(indexes=True)
    app.accelerators.catch_up()
    app.accelerators.commit(few=True)
    write_alone(app, lone_drafts(), may_wait=True)
    app.accelerators.catch_up()
    assert count_waiting(app) > 0
    app.accelerators.commit(few=True)
    assert count_waiting(app) == 0
    killed = App(copy_as_killed(app.settings, tmp_path / "copy"))
    assert killed.derivation.count_pending() == 0
    for keeper in killed.accelerators.keepers.values():
        keeper.load_once()
        assert keeper.index.health is Health.HEALTHY
        assert keeper.index.position.outbox == killed.storage.toc.current_version()
    killed.close()


class FailingConnection:
    """A DuckDB connection, or a cursor of it, whose next COMMIT is reported as failed: before or after it was done.

    While the failure is "full", each fails for lack of room, and the engine gives the file up.
    """

    failure = ""
    latest: Any = None

    def __init__(self, con: Any) -> None:
        self._con = con

    def execute(self, sql: str | duckdb.Statement, *rest: Any) -> Any:
        failure = FailingConnection.failure
        if failure == "full" and sql == "COMMIT":
            FailingConnection.latest.close()
            raise duckdb.IOException("No space left on device")
        if failure and sql == "COMMIT":
            FailingConnection.failure = ""
            if failure == "after":
                self._con.execute(sql)
            raise duckdb.IOException("the disk has a bad day")
        return self._con.execute(sql, *rest)

    def cursor(self) -> "FailingConnection":
        return FailingConnection(self._con.cursor())

    def __enter__(self) -> "FailingConnection":
        return self

    def __exit__(self, *error: object) -> None:
        self._con.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


@pytest.mark.parametrize("failure", ["before", "after"])
def test_builds_whose_transaction_failed_are_stored_once(
    open_app: Callable[..., App], monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    alone = open_app("alone")
    usual = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *values, **options: FailingConnection(usual(*values, **options)))
    together = open_app("together")
    drafts = lone_drafts()
    write_alone(together, drafts[:4], may_wait=True)
    assert count_waiting(together) > 0
    monkeypatch.setattr(FailingConnection, "failure", failure)
    # It is tried once more.
    assert len(list(together.storage.toc.iter_nodes())) > 5
    assert not FailingConnection.failure
    assert count_waiting(together) == 0
    write_alone(together, drafts[4:], may_wait=True)
    write_alone(alone, drafts, may_wait=False)
    assert dump_tables(together) == dump_tables(alone)


@pytest.mark.parametrize("is_found", [True, False], ids=["a writer finds room first", "the deriver finds room first"])
def test_builds_that_found_no_room_are_gone_on_from_once_there_is(
    open_app: Callable[..., App], monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    alone = open_app("alone")
    usual, has_room, failing = duckdb.connect, space._has_room, FailingConnection

    def connect(*values: Any, **options: Any) -> FailingConnection:
        failing.latest = usual(*values, **options)
        return failing(failing.latest)

    monkeypatch.setattr(failing, "latest", None)
    monkeypatch.setattr(duckdb, "connect", connect)
    monkeypatch.setattr(space, "_has_room", lambda path: not failing.failure and has_room(path))
    together, drafts = open_app("together"), lone_drafts()
    write_alone(together, drafts[:4], may_wait=True)
    write_alone(alone, drafts[:4], may_wait=False)
    assert count_waiting(together) > 0
    with monkeypatch.context() as full:
        full.setattr(failing, "failure", "full")
        # Reading goes on, without what waits: what was remembered was dropped with the file.
        assert list(together.storage.toc.iter_nodes()) != list(alone.storage.toc.iter_nodes())
        assert together.tree.node(DAY) != alone.tree.node(DAY)
        with pytest.raises(DiskFull):
            together.derivation.run()
        with pytest.raises(StorageError, match="could not be stored"):
            together.storage.toc.publish_build(Build(nodes=(together.tree.node(DAY),)))
    if is_found:
        together.storage.outbox.set_position("somebody", "1")
        assert together.tree.node(DAY) == alone.tree.node(DAY)
    write_alone(together, drafts[4:], may_wait=True)
    write_alone(alone, drafts[4:], may_wait=False)
    assert together.tree.node(DAY) == alone.tree.node(DAY)
    if not is_found:
        assert dump_tables(together) == dump_tables(alone)
    assert list(together.storage.toc.iter_nodes()) == list(alone.storage.toc.iter_nodes())
    assert findings(together) == []


def make_service(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a service that nobody has asked anything for long, with an event that came alone."""
    monkeypatch.setattr(services, "_EVENTS", Patience(0, 0))
    monkeypatch.setattr(services, "_PERIODS", Patience(0, 0))
    settings = filled(
        data_dir, [*a_day_of_drafts(), draft("The first thought.", at="2026-10-30 15:00:17", session="alone")], SystemClock()
    )
    service = Service(replace(settings, teleport=TeleportSettings(enabled=False)))
    app = service.host.app()
    until(lambda: service._caught_up and not service.deriving)
    app.storage.copy_rows(lambda: False)
    for number in range(60):
        app.write([draft(f"Thought {number} of Norway.", at=f"2026-10-30 15:{number:02}:17", session="alone")], "test")
        until(lambda: not service.pending and not service.deriving)
        # What is read once, and jobs after a start, write it at once.
        if count_waiting(app):
            break
    return service


def test_a_service_writes_what_came_alone_when_somebody_asks(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = make_service(data_dir, monkeypatch)
    app = service.host.app()
    count = app.storage.events.last_seq() - len(a_day_of_drafts())
    assert anyio.run(service.host.read, lambda opened: opened.tree.node(DAY).event_count) == count
    assert findings(app) == []
    assert count_waiting(app) == 0
    app.write([draft("A third thought, of Sweden.", at="2026-10-30 16:02:17", session="alone")], "test")
    until(lambda: not service.pending and not service.deriving)
    # Somebody has asked a moment ago, and may ask again.
    assert count_waiting(app) == 0
    service.close(600)


def test_a_service_writes_what_waits_when_it_is_closed(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = make_service(data_dir, monkeypatch)
    count = service.host.app().storage.events.last_seq() - len(a_day_of_drafts())
    service.close(600)
    app = App(copy_as_killed(service.settings, tmp_path / "copy"))
    assert app.derivation.count_pending() == 0
    assert app.tree.node(DAY).event_count == count
    assert findings(app) == []
    app.close()
