"""Checks tokens of an OpenID provider, as an OAuth 2.1 resource server: returns what a token says, or refuses it.

Invariants
1. A signature is checked with a key of the configured provider alone, fetched from where its discovery document says; nothing in
   a token names a key, an address or an algorithm that was not allowed before.
2. Algorithm and key belong together: a key serves the algorithms of its own kind, and the one that it names if it names one.
3. A token counts for this server alone: its audience is this server's URL, its issuer the configured one, to the letter.

Change here: what a token must fulfil.
"""

import json
from collections.abc import Mapping
from typing import Any

import jwt

from memory_mcp.base.dataclass import dataclass
from memory_mcp_team.access.provider import KeyRing
from memory_mcp_team.errors import Unauthenticated
from memory_mcp_team.settings import TeamSettings

#: Longest token that is read (characters).
_MAX_TOKEN_CHARS = 16_384
#: Longest subject, and longest name of a tenant.
_MAX_NAME_CHARS = 255
_REQUIRED = ("exp", "iss", "aud", "sub")
#: Why a token is refused, by the library's error; nothing of the token is repeated.
_REASONS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it was made for another server"),
    (jwt.InvalidIssuerError, "it is of another issuer"),
    (jwt.MissingRequiredClaimError, "a claim is missing"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
)


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token that counts says of its bearer."""

    #: Issuer and subject, which together are unique among all providers.
    subject: str
    #: The tenant's name.
    tenant: str
    #: What people call the bearer.
    name: str
    scopes: tuple[str, ...]


class TokenChecker:
    """Checks tokens. Safe in any thread."""

    def __init__(self, settings: TeamSettings, keys: KeyRing | None = None) -> None:
        self._settings = settings
        self._keys = keys or KeyRing(settings.issuer, settings.keys_max_age_secs)
        audience = settings.audience.rstrip("/")
        #: Clients name the resource with or without the last slash.
        self._audience = [audience, audience + "/"]

    def check_token(self, token: str, fetch: bool = True) -> Claims:
        """Return what a token says, after every check.

        With `fetch` False the provider is not asked for keys, which would wait: KeyNotFetched is raised instead. Raises
        Unauthenticated for a token that does not count, ProviderUnavailable without keys that are known and young enough.
        """
        if len(token) > _MAX_TOKEN_CHARS:
            raise _make_refusal("it is too long")
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if algorithm not in self._settings.allowed_algorithms:
                raise _make_refusal("its algorithm is not allowed")
            key = self._keys.find_key(str(key_id) if key_id is not None else None, str(algorithm), fetch)
            if key is None:
                raise _make_refusal("it is signed with a key that the provider does not have")
            claims = jwt.decode(
                token,
                key,
                algorithms=[str(algorithm)],
                audience=self._audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway_secs,
                options={"require": list(_REQUIRED), "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError as error:
            raise _make_refusal(
                next((why for kind, why in _REASONS if isinstance(error, kind)), "it cannot be verified")
            ) from None
        except (ValueError, TypeError, RecursionError):
            # What the library does not expect of a header or claim.
            raise _make_refusal("it cannot be read") from None
        return self._read_claims(claims)

    def _read_claims(self, claims: Mapping[str, Any]) -> Claims:
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_NAME_CHARS:
            raise _make_refusal("it names no subject")
        tenant = self._settings.tenant or claims.get(self._settings.tenant_claim)
        if not isinstance(tenant, str) or not 0 < len(tenant) <= _MAX_NAME_CHARS:
            raise _make_refusal(f"its claim {self._settings.tenant_claim} names no tenant")
        name_claims = (claims.get(claim) for claim in ("name", "preferred_username", "email"))
        name = next((text for text in name_claims if isinstance(text, str) and text.strip() and text.isprintable()), subject)
        scopes: list[str] = []
        for value in (claims.get("scope"), claims.get("scp")):
            # One text (RFC 9068) each, or a list, as some providers have it.
            listed = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
            scopes += [text for text in listed if isinstance(text, str)]
        return Claims(f"{self._settings.issuer}|{subject}", tenant, name[:_MAX_NAME_CHARS], tuple(scopes))


def _make_refusal(why: str) -> Unauthenticated:
    return Unauthenticated(f"the token does not count: {why}", "Get a new token from the authorization server.")


def make_metadata(settings: TeamSettings) -> bytes:
    """Return the protected resource metadata (RFC 9728) as JSON."""
    from memory_mcp_team.access.permissions import SCOPES

    # As configured, to the letter: clients compare the resource with the address they called.
    document = {
        "resource": settings.audience,
        "authorization_servers": [settings.issuer],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "memory-mcp",
    }
    return json.dumps(document).encode()
