"""Servers that are killed and databases that are away: nothing acknowledged is lost or doubled, and everything goes on."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from memory_mcp.team.who import Role
from tests import postgres
from tests.daemon.http_client import Caller
from tests.daemon.places import needs_proc
from tests.team.servers import Server, Team, serving
from tests.waiting import until

pytestmark = needs_proc
_WRITERS = 4


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


def kept(team: Team) -> Counter[str]:
    return Counter(text for (text,) in team.rows("acme", "SELECT text FROM event"))


def derived(team: Team) -> bool:
    [(last, done)] = team.rows("acme", "SELECT last_event, derived FROM head")
    return bool(last == done)


def test_a_server_killed_under_load_loses_and_doubles_nothing_and_its_work_is_done_by_the_other(
    tmp_path: Path, team: Team
) -> None:
    key = team.member("acme", "ann", team=Role.WRITER)
    with serving(tmp_path / "a", team.url) as first, serving(tmp_path / "b", team.url) as second:
        loads = [Load(server.caller(key), name) for name, server in (("first", first), ("second", second))]
        until(lambda: all(len(load.acknowledged) >= 20 for load in loads), "for notes on both servers")
        first.process.kill()
        before = len(loads[1].acknowledged)
        until(lambda: len(loads[1].acknowledged) > before + 10, "for the other to go on")
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


@pytest.fixture
def own_cluster() -> Iterator[postgres.Cluster]:
    if postgres.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    cluster = postgres.Cluster(durable=True)
    try:
        yield cluster
    finally:
        cluster.close()


def code_of(server: Server, key: str) -> str:
    """The code with which a call fails, at the door or in a tool; "" where it is answered."""
    answer = server.caller(key).call("intelligent_search", query="anything", scope="all")
    if "error" in answer:
        return str(answer["error"]["code"])
    return str(answer["content"][0]["text"].partition(":")[0]) if answer.get("isError") else ""


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_while_the_database_is_away_calls_are_unavailable_and_everything_goes_on_when_it_is_back(
    tmp_path: Path, own_cluster: postgres.Cluster, mode: str
) -> None:
    team = Team(own_cluster.create())
    key = team.member("acme", "ann", team=Role.WRITER)
    with serving(tmp_path / "a", team.url) as server:
        server.caller(key).ok("remember", text="Before the database was stopped.")
        team.close()
        own_cluster.stop(mode)
        assert code_of(server, key) == "UNAVAILABLE"
        status, body = server.get("/health/ready")
        assert status == 503
        assert "database" in json.loads(body)["reason"]
        assert server.get("/health/live")[0] == 200
        assert not remember(server.caller(key), "While it was away.", "1")

        own_cluster.start()
        until(lambda: server.get("/health/ready")[0] == 200, "for the server to be ready")
        until(lambda: code_of(server, key) == "", "for an answer")
        until(lambda: remember(server.caller(key), "After it came back.", "2"), "for a write")
        team = Team(team.url)
        assert set(kept(team)) == {"Before the database was stopped.", "After it came back."}
        until(lambda: derived(team), "for the work to go on")
        team.close()


def test_tables_that_the_databases_role_may_not_read_are_told_with_the_next_step(
    tmp_path: Path, team: Team, cluster: postgres.Cluster
) -> None:
    key = team.member("acme", "ann", team=Role.WRITER)
    database = team.url.partition("dbname=")[2].split()[0]
    with serving(tmp_path / "a", team.url) as server:
        server.caller(key).ok("remember", text="Before the database's role lost its rights.")
        for table in ("api_key", "event"):
            cluster.execute(f"REVOKE SELECT ON {table} FROM memory", database)
            answer = json.dumps(server.caller(key).call("get_events", scope="all"))
            assert "FAILED_PRECONDITION" in answer, table
            assert "Name in storage.url the role that made the tables" in answer
            cluster.execute(f"GRANT SELECT ON {table} TO memory", database)
            assert code_of(server, key) == ""
