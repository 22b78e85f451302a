"""Servers that are killed and databases that are away: nothing acknowledged is lost or doubled, and everything goes on."""

import json
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import psycopg
import pytest

from memory_mcp_team.access.permissions import Role
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Database
from tests import postgres
from tests.daemon.http_client import Caller
from tests.daemon.places import NO_INDEXES, needs_proc
from tests.team.servers import Server, Team, serving
from tests.waiting import PATIENCE, until

pytestmark = needs_proc
_WRITERS = 2


def remember(caller: Caller, text: str, key: str) -> bool:
    """Whether a server acknowledged a note."""
    with suppress(OSError, HTTPException, AssertionError, KeyError, ValueError):
        return caller.call("remember", text=text, idempotency_key=key).get("isError") is False
    return False


class Load:
    """Writers that send one note after another to one server until they are stopped, and know what was acknowledged."""

    def __init__(self, caller: Caller, name: str) -> None:
        self.sent: dict[str, str] = {}
        self.acknowledged: set[str] = set()
        self._over = threading.Event()
        self._caller, self._name = caller, name
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(_WRITERS)]
        for thread in self._threads:
            thread.start()

    def _write(self, writer: int) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            key = f"{self._name}-{writer}-{number}"
            self.sent[key] = f"Note {number} of writer {writer} of {self._name}."
            if remember(self._caller, self.sent[key], key):
                self.acknowledged.add(key)
            else:
                # A server that is gone refuses at once.
                self._over.wait(0.05)

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def kept(team: Team, tenant: str = "acme") -> Counter[str]:
    return Counter(text for (text,) in team.rows(tenant, "SELECT text FROM event"))


def derived(team: Team, tenant: str = "acme") -> bool:
    [(last, done)] = team.rows(tenant, "SELECT last_event, derived FROM head")
    return bool(last == done)


@dataclass
class Waited:
    """A server that had to wait for its database, what it said of that, and the tenants of the database."""

    cluster: postgres.Cluster
    server: Server
    line: str
    team: Team


@pytest.fixture(scope="module")
def waited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waited]:
    """The server of this module, over a PostgreSQL that may be stopped; asked to end, it goes on for three seconds."""
    if postgres.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    cluster = postgres.Cluster(durable=True)
    try:
        empty = cluster.create()
        with psycopg.connect(empty, autocommit=True) as other:
            other.execute("SELECT pg_advisory_lock(%s)", [migrations.LOCK])
            more = NO_INDEXES | {"MEMORY_MCP_TEAM__SERVER__NOTICE_SECS": "3"}
            lines: list[str] = []

            def begin(process: "subprocess.Popen[str]") -> None:
                assert process.stderr is not None
                lines.append(next(line for line in process.stderr if "database" in line))
                other.execute("SELECT pg_advisory_unlock(%s)", [migrations.LOCK])

            with serving(tmp_path_factory.mktemp("waited"), empty, more, begin) as server:
                made = Waited(cluster, server, lines[0], Team(empty))
                yield made
                made.team.close()
    finally:
        cluster.close()


def test_a_server_that_waits_for_its_database_says_so_and_begins_when_it_may(waited: Waited) -> None:
    assert "WARNING: waiting for the database" in waited.line
    assert f"dbname={waited.team.url.partition('dbname=')[2].split()[0]}" in waited.line
    assert waited.server.url.startswith("http://")


def test_a_database_that_is_waited_for_is_named_without_its_password(caplog: pytest.LogCaptureFixture) -> None:
    with migrations.log_long_wait(Database("postgresql://memory:hushhush@127.0.0.1:5432/memory", 1)):
        until(lambda: caplog.text, "for the warning")
    assert "waiting for the database (host=127.0.0.1 port=5432 dbname=memory)" in caplog.text
    assert "hushhush" not in caplog.text


def code_of(server: Server, key: str) -> str:
    """The code with which a call fails, at the door or in a tool; "" where it is answered."""
    answer = server.caller(key).call("intelligent_search", query="anything", scope="all")
    if "error" in answer:
        return str(answer["error"]["code"])
    return str(answer["content"][0]["text"].partition(":")[0]) if answer.get("isError") else ""


def test_a_server_killed_under_load_loses_and_doubles_nothing_and_its_work_is_done_by_the_other(
    tmp_path: Path, waited: Waited
) -> None:
    team, second = waited.team, waited.server
    key = team.member("acme", "ann", team=Role.WRITER)
    with serving(tmp_path, team.url, NO_INDEXES) as first:
        loads = [Load(server.caller(key), name) for name, server in (("first", first), ("second", second))]
        until(lambda: all(len(load.acknowledged) >= 5 for load in loads), "for notes on both servers")
        first.process.kill()
        before = len(loads[1].acknowledged)
        until(lambda: len(loads[1].acknowledged) > before + 5, "for the other to go on")
        for load in loads:
            load.stop()

        stored = kept(team)
        for load in loads:
            assert {load.sent[name] for name in load.acknowledged} - set(stored) == set()
        # What was not acknowledged is sent again, to the other server, under the same key.
        for name, text in loads[0].sent.items():
            if name not in loads[0].acknowledged:
                assert remember(second.caller(key), text, name)
        assert kept(team) == Counter(text for load in loads for text in load.sent.values())
        until(lambda: derived(team), "for everything to be derived by the server that is left")
        until(lambda: second.caller(key).ok("browse_toc")["node"]["events"] == sum(kept(team).values()), "for the tree")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.few(1)
def test_while_the_database_is_away_calls_are_unavailable_and_everything_goes_on_later(waited: Waited, mode: str) -> None:
    tenant, server = f"away {mode}", waited.server
    key = waited.team.member(tenant, "ann", team=Role.WRITER)
    server.caller(key).ok("remember", text="Before the database was stopped.")
    waited.team.close()
    waited.cluster.stop(mode)
    assert code_of(server, key) == "UNAVAILABLE"
    status, body = server.get("/health/ready")
    assert status == 503
    assert "database" in json.loads(body)["reason"]
    assert server.get("/health/live")[0] == 200
    assert not remember(server.caller(key), "While it was away.", "1")

    waited.cluster.start()
    until(lambda: server.get("/health/ready")[0] == 200, "for the server to be ready")
    until(lambda: code_of(server, key) == "", "for an answer")
    until(lambda: remember(server.caller(key), "After it came back.", "2"), "for a write")
    waited.team = team = Team(waited.team.url)
    assert set(kept(team, tenant)) == {"Before the database was stopped.", "After it came back."}
    until(lambda: derived(team, tenant), "for the work to go on")


def test_tables_that_the_databases_role_may_not_read_are_told_with_the_next_step(waited: Waited) -> None:
    key, server = waited.team.member("rights", "ann", team=Role.WRITER), waited.server
    database = waited.team.url.partition("dbname=")[2].split()[0]
    server.caller(key).ok("remember", text="Before the database's role lost its rights.")
    for table in ("api_key", "event"):
        waited.cluster.execute(f"REVOKE SELECT ON {table} FROM memory", database)
        answer = json.dumps(server.caller(key).call("get_events", scope="all"))
        assert "FAILED_PRECONDITION" in answer, table
        assert "Name in storage.url the role that made the tables" in answer
        waited.cluster.execute(f"GRANT SELECT ON {table} TO memory", database)
        assert code_of(server, key) == ""


def test_asked_to_end_a_server_says_it_is_not_ready_finishes_its_calls_and_leaves_its_work(waited: Waited) -> None:
    team, server = waited.team, waited.server
    key = team.member("leavers", "ann", team=Role.WRITER)
    server.caller(key).ok("remember", text="Said before the end.")
    server.process.send_signal(signal.SIGTERM)
    until(lambda: server.get("/health/ready")[0] == 503, "for the server to be not ready")
    assert json.loads(server.get("/health/ready")[1])["reason"] == "the server is ending"
    # Until its notice has passed it answers those whom a load balancer still sends.
    server.caller(key).ok("remember", text="Said at the end.")
    assert server.process.wait(PATIENCE) == 0
    assert team.rows("leavers", "SELECT count(*) FROM event") == [(2,)]
    assert team.rows("leavers", "SELECT count(*) FROM work WHERE holder <> ''") == [(0,)]
