"""How often a write waits for the database: counted in the protocol's own messages, never by a clock."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg import _pipeline_base
from psycopg.generators import pipeline_communicate

from memory_mcp.base.errors import StorageError
from memory_mcp.storage.values import Build, EventBatch, WriteRequest
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Database, Statement, run_statements
from memory_mcp_team.postgres.memories import TEAM, make_space, make_tenant
from memory_mcp_team.postgres.store import PostgresStorage
from tests.factories import event, ms, node
from tests.postgres import programs

pytestmark = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed; Debian's package postgresql brings it")

#: A statement that was run so often is prepared: once in a round trip of its own, and never again.
_OFTEN = 8
_HOUR = 3_600_000
_START = ms("2026-01-12 09:00")


@pytest.fixture
def one(database_url: str) -> Iterator[Database]:
    """A database with a pool of one connection."""
    made = Database(database_url, 1)
    migrations.migrate_schema(made)
    yield made
    made.close()


@pytest.fixture
def store(one: Database, request: pytest.FixtureRequest) -> PostgresStorage:
    return PostgresStorage(one, make_space(one, make_tenant(one, request.node.name), "default", TEAM, "UTC"))


def trips(database: Database, act: Callable[[], object]) -> int:
    """How often the connection waits for the database while something is done."""
    with tempfile.TemporaryFile() as file:
        with database.lend_raw() as raw:
            raw.pgconn.trace(file.fileno())
        try:
            act()
        finally:
            with database.lend_raw() as raw:
                raw.pgconn.untrace()
        file.seek(0)
        lines = file.read().decode("utf-8", "replace").splitlines()
    # Each line has its time, its direction (F: to the server, B: back), and the message.
    ways = [fields[1] for line in lines if len(fields := line.split("\t")) > 2 and fields[1] in ("F", "B")]
    return sum(pair == ("F", "B") for pair in pairwise(ways))


def append(store: PostgresStorage, number: int, callers: int) -> None:
    """What several callers record at once; of one caller without the way of several."""
    told = [event(f"Message {number} of {caller}.", at=_START + number * _HOUR + caller) for caller in range(callers)]
    each = [EventBatch([one], WriteRequest(f"{number} {one.text}")) for one in told]
    stored = store.events.append_batches(each) if callers > 1 else [store.events.append(told, each[0].request)]
    assert all(len(appended.new_ids) == 1 for appended in stored)


@pytest.mark.parametrize("callers", [1, 20])
def test_what_one_caller_or_several_record_is_appended_in_two_round_trips_also_behind_another_member(
    one: Database, store: PostgresStorage, callers: int
) -> None:
    for number in range(_OFTEN):
        append(store, number, callers)
    assert trips(one, lambda: append(store, _OFTEN, callers)) == 2
    with one.lend_connection(None):
        pass
    assert trips(one, lambda: append(store, _OFTEN + 1, callers)) == 2


def test_the_statements_of_a_round_trip_are_sent_together(one: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def counted(connection: Any, commands: Any) -> Any:
        sent.append(len(commands))
        return pipeline_communicate(connection, commands)

    monkeypatch.setattr(_pipeline_base, "pipeline_communicate", counted)
    with one.lend_raw() as raw:
        rows = [
            cursor.fetchall()
            for cursor in run_statements(raw, [Statement("SELECT 1"), Statement("SELECT 2"), Statement("SELECT 3")])
        ]
        assert rows == [[(1,)], [(2,)], [(3,)]]
        # Three statements and the end of the pipeline.
        assert sent == [4]
        with pytest.raises(psycopg.errors.DivisionByZero):
            run_statements(raw, [Statement("SELECT 1"), Statement("SELECT 1 / 0"), Statement("SELECT 3")])
        assert run_statements(raw, [Statement("SELECT 4"), Statement("SELECT 5")])[1].fetchall() == [(5,)]


def test_a_build_without_cuts_is_published_in_two_round_trips(one: Database, store: PostgresStorage) -> None:
    for version in range(1, _OFTEN + 1):
        store.toc.publish_build(Build(nodes=(node(title=f"title {version}", version=version),), derived_to=version))
    last = Build(nodes=(node(title="the last", version=_OFTEN + 1),), derived_to=_OFTEN + 1)

    assert trips(one, lambda: store.toc.publish_build(last)) == 2


def test_statements_stay_prepared_when_several_are_read_at_one_moment(one: Database, store: PostgresStorage) -> None:
    def prepared() -> set[str]:
        with one.lend_raw() as raw:
            return {str(name) for (name,) in raw.execute("SELECT name FROM pg_prepared_statements").fetchall()}

    for number in range(_OFTEN):
        store.events.append([event(f"Message {number}.", at=_START + number * _HOUR)])
    before = prepared()
    with store.connection.open_reader() as reader:
        reader.row("SELECT 1")

    assert before
    assert before <= prepared()


def test_a_transaction_that_the_database_gave_up_is_not_taken_for_committed(store: PostgresStorage) -> None:
    def swallow() -> None:
        with store.connection.open_writer() as writer, suppress(psycopg.Error):
            writer.row("SELECT 1 / 0")

    with pytest.raises(StorageError, match="took a transaction back"):
        swallow()

    assert store.events.last_seq() == 0
