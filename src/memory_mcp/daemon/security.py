"""Every HTTP request in; the same request, or a refusal with a next step, out. One layer around all routes.

Invariants
1. No route is reached by a request that fails a check, whether the route exists or not.
2. The order is Host, Origin, token, size: no byte of a body is read for somebody without the token.
3. A refusal is small JSON and repeats nothing of the token or the request.
"""

import hmac
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp import metrics

#: Names of this machine that only it can mean.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Of a body that is too large, so many times the bound is read and thrown away: a client that still sends would
#: otherwise meet a closed connection instead of the answer.
_SWALLOWED = 8
#: A body announced as too large is waited for so long (seconds): some clients hold it back until they are asked for it.
_PATIENCE = 2.0

_ORIGIN = re.compile(r"https?://([^/?#@\s]+)\Z")
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?\Z")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further."""

    status: int
    code: str
    message: str
    hint: str
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def body(self) -> bytes:
        """As it is sent."""
        return json.dumps({"error": {"code": self.code, "message": self.message, "hint": self.hint}}).encode()

    async def send(self, send: Send) -> None:
        """Answer with it."""
        await send_json(send, self.status, self.body(), self.headers)


async def send_json(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """A whole JSON answer."""
    fixed = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True, slots=True)
class Rules:
    """What a request must fulfil."""

    #: None: no token is asked for, which only tests do.
    token: str | None
    #: In words, where somebody who may have the token finds it.
    token_place: str
    max_body: int
    #: Host headers let in besides loopback's, as names or `name:port`.
    allowed_hosts: tuple[str, ...] = ()
    _allowed: frozenset[tuple[str, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Names are taken apart once."""
        pairs = [_parts(host.lower()) for host in self.allowed_hosts]
        object.__setattr__(self, "_allowed", frozenset([(name, "") for name in LOOPBACK] + [p for p in pairs if p]))

    def refuse(self, scope: Scope) -> Refusal | None:
        """The first check that a request fails by its headers alone."""
        if not self._host(_values(scope, b"host")):
            hint = "Use 127.0.0.1 or localhost, or name the host in server.http_allowed_hosts."
            return Refusal(421, "PERMISSION_DENIED", "the Host header names another server", hint)
        if not self._origin(_values(scope, b"origin")):
            hint = "Pages of other sites have no access; name the host in server.http_allowed_hosts if it is yours."
            return Refusal(403, "PERMISSION_DENIED", "the Origin header names another site", hint)
        if not self._token(_values(scope, b"authorization")):
            hint = f"Send 'Authorization: Bearer TOKEN'; the token is in {self.token_place}."
            challenge = ((b"www-authenticate", b'Bearer realm="memory-mcp"'),)
            return Refusal(401, "UNAUTHENTICATED", "the bearer token is missing or wrong", hint, challenge)
        length = _values(scope, b"content-length")
        if length and _values(scope, b"transfer-encoding"):
            hint = "Send Content-Length or Transfer-Encoding, not both."
            # What follows the body would be read as a request of its own, or not, by who stands between.
            return Refusal(400, "INVALID_ARGUMENT", "the length of the body is told twice", hint, ((b"connection", b"close"),))
        if self._declared(length) > self.max_body:
            return self.too_large()
        return None

    def too_large(self) -> Refusal:
        """What is said about a body beyond the bound."""
        hint = "Send less at once."
        return Refusal(413, "RESOURCE_EXHAUSTED", f"the request body is larger than {self.max_body} bytes", hint)

    def _host(self, given: list[str]) -> bool:
        return len(given) == 1 and self._is_ours(given[0].lower())

    def _origin(self, given: list[str]) -> bool:
        if not given:
            return True
        found = _ORIGIN.match(given[0].lower())
        return len(given) == 1 and found is not None and self._is_ours(found[1])

    def _is_ours(self, authority: str) -> bool:
        parts = _parts(authority)
        return parts is not None and (parts in self._allowed or (parts[0], "") in self._allowed)

    def _token(self, given: list[str]) -> bool:
        if self.token is None:
            return True
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode("latin-1"), self.token.encode())

    @staticmethod
    def _declared(given: list[str]) -> int:
        return int(given[0]) if given and given[0].isdecimal() and len(given[0]) < 20 else 0


def _parts(authority: str) -> tuple[str, str] | None:
    """Name and port ("" for none) of `name`, `name:port`, `[v6]` and `[v6]:port`; None for anything else."""
    found = _AUTHORITY.match(authority)
    return None if found is None else (found[1] or found[2], found[3] or "")


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key == name]


class Guard:
    """The layer: `app` sees what passes, with the whole body at hand. Requests are counted by route and status."""

    def __init__(self, app: ASGIApp, rules: Rules, route_of: Callable[[str], str] = lambda _: "other") -> None:
        self._app = app
        self._rules = rules
        self._route_of = route_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"the door speaks HTTP only, not {scope['type']}")
        route = self._route_of(scope["path"])

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.count("http_requests_total", route=route, status=str(message["status"]))
            await send(message)

        refusal = self._rules.refuse(scope)
        if refusal is None:
            body = _Body(receive, self._rules.max_body)
            await body.read()
            if body.gone:
                return
            if not body.too_large:
                await self._app(scope, body.replay, counted)
                return
            refusal = self._rules.too_large()
        elif refusal.status == 413:
            with anyio.move_on_after(_PATIENCE):
                await _Body(receive, self._rules.max_body).read()
        await refusal.send(counted)


class _Body:
    """A request's body, read before the request is passed on: every route of ours wants all of it anyway."""

    def __init__(self, receive: Receive, bound: int) -> None:
        self._receive = receive
        self._bound = bound
        self._chunks: list[bytes] | None = []
        self._size = 0
        #: The client left before all of it came.
        self.gone = False

    @property
    def too_large(self) -> bool:
        """Whether more came than the bound, counted as it came, whatever the headers say."""
        return self._size > self._bound

    async def read(self) -> None:
        """All of it, but of one that is too large only so much."""
        chunks: list[bytes] = []
        while self._size <= _SWALLOWED * self._bound:
            message = await self._receive()
            if message["type"] != "http.request":
                self.gone = True
                return
            self._size += len(message.get("body", b""))
            if self.too_large:
                chunks.clear()
            else:
                chunks.append(message.get("body", b""))
            if not message.get("more_body", False):
                break
        self._chunks = chunks

    async def replay(self) -> Message:
        """What was read, then what comes."""
        if self._chunks is None:
            return await self._receive()
        body, self._chunks = b"".join(self._chunks), None
        return {"type": "http.request", "body": body, "more_body": False}
