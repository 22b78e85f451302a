"""Who may, at a server that runs: the installed command, a real provider of tokens, a real database."""

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from memory_mcp.team.who import Role
from tests.daemon.places import needs_proc
from tests.team.provider import AUDIENCE, Provider, signer
from tests.team.servers import Pair, Team, serving

pytestmark = needs_proc


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, company: Team, provider: Provider) -> Iterator[Pair]:
    """Two servers with every tool, that take keys and tokens; they limit small and large tenants."""
    settings = {
        "MEMORY_MCP_TEAM__AUTH": "both",
        "MEMORY_MCP_TEAM__ISSUER": provider.issuer,
        "MEMORY_MCP_TEAM__AUDIENCE": AUDIENCE,
        "MEMORY_MCP_TEAM__TENANT_CLAIM": "org",
        "MEMORY_MCP_SERVER__PROFILE": "full",
        "MEMORY_MCP_TEAM__LIMITS__SMALL__SEARCHES_PER_MINUTE": "2",
        "MEMORY_MCP_TEAM__LIMITS__SMALL__EVENTS_PER_DAY": "2",
        "MEMORY_MCP_TEAM__LIMITS__LARGE__STORED_EVENTS": "1",
    }
    root = tmp_path_factory.mktemp("pair")
    with serving(root / "a", company.url, settings) as first, serving(root / "b", company.url, settings) as second:
        yield first, second


def test_a_client_without_a_token_is_led_to_the_provider_whose_token_then_counts(
    company: Team, pair: Pair, provider: Provider
) -> None:
    company.member("acme", "ann", team=Role.ADMIN)
    acme = company.admin.tenant("acme").tenant
    company.admin.add_member(acme, "Ada", f"{provider.issuer}|ada")
    company.admin.grant(acme, "Ada", "team", Role.CURATOR)
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
    number = company.admin.tenant(f"left {how}").tenant
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
        [made] = company.admin.directory.keys(number)
        company.admin.revoke_key(number, made.key_id)
    else:
        company.admin.remove_member(number, "ann")
    for server in pair:
        for path, body in (("/mcp", hello), ("/hooks/json", b"{}"), ("/share/team/events", b"{}")):
            status, headers, _ = server.caller(key).send("POST", path, body)
            assert (status, 'error="invalid_token"' in headers["www-authenticate"]) == (401, True)
        assert server.caller(key).send("GET", "/share/team/changes")[0] == 401
