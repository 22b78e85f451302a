"""Two team servers as real processes over one database: any of them answers anybody."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memory_mcp_team.access.permissions import Role
from tests.daemon.http_client import Caller
from tests.daemon.inside import Inside
from tests.daemon.places import needs_proc
from tests.team.provider import AUDIENCE, Provider, signer
from tests.team.servers import Pair, Team, serving
from tests.team.tenants import nobodys
from tests.team.test_forgotten import VALUE, answers, holding, is_indexed, say, tells, wait_for_the_index
from tests.team.test_readers import COUNTED, ask_everything, missing, segment
from tests.team.test_readers import say as say_one
from tests.waiting import until

pytestmark = needs_proc
TOKEN = "a long enough token"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, company: Team, provider: Provider) -> Iterator[Pair]:
    """Two servers with every tool, that take keys and tokens and limit small and large tenants alone.

    The metrics of the first one need a token, and its index is one of words alone.
    """
    root = tmp_path_factory.mktemp("pair")
    (root / "outside").mkdir()
    limits = {"SMALL__SEARCHES_PER_MINUTE": "2", "SMALL__EVENTS_PER_DAY": "2", "LARGE__STORED_EVENTS": "1"}
    settings = {
        "MEMORY_MCP_TEAM__AUTH": "both",
        "MEMORY_MCP_TEAM__ISSUER": provider.issuer,
        "MEMORY_MCP_TEAM__AUDIENCE": AUDIENCE,
        "MEMORY_MCP_TEAM__TENANT_CLAIM": "org",
        "MEMORY_MCP_SERVER__PROFILE": "full",
        "MEMORY_MCP_SERVER__FORGET_BY_TOOL": "true",
        "MEMORY_MCP_TEAM__TOMBSTONES_DIR": str(root / "outside"),
        **COUNTED,
        **{f"MEMORY_MCP_TEAM__LIMITS__{name}": value for name, value in limits.items()},
    }
    more = settings | {"MEMORY_MCP_TEAM__SERVER__METRICS_TOKEN": TOKEN, "MEMORY_MCP_TELEPORT__VECTOR__ENABLED": "false"}
    with serving(root / "a", company.url, more) as first, serving(root / "b", company.url, settings) as second:
        yield first, second


def found(caller: Caller, query: str) -> list[str]:
    """The quotations that a search gives."""
    return [result["quote"] for result in caller.ok("intelligent_search", query=query, scope="all")["results"]]


def told_of(answer: object, word: str) -> bool:
    return word in json.dumps(answer)


def test_what_is_written_on_one_server_is_found_on_the_other_at_once(company: Team, pair: Pair) -> None:
    key = company.member("zebras", "ann", team=Role.WRITER)
    first, second = pair
    here, there = first.caller(key), second.caller(key)
    assert found(there, "zebra") == []
    here.ok("remember", text="The zebra crossing is painted on Thursdays.")
    until(lambda: any("zebra" in quote for quote in found(there, "zebra crossing")), "for the other server to find it")

    grip = there.ok("intelligent_search", query="zebra crossing", scope="all")["results"][0]["grip"]
    assert told_of(here.ok("expand_grip", grip_id=grip), "painted on Thursdays")
    # Filed by whichever server was free, and both see it.
    until(lambda: all(caller.ok("browse_toc").get("children") for caller in (here, there)), "for a year of the tree")


def test_a_reader_is_answered_by_every_reading_tool_of_a_server_that_derives(company: Team, pair: Pair) -> None:
    ann, bob = company.member("diners", "ann", team=Role.WRITER), company.member("diners", "bob", team=Role.READER)
    server, own = pair[1], replace(nobodys(), space_name="team")
    reader = server.caller(bob)
    say_one(server.caller(ann), own, 1)
    until(lambda: company.rows("diners", "SELECT 1 FROM node WHERE level = 'segment'"), "for a segment")
    until(lambda: "children" in reader.ok("browse_toc", scope="all"), "for the tree")
    [found] = reader.ok("intelligent_search", query=own.text, scope="all")["results"]
    event = reader.ok("expand_grip", grip_id=found["grip"])["grip"]["event_id_start"]
    own = replace(own, node=segment(company, "diners"), grip=found["grip"], span=found["grip"], event=event)
    say_one(server.caller(ann), own, 2)
    assert ask_everything(reader, own) == missing(own, is_derived=True)
    assert company.rows("diners", "SELECT count(*) > 0 FROM usage") == [(True,)]


def test_a_client_of_the_older_revision_is_answered_by_any_server(company: Team, pair: Pair) -> None:
    key = company.member("kiosks", "ann", team=Role.WRITER)
    first, second = pair
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    status, headers, body = first.caller(key).send("POST", "/mcp", hello)
    assert status == 200, body
    assert "mcp-session-id" not in headers

    call = {"name": "remember", "arguments": {"text": "The kiosk sells tulips."}}
    line = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).encode()
    status, _, body = second.caller(key).send("POST", "/mcp", line, MCP_Protocol_Version="2025-11-25")
    assert status == 200
    assert b"grip_id" in body
    assert found(first.caller(key), "kiosk tulips") == ["The kiosk sells tulips."]


def test_a_space_is_named_by_header_or_address_and_what_a_caller_may_not_see_does_not_exist(company: Team, pair: Pair) -> None:
    ann = company.member("named", "ann", team=Role.WRITER, private_ann=Role.ADMIN, project_shop=Role.WRITER)
    bob = company.member("named", "bob", team=Role.READER)
    eve = company.member("others", "eve", team=Role.ADMIN)
    server, _ = pair
    spaces = server.caller(ann).ok("list_spaces")
    assert spaces["current"] == "private_ann"
    assert [(space["name"], space["role"]) for space in spaces["spaces"]] == [
        ("private_ann", "admin"), ("project_shop", "writer"), ("team", "writer"),
    ]  # fmt: skip
    assert server.caller(ann, project="github.com/acme/project_shop").ok("list_spaces")["current"] == "project_shop"
    assert server.caller(ann, space="team").ok("list_spaces")["current"] == "team"
    assert server.caller(bob).ok("list_spaces")["current"] == "team"

    secret = server.caller(ann).ok("remember", text="My own secret word is quincunx.")
    server.caller(ann, space="team").ok("remember", text="Everybody knows the word platypus.")
    assert found(server.caller(bob), "platypus") == ["Everybody knows the word platypus."]
    assert not told_of(found(server.caller(bob), "quincunx"), "quincunx")
    for other in (bob, eve):
        for space in ("private_ann", "nowhere"):
            status, _, body = server.caller(other, space=space).send("POST", "/mcp", b"{}")
            assert (status, json.loads(body)["error"]["code"]) == (404, "NOT_FOUND")
        assert server.caller(other).error("expand_grip", grip_id=secret["grip_id"]).startswith("NOT_FOUND")
    assert found(server.caller(eve), "platypus quincunx") == []

    # Ids of a caller's other spaces are found there, and one question may go to all of them.
    opened = server.caller(ann, space="team").ok("expand_grip", grip_id=secret["grip_id"])
    assert told_of(opened, "quincunx")
    assert opened["notices"] == ["found in the space private_ann"]
    everywhere = server.caller(ann).ok("search_spaces", query="word quincunx platypus")
    assert everywhere["searched"] == ["private_ann", "project_shop", "team"]
    assert {result["space"] for result in everywhere["results"]} == {"private_ann", "team"}
    assert server.caller(bob).ok("search_spaces", query="quincunx")["searched"] == ["team"]
    assert server.caller(bob).error("search_spaces", query="quincunx", spaces=["private_ann"]).startswith("INVALID_ARGUMENT")

    assert server.caller(bob).error("remember", text="I may only read.").startswith("PERMISSION_DENIED")
    status, _, body = server.caller(bob).send("POST", "/hooks/json", b"{}")
    assert (status, json.loads(body)["error"]["code"]) == (403, "PERMISSION_DENIED")
    status, _, body = server.caller(ann).send("POST", "/spaces/team/mcp", b"[]")
    assert status == 400
    twice = server.caller(ann, space="team").send("POST", "/spaces/private_ann/mcp", b"{}")
    assert (twice[0], json.loads(twice[2])["error"]["code"]) == (400, "INVALID_ARGUMENT")


def test_who_names_no_space_gets_the_projects_own_then_the_private_then_the_team_one_the_first_by_name(
    company: Team, pair: Pair
) -> None:
    keys = {
        "several": company.member("firm", "ann", Zoo=Role.READER, alpha=Role.WRITER, project_shop=Role.READER, beta=Role.ADMIN),
        "private": company.member("firm", "bob", alpha=Role.ADMIN, private_z=Role.ADMIN, private_b=Role.READER),
        "project": company.member("firm", "cid", project_shop=Role.WRITER),
        "projects": company.member("firm", "dot", project_shop=Role.WRITER, project_till=Role.WRITER),
        "nothing": company.member("firm", "eva"),
    }
    number = company.admin.get_tenant("firm").tenant
    keys["key"] = str(company.admin.make_key(number, "narrow", "ann", ["memory:read"], ["beta", "alpha"]))
    server, _ = pair

    def current(who: str, project: str = "") -> str:
        return str(server.caller(keys[who], project=project).ok("list_spaces")["current"])

    # Capitals come before small letters.
    assert [current(who) for who in keys] == ["Zoo", "private_b", "project_shop", "", "", "alpha"]
    named = "github.com/acme/project_shop"
    assert [current(who, named) for who in keys] == ["project_shop", "private_b", *["project_shop"] * 2, "", "alpha"]
    # A project space is that of a caller whose project is called so, at the end of its path or as a whole.
    assert (current("several", "project_shop"), current("several", "github.com/acme/my_project_shop")) == ("project_shop", "Zoo")
    for who in ("projects", "nothing"):
        assert server.caller(keys[who]).error("get_events").startswith("NOT_FOUND: there is no such space")


def test_a_hook_is_acknowledged_when_its_events_are_committed_and_sent_again_it_is_stored_once(company: Team, pair: Pair) -> None:
    key = company.member("hooks", "ci", team=Role.WRITER)
    line = {"session_id": "s1", "role": "user", "text": "We chose oranges over apples."}
    payload = json.dumps({**line, "timestamp": "2026-01-02T03:04:05Z"}).encode()
    first, second = pair
    status, _, body = first.caller(key).send("POST", "/hooks/json", payload, Idempotency_Key="1")
    assert (status, json.loads(body)) == (200, {"events": 1, "skipped": ""})
    assert company.rows("hooks", "SELECT text FROM event") == [("We chose oranges over apples.",)]
    status, _, body = second.caller(key).send("POST", "/hooks/json", payload, Idempotency_Key="1")
    assert (status, json.loads(body)["events"]) == (200, 0)
    assert company.rows("hooks", "SELECT count(*) FROM event") == [(1,)]

    assert second.caller(key).send("POST", "/hooks/nobody", payload)[0] == 404
    assert second.caller(key).send("POST", "/hooks/claude-code", b"not JSON")[0] == 400
    assert second.caller("mmk_1_0_0").send("POST", "/hooks/json", payload)[0] == 401


def test_health_tells_whether_the_server_can_serve_and_metrics_name_nobody(company: Team, pair: Pair) -> None:
    key = company.member("tenantofacme", "ann", team=Role.ADMIN, private_ann=Role.ADMIN)
    server, open_one = pair
    assert server.get("/health/live") == (200, '{"status":"ok"}')
    # A load balancer addresses a server by a name that nobody wrote down.
    assert server.get("/health/ready", Host="10.1.2.3:8080") == (200, '{"status":"ready"}')
    server.caller(key).ok("remember", text="The metrics know nothing of this.", project="hushhush")
    found(server.caller(key), "metrics")

    assert server.get("/metrics")[0] == 401
    assert server.get("/metrics", Authorization="Bearer another")[0] == 401
    status, text = server.get("/metrics", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    assert 'team_requests_total{status="200",tenant_class="standard"}' in text
    assert re.search(r'^team_spaces\{state="open"\} [1-9]', text, re.MULTILINE)
    number = company.admin.get_tenant("tenantofacme").tenant
    hidden = ("tenantofacme", "ann", "hushhush", f'tenant="{number}"', "private_ann", key)
    assert [word for word in hidden if word in text] == []

    assert open_one.get("/metrics")[0] == 200
    assert open_one.get("/metrics", X_Forwarded_For="10.0.0.1")[0] == 401


def test_a_team_needs_postgres(tmp_path: Path) -> None:
    done = Inside(tmp_path, more={"MEMORY_MCP_TEAM__AUTH": "keys"}).run("serve", "--http", "--port", "0")
    assert (done.returncode, "storage.engine = postgres" in done.stderr) == (2, True)


def test_a_pause_in_a_shell_over_the_database_says_that_servers_go_on_recording(
    tmp_path: Path, company: Team, pair: Pair
) -> None:
    key = company.member("operators", "ann", team=Role.WRITER)
    settings = {"ENGINE": "postgres", "URL": company.url, "TENANT": "operators", "SPACE": "team"}
    more = {f"MEMORY_MCP_STORAGE__{name}": value for name, value in settings.items()}
    with Inside(tmp_path, more=more) as operator:
        done = operator.run("pause", "--project", "*")
        assert (done.returncode, "servers with this memory go on recording" in done.stderr) == (0, True)
        pair[0].caller(key).ok("remember", text="The servers know nothing of it.")
        assert company.rows("operators", "SELECT text FROM event") == [("The servers know nothing of it.",)]


def test_projects_are_shared_through_a_space_that_its_readers_search(company: Team, pair: Pair) -> None:
    ann, eve = company.member("sharers", "ann", team=Role.WRITER), company.member("strangers", "eve", team=Role.ADMIN)
    server, _ = pair
    status, _, body = server.caller(ann).send("GET", "/share")
    assert (status, json.loads(body)["spaces"]) == (200, [{"name": "team", "kind": "team", "role": "writer"}])
    assert server.caller(ann).send("GET", "/share/team/changes")[0] == 200
    assert server.caller(ann).send("GET", "/share/nowhere/changes")[0] == 404
    assert server.caller("").send("GET", "/share")[0] == 401
    assert server.caller(eve).send("GET", "/share")[0] == 200


def test_what_is_forgotten_on_one_server_is_gone_from_every_file_and_answer_of_the_other(company: Team, pair: Pair) -> None:
    key = company.member("vault", "ann", team=Role.ADMIN)
    here, there = (server.caller(key) for server in pair)
    say(here)
    caches = [server.folder / "cache" for server in pair]
    day = {"node_id": "toc:day:2026-01-01", "scope": "all", "detail": "full"}
    until(lambda: all(tells(caller.call("get_node", **day)) for caller in (here, there)), "for the tree")
    for caller, cache in ((here, caches[0]), (there, caches[1])):
        # A few changes of an index that is there already would be written a minute later.
        # Nor while the question before has one built.
        until(lambda: not caller.call("rebuild_index", index_type="bm25").get("isError"))  # noqa: B023 - called here
        wait_for_the_index(caller, cache)
    before = answers(there)
    told = {"intelligent_search", "exact", "get_events", "toc:day:2026-01-01"}
    assert {name for name in told if tells(before[name])} == told

    assert here.ok("forget", value=VALUE, dry_run=False)["forgotten"] is True
    assert holding(caches[0]) == []
    # For a backup of the database that does not know it yet.
    assert len([*(pair[0].folder.parents[1] / "outside").glob("*.jsonl")]) == 1
    until(lambda: holding(caches[1]) == [], "for the other server's files to hold it no more")
    until(lambda: not any(tells(found) for found in answers(there).values()), "for answers without it")
    until(lambda: is_indexed(there), "for its indexes")
    assert "painted green" in json.dumps(there.ok("teleport_search", query="door painted green", scope="all"))
    assert [name for name, found in answers(there).items() if tells(found)] == []
    assert holding(caches[1]) == []

    # Said again, to either, it is not kept.
    for number, caller in enumerate((there, here)):
        caller.ok("remember", text=f"Once more {number}, the door code is {VALUE}.")
    assert company.rows("vault", f"SELECT count(*) FROM event WHERE text LIKE '%{VALUE}%'") == [(0,)]
    assert company.rows("vault", "SELECT count(*) FROM event WHERE text LIKE 'Once more %[forgotten]%'") == [(2,)]
    for cache in caches:
        assert holding(cache) == []


def test_a_client_without_a_token_is_led_to_the_provider_whose_token_then_counts(
    company: Team, pair: Pair, provider: Provider
) -> None:
    company.member("acme", "ann", team=Role.ADMIN)
    acme = company.admin.get_tenant("acme").tenant
    company.admin.add_member(acme, "Ada", f"{provider.issuer}|ada")
    company.admin.grant_role(acme, "Ada", "team", Role.CURATOR)
    server, _ = pair
    status, headers, _ = server.caller("").send("POST", "/mcp", b"{}", Authorization="")
    assert status == 401
    place = headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
    status, body = server.get(urlsplit(place).path)
    assert (status, json.loads(body)["authorization_servers"]) == (200, [provider.issuer])

    ada = server.caller(provider.token(scope="memory:write"))
    kept = ada.ok("remember", text="The ferry leaves at nine.")
    # Whatever its client calls itself, the audit has the member.
    server.caller(provider.token(scope="memory:curate")).ok("retract", grip_id=kept["grip_id"], reason="It does not.")
    assert company.rows("acme", "SELECT what, author FROM audit") == [("retract", "t (member 2)")]
    assert "PERMISSION_DENIED" in server.caller(provider.token(scope="memory:read")).error("remember", text="no")
    for token in (provider.token(aud="https://other.example"), provider.token(signer("rsa-1")), provider.token(exp=1)):
        status, headers, _ = server.caller(token).send("POST", "/mcp", b"{}")
        assert (status, 'error="invalid_token"' in headers["www-authenticate"]) == (401, True)
    assert server.caller(provider.token(sub="mallory")).send("POST", "/mcp", b"{}")[0] == 403
    assert server.caller(provider.token(org="other")).send("POST", "/mcp", b"{}")[0] == 403


def test_searches_and_events_of_a_tenant_are_limited_and_no_others(company: Team, pair: Pair) -> None:
    ann, bob = company.member("tides", "ann", team=Role.ADMIN), company.member("calm", "bob", team=Role.ADMIN)
    eve = company.member("first", "eve", team=Role.ADMIN)
    for name, size in (("tides", "small"), ("calm", "small"), ("first", "large")):
        company.admin.add_tenant(name, size)
    server, _ = pair
    here, there, third = (server.caller(key) for key in (ann, bob, eve))
    for number in range(2):
        here.ok("remember", text=f"The tide is high at {number}.")
        here.ok("intelligent_search", query="tide")
    assert "RESOURCE_EXHAUSTED: the limit is reached: 2 events a day" in here.error("remember", text="Once more.")
    assert "RESOURCE_EXHAUSTED: the limit is reached: 2 searches a minute" in here.error("teleport_search", query="tide")
    there.ok("remember", text="Nobody else is held up.")
    there.ok("intelligent_search", query="held up")
    third.ok("remember", text="The first.")
    assert "1 stored events" in third.error("remember", text="The second.")
    # What was refused was not stored.
    assert company.rows("tides", "SELECT count(*) FROM event") == [(2,)]
    assert company.rows("first", "SELECT count(*) FROM event") == [(1,)]


@pytest.mark.parametrize("how", ["key", "member"])
def test_a_revoked_key_and_a_removed_member_count_no_more_at_the_next_call_and_nothing_stays_open(
    company: Team, pair: Pair, how: str
) -> None:
    key = company.member(f"left {how}", "ann", team=Role.WRITER)
    number = company.admin.get_tenant(f"left {how}").tenant
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    for server in pair:
        caller = server.caller(key)
        status, headers, _ = caller.send("POST", "/mcp", hello)
        # Without a session and without streams there is nothing that outlives a call.
        assert (status, "mcp-session-id" in headers) == (200, False)
        assert caller.send("GET", "/mcp")[0] == 405
        assert caller.ask("subscriptions/listen", notifications={"toolsListChanged": True})["error"]["code"] == -32601
        caller.ok("remember", text="Said while I was a member.")
    if how == "key":
        [made] = company.admin.directory.list_keys(number)
        company.admin.revoke_key(number, made.key_id)
    else:
        company.admin.remove_member(number, "ann")
    for server in pair:
        for path, body in (("/mcp", hello), ("/hooks/json", b"{}"), ("/share/team/events", b"{}")):
            status, headers, _ = server.caller(key).send("POST", path, body)
            assert (status, 'error="invalid_token"' in headers["www-authenticate"]) == (401, True)
        assert server.caller(key).send("GET", "/share/team/changes")[0] == 401
