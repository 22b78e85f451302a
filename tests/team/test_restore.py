"""What was forgotten does not come back with an older backup of the database: real pg_dump and command."""

import json
import subprocess
from contextlib import closing
from pathlib import Path

import psycopg

from bench.place import Place
from memory_mcp.requests.forget import Forget, forget
from memory_mcp.requests.scope import Caller
from memory_mcp_team.access.permissions import Role
from tests import postgres
from tests.daemon.inside import Inside
from tests.team.servers import Team
from tests.team.test_open_memories import as_caller, ask, principal, remember, server_of
from tests.waiting import PATIENCE

SECRET = "Quillfeather-9931"
KEPT = "We decided to keep the ledger in Postgres for the harbour office."
FORGOTTEN = f"The harbour office calls its project {SECRET}, which nobody may know."


def tool(name: str, *words: str) -> None:
    """Run one of PostgreSQL's programs."""
    folder = postgres.programs()
    assert folder is not None
    subprocess.run([folder / name, *words], check=True, capture_output=True, timeout=PATIENCE)


def as_superuser(url: str) -> str:
    return url.replace("user=memory", "user=postgres")


def texts(url: str) -> str:
    """Everything that the database holds, in every table, as the superuser sees it."""
    found = []
    with psycopg.connect(as_superuser(url)) as raw:
        names = raw.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        for (name,) in names:
            found += [row[0] for row in raw.execute(f'SELECT t::text FROM "{name}" t'.encode()).fetchall()]
    return "\n".join(found)


def command(place: Place, *words: str) -> dict[str, object]:
    done = place.run("admin", "team", "tombstones", *words, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_what_was_forgotten_after_a_backup_stays_forgotten_when_it_is_restored(
    tmp_path: Path, team: Team, cluster: postgres.Cluster
) -> None:
    team.member("acme", "ana", shared=Role.ADMIN)
    who, outside = principal(team, "acme", "ana"), tmp_path / "outside"
    ana = as_caller(who, "shared")
    outside.mkdir()
    with server_of(team, tmp_path / "one", {"team.tombstones_dir": str(outside)}) as one:
        for text in (KEPT, FORGOTTEN):
            remember(one.host, ana, text)
        assert SECRET in texts(team.url)
        # A backup as the operator's guide takes it.
        tool("pg_dump", "-Fc", "-f", str(tmp_path / "backup"), "-d", as_superuser(team.url))
        with one.host.lend_as(who, ana.space, writing=True) as app:
            assert forget(app, Forget(value=SECRET, dry_run=False, is_person=True), Caller()).forgotten
        assert SECRET not in texts(team.url)

    settings = {"MEMORY_MCP_STORAGE__ENGINE": "postgres", "MEMORY_MCP_STORAGE__URL": team.url, "MEMORY_MCP_TEAM__AUTH": "keys"}
    with Inside(tmp_path / "operator", more=settings) as operator:
        listed = operator.ok("admin", "team", "audit", "--tenant", "acme", "--json")
        assert SECRET.lower() not in listed.lower()
        newest, before = json.loads(listed)["acts"][:2]
        assert (newest["what"], newest["author"].endswith("(member 1)"), before["what"]) == ("forget", True, "key make")
        assert newest["detail"].pop("space") == "shared"
        assert sum(newest["detail"].values()) > 0
        assert [command(operator, "export", str(tmp_path / "copy.jsonl"))["added"] for _ in range(2)] == [1, 0]
    (noted,) = outside.glob("*.jsonl")
    assert noted.read_text() == (tmp_path / "copy.jsonl").read_text()
    assert SECRET.lower() not in noted.read_text().lower()

    again = cluster.create()
    tool("pg_restore", "--exit-on-error", "-d", as_superuser(again), str(tmp_path / "backup"))
    assert SECRET in texts(again)
    with Inside(tmp_path / "restorer", more=settings | {"MEMORY_MCP_STORAGE__URL": again}) as restorer:
        told = command(restorer, "apply", str(outside))
        assert told == {"tombstones": 1, "memories": 1, "events": 1, "unknown": 0}
        assert command(restorer, "apply", str(outside)) == {"tombstones": 0, "memories": 0, "events": 0, "unknown": 0}
    assert SECRET not in texts(again)
    with closing(Team(again)) as restored, server_of(restored, tmp_path / "two") as two:
        assert "ledger in Postgres" in str(ask(two.host, ana, "Where does the harbour office keep its ledger?"))
        assert SECRET not in str(ask(two.host, ana, SECRET))
        # Nor by being recorded again.
        remember(two.host, ana, f"Again: {SECRET} is a name that somebody says once more, in other words.")
    assert SECRET not in texts(again)
