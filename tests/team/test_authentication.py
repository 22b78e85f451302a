"""Requests at the door: who is let in as whom, and what everybody else is told."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from memory_mcp.base.errors import ConfigError, StorageError
from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.oauth import TokenChecker
from memory_mcp_team.access.permissions import Grant, Principal, Role
from memory_mcp_team.access.provider import KeyRing
from memory_mcp_team.access.quotas import Quotas
from memory_mcp_team.errors import ProviderUnavailable
from memory_mcp_team.postgres.database import Database
from memory_mcp_team.server.authentication import AuthenticationLayer, Authenticator, make_refusal
from memory_mcp_team.settings import TeamLimits, TeamSettings, TenantLimits
from tests.fakes import FakeClock
from tests.team.provider import AUDIENCE, Provider, signer

METADATA = "https://memory.example/.well-known/oauth-protected-resource/mcp"
Answer = tuple[int, dict[str, str], Any]


class Server:
    """The door before an application that says who called."""

    def __init__(self, database: Database, clock: FakeClock, settings: TeamSettings) -> None:
        acts = Administration(database, "claim", clock)
        keys = KeyRing(settings.issuer, settings.keys_max_age_secs, clock)
        self.reached: list[Principal] = []
        self.users: list[str] = []
        self.settings = settings
        door = Authenticator(settings, acts.directory, acts, TokenChecker(settings, keys) if settings.takes_tokens else None)
        self._guard = AuthenticationLayer(self._app, door, settings, Quotas(settings, clock))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached.append(scope["principal"])
        self.users.append(scope["user"].access_token.client_id)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    def ask(self, *bearers: str, path: str = "/mcp", method: str = "POST", headers: Any = ()) -> Answer:
        given = [*headers, *((b"authorization", bearer.encode()) for bearer in bearers)]
        scope = {"type": "http", "method": method, "path": path, "headers": given, "query_string": b""}
        sent: list[Any] = []

        async def receive() -> Any:
            raise AssertionError("a body was read before anybody was known")

        async def send(message: Any) -> None:
            sent.append(message)

        anyio.run(self._guard, scope, receive, send)
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        body = sent[1]["body"]
        return sent[0]["status"], told, json.loads(body) if body else None


@pytest.fixture
def make(database: Database, clock: FakeClock, provider: Provider) -> Callable[..., Server]:
    def made(**changed: Any) -> Server:
        given = {"auth": "both", "issuer": provider.issuer, "audience": AUDIENCE, "tenant_claim": "org"} | changed
        return Server(database, clock, TeamSettings(**given))

    return made


@pytest.fixture
def server(make: Callable[..., Server]) -> Server:
    return make()


def add_ada(acts: Administration, provider: Provider, tenant: int) -> None:
    acts.add_member(tenant, "Ada", f"{provider.issuer}|ada")
    acts.grant_role(tenant, f"{provider.issuer}|ada", "team", Role.CURATOR)


def test_a_token_of_a_member_is_let_in_as_the_member(acts: Administration, provider: Provider, server: Server, acme: int) -> None:
    add_ada(acts, provider, acme)
    assert server.ask(f"Bearer {provider.token()}")[0] == 200
    grants = (Grant(1, "team", "team", Role.CURATOR),)
    assert server.reached == [Principal(acme, "standard", 2, "Ada", False, grants, Role.WRITER)]


def test_a_key_is_let_in_and_a_session_belongs_to_it(acts: Administration, server: Server, acme: int) -> None:
    one, two = (acts.make_key(acme, name, "Ada", ["memory:write"]) for name in ("one", "two"))
    assert server.ask(f"bearer {one}")[0] == 200
    assert server.ask(f"Bearer {two}")[0] == 200
    assert [who.key_id for who in server.reached] == [one.key_id, two.key_id]
    assert server.users == [f"{acme}/1/{one.key_id}", f"{acme}/1/{two.key_id}"]


@pytest.mark.parametrize("bearers", [(), ("",), ("Basic YTpi",), ("Bearer",), ("Bearer  ",)], ids=repr)
def test_without_a_token_the_answer_says_where_to_get_one(server: Server, bearers: tuple[str, ...]) -> None:
    status, headers, body = server.ask(*bearers)
    assert (status, body["error"]["code"]) == (401, "UNAUTHENTICATED")
    assert headers["www-authenticate"] == f'Bearer realm="memory-mcp", resource_metadata="{METADATA}"'
    assert server.reached == []


@pytest.mark.parametrize("bearer", ["Bearer x.y.z", "Bearer mmk_1_x", "Bearer " + "a" * 40_000, "Bearer ÿ"])
def test_what_is_no_token_is_refused_as_one(server: Server, acme: int, bearer: str) -> None:
    status, headers, _ = server.ask(bearer)
    assert status == 401
    assert headers["www-authenticate"] == f'Bearer realm="memory-mcp", error="invalid_token", resource_metadata="{METADATA}"'
    assert server.reached == []


def test_two_authorizations_are_none(acts: Administration, server: Server, acme: int) -> None:
    key = acts.make_key(acme, "ci", "Ada", ["memory:write"])
    assert server.ask(f"Bearer {key}", "Bearer x")[0] == 401
    assert server.reached == []


def test_strangers_and_tenants_that_there_are_not_get_the_same_answer(
    acts: Administration, provider: Provider, server: Server, acme: int, other: int
) -> None:
    add_ada(acts, provider, acme)
    answers = [server.ask(f"Bearer {provider.token(org=org, sub='ada')}") for org in ("other", "nobody", "ACME", "acme ")]
    answers.append(server.ask(f"Bearer {provider.token(org='secret-plans')}"))
    assert answers[1:] == answers[:1] * 4
    status, headers, body = answers[0]
    assert (status, body["error"]["code"]) == (403, "PERMISSION_DENIED")
    # Another scope would not help: no client is to try.
    assert "www-authenticate" not in headers
    assert server.reached == []


def test_a_token_with_no_scope_of_ours_is_told_which_would_do(
    acts: Administration, provider: Provider, server: Server, acme: int
) -> None:
    add_ada(acts, provider, acme)
    status, headers, _ = server.ask(f"Bearer {provider.token(scope='openid profile')}")
    assert status == 403
    challenge = f'Bearer realm="memory-mcp", error="insufficient_scope", scope="memory:read", resource_metadata="{METADATA}"'
    assert headers["www-authenticate"] == challenge


@pytest.mark.parametrize(("auth", "token", "key"), [("oauth", 200, 401), ("keys", 401, 200), ("both", 200, 200)])
def test_only_what_the_settings_take_counts(
    acts: Administration, provider: Provider, make: Callable[..., Server], acme: int, auth: str, token: int, key: int
) -> None:
    add_ada(acts, provider, acme)
    server = make(auth=auth)
    assert server.ask(f"Bearer {provider.token()}")[0] == token
    assert server.ask(f"Bearer {acts.make_key(acme, 'ci', 'keys|Ada', ['memory:read'])}")[0] == key


def test_by_claim_a_stranger_with_a_token_joins_and_a_removed_member_does_not(
    acts: Administration, provider: Provider, make: Callable[..., Server], acme: int
) -> None:
    server = make(join="claim", join_spaces="team:reader, nowhere:admin")
    bob = f"Bearer {provider.token(sub='bob', name='Bob')}"
    assert [server.ask(bob)[0] for _ in range(2)] == [200, 200]
    assert server.reached[0].grants == (Grant(1, "team", "team", Role.READER),)
    assert server.ask(f"Bearer {provider.token(sub='bob', org='nobody')}")[0] == 403
    acts.remove_member(acme, "Bob")
    assert server.ask(bob)[0] == 403
    # The database's own audit has who joined, once.
    assert [act.what for act in acts.directory.list_acts(acme, 100)].count("member join") == 1


def test_what_was_taken_away_counts_no_more_at_the_next_call(acts: Administration, server: Server, acme: int) -> None:
    key = acts.make_key(acme, "ci", "Ada", ["memory:write"])
    assert server.ask(f"Bearer {key}")[0] == 200
    acts.revoke_role(acme, "Ada", "team")
    assert server.ask(f"Bearer {key}")[0] == 200
    acts.revoke_key(acme, key.key_id)
    assert server.ask(f"Bearer {key}")[0] == 401
    assert [len(who.grants) for who in server.reached] == [1, 0]


def test_the_metadata_is_anybodys_and_nothing_else_is(server: Server, provider: Provider) -> None:
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        status, headers, body = server.ask(path=path, method="GET")
        assert (status, body["resource"], body["authorization_servers"]) == (200, AUDIENCE, [provider.issuer])
        assert headers["access-control-allow-origin"] == "*"
        assert server.ask(path=path, method="OPTIONS")[0] == 204
        assert server.ask(path=path, method="POST")[0] == 405
    for path in ("/.well-known/oauth-protected-resource/mcp/", "/.well-known/", "/metrics", "/health", "/nowhere"):
        assert server.ask(path=path, method="GET")[0] == 401
    assert server.reached == []


def test_with_keys_alone_there_is_no_metadata(make: Callable[..., Server]) -> None:
    server = make(auth="keys")
    status, headers, _ = server.ask(path="/.well-known/oauth-protected-resource", method="GET")
    assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="memory-mcp"')


def test_too_many_calls_are_told_when_to_come_again(
    acts: Administration, make: Callable[..., Server], acme: int, clock: FakeClock
) -> None:
    server = make(limits=TeamLimits(standard=TenantLimits(member_calls_per_minute=2)))
    bearer = f"Bearer {acts.make_key(acme, 'ci', 'Ada', ['memory:write'])}"
    assert [server.ask(bearer)[0] for _ in range(2)] == [200, 200]
    status, headers, body = server.ask(bearer)
    assert (status, headers["retry-after"], body["error"]["code"]) == (429, "30", "RESOURCE_EXHAUSTED")
    clock.advance(30)
    assert server.ask(bearer)[0] == 200
    assert len(server.reached) == 3


def test_what_cannot_be_found_out_now_is_no_refusal(make: Callable[..., Server], provider: Provider) -> None:
    settings = make().settings
    for error in (ProviderUnavailable("away"), StorageError("away")):
        told = make_refusal(settings, error)
        assert (told.status, dict(told.headers)) == (503, {b"retry-after": b"5"})


def test_a_provider_that_is_down_lets_keys_in(acts: Administration, make: Callable[..., Server], acme: int) -> None:
    gone = Provider(signer("rsa-1"))
    token = gone.token()
    gone.stop()
    server = make(issuer=gone.issuer)
    status, headers, body = server.ask(f"Bearer {token}")
    assert (status, headers["retry-after"], body["error"]["code"]) == (503, "5", "UNAVAILABLE")
    assert server.ask(f"Bearer {acts.make_key(acme, 'ci', 'Ada', ['memory:write'])}")[0] == 200


def test_roles_of_who_joins_are_read_when_the_settings_are(make: Callable[..., Server]) -> None:
    with pytest.raises(ConfigError, match="join_spaces"):
        make(join="claim", join_spaces="team")
