"""Many tenants on one server: of what one asks, nothing of another's is in any answer, error, header, metric or log."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psycopg
import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.capture.log import EventLog
from memory_mcp.model.event import EventDraft, EventType
from memory_mcp.model.event import Role as DraftRole
from memory_mcp_team.access.permissions import ACTS, LOWEST_ROLES, SCOPES, Role
from memory_mcp_team.postgres.store import PostgresStorage
from tests.daemon.http_client import Caller
from tests.daemon.places import needs_proc
from tests.postgres import Cluster
from tests.team.probes import PROBES, Watched, alike, forged, honest, look_around
from tests.team.provider import AUDIENCE, Provider, signer
from tests.team.servers import Server, Team, serving
from tests.team.tenants import FIRST, LAST, SECOND, SESSIONS, Handles, Owner, Tenants, make, nobodys, word
from tests.waiting import until

pytestmark = needs_proc

#: Tenants in the long form, and in the short one.
COUNT, FEW = 200, LAST
#: Who calls, and with whose values; a caller sees the first space of a tenant alone.
ATTACK: tuple[int, tuple[Owner, ...]] = (FIRST, ((SECOND, 1),))
#: Spaces of the same tenant, of which a member of several is kept from one below, and the other way round: in the long form.
MORE_ATTACKS: tuple[tuple[int, tuple[Owner, ...]], ...] = ((FIRST, ((FIRST, 2), (FIRST, 3))), (SECOND, ((FIRST, 1),)))
#: Spaces with so much in them that they have topics: another tenant's, and one that a member of the same tenant may not see.
TALKATIVE: tuple[Owner, ...] = ((FIRST, 1), (SECOND, 1))
#: Tools whose answers hold no word of a memory: how far something is, or what would be done.
WORDLESS = frozenset(
    """get_teleport_status get_vector_index_status get_topic_graph_status list_spaces plan_query classify_query
    refine_due""".split()
)
#: Tools of a person's own machine, and those whose honest arguments change something whoever's ids they name.
OF_A_MACHINE = frozenset({"pause_capture", "resume_capture"})
CHANGES = frozenset({"remember", "ingest_events", "rebuild_index", "prune_index"})
#: Tools that answer page by page.
PAGED: Mapping[str, Mapping[str, Any]] = {
    "browse_toc": {"node_id": "toc:year:2026", "scope": "all", "limit": 1},
    "get_events": {"scope": "all", "limit": 1},
    "intelligent_search": {"query": "cellar", "scope": "all", "limit": 1},
    "list_projects": {"limit": 1},
}
#: What people and agents wrote; the program derives the rest meanwhile. An act upon what is derived is in the audit.
TABLES = """event pin superseded topic_label project_alias project_split audit tombstone request usage""".split()


@dataclass
class World:
    """A server, and all that there is in its database."""

    server: Server
    team: Team
    tenants: Tenants
    provider: Provider

    def watched(self, tenant: int, key: str = "", space: str = "", project: str = "", mine: Iterable[int] = (1,)) -> Watched:
        """A member of a tenant who sees these of its spaces."""
        more = {"Memory-Space": space} if space else {}
        owned = frozenset({(tenant, 26), *((tenant, number) for number in mine)})
        return Watched(self.server.url, key or self.tenants.admins[tenant], project, "", more, self.tenants, owned)

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
        "MEMORY_MCP_TOPICS__MIN_SEGMENTS": str(SESSIONS),
        **{f"MEMORY_MCP_TEAM__LIMITS__STANDARD__{name}": "0" for name in limits},
    }


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("isolation")
    team, provider = Team(cluster.create()), Provider(signer("rsa-1"))
    is_long = request.config.getoption("--slow")
    count, derived = (COUNT, range(1, COUNT + 1)) if is_long else (FEW, (FIRST, SECOND))
    talkative = (*TALKATIVE, *([(FIRST, 2)] if is_long else []))
    try:
        tenants = make(team.admin, count, folder / "filler", derived, talkative)
        with serving(folder / "server", team.url, settings(provider)) as server:
            made = World(server, team, tenants, provider)
            for owner in talkative:
                find_topics(made, owner)
            yield made
        assert not tenants.foreign(server.log, (), ""), server.log
    finally:
        provider.stop()
        team.close()


def find_topics(world: World, owner: Owner) -> None:
    """Have a space grouped, one of its topics called by a word of its own, and note whose its topics are."""
    key = (world.tenants.admins if owner[1] == 1 else world.tenants.owners)[owner[0]]
    caller = world.server.caller(key, world.of(owner).space_name)
    until(lambda: not caller.call("rebuild_index", index_type="topics")["isError"], "for topics")
    topics: list[str] = []

    def found() -> bool:
        topics.extend(topic["topic_id"] for topic in caller.ok("get_top_topics", scope="all", fine=True)["topics"])
        return bool(topics)

    until(found, "for topics")
    world.tenants.ids.update(dict.fromkeys((topic.removeprefix("topic:") for topic in topics), owner))
    world.tenants.handles[owner] = replace(world.of(owner), topic=topics[0])
    caller.ok("label_topic", topic_id=topics[0], label=word("l", owner))
    caller.ok("pin", id=topics[0])


def ready(caller: Caller, own: Handles) -> None:
    """Wait until the caller's own words are found in the indexes."""

    def finds(tool: str) -> bool:
        return own.text in json.dumps(caller.call(tool, query=own.text, scope="all"))

    for tool in ("teleport_search", "vector_teleport"):
        until(partial(finds, tool), f"for {tool}")


def schemas(caller: Caller) -> Mapping[str, Mapping[str, Any]]:
    return {tool["name"]: tool["inputSchema"].get("properties", {}) for tool in caller.ask("tools/list")["tools"]}


#: Topics of a space are grouped a minute after somebody has first read it.
_OF_TOPICS = {"get_top_topics", "topics_by_query", "get_toc_nodes_for_topic", "get_related_topics"}


def ask_honestly(world: World, tenant: int, may_be_silent: Collection[str] = ()) -> Watched:
    """Everything about a caller's own memory that changes nothing."""
    caller, own = world.watched(tenant), world.of((tenant, 1))
    ready(caller, own)
    look_around(caller)
    silent = set()
    for tool in schemas(caller):
        if LOWEST_ROLES[ACTS.get(tool, ACTS["get_node"])] is Role.READER and tool not in WORDLESS:
            before = caller.own
            caller.call(tool, **honest(own)[tool])
            silent |= {tool} if caller.own == before else set()
    for probe in PROBES:
        probe.ask(caller, own)
    assert silent <= set(may_be_silent)
    return caller


def differing(what: str, found: Iterable[str], missing: str) -> list[str]:
    return [f"{what}: {one[:1500]}\n  for nobody's: {missing[:1500]}" for one in found if one != missing]


def attack(world: World, caller: Watched, home: Owner, *whose: Owner) -> Watched:
    """Everything with others' values: no word of theirs comes back, and nobody's values are answered alike."""
    ready(caller, world.of(home))
    before, told, asked = world.kept(home), list[str](), [*map(world.of, whose), nobodys()]
    for tool, known in schemas(caller).items():
        for each in zip(*(forged(tool, known, world.of(home), of) for of in asked), strict=True):
            *found, missing = [alike(caller.call(tool, **named), of) for (_, named), of in zip(each, asked, strict=True)]
            # Words that are looked for are compared with all that there is: near ones are found for any.
            told += [] if each[0][0] == "query=text" else differing(f"{tool} {each[0][0]}", found, missing)
    for probe in PROBES:
        *found, missing = [alike(probe.ask(caller, of), of) for of in asked]
        told += [] if probe.looks else differing(probe.name, found, missing)
    assert told == [], "\n".join(told)
    assert world.kept(home) == before
    return caller


def test_every_tool_is_asked(world: World) -> None:
    caller = world.watched(FIRST)
    assert set(schemas(caller)) == set(honest(nobodys()))


@pytest.mark.parametrize("tenant", [FIRST, SECOND])
@pytest.mark.few(1)
def test_answers_about_a_members_own_memory_hold_its_words_and_nobody_elses(world: World, tenant: int) -> None:
    caller = ask_honestly(world, tenant)
    assert caller.leaks == []
    assert caller.own > 15


@pytest.mark.parametrize(
    ("tenant", "whose"), [ATTACK, *(pytest.param(*attack, marks=pytest.mark.slow) for attack in MORE_ATTACKS)]
)
def test_with_ids_words_and_filters_of_another_nothing_of_theirs_is_answered_or_changed(
    world: World, tenant: int, whose: tuple[Owner, ...]
) -> None:
    caller = attack(world, world.watched(tenant), (tenant, 1), *whose)
    assert caller.leaks == []
    assert caller.answers > 200


def of_several(world: World, space: str = "") -> Watched:
    """The first tenant's member who is in its spaces 2 and 3, and not in that of the team."""
    return world.watched(FIRST, world.tenants.owners[FIRST], space, mine=(2, 3))


def test_a_member_of_several_spaces_learns_nothing_of_the_one_beside_them(world: World) -> None:
    """Opening by id and `search_spaces` look in all spaces of a caller: with values of the forbidden one, too."""
    forbidden, home = (FIRST, 1), (FIRST, 2)
    caller = attack(world, of_several(world, world.of(home).space_name), home, forbidden)
    assert caller.leaks == []
    assert caller.answers > 200
    look_around(caller)
    # What is in the other of one's own is found, so that nothing is proved by finding nothing at all.
    third = world.of((FIRST, 3))
    [notice] = caller.ok("expand_grip", grip_id=third.grip)["notices"]
    assert notice == f"found in the space {third.space_name}"
    assert [caller.call("expand_grip", grip_id=of.grip)["isError"] for of in (world.of(forbidden), nobodys())] == [True, True]
    assert caller.leaks == []


def test_a_member_of_several_spaces_is_told_of_those_alone(world: World) -> None:
    caller, own = of_several(world), {world.of((FIRST, number)).space_name for number in (2, 3)}
    listed = caller.ok("list_spaces")
    assert (listed["current"], {space["name"] for space in listed["spaces"]}) == (world.of((FIRST, 3)).space_name, own)
    assert {space["name"] for space in json.loads(caller.send("GET", "/share")[2])["spaces"]} == own
    asked = {"query": "Who keeps what in the cellar?", "limit": 20}
    found = caller.ok("search_spaces", **asked)
    assert set(found["searched"]) == own
    # What was said in the attacks on one of them may take all places of the answer.
    assert set() < {result["space"] for result in found["results"]} <= own
    for name in own:
        assert {result["space"] for result in caller.ok("search_spaces", **asked, spaces=[name])["results"]} == {name}
    told = [caller.error("search_spaces", **asked, spaces=[*own, name]).replace(name, "<name>") for name in ("team", "nobodys")]
    assert told[0] == told[1]
    assert caller.leaks == []


def test_cursors_and_counts_of_a_members_spaces_have_no_part_in_the_one_beside_them(world: World) -> None:
    team, third = world.watched(FIRST), of_several(world)
    second = of_several(world, world.of((FIRST, 2)).space_name)
    before = [caller.ok("get_retrieval_status")["store"] for caller in (second, third)]
    team.ok("remember", text="One more for the team alone.")
    pages = 0
    for tool, arguments in PAGED.items():
        if cursor := team.ok(tool, **arguments).get("next_cursor"):
            pages += 1
            for caller in (second, third):
                caller.call(tool, **arguments, cursor=cursor)
                caller.call(tool, **arguments, cursor=cursor[:-1] + "0")
    assert pages > 1
    assert [caller.ok("get_retrieval_status")["store"] for caller in (second, third)] == before
    assert second.leaks + third.leaks == []


@pytest.mark.slow
@pytest.mark.parametrize("tenant", range(1, COUNT + 1))
def test_every_tenant_asks_for_what_the_next_one_has(world: World, tenant: int) -> None:
    assert ask_honestly(world, tenant, _OF_TOPICS).leaks == []
    assert attack(world, world.watched(tenant), (tenant, 1), (tenant % COUNT + 1, 1)).leaks == []


def test_a_status_and_the_metrics_tell_nothing_of_how_much_others_have(world: World) -> None:
    caller = world.watched(SECOND)
    caller.ok("remember", text="One more.")
    before = caller.ok("get_retrieval_status")["store"]
    storage = PostgresStorage(world.team.database, world.team.admin.directory.get_memory(LAST, 1))
    long = [EventDraft("s", DraftRole.USER, EventType.NOTE, f"{n} " * 2000, 1_767_600_000_000 + n) for n in range(300)]
    EventLog(storage.events, SystemClock()).append(long, "test")
    caller.ok("remember", text="And another.")
    after = caller.ok("get_retrieval_status")["store"]
    assert after["events"] == before["events"] + 1
    assert after["size_bytes"] == before["size_bytes"]
    status, _, body = caller.send("GET", "/metrics")
    assert (status, b'team_requests_total{status="200",tenant_class="standard"}' in body) == (200, True)
    assert caller.leaks == []


@pytest.fixture
def keys(world: World) -> dict[Role, str]:
    """Keys of the first tenant's admin that allow so much."""
    return {role: str(world.team.admin.make_key(FIRST, role.value, "m", [scope])) for scope, role in SCOPES.items()}


def test_each_role_may_ask_what_is_its_own_and_a_reader_changes_nothing(world: World, keys: Mapping[Role, str]) -> None:
    # A curator asks for everything that he may, the others for what the role below may not.
    nobody, before = nobodys(), world.kept((0, 0))
    for role, key in [*keys.items(), (None, world.tenants.readers[FIRST])]:
        caller = world.watched(FIRST, key)
        for tool in schemas(caller):
            needed, has = LOWEST_ROLES[ACTS.get(tool, ACTS["get_node"])], role or Role.READER
            if tool in OF_A_MACHINE or (needed is not Role.READER and has.rank < needed.rank):
                assert "PERMISSION_DENIED" in caller.error(tool, **honest(world.of((FIRST, 1)))[tool]), (role, tool)
            elif tool not in CHANGES and (needed is has or has is Role.CURATOR):
                assert "PERMISSION_DENIED" not in json.dumps(caller.call(tool, **honest(nobody)[tool])), (role, tool)
        assert caller.leaks == []
    # Whom one is not, one does not become by a key for more.
    reader = world.watched(FIRST, world.tenants.readers[FIRST])
    assert "the role writer is needed for remember in this space" in reader.error("remember", text="No.")
    status, _, body = reader.send("POST", "/hooks/claude-code", b"{}")
    assert (status, b"the role writer is needed for hooks in this space" in body) == (403, True)
    assert world.kept((0, 0)) == before


def spaces_of_others(world: World) -> list[str]:
    return [world.of(owner).space_name for owner in ((FIRST, 2), (FIRST, 3), (LAST, 2), (LAST, 3))]


def test_spaces_of_others_are_as_those_that_are_not_there(world: World) -> None:
    tool = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "remember", "arguments": {"text": "Mine."}}}
    batch = {"events": [], "gone": [world.of((FIRST, 2)).event, world.of((LAST, 2)).event], "corrections": []}
    payload = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "Written by a stranger.", "cwd": "/x"}
    before = world.kept((0, 0))
    for name in spaces_of_others(world):
        # A project is called as a space that its caller may not see.
        here = world.watched(FIRST, project=f"github.com/acme/{name}")
        assert here.ok("list_spaces")["current"] == "team"
        assert here.leaks == []
    for key in (world.tenants.admins[FIRST], world.tenants.readers[FIRST]):
        told = []
        for name in (*spaces_of_others(world), nobodys().space_name):
            here, there = world.watched(FIRST, key), world.watched(FIRST, key, space=name)
            answers = [
                here.send("POST", f"/spaces/{name}/mcp", json.dumps(tool).encode()),
                there.send("POST", "/mcp", json.dumps(tool).encode()),
                there.send("POST", "/hooks/claude-code", json.dumps(payload).encode()),
                here.send("GET", f"/share/{name}"),
                here.send("GET", f"/share/{name}/changes"),
                here.send("POST", f"/share/{name}/events", json.dumps(batch).encode()),
            ]
            assert [status for status, _, _ in answers] == [404] * 6
            told.append([(plain(headers), body.decode().replace(name, "<name>")) for _, headers, body in answers])
            assert here.leaks + there.leaks == []
        assert told[1:] == told[:1] * 4
    assert world.kept((0, 0)) == before


def plain(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in ("date", "content-length")}


def test_what_is_published_or_forgotten_by_a_member_touches_no_other_space(world: World) -> None:
    caller, before = world.watched(SECOND), world.kept((SECOND, 1))
    foreign = [world.of(owner) for owner in ((FIRST, 1), (FIRST, 2), (LAST, 1))]
    page = json.loads(caller.send("GET", "/share/team/changes")[2])
    assert world.of((SECOND, 1)).text in json.dumps(page["events"])
    theirs = [json.loads(world.watched(FIRST).send("GET", "/share/team/changes")[2])["cursor"]]
    for cursor in (*theirs, page["cursor"], *(f"3.{of.event[:12]}.9.x~" for of in foreign)):
        assert caller.send("GET", f"/share/team/changes?after={cursor}")[0] == 200
    said = [
        {"old": of.grip, "old_event": of.event, "new": None, "at": "2026-01-06T00:00:00Z", "reason": "", "author": "x"}
        for of in foreign
    ]
    batch = {"events": [], "gone": [of.event for of in foreign], "corrections": said}
    status, _, body = caller.send("POST", "/share/team/events", json.dumps(batch).encode())
    assert (status, json.loads(body)["forgotten"], json.loads(body)["corrected"]) == (200, 0, 0)
    assert caller.leaks == []
    assert world.kept((SECOND, 1)) == before


def test_cursors_and_keys_of_calls_are_worth_nothing_elsewhere(world: World) -> None:
    caller, pages = world.watched(SECOND), 0
    for tenant, key in ((FIRST, world.tenants.admins[FIRST]), (FIRST, world.tenants.owners[FIRST])):
        other = Caller(
            world.server.url,
            key,
            more={} if key == world.tenants.admins[FIRST] else {"Memory-Space": world.of((tenant, 2)).space_name},
        )
        for tool, arguments in PAGED.items():
            if cursor := other.ok(tool, **arguments).get("next_cursor"):
                pages += 1
                caller.call(tool, **arguments, cursor=cursor)
                caller.call(tool, **arguments, cursor=cursor[:-1] + "0")
    assert pages > 2
    kept = world.watched(FIRST).ok("remember", text="The key is used twice.", idempotency_key="once")
    assert caller.ok("remember", text="The key is used twice.", idempotency_key="once")["grip_id"] != kept["grip_id"]
    assert caller.leaks == []


def test_keys_and_tokens_of_others_open_nothing(world: World) -> None:
    mine, theirs = world.tenants.admins[SECOND].split("_"), world.tenants.admins[FIRST].split("_")
    changed = {
        "another's number": ["mmk", theirs[1], *mine[2:]],
        "another's id": ["mmk", mine[1], theirs[2], mine[3]],
        "another's number and id": ["mmk", *theirs[1:3], mine[3]],
        "nobody's": ["mmk", "7000", *mine[2:]],
    }
    answers = {}
    for what, parts in changed.items():
        caller = world.watched(SECOND, "_".join(parts))
        status, headers, body = caller.send("POST", "/mcp", b"{}")
        answers[what] = (status, plain(headers), body)
        assert caller.leaks == []
    assert len({str(answer) for answer in answers.values()}) == 1
    assert answers["nobody's"][0] == 401


def test_tokens_of_other_issuers_audiences_and_tenants_open_nothing(world: World) -> None:
    provider, stranger = world.provider, Provider(signer("rsa-1"))
    tenant = word("t", (SECOND, 26))
    world.team.admin.add_member(SECOND, "Ada", f"{provider.issuer}|ada")
    world.team.admin.grant_role(SECOND, f"{provider.issuer}|ada", "team", Role.READER)
    good = {"org": tenant, "scope": "memory:admin"}

    def token(of: Provider = provider, **changed: Any) -> str:
        return of.token(None, None, **(good | changed))

    caller = world.watched(SECOND, token())
    assert world.of((SECOND, 1)).text in json.dumps(caller.ok("get_events", scope="all"))
    refused = {
        "issuer": (401, token(stranger)),
        "issuer's name": (401, token(stranger, iss=provider.issuer)),
        "audience": (401, token(aud="https://other.example/mcp")),
        "expired": (401, token(exp=1)),
        "tenant": (403, token(org=word("t", (FIRST, 26)))),
        "nobody's tenant": (403, token(org=word("t", (7000, 26)))),
        "member": (403, token(sub="m")),
        "nobody": (403, token(sub="n")),
    }
    told = {}
    for what, (status, refusing) in refused.items():
        other = world.watched(SECOND, refusing)
        found, headers, body = other.send("POST", "/mcp", b"{}")
        told[what] = (plain(headers), body.replace(b"'m'", b"'n'"))
        assert found == status, what
        assert other.leaks == []
    stranger.stop()
    assert told["tenant"] == told["nobody's tenant"]
    assert told["member"] == told["nobody"]
    assert caller.leaks == []
