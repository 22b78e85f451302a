"""`admin team`, as it is typed: the installed command against a real database."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp_team.access import keys
from memory_mcp_team.access.directory import Directory
from memory_mcp_team.postgres.database import Database
from tests.daemon.inside import Inside
from tests.postgres import Cluster


class Typed:
    """Types commands, in this process or, by a Place, as processes."""

    def __init__(self, home: Path, url: str, kind: type[Place] = Inside) -> None:
        self.place = kind(home, more={"MEMORY_MCP_STORAGE__URL": url, "MEMORY_MCP_STORAGE__TENANT": "acme"})

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.place.run("admin", "team", *words)

    def __call__(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def fails(self, *words: str) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr


@pytest.fixture
def typed(tmp_path: Path, url: str) -> Typed:
    return Typed(tmp_path, url)


def test_an_owner_of_a_space_that_is_there_becomes_its_admin_but_not_of_a_private_one(typed: Typed) -> None:
    typed("tenant", "add", "acme")
    for name in ("Ada", "Bob"):
        typed("member", "add", name)
    typed("space", "add", "team")
    assert "Ada is its admin" in typed.run("space", "add", "team", "--owner", "Ada").stdout
    typed("space", "add", "own", "--kind", "private", "--owner", "Ada")
    assert "private space 'own' already" in typed.fails("space", "add", "own", "--kind", "private", "--owner", "Bob")
    grants = {one["name"]: one["grants"] for one in typed("member", "list")["members"]}
    assert grants == {"Ada": [["own", "admin"], ["team", "admin"]], "Bob": []}
    assert [one["what"] for one in typed("audit")["acts"]].count("grant") == 2


def test_a_team_is_made_and_taken_apart_by_commands(typed: Typed, tmp_path: Path, url: str) -> None:
    typed("tenant", "add", "acme", "--class", "large")
    assert [one["tenant_class"] for one in typed("tenant", "list")["tenants"]] == ["large"]
    typed("space", "add", "team", "--timezone", "Europe/Berlin")
    typed("member", "add", "Ada", "--sub", "ada", "--issuer", "https://id.example")
    typed("grant", "Ada", "team", "curator")
    assert typed("member", "list")["members"][0]["grants"] == [["team", "curator"]]
    assert typed("space", "list")["spaces"][0]["timezone"] == "Europe/Berlin"
    made = Typed(tmp_path, url, Place)(
        "key", "make", "ci", "--member", "Ada", "--scope", "memory:write", "--space", "team", "--days", "7"
    )
    key = keys.parse_key(made["key"])
    assert key is not None
    database = Database(url, 1)
    try:
        assert Directory(database).get_principal(key).name == "Ada"
    finally:
        database.close()
    listed = typed.run("key", "list").stdout
    assert made["key_id"] in listed
    assert key.secret not in listed + typed.run("audit").stdout
    typed("key", "revoke", made["key_id"])
    typed("revoke", "Ada", "team")
    typed("member", "remove", "Ada")
    what = [act["what"] for act in typed("audit")["acts"]]
    assert what == [
        *("member remove", "revoke", "key revoke", "key make", "grant", "member add", "space add", "tenant class", "tenant add")
    ]
    assert "@" in typed("audit", "--limit", "1")["acts"][0]["author"]
    # No daemon is started, and no store opened beside the database.
    assert not (typed.place.directory).exists()


def test_a_key_is_shown_alone_so_that_it_can_be_handed_on(typed: Typed) -> None:
    typed("tenant", "add", "acme")
    typed("member", "add", "hooks")
    done = typed.run("key", "make", "hooks", "--member", "hooks")
    assert keys.parse_key(done.stdout.removesuffix("\n")) is not None
    assert "not shown again" in done.stderr


def test_an_empty_database_gets_its_tables(tmp_path: Path, cluster: Cluster) -> None:
    assert Typed(tmp_path, cluster.create())("tenant", "add", "acme")["name"] == "acme"


def test_mistakes_are_told_with_the_next_step(typed: Typed) -> None:
    assert "admin team tenant add NAME" in typed.fails("space", "list")
    typed("tenant", "add", "acme")
    assert "there is no member 'Bob'" in typed.fails("grant", "Bob", "team", "reader")
    assert "Did you mean" in typed.fails("grant", "Bob", "team", "writers")
    assert "--issuer URL" in typed.fails("member", "add", "Bob", "--sub", "bob")
    assert "small, standard, large" in typed.fails("tenant", "add", "acme", "--class", "huge")
    assert "at least 1" in typed.fails("audit", "--limit", "0")


def test_tombstones_of_an_empty_folder_are_none_and_beside_a_file_those_of_the_file(typed: Typed) -> None:
    empty, kept = typed.place.home / "tombstones", typed.place.home / "kept.jsonl"
    empty.mkdir()
    typed("tenant", "add", "acme")
    assert typed("tombstones", "export", str(kept))["added"] == 0
    none = {"tombstones": 0, "memories": 0, "events": 0, "unknown": 0}
    for places in ([str(empty)], [str(kept), str(empty)]):
        assert typed("tombstones", "apply", *places) == none
    assert f"{empty} holds no tombstones" in typed.run("tombstones", "apply", str(kept), str(empty)).stderr
    # A name that is mistyped is no folder in which nothing was forgotten.
    assert "no tombstones there" in typed.fails("tombstones", "apply", str(kept), str(empty / "none"))


def test_a_role_that_may_not_read_the_tables_is_told_so_with_the_next_step(tmp_path: Path, url: str, cluster: Cluster) -> None:
    database = url.partition("dbname=")[2].split()[0]
    cluster.execute("CREATE ROLE stranger LOGIN")
    for words in (("tenant", "list"), ("tenant", "add", "acme")):
        done = Typed(tmp_path, cluster.url(database, "stranger")).run(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert "permission denied for table schema_version" in done.stderr
        assert "Name in storage.url the role that made the tables" in done.stderr


def test_without_an_address_of_a_database_nothing_is_done(tmp_path: Path) -> None:
    assert "storage.url is not set" in Typed(tmp_path, "").fails("tenant", "list")
