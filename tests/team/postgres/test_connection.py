"""Connections of a pool that several threads use: what one thread is cancelled for ends no statement of another."""

import threading
from typing import Any

import psycopg
import pytest

from memory_mcp_team.postgres.connection import Connection
from memory_mcp_team.postgres.database import Database
from tests.waiting import PATIENCE


def test_a_connection_is_given_back_only_once_its_cancellation_has_ended(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent, leave, cancelling, end = (threading.Event() for _ in range(4))
    steps: list[str] = []

    def cancel(_: psycopg.Connection[Any], timeout: float) -> None:
        cancelling.set()
        assert end.wait(PATIENCE)

    def read() -> None:
        with connection.open_reader() as reader:
            assert reader.row("SELECT 1") == (1,)
            lent.set()
            assert leave.wait(PATIENCE)
        steps.append("given back")

    monkeypatch.setattr(psycopg.Connection, "cancel_safe", cancel)
    database = Database(database_url, 1)
    connection = Connection(database, 1, 1)
    threads = [threading.Thread(target=read), threading.Thread(target=connection.interrupt_reads)]
    try:
        threads[0].start()
        assert lent.wait(PATIENCE)
        threads[1].start()
        assert cancelling.wait(PATIENCE)
        leave.set()
        threads[0].join(0.2)
        steps.append("cancelled")
        end.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert steps == ["cancelled", "given back"]
        assert connection.rows("SELECT 2") == [(2,)]
    finally:
        end.set()
        database.close()
