"""Tokens of an OpenID provider: what counts, and every way in which one does not."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memory_mcp.base.errors import ConfigError
from memory_mcp_team.access.oauth import Claims, TokenChecker, make_metadata
from memory_mcp_team.access.provider import KeyNotFetched, KeyRing
from memory_mcp_team.errors import ProviderUnavailable, Unauthenticated
from memory_mcp_team.settings import TeamSettings
from tests.fakes import FakeClock
from tests.team.provider import AUDIENCE, Provider, Signer, raw_token, signer
from tests.waiting import until

DAY = 86_400


@pytest.fixture(scope="module")
def rsa_key() -> Signer:
    return signer("rsa-1")


@pytest.fixture
def provider(rsa_key: Signer) -> Iterator[Provider]:
    made = Provider(rsa_key, signer("ec-1", "ES256"), signer("ed-1", "EdDSA"))
    yield made
    made.stop()


def settings(provider: Provider, **changed: object) -> TeamSettings:
    given: dict[str, object] = {"auth": "oauth", "issuer": provider.issuer, "audience": AUDIENCE, "tenant_claim": "org"} | changed
    return TeamSettings(**given)  # type: ignore[arg-type]


@pytest.fixture
def tokens(provider: Provider, clock: FakeClock) -> TokenChecker:
    """By a clock that stands still, as far as the age of keys goes."""
    return TokenChecker(settings(provider), KeyRing(provider.issuer, DAY, clock))


def refused(tokens: TokenChecker, token: str) -> str:
    """Why a token does not count."""
    with pytest.raises(Unauthenticated) as raised:
        tokens.check_token(token)
    return raised.value.message


# what counts


def test_a_token_tells_subject_tenant_name_and_scopes(provider: Provider, tokens: TokenChecker) -> None:
    found = tokens.check_token(provider.token())
    assert found == Claims(f"{provider.issuer}|ada", "acme", "Ada", ("openid", "memory:write"))


@pytest.mark.parametrize("place", [0, 1, 2], ids=["RS256", "ES256", "EdDSA"])
def test_every_allowed_algorithm_counts(provider: Provider, tokens: TokenChecker, place: int) -> None:
    assert tokens.check_token(provider.token(provider.signers[place])).tenant == "acme"


@pytest.mark.parametrize("audience", [AUDIENCE, AUDIENCE + "/", ["https://other.example", AUDIENCE]], ids=str)
def test_the_servers_own_address_is_an_audience(provider: Provider, tokens: TokenChecker, audience: object) -> None:
    assert tokens.check_token(provider.token(aud=audience)).subject.endswith("|ada")


@pytest.mark.parametrize(
    "given", [{"scope": None, "scp": ["memory:read"]}, {"scope": None, "scp": "memory:read"}, {"scope": "memory:read"}], ids=str
)
def test_scopes_are_read_as_providers_write_them(provider: Provider, tokens: TokenChecker, given: dict[str, Any]) -> None:
    assert tokens.check_token(provider.token(**given)).scopes == ("memory:read",)


def test_a_fixed_tenant_counts_whatever_a_token_says(provider: Provider) -> None:
    fixed = TokenChecker(settings(provider, tenant_claim="", tenant="ours"))
    assert fixed.check_token(provider.token(org="theirs")).tenant == "ours"


def test_clocks_may_differ_a_little(provider: Provider, tokens: TokenChecker) -> None:
    now = int(time.time())
    assert tokens.check_token(provider.token(exp=now - 5, iat=now + 5, nbf=now + 5)).tenant == "acme"


# what does not

NOW = int(time.time())
FORGED: dict[str, Callable[[Provider], str]] = {
    "another audience": lambda p: p.token(aud="https://other.example/mcp"),
    "an audience that only begins so": lambda p: p.token(aud=AUDIENCE + "/more"),
    "the audience of the whole host": lambda p: p.token(aud="https://memory.example"),
    "no audience": lambda p: p.token(aud=None),
    "another issuer": lambda p: p.token(iss="https://evil.example"),
    "an issuer with a slash more": lambda p: p.token(iss=p.issuer + "/"),
    "an issuer among others": lambda p: p.signed(p.claims(iss=[p.issuer, "https://evil.example"])),
    "no issuer": lambda p: p.token(iss=None),
    "expired": lambda p: p.token(exp=NOW - 3600),
    "no end": lambda p: p.token(exp=None),
    "an end that is no number": lambda p: p.signed(p.claims(exp="tomorrow")),
    "not yet valid": lambda p: p.token(nbf=NOW + 3600),
    "issued in the future": lambda p: p.token(iat=NOW + 3600),
    "a subject that is a number": lambda p: p.signed(p.claims(sub=7)),
    "claims that are a list": lambda p: p.signed([p.claims()]),  # type: ignore[arg-type]
    "no subject": lambda p: p.token(sub=None),
    "an empty subject": lambda p: p.token(sub=""),
    "an endless subject": lambda p: p.token(sub="a" * 300),
    "no tenant": lambda p: p.token(org=None),
    "several tenants": lambda p: p.token(org=["acme", "other"]),
    "a tenant that is a number": lambda p: p.token(org=1),
    "no algorithm": lambda p: raw_token({"alg": "none"}, p.claims()),
    "no algorithm, with the key's id": lambda p: raw_token({"alg": "none", "kid": "rsa-1"}, p.claims()),
    "an algorithm in other letters": lambda p: raw_token({"alg": "NONE", "kid": "rsa-1"}, p.claims()),
    "no word of an algorithm": lambda p: raw_token({"kid": "rsa-1"}, p.claims()),
    "an algorithm that is a list": lambda p: raw_token({"alg": ["RS256"], "kid": "rsa-1"}, p.claims()),
    "HMAC with the public key": lambda p: raw_token({"alg": "HS256", "kid": "rsa-1"}, p.claims(), p.signers[0].pem()),
    "HMAC without an id": lambda p: raw_token({"alg": "HS256"}, p.claims(), p.signers[0].pem()),
    "HMAC that calls itself RS256": lambda p: raw_token({"alg": "RS256", "kid": "rsa-1"}, p.claims(), p.signers[0].pem()),
    "the id of a key of another kind": lambda p: p.token(headers={"kid": "ec-1"}),
    "an algorithm of another kind than the key": lambda p: p.token(p.signers[1], headers={"kid": "rsa-1"}),
    "an algorithm that is not allowed": lambda p: p.token(Signer("rsa-1", "PS256", p.signers[0].private)),
    "a longer hash than the key is for": lambda p: p.token(Signer("rsa-1", "RS512", p.signers[0].private)),
    "somebody else's key under a known id": lambda p: p.token(signer("rsa-1")),
    "somebody else's key under its own id": lambda p: p.token(signer("evil")),
    "a key of its own inside": lambda p: p.token(evil := signer("rsa-1"), headers={"jwk": evil.public()}),
    "an address of keys inside": lambda p: p.token(signer("evil"), headers={"jku": "http://127.0.0.1:1/keys"}),
    "an id that is an address": lambda p: p.token(signer("../../keys")),
    "an id that is no text": lambda p: raw_token({"alg": "RS256", "kid": {"a": 1}}, p.claims()),
    "an id in other letters": lambda p: p.token(headers={"kid": "RSA-1"}),
    "an extension that must be understood": lambda p: p.token(headers={"crit": ["exp"], "exp": 1}),
    "a changed claim": lambda p: _swapped(p.token(), p.token(org="other")),
    "no signature": lambda p: p.token().rpartition(".")[0] + ".",
    "half a token": lambda p: p.token()[: len(p.token()) // 2],
    "two parts": lambda p: ".".join(p.token().split(".")[:2]),
    "nothing": lambda _: "",
    "words": lambda _: "not a token at all",
    "letters of another script": lambda p: "ÿ" + p.token(),
    "a very long text": lambda _: "a." * 20_000,
    "deep nesting": lambda _: raw_token({"alg": "RS256", "kid": "rsa-1", "x": _deep(900)}, {}),
}


def _deep(levels: int) -> object:
    found: object = 0
    for _ in range(levels):
        found = [found]
    return found


def _swapped(good: str, other: str) -> str:
    head, _, signature = good.split(".")
    return f"{head}.{other.split('.')[1]}.{signature}"


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_or_foreign_token_does_not_count(
    provider: Provider, tokens: TokenChecker, forge: Callable[[Provider], str]
) -> None:
    assert tokens.check_token(provider.token()).tenant == "acme"
    assert refused(tokens, forge(provider)).startswith("the token does not count: ")
    # The address inside a token is never asked.
    assert set(provider.asked) == {"/.well-known/openid-configuration", "/keys"}


def test_a_refusal_repeats_nothing_of_the_token(provider: Provider, tokens: TokenChecker) -> None:
    said = refused(tokens, provider.token(iss="https://evil.example", sub="mallory"))
    assert said == "the token does not count: it is of another issuer"


@pytest.mark.parametrize("changed", [{"use": "enc"}, {"alg": "RS512"}, {"kty": "EC"}], ids=str)
def test_a_key_that_is_for_something_else_is_not_used(provider: Provider, changed: dict[str, str]) -> None:
    other = signer("other")
    provider.more = [{**other.public(), **changed}]
    refused(TokenChecker(settings(provider)), provider.token(other))


def test_two_keys_of_one_id_and_kind_mean_neither(provider: Provider, rsa_key: Signer) -> None:
    provider.more = [signer(rsa_key.kid).public()]
    refused(TokenChecker(settings(provider)), provider.token())


def test_a_short_rsa_key_is_not_used(provider: Provider) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    weak = Signer("weak", "RS256", rsa.generate_private_key(public_exponent=65537, key_size=1024))
    provider.signers.append(weak)
    with pytest.warns(match="below the minimum"):
        token = provider.token(weak)
    refused(TokenChecker(settings(provider)), token)


def test_a_token_without_an_id_counts_where_one_key_can_be_meant(provider: Provider) -> None:
    import jwt

    provider.signers = provider.signers[:1]
    token = jwt.encode(provider.claims(), provider.signers[0].private, "RS256")
    assert TokenChecker(settings(provider)).check_token(token).tenant == "acme"


# the provider


def test_keys_are_fetched_once_for_many_tokens(provider: Provider, tokens: TokenChecker) -> None:
    for _ in range(20):
        tokens.check_token(provider.token())
    assert provider.fetches == 1


def test_a_rotated_key_is_fetched_when_it_is_met_and_the_old_one_counts_no_more(
    provider: Provider, clock: FakeClock, tokens: TokenChecker
) -> None:
    old = provider.token()
    tokens.check_token(old)
    provider.signers = [signer("rsa-2")]
    clock.advance(60)
    assert tokens.check_token(provider.token()).tenant == "acme"
    refused(tokens, old)


def test_unknown_keys_ask_the_provider_no_more_often_than_it_is_willing_to_be_asked(
    provider: Provider, clock: FakeClock, tokens: TokenChecker
) -> None:
    tokens.check_token(provider.token())
    for number in range(50):
        refused(tokens, raw_token({"alg": "RS256", "kid": f"unknown-{number}"}, provider.claims()))
    assert provider.fetches == 1
    clock.advance(11)
    for number in range(50):
        refused(tokens, raw_token({"alg": "RS256", "kid": f"unknown-{number}"}, provider.claims()))
    assert provider.fetches == 2


def test_while_the_provider_is_down_known_keys_count_for_a_bounded_time(
    provider: Provider, clock: FakeClock, tokens: TokenChecker
) -> None:
    tokens.check_token(provider.token())
    provider.stop()
    clock.advance(DAY - 60)
    assert tokens.check_token(provider.token()).tenant == "acme"
    clock.advance(120)
    with pytest.raises(ProviderUnavailable, match="cannot be reached"):
        tokens.check_token(provider.token())


def test_old_keys_are_renewed_aside_and_a_withdrawn_one_counts_no_more(
    provider: Provider, clock: FakeClock, tokens: TokenChecker
) -> None:
    old = provider.token()
    tokens.check_token(old)
    provider.signers = [signer("rsa-2")]
    clock.advance(601)
    provider.go.clear()
    # The provider is asked meanwhile, and nobody waits for it.
    assert tokens.check_token(old).tenant == "acme"
    until(lambda: len(provider.asked) == 3, "for the provider to be asked")
    provider.go.set()
    until(lambda: provider.fetches == 2)
    until(lambda: _counts_no_more(tokens, old), "for the withdrawn key to go")


def _counts_no_more(tokens: TokenChecker, token: str) -> bool:
    try:
        tokens.check_token(token)
    except Unauthenticated:
        return True
    return False


def test_callers_with_a_known_key_never_wait_for_a_slow_provider(
    provider: Provider, clock: FakeClock, tokens: TokenChecker
) -> None:
    tokens.check_token(provider.token())
    clock.advance(60)
    provider.go.clear()
    unknown = raw_token({"alg": "RS256", "kid": "unknown"}, provider.claims())
    waiting = threading.Thread(target=lambda: refused(tokens, unknown))
    waiting.start()
    until(lambda: len(provider.asked) == 3)
    assert tokens.check_token(provider.token(), fetch=False).tenant == "acme"
    with pytest.raises(KeyNotFetched):
        tokens.check_token(unknown, fetch=False)
    provider.go.set()
    waiting.join()


def test_many_callers_at_a_cold_start_are_answered_by_one_fetch(provider: Provider, tokens: TokenChecker) -> None:
    provider.go.clear()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(tokens.check_token(provider.token()).tenant)) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: provider.asked)
    provider.go.set()
    for thread in threads:
        thread.join()
    assert found == ["acme"] * 8
    assert provider.fetches == 1


BROKEN: dict[str, Callable[[Provider], object]] = {
    "an error": lambda p: setattr(p, "status", 500),
    "a redirect": lambda p: setattr(p, "status", 302),
    "no JSON": lambda p: setattr(p, "body", b"<html>"),
    "a list": lambda p: setattr(p, "body", b"[]"),
    "half a character": lambda p: setattr(p, "body", b"\xff\xfe{"),
    "an endless answer": lambda p: setattr(p, "body", b" " * 2_000_000),
    "another issuer": lambda p: p.told.update(issuer="https://other.example"),
    "keys over plain HTTP from elsewhere": lambda p: p.told.update(jwks_uri="http://other.example/keys"),
    "keys from a file": lambda p: p.told.update(jwks_uri="file:///etc/passwd"),
    "no address of keys": lambda p: p.told.update(jwks_uri=None),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_a_provider_that_cannot_be_believed_gives_no_keys(
    provider: Provider, tokens: TokenChecker, breaks: Callable[[Provider], object]
) -> None:
    token = provider.token()
    breaks(provider)
    with pytest.raises(ProviderUnavailable):
        tokens.check_token(token)


# settings and metadata


def test_the_metadata_says_where_tokens_are_made(provider: Provider) -> None:
    import json

    assert json.loads(make_metadata(settings(provider))) == {
        "resource": AUDIENCE,
        "authorization_servers": [provider.issuer],
        "scopes_supported": ["memory:read", "memory:write", "memory:curate", "memory:admin"],
        "bearer_methods_supported": ["header"],
        "resource_name": "memory-mcp",
    }


WRONG: dict[str, dict[str, object]] = {
    "an unknown way": {"auth": "basic"},
    "no issuer": {"issuer": ""},
    "an issuer without TLS": {"issuer": "http://id.example"},
    "no audience": {"audience": ""},
    "an audience with a query": {"audience": "https://memory.example/mcp?x=1"},
    "no tenant": {"tenant_claim": ""},
    "two sources of the tenant": {"tenant": "acme"},
    "an algorithm without a private key": {"algorithms": "RS256, HS256"},
    "no signature": {"algorithms": "none"},
    "no algorithm": {"algorithms": " "},
    "a wide leeway": {"leeway_secs": 3600},
    "an unknown way to join": {"join": "anybody"},
    "a role that there is not": {"join_spaces": "team:owner"},
}


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG)
def test_settings_that_would_let_the_wrong_ones_in_are_refused(provider: Provider, changed: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"team\."):
        settings(provider, **changed)
