"""Two hundred tenants on one server: of what one asks, nothing of another's is in any answer, error, header, metric or log."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memory_mcp.team.who import ACTS, LOWEST, SCOPES, Role
from tests.daemon.http_client import Caller
from tests.daemon.places import needs_proc
from tests.postgres import Cluster
from tests.team.probes import PROBES, Watched, alike, forged, honest, look_around
from tests.team.provider import AUDIENCE, Provider, signer
from tests.team.servers import Server, Team, serving
from tests.team.tenants import Handles, Owner, Tenants, make, nobodys, word
from tests.waiting import until

pytestmark = needs_proc

COUNT = 200
#: Tenants of the short form with a tree; the first has the spaces of a project and of one person beside that of all.
FIRST, SECOND = 20, 7
#: Who calls in the short form, and with whose values; a caller sees the first space of a tenant alone.
ATTACKS: tuple[tuple[int, Owner], ...] = ((FIRST, (SECOND, 1)), (FIRST, (FIRST, 2)), (FIRST, (FIRST, 3)), (SECOND, (FIRST, 1)))
#: Tools whose answers hold no word of a memory: how far something is, what would be done, or what was changed.
WORDLESS = frozenset(
    """get_teleport_status get_vector_index_status get_topic_graph_status get_retrieval_status list_spaces plan_query
    topics_by_query get_top_topics get_toc_nodes_for_topic get_related_topics label_topic""".split()
)
#: What is kept of a memory.
TABLES = """event node grip pin superseded topic_label project_alias project_split audit tombstone request usage head""".split()


@dataclass
class World:
    """A server, and all that there is in its database."""

    server: Server
    team: Team
    tenants: Tenants
    provider: Provider

    def watched(self, tenant: int, key: str = "", space: str = "", project: str = "") -> Watched:
        """A member of a tenant who sees its first space."""
        more = {"Memory-Space": space} if space else {}
        mine = frozenset({(tenant, 1), (tenant, 26)})
        return Watched(self.server.url, key or self.tenants.admins[tenant], project, "", more, self.tenants, mine)

    def of(self, owner: Owner) -> Handles:
        return self.tenants.handles[owner]

    def kept(self, without: Owner) -> list[Any]:
        """What every space but one holds, as digests."""
        from psycopg import sql

        found: list[Any] = []
        with psycopg.connect(self.team.url.replace("user=memory", "user=postgres")) as raw:
            for table in TABLES:
                digest = sql.SQL(
                    "SELECT {name}, tenant, space, count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {table} t"
                    " WHERE (tenant, space) <> (%s, %s) GROUP BY tenant, space ORDER BY tenant, space"
                ).format(name=sql.Literal(table), table=sql.Identifier(table))
                found += raw.execute(digest, without).fetchall()
        return found


def settings(provider: Provider) -> dict[str, str]:
    limits = ("CALLS_PER_MINUTE", "MEMBER_CALLS_PER_MINUTE", "SEARCHES_PER_MINUTE")
    return {
        "MEMORY_MCP_TEAM__AUTH": "both",
        "MEMORY_MCP_TEAM__ISSUER": provider.issuer,
        "MEMORY_MCP_TEAM__AUDIENCE": AUDIENCE,
        "MEMORY_MCP_TEAM__TENANT_CLAIM": "org",
        "MEMORY_MCP_SERVER__PROFILE": "full",
        **{f"MEMORY_MCP_TEAM__LIMITS__STANDARD__{name}": "0" for name in limits},
    }


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("isolation")
    team, provider = Team(cluster.create()), Provider(signer("rsa-1"))
    derived = range(1, COUNT + 1) if request.config.getoption("--slow") else (FIRST, SECOND)
    try:
        tenants = make(team.admin, COUNT, folder / "filler", derived)
        with serving(folder / "server", team.url, settings(provider)) as server:
            yield World(server, team, tenants, provider)
        assert not tenants.foreign(server.log, (), ""), server.log
    finally:
        provider.stop()
        team.close()


def ready(caller: Caller, own: Handles) -> None:
    """Wait until the caller's own words are found in the indexes."""
    for tool in ("teleport_search", "vector_teleport"):
        until(lambda tool=tool: own.text in json.dumps(caller.call(tool, query=own.text, scope="all")), f"for {tool}")


def schemas(caller: Caller) -> Mapping[str, Mapping[str, Any]]:
    return {tool["name"]: tool["inputSchema"].get("properties", {}) for tool in caller.ask("tools/list")["tools"]}


def ask_honestly(world: World, tenant: int) -> Watched:
    """Everything about a caller's own memory that changes nothing."""
    caller, own = world.watched(tenant), world.of((tenant, 1))
    ready(caller, own)
    look_around(caller)
    silent = set()
    for tool in schemas(caller):
        if LOWEST[ACTS.get(tool, ACTS["get_node"])] is Role.READER and tool not in WORDLESS:
            before = caller.own
            caller.call(tool, **honest(own)[tool])
            silent |= {tool} if caller.own == before else set()
    for probe in PROBES:
        probe.ask(caller, own)
    assert silent <= {"list_projects", "list_agents", "get_agent_activity", "refine_due", "classify_query"}
    return caller


def attack(world: World, tenant: int, whose: Owner) -> Watched:
    """Everything with another's values: no word of theirs comes back, and nobody's values are answered alike."""
    caller, own, other, nobody = world.watched(tenant), world.of((tenant, 1)), world.of(whose), nobodys()
    before, told = world.kept((tenant, 1)), []
    for tool, known in schemas(caller).items():
        for (what, arguments), (_, absent) in zip(
            forged(tool, known, own, other), forged(tool, known, own, nobody), strict=True
        ):
            found, missing = alike(caller.call(tool, **arguments), other), alike(caller.call(tool, **absent), nobody)
            if found != missing:
                told.append(f"{tool} {what}: {found[:1500]}\n  for nobody's: {missing[:1500]}")
    for probe in PROBES:
        found, missing = alike(probe.ask(caller, other), other), alike(probe.ask(caller, nobody), nobody)
        if found != missing:
            told.append(f"{probe.name}: {found[:1500]}\n  for nobody's: {missing[:1500]}")
    assert told == [], "\n".join(told)
    assert world.kept((tenant, 1)) == before
    return caller


def test_every_tool_is_asked(world: World) -> None:
    caller = world.watched(FIRST)
    assert set(schemas(caller)) == set(honest(nobodys()))


@pytest.mark.parametrize("tenant", [FIRST, SECOND])
def test_answers_about_a_members_own_memory_hold_its_words_and_nobody_elses(world: World, tenant: int) -> None:
    caller = ask_honestly(world, tenant)
    assert caller.leaks == []
    assert caller.own > 15


@pytest.mark.parametrize(("tenant", "whose"), ATTACKS)
def test_with_ids_words_and_filters_of_another_nothing_of_theirs_is_answered_or_changed(
    world: World, tenant: int, whose: Owner
) -> None:
    caller = attack(world, tenant, whose)
    assert caller.leaks == []
    assert caller.answers > 300
