"""Row-level security by itself: without the conditions of the program's statements a member sees rows of granted spaces alone."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.requests.registry import REQUESTS, answer, load_entry
from memory_mcp.requests.scope import Caller
from memory_mcp_team.access.permissions import ACTS, Act
from memory_mcp_team.postgres import connection, database, migrations
from memory_mcp_team.postgres.connection import ACTING_MEMBER
from memory_mcp_team.postgres.database import sql
from tests.postgres import Cluster
from tests.team.probes import alike, honest
from tests.team.servers import Team
from tests.team.tenants import FIRST, SECOND, Tenants, make
from tests.team.test_open_memories import server_of
from tests.writing import WRITING

#: The member who asks: of a tenant with three spaces, a reader of the first; and another's.
TENANT, OTHER = FIRST, SECOND
#: How `connection.own` spells that rows belong to a memory.
_OWN = re.compile(r"(\w+\.)?tenant = %\(tenant\)s AND (\w+\.)?space = %\(space\)s")
#: Requests about another machine's things, or of which an agent asks by other names.
_APART = frozenset({"recall"})


def asked(tenants: Tenants) -> Mapping[str, dict[str, Any]]:
    """Arguments of every request that only reads."""
    own = tenants.handles[TENANT, 1]
    more = {"get_topic": {"topic_id": own.topic}, "export_shown": {"query": own.text}, "get_timeline": {}, "get_topic_map": {}}
    known = {name for name, act in ACTS.items() if act is Act.READ and name in REQUESTS} - WRITING - _APART
    return {name: more.get(name, honest(own).get(name, {})) for name in sorted(known)}


def answers(team: Team, tenants: Tenants, folder: Path) -> dict[str, str]:
    """What each request is answered, to a reader of one space of the tenant, on a server of its own."""
    who = team.admin.directory.find_principal(TENANT, "r", ["memory:admin"])
    assert who is not None
    told = {}
    with server_of(team, folder) as server:
        for name, arguments in asked(tenants).items():
            try:
                with server.host.lend_as(who, who.grants[0], writing=False) as app:
                    told[name] = alike(answer(app, load_entry(name).request(**arguments), Caller()), tenants.handles[OTHER, 1])
            except MemoryMcpError as error:
                told[name] = str(error)
    return told


def foreign(tenants: Tenants, told: Mapping[str, str]) -> dict[str, set[str]]:
    found = {name: tenants.foreign(text, {(TENANT, 1), (TENANT, 26)}, "") for name, text in told.items()}
    return {name: words for name, words in found.items() if words}


def test_without_the_programs_own_conditions_every_request_is_answered_from_the_members_own_space(
    tmp_path: Path, company: Team, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = make(company.admin, OTHER, tmp_path / "filler", (TENANT, OTHER))
    held = answers(company, tenants, tmp_path / "held")
    assert sum(tenants.handles[TENANT, 1].text in text for text in held.values()) > 10, held

    removed: list[str] = []

    def unfiltered(text: str) -> str:
        """A statement of a caller's without its condition; the program's own are left."""
        if ACTING_MEMBER.get() is None or not _OWN.search(text):
            return sql(text)
        removed.append(text)
        return sql(_OWN.sub("TRUE", text))

    for module in (database, connection):
        monkeypatch.setattr(module, "sql", unfiltered)
    assert foreign(tenants, answers(company, tenants, tmp_path / "unfiltered")) == {}
    assert len(set(removed)) > 20

    # Without the policies the same requests show what others said: the test would notice.
    name = company.url.partition("dbname=")[2].split()[0]
    for table in migrations.list_tables():
        cluster.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY", name)
    assert len(foreign(tenants, answers(company, tenants, tmp_path / "open"))) > 5


def test_the_role_that_the_program_uses_is_bound_by_the_policies_of_every_table(team: Team) -> None:
    assert "user=memory" in team.url
    with team.database.lend_connection(None) as raw:
        [(is_superuser, bypasses)] = raw.execute(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        ).fetchall()
        bound = raw.execute(
            "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity AND NOT relispartition"
        ).fetchall()
        seen = {table: raw.execute(sql(f"SELECT count(*) FROM {table}")).fetchall() for table in migrations.list_tables()}
    assert (is_superuser, bypasses) == (False, False)
    assert {name for (name,) in bound} >= set(migrations.list_tables())
    assert set(map(json.dumps, seen.values())) == {"[[0]]"}
