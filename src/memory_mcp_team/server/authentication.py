"""Finds out who sent an HTTP request, and refuses those of unknown callers. One layer around all routes.

Invariants
1. Nothing of a body is read, and no route reached, before the caller is known; only the metadata of RFC 9728 is public.
2. A refusal says nothing about tenants, members or keys that its caller did not prove to be their own.
3. A session of the protocol belongs to the member and key that began it (the library asks `scope["user"]`).
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp.base.errors import MemoryMcpError, StorageError
from memory_mcp.server.errors import hint_of
from memory_mcp.service.daemon.security import Refusal, send_whole
from memory_mcp_team.access import keys
from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.directory import Directory
from memory_mcp_team.access.oauth import Claims, TokenChecker, make_metadata
from memory_mcp_team.access.permissions import SCOPES, Principal, Role
from memory_mcp_team.access.provider import KeyNotFetched
from memory_mcp_team.access.quotas import Quotas
from memory_mcp_team.errors import InsufficientScope, PermissionDenied, QuotaExceeded, Unauthenticated
from memory_mcp_team.settings import TeamSettings

#: Where RFC 9728 has the metadata of a resource, before the resource's own path.
WELL_KNOWN = "/.well-known/oauth-protected-resource"
#: Tokens whose key must be fetched first wait in so many threads at most, so that those of others never do.
_KEY_WAITERS = 4
#: Lookups in the database that run at once.
_LOOKUPS = 2
_CORS = ((b"access-control-allow-origin", b"*"), (b"access-control-allow-methods", b"GET, OPTIONS"))
_STATUS = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503}


class Authenticator:
    """Finds out who calls. Used in one event loop."""

    def __init__(
        self, settings: TeamSettings, directory: Directory, joining: Administration, tokens: TokenChecker | None = None
    ) -> None:
        self._settings, self._directory, self._administration = settings, directory, joining
        self._tokens = (tokens or TokenChecker(settings)) if settings.takes_tokens else None
        self._key_waiters, self._lookups = anyio.CapacityLimiter(_KEY_WAITERS), anyio.CapacityLimiter(_LOOKUPS)
        self._join_spaces = [(space, Role(role)) for space, role in settings.joins]
        #: Numbers of tenants by name: they never change.
        self._tenant_numbers: dict[str, int] = {}

    async def authenticate(self, headers: Sequence[tuple[bytes, bytes]]) -> Principal:
        """Return who sent a request with these headers.

        A token's bearer is made a member first if the settings say join = claim. Raises Unauthenticated without a token
        or key that counts, PermissionDenied if it is of no member, InsufficientScope if none of its scopes is about a
        memory, ProviderUnavailable or StorageError if it cannot be found out now.
        """
        bearer = _read_bearer(headers)
        if keys.is_key(bearer):
            key = keys.parse_key(bearer) if self._settings.takes_keys else None
            if key is None:
                raise Unauthenticated("the API key is not valid", "Ask an administrator of the team for a key.")
            principal = await anyio.to_thread.run_sync(self._directory.get_principal, key, limiter=self._lookups)
        elif self._tokens is not None:
            try:
                claims = self._tokens.check_token(bearer, fetch=False)
            except KeyNotFetched:
                claims = await anyio.to_thread.run_sync(self._tokens.check_token, bearer, limiter=self._key_waiters)
            principal = await anyio.to_thread.run_sync(self._find_member, claims, limiter=self._lookups)
        else:
            raise Unauthenticated("tokens do not count here", "Send an API key: Authorization: Bearer mmk_...")
        if principal.max_role is None:
            lowest = next(iter(SCOPES))
            hint = f"Ask for one of {', '.join(SCOPES)}."
            raise InsufficientScope("no scope of the token or key is about a memory", hint, lowest)
        return principal

    def _find_member(self, claims: Claims) -> Principal:
        number = self._tenant_numbers.get(claims.tenant)
        if number is None and (tenant := self._directory.find_tenant(claims.tenant)) is not None:
            number = self._tenant_numbers[claims.tenant] = tenant.tenant
        principal = None if number is None else self._directory.find_principal(number, claims.subject, claims.scopes)
        if principal is None and number is not None and self._settings.join == "claim":
            self._administration.join_member(number, claims.name, claims.subject, self._join_spaces)
            principal = self._directory.find_principal(number, claims.subject, claims.scopes)
        if principal is None:
            # The same for a tenant that there is and one that there is not.
            subject = claims.subject.removeprefix(f"{self._settings.issuer}|")
            hint = f"Ask its administrator to run: memory-mcp admin team member add NAME --sub {subject!r}"
            raise PermissionDenied("you are not a member of this team", hint)
        return principal


class AuthenticationLayer:
    """Puts the `Principal` into the scope of a request, or refuses it."""

    def __init__(self, app: ASGIApp, door: Authenticator, settings: TeamSettings, quotas: Quotas | None = None) -> None:
        self._app, self._authenticator, self._settings = app, door, settings
        self._quotas = quotas or Quotas(settings)
        self._metadata = make_metadata(settings) if settings.takes_tokens else None
        path = urlsplit(settings.audience).path.rstrip("/")
        #: A client asks at the resource's own path first, then at the root.
        self._metadata_paths = {WELL_KNOWN, WELL_KNOWN + path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request with `principal` and `user`, or refuse it.

        Metadata (RFC 9728) is answered to everyone if tokens are taken. What is not HTTP is passed on unchecked.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._metadata is not None and scope["path"] in self._metadata_paths:
            if scope["method"] == "OPTIONS":
                # Clients in a browser send the version of the protocol.
                allowed = (b"access-control-allow-headers", b"mcp-protocol-version")
                await send_whole(send, 204, b"", b"application/json", (*_CORS, allowed))
            elif scope["method"] == "GET":
                await send_whole(send, 200, self._metadata, b"application/json", _CORS)
            else:
                await Refusal(405, "INVALID_ARGUMENT", "this route takes another method", "Use GET.").send(send)
            return
        try:
            principal = await self._authenticator.authenticate(scope["headers"])
            self._quotas.count_call(principal)
        except MemoryMcpError as error:
            await make_refusal(self._settings, error).send(send)
            return
        whose = f"{principal.tenant}/{principal.member}/{principal.key_id}"
        user = AuthenticatedUser(AccessToken(token="", client_id=whose, scopes=[]))
        await self._app({**scope, "principal": principal, "user": user}, receive, send)


def make_refusal(settings: TeamSettings, error: MemoryMcpError) -> Refusal:
    """Return an error as an HTTP response.

    Adds WWW-Authenticate to a missing or insufficient token, Retry-After (seconds) to an exceeded quota and to status 503.
    """
    status = 503 if isinstance(error, StorageError) else _STATUS.get(error.code, 500)
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, Unauthenticated | InsufficientScope):
        headers.append((b"www-authenticate", make_challenge(settings, error).encode()))
    if isinstance(error, QuotaExceeded):
        headers.append((b"retry-after", str(error.retry_after).encode()))
    elif status == 503:
        headers.append((b"retry-after", b"5"))
    return Refusal(status, error.code, error.message, hint_of(error), tuple(headers))


def make_challenge(settings: TeamSettings, error: Unauthenticated | InsufficientScope) -> str:
    """Return the value of WWW-Authenticate (RFC 6750) for a refusal."""
    parts = ['realm="memory-mcp"']
    if isinstance(error, InsufficientScope):
        parts += ['error="insufficient_scope"', f'scope="{error.scope}"']
    elif not error.is_missing:
        # Without any token there is no error to name (RFC 6750, section 3.1).
        parts.append('error="invalid_token"')
    if settings.takes_tokens:
        at = urlsplit(settings.audience)
        parts.append(f'resource_metadata="{at.scheme}://{at.netloc}{WELL_KNOWN}{at.path.rstrip("/")}"')
    return "Bearer " + ", ".join(parts)


def _read_bearer(headers: Sequence[tuple[bytes, bytes]]) -> str:
    values = [value for name, value in headers if name.lower() == b"authorization"]
    kind, _, token = (values[0] if len(values) == 1 else b"").partition(b" ")
    if len(values) > 1:
        raise Unauthenticated("the Authorization header comes twice", "Send it once.")
    if kind.lower() != b"bearer" or not token.strip():
        hint = "Send 'Authorization: Bearer TOKEN': a token of the authorization server or an API key."
        raise Unauthenticated("no token was sent", hint, is_missing=True)
    return token.strip().decode("latin-1")
