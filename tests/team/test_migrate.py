"""A whole memory copied to PostgreSQL and back by the installed command, killed on its way; real databases."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.base import paths, pauses
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import open_read_only
from memory_mcp.storage.opening import OpenOptions
from memory_mcp_team.postgres.store import open_storage
from tests.daemon.inside import BARE, SERVED, Beside, Inside
from tests.daemon.places import copied as placed
from tests.daemon.places import killed, needs_proc

pytestmark = needs_proc

#: More than are copied at once.
EVENTS = 520
NAME = "Quillfeather-9931"
#: A project that is called otherwise by now.
OLD = {"text": "we decided to sell the old pumps", "role": "user", "session_id": "old", "project": "/srv/old-pumps"}
#: Where the copying is killed, in the order in which it gets there.
POINTS = ("migrate.events:2", "migrate.copied", "migrate.derived")


def said(first: int, count: int) -> str:
    """Lines of events, a session every hundred."""
    return "\n".join(
        json.dumps(
            {
                "text": f"we decided that pump {n} is painted in colour {n % 7}",
                "role": "user" if n % 2 else "assistant",
                "session_id": f"s{n // 100}",
                "timestamp": 1_768_299_000_000 + n * 60_000,
                "project": "/srv/pumps",
            }
        )
        for n in range(first, first + count)
    )


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some sessions, and what somebody said of them and had forgotten."""
    place = Inside(tmp_path_factory.mktemp("origin"), more=BARE)
    named = {"text": f"the pump's name is {NAME}, they say", "timestamp": 1_768_297_000_000}
    lines = [said(0, EVENTS - 2), json.dumps(OLD | {"timestamp": 1_768_298_000_000}), json.dumps(OLD | named)]
    place.ok("ingest", "-", stdin="\n".join(lines))
    place.ok("forget", "--value", NAME, "--yes")
    place.ok("projects", "alias", "/srv/old-pumps", "/srv/pumps")
    return place.directory


@pytest.fixture
def here(tmp_path: Path, origin: Path) -> Iterator[Place]:
    """A memory without a daemon, so that what is killed is the command."""
    with placed(origin, tmp_path / "here", BARE, kind=Inside) as made:
        yield made


def on(place: Place, url: str, tenant: str) -> dict[str, str]:
    """Settings with which a place uses the copy."""
    named = {"ENGINE": "postgres", "URL": url, "TENANT": tenant}
    return place.settings | {f"MEMORY_MCP_STORAGE__{name}": value for name, value in named.items()}


def held(store: Storage) -> dict[str, list[str]]:
    """Every row but marks and acts, which tell of the copying."""
    found: dict[str, list[str]] = {}
    try:
        with store.archive.open_snapshot() as snapshot:
            for part in (*snapshot.iter_shared("event", 0), *snapshot.iter_shared("grip", 0), *snapshot.iter_others()):
                if part.table not in ("checkpoint", "audit"):
                    found.setdefault(part.table, []).extend(repr(list(row)) for row in part.rows)
        ids = sorted(node.node_id for node in store.toc.iter_nodes())
        return {table: sorted(rows) for table, rows in found.items()} | {"ids": [str(i) for i in ids]}
    finally:
        store.close()


def copied(url: str, tenant: str) -> dict[str, list[str]]:
    return held(open_storage(OpenOptions(None, url=url, tenant=tenant)))


def to_postgres(place: Place, url: str, tenant: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(place.ok(*words(url, tenant), "--json"))
    return told


def words(url: str, tenant: str) -> tuple[str, ...]:
    return ("admin", "migrate-to", "postgres", "--url", url, "--tenant", tenant)


def test_a_memory_is_copied_there_and_back_with_what_was_forgotten_killed_at_every_step(
    here: Place, database_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    points = POINTS if request.config.getoption("--slow") else POINTS[:1]
    before = held(open_read_only(here.directory))
    for point in points:
        killed(here, point, *words(database_url, "killed"))
    told = to_postgres(here, database_url, "killed")
    assert (told["rows"]["event"], told["came_meanwhile"]) == (EVENTS, 0)
    assert held(open_read_only(here.directory)) == before
    assert copied(database_url, "killed") == before

    # Used without the folder that it was made from.
    there = Inside(tmp_path / "there", more=BARE)
    there.settings = on(there, database_url, "killed")
    there.ok("pause", "--project", "/srv/secret")
    assert there.ok("admin", "check")
    there.ok("backup", str(tmp_path / "backups"))
    refused = there.run("restore", str(tmp_path / "backups"))
    assert (refused.returncode, "is in a database" in refused.stderr) == (2, True)
    back = tmp_path / "back"
    for point in points:
        killed(there, point, "admin", "migrate-to", "duckdb", "--to", str(back))
    there.ok("admin", "migrate-to", "duckdb", "--to", str(back))
    assert held(open_read_only(back)) == before
    assert copied(database_url, "killed") == before
    for name in (paths.TOMBSTONES, paths.TOMBSTONES_KEY):
        assert (back / name).read_bytes().strip() == (here.directory / name).read_bytes().strip() != b""
    again = json.dumps(OLD | {"text": f"and once more: {NAME} is what they call it", "timestamp": 1_768_296_000_000})
    there.ok("ingest", "-", stdin=again)
    assert NAME not in there.ok("search", "--query", NAME, "--json")
    assert "[forgotten]" in there.ok("search", "--query", "what they call it once more", "--json")
    with Inside(tmp_path / "again", more=BARE) as other:
        other.settings["MEMORY_MCP_STORAGE__DATA_DIR"] = str(back)
        assert other.ok("admin", "check")
        assert other.ok("restore", str(tmp_path / "backups"))
        assert "sell the old pumps" in other.ok("search", "--all", "sell old pumps")
        assert [pause.projects for pause in pauses.read(str(back))] == [("/srv/secret",)]


def test_it_is_copied_by_the_daemon_which_goes_on_and_again_for_what_came_meanwhile(
    tmp_path: Path, origin: Path, database_url: str
) -> None:
    with placed(origin, tmp_path / "here", SERVED, kind=Beside) as place:
        assert to_postgres(place, database_url, "daemon")["new_events"] == EVENTS
        assert place.status()["running"]
        place.ok("ingest", "-", stdin=said(EVENTS + 100, 50))
        again = to_postgres(place, database_url, "daemon")
        assert (again["new_events"], again["rows"]["event"]) == (50, EVENTS + 50)
        # Nor does what was forgotten since stay in the copy.
        place.ok("forget", "--session", "s3", "--yes")
        assert to_postgres(place, database_url, "daemon")["rows"]["event"] == EVENTS + 50 - 100
        place.stop()
        assert copied(database_url, "daemon") == held(open_read_only(place.directory))


def test_a_place_that_holds_something_else_is_left_alone(here: Place, database_url: str, tmp_path: Path) -> None:
    with Inside(tmp_path / "other", more=BARE) as other:
        other.settings = on(other, database_url, "used")
        other.ok("ingest", "-", stdin=said(5000, 3))
        there = copied(database_url, "used")
        refused = here.run(*words(database_url, "used"))
        assert (refused.returncode, "there is a memory already" in refused.stderr) == (2, True)
        assert copied(database_url, "used") == there

        to_postgres(here, database_url, "written to")
        other.settings = on(other, database_url, "written to")
        other.ok("ingest", "-", stdin=said(5000, 3))
        refused = here.run(*words(database_url, "written to"))
        assert (refused.returncode, "has been written to since" in refused.stderr) == (2, True)
        assert "not touched" in refused.stderr


def test_a_command_that_names_no_place_says_what_to_write(here: Place) -> None:
    for words in (["postgres"], ["duckdb"], ["duckdb", "--to", "x", "--url", "y"], ["postgres", "--to", "x"]):
        refused = here.run("admin", "migrate-to", *words)
        assert (refused.returncode, "Say: memory-mcp admin migrate-to" in refused.stderr) == (2, True), words


@pytest.mark.slow  # in the short form: a database that is restored itself, test_restore of team; and what a copy knows, above.
def test_what_was_forgotten_after_a_backup_stays_forgotten_when_that_is_moved_into_a_database(
    database_url: str, tmp_path: Path
) -> None:
    # No copy of what other tests copied: a database's memories of one origin have one key.
    here = Inside(tmp_path / "here", more=BARE)
    here.ok("ingest", "-", stdin=json.dumps(OLD | {"text": f"we decided to ask {NAME}", "timestamp": 1_768_297_000_000}))
    to_postgres(here, database_url, "first")
    backups, kept = str(tmp_path / "backups"), str(tmp_path / "kept.jsonl")
    here.ok("backup", backups)
    here.settings = on(here, database_url, "first")
    here.ok("forget", "--value", NAME, "--yes")
    refused = here.run("restore", backups)
    assert "tombstones export" in refused.stderr
    here.ok("admin", "team", "tombstones", "export", kept)
    with Inside(tmp_path / "restored", more=BARE) as other:
        other.ok("restore", backups)
        to_postgres(other, database_url, "second")
    here.settings = on(here, database_url, "second")
    here.ok("admin", "team", "tombstones", "apply", kept)
    assert NAME not in repr(copied(database_url, "second"))
    assert here.ok("admin", "check")
