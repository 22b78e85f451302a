"""Who may, at a server that runs: the installed command, a real provider of tokens, a real database."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memory_mcp.team.who import Role
from tests.daemon.places import needs_proc
from tests.team.provider import AUDIENCE, Provider, signer
from tests.team.servers import Team, serving

pytestmark = needs_proc


def oauth(provider: Provider) -> dict[str, str]:
    return {
        "MEMORY_MCP_TEAM__AUTH": "both",
        "MEMORY_MCP_TEAM__ISSUER": provider.issuer,
        "MEMORY_MCP_TEAM__AUDIENCE": AUDIENCE,
        "MEMORY_MCP_TEAM__TENANT_CLAIM": "org",
        "MEMORY_MCP_SERVER__PROFILE": "full",
    }


def test_a_client_without_a_token_is_led_to_the_provider_whose_token_then_counts(
    tmp_path: Path, team: Team, provider: Provider
) -> None:
    team.member("acme", "ann", team=Role.ADMIN)
    acme = team.admin.tenant("acme").tenant
    team.admin.add_member(acme, "Ada", f"{provider.issuer}|ada")
    team.admin.grant(acme, "Ada", "team", Role.CURATOR)
    with serving(tmp_path / "a", team.url, oauth(provider)) as server:
        status, headers, _ = server.caller("").send("POST", "/mcp", b"{}", Authorization="")
        assert status == 401
        place = headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
        status, body = server.get(urlsplit(place).path)
        assert (status, json.loads(body)["authorization_servers"]) == (200, [provider.issuer])

        ada = server.caller(provider.token(scope="memory:write"))
        kept = ada.ok("remember", text="The ferry leaves at nine.")
        # Whatever its client calls itself, the audit has the member.
        server.caller(provider.token(scope="memory:curate")).ok("retract", grip_id=kept["grip_id"], reason="It does not.")
        assert team.rows("acme", "SELECT what, author FROM audit") == [("retract", "t (member 2)")]
        assert "PERMISSION_DENIED" in server.caller(provider.token(scope="memory:read")).error("remember", text="no")
        for token in (provider.token(aud="https://other.example"), provider.token(signer("rsa-1")), provider.token(exp=1)):
            status, headers, _ = server.caller(token).send("POST", "/mcp", b"{}")
            assert (status, 'error="invalid_token"' in headers["www-authenticate"]) == (401, True)
        assert server.caller(provider.token(sub="mallory")).send("POST", "/mcp", b"{}")[0] == 403
        assert server.caller(provider.token(org="other")).send("POST", "/mcp", b"{}")[0] == 403


def test_searches_and_events_of_a_tenant_are_limited_and_no_others(tmp_path: Path, team: Team) -> None:
    limits = {
        "MEMORY_MCP_TEAM__LIMITS__STANDARD__SEARCHES_PER_MINUTE": "2",
        "MEMORY_MCP_TEAM__LIMITS__STANDARD__EVENTS_PER_DAY": "2",
        "MEMORY_MCP_TEAM__LIMITS__LARGE__STORED_EVENTS": "1",
    }
    ann, bob = team.member("acme", "ann", team=Role.ADMIN), team.member("other", "bob", team=Role.ADMIN)
    eve = team.member("third", "eve", team=Role.ADMIN)
    team.admin.add_tenant("third", "large")
    with serving(tmp_path / "a", team.url, limits) as server:
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
    assert team.rows("acme", "SELECT count(*) FROM event") == [(2,)]
    assert team.rows("third", "SELECT count(*) FROM event") == [(1,)]


@pytest.mark.parametrize("how", ["key", "member"])
def test_a_revoked_key_and_a_removed_member_count_no_more_at_the_next_call_and_nothing_stays_open(
    tmp_path: Path, team: Team, how: str
) -> None:
    key = team.member("acme", "ann", team=Role.WRITER)
    number = team.admin.tenant("acme").tenant
    with serving(tmp_path / "a", team.url) as first, serving(tmp_path / "b", team.url) as second:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
        for server in (first, second):
            caller = server.caller(key)
            status, headers, _ = caller.send("POST", "/mcp", hello)
            # Without a session and without streams there is nothing that outlives a call.
            assert (status, "mcp-session-id" in headers) == (200, False)
            assert caller.send("GET", "/mcp")[0] == 405
            assert caller.ask("subscriptions/listen", notifications={"toolsListChanged": True})["error"]["code"] == -32601
            caller.ok("remember", text="Said while I was a member.")
        if how == "key":
            [made] = team.admin.directory.keys(number)
            team.admin.revoke_key(number, made.key_id)
        else:
            team.admin.remove_member(number, "ann")
        for server in (first, second):
            for path, body in (("/mcp", hello), ("/hooks/json", b"{}"), ("/share/team/events", b"{}")):
                status, headers, _ = server.caller(key).send("POST", path, body)
                assert (status, 'error="invalid_token"' in headers["www-authenticate"]) == (401, True)
            assert server.caller(key).send("GET", "/share/team/changes")[0] == 401
