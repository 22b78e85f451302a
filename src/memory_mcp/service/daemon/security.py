"""Checks every HTTP request before its route: it is passed on, or refused with a next step.

Invariants
1. No route is reached by a request that fails a check, whether the route exists or not.
2. The order is Host, Origin, token, size: no byte of a body is read for somebody without the token.
3. A refusal is small JSON and repeats nothing of the token or the request; a browser gets it as a page.
4. Pages take no token: their address and a cookie prove the visit (`web/visits.py`), and only requests that the person or a
   page of the same origin makes are let in, from no other site and no other port. A ticket is this user's alone.
"""

import hmac
import html
import json
import os
import re
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.base import metrics
from memory_mcp.base.dataclass import dataclass
from memory_mcp.web.visits import COOKIE, ENTER, HEADERS, LONE_HEADERS, LONE_STYLE, PAGES, Visits

#: Names of this machine that only it can mean.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Of a body that is too large, so many times the bound is read and thrown away: a client that still sends would
#: otherwise meet a closed connection instead of the answer.
_SWALLOWED = 8
#: A body announced as too large is waited for so long (seconds): some clients hold it back until they are asked for it.
_PATIENCE = 2.0

_ORIGIN = re.compile(r"https?://([^/?#@\s]+)\Z")
_POLICY = b"content-security-policy"
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?\Z")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response that refuses, with the reason and a next step."""

    status: int
    code: str
    message: str
    hint: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    #: Whether a browser shows it to a person.
    is_page: bool = False

    def body(self) -> bytes:
        """Return the body: HTML for `is_page`, else JSON.

        JSON is {"error": {"code", "message", "hint"}}.
        """
        if self.is_page:
            message, hint = html.escape(self.message), html.escape(self.hint)
            # Without an icon of its own the browser would ask another route for one.
            head = (
                '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
                '<meta name="color-scheme" content="light dark"><title>memory-mcp</title><link rel="icon" href="data:,">'
            )
            return f"{head}<style>{LONE_STYLE}</style><main><h1>{message}</h1><p>{hint}</p></main></html>".encode()
        return json.dumps({"error": {"code": self.code, "message": self.message, "hint": self.hint}}).encode()

    async def send(self, send: Send) -> None:
        """Send the response whole, with its headers and no-store."""
        kind = b"text/html; charset=utf-8" if self.is_page else b"application/json"
        style = ((_POLICY, LONE_HEADERS[_POLICY.decode()].encode()),) if self.is_page else ()
        await send_whole(send, self.status, self.body(), kind, (*self.headers, *style))


async def send_whole(send: Send, status: int, body: bytes, kind: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Send a whole response that nobody may keep (no-store)."""
    fixed = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True, slots=True)
class Rules:
    """The checks that a request must pass."""

    #: None: no token is required, which only tests use.
    token: str | None
    #: Where the token is kept, in words for a refusal.
    token_place: str
    max_body: int
    #: Host headers let in besides loopback's, as names or `name:port`.
    allowed_hosts: tuple[str, ...] = ()
    #: The browsers that were let in; None where no pages are served.
    visits: Visits | None = None
    _allowed: frozenset[tuple[str, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pairs = [_split_authority(host.lower()) for host in self.allowed_hosts]
        object.__setattr__(self, "_allowed", frozenset([(name, "") for name in LOOPBACK] + [p for p in pairs if p]))

    def refuse(self, scope: Scope) -> Refusal | None:
        """Return the refusal of the first check that fails, else None.

        In order: Host (421), Origin (403), token (401), or for pages the visit (403), put into the scope; length (400, 413).
        """
        hosts = _header_values(scope, b"host")
        if len(hosts) != 1 or not self._is_ours(hosts[0].lower()):
            hint = "Use 127.0.0.1 or localhost, or name the host in server.http_allowed_hosts."
            return Refusal(421, "PERMISSION_DENIED", "the Host header names another server", hint)
        if self.visits is not None and scope["path"].startswith(PAGES):
            return self._refuse_visitor(scope, self.visits) or self._refuse_length(scope)
        origins = _header_values(scope, b"origin")
        origin = _ORIGIN.match(origins[0].lower()) if len(origins) == 1 else None
        if origins and (origin is None or not self._is_ours(origin[1])):
            hint = "Pages of other sites have no access; name the host in server.http_allowed_hosts if it is yours."
            return Refusal(403, "PERMISSION_DENIED", "the Origin header names another site", hint)
        if self.token is not None and not _has_token(_header_values(scope, b"authorization"), self.token):
            hint = f"Send 'Authorization: Bearer TOKEN'; the token is in {self.token_place}."
            challenge = ((b"www-authenticate", b'Bearer realm="memory-mcp"'),)
            return Refusal(401, "UNAUTHENTICATED", "the bearer token is missing or wrong", hint, challenge)
        return self._refuse_length(scope)

    def _refuse_visitor(self, scope: Scope, visits: Visits) -> Refusal | None:
        """Return the refusal (403) of a browser without a visit.

        Or of one that another page made ask; None for any other. A visit found is put into the scope. Browsers say in
        `Sec-Fetch-Site` who made them ask, older ones in `Origin`; another port of the same host is another origin. An address
        with a ticket may be followed from any page, but by this user alone.
        """
        ticket = scope["path"].removeprefix(ENTER) if scope["path"].startswith(ENTER) else ""
        enters = scope["method"] == "GET" and ticket != "" and "/" not in ticket
        if not enters:
            # Several cookies may have the visit's name: a server on another port of this host can set one too.
            pairs = (pair.strip().partition("=") for cookies in _header_values(scope, b"cookie") for pair in cookies.split(";"))
            visit = visits.find_visit(scope["path"], [value.strip() for name, _, value in pairs if name.strip() == COOKIE])
            if visit is None:
                hint = "Run memory-mcp open in a terminal; it opens a new visit."
                return Refusal(403, "UNAUTHENTICATED", "this visit has ended, or is another browser's", hint, is_page=True)
            scope["visit"] = visit
        elif not self.allowed_hosts and is_another_users(scope.get("client"), scope.get("server")):
            # With hosts of its own a proxy may stand before the door, which is its own user.
            hint = "The address is for a browser of the user who ran memory-mcp open."
            return Refusal(403, "PERMISSION_DENIED", "another user of this machine asks", hint, is_page=True)
        origins, site = _header_values(scope, b"origin"), _header_values(scope, b"sec-fetch-site")
        own_origins = [f"{scheme}://{host.lower()}" for scheme in ("http", "https") for host in _header_values(scope, b"host")]
        foreign = any(origin.lower() not in own_origins for origin in origins) or not set(site) <= {"same-origin", "none"}
        unproven = scope["method"] not in ("GET", "HEAD") and not (origins or site)
        if not enters and (foreign or unproven):
            hint = "Only the pages themselves may ask; open them with memory-mcp open."
            return Refusal(403, "PERMISSION_DENIED", "another page made the browser ask for this", hint, is_page=True)
        return None

    def _refuse_length(self, scope: Scope) -> Refusal | None:
        """Return the refusal of a body's length, None for none."""
        length = _header_values(scope, b"content-length")
        if length and _header_values(scope, b"transfer-encoding"):
            hint = "Send Content-Length or Transfer-Encoding, not both."
            # What follows the body would be read as a request of its own, or not, by who stands between.
            return Refusal(400, "INVALID_ARGUMENT", "the length of the body is told twice", hint, ((b"connection", b"close"),))
        declared = int(length[0]) if length and length[0].isdecimal() and len(length[0]) < 20 else 0
        if declared > self.max_body:
            return self.too_large()
        return None

    def too_large(self) -> Refusal:
        """Return the refusal (413) of a body above `max_body` bytes."""
        hint = "Send less at once."
        return Refusal(413, "RESOURCE_EXHAUSTED", f"the request body is larger than {self.max_body} bytes", hint)

    def _is_ours(self, authority: str) -> bool:
        parts = _split_authority(authority)
        return parts is not None and (parts in self._allowed or (parts[0], "") in self._allowed)


def _has_token(values: list[str], token: str) -> bool:
    scheme, _, proof = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return scheme.lower() == "bearer" and hmac.compare_digest(proof.strip().encode("latin-1"), token.encode())


def _split_authority(authority: str) -> tuple[str, str] | None:
    """Return name and port ("" for none) of an authority."""
    match = _AUTHORITY.match(authority)
    return None if match is None else (match[1] or match[2], match[3] or "")


def _header_values(scope: Scope, name: bytes) -> list[str]:
    """Return the stripped values of a header, in order."""
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key == name]


class Guard:
    """Middleware that passes on whole requests that pass the rules."""

    def __init__(self, app: ASGIApp, rules: Rules, route_of: Callable[[str], str] = lambda _: "other") -> None:
        self._app = app
        self._rules = rules
        self._route_of = route_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that passes the rules; refuse any other.

        Once its body is read; a client that leaves before that is not answered. ValueError for other than HTTP and lifespan.
        """
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"the door speaks HTTP only, not {scope['type']}")
        route = self._route_of(scope["path"])

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.count("http_requests_total", route=route, status=str(message["status"]))
                if scope["path"].startswith(PAGES):
                    # Add the headers of a page that the response does not have itself.
                    present_headers = list(message.get("headers", ()))
                    present = {name.lower() for name, _ in present_headers}
                    more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in present]
                    message = {**message, "headers": present_headers + more}
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
    """A request's body, read whole before the request goes on."""

    def __init__(self, receive: Receive, bound: int) -> None:
        self._receive = receive
        self._bound = bound
        self._chunks: list[bytes] | None = []
        self._size = 0
        #: The client left before all of it came.
        self.gone = False

    @property
    def too_large(self) -> bool:
        """Whether more came than the bound, whatever the headers say."""
        return self._size > self._bound

    async def read(self) -> None:
        """Read the body.

        One too large is thrown away, up to `_SWALLOWED` bounds. Sets `gone` where the client leaves first.
        """
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
        """Return the body as one message, later what comes next."""
        if self._chunks is None:
            return await self._receive()
        body, self._chunks = b"".join(self._chunks), None
        return {"type": "http.request", "body": body, "more_body": False}


#: Who is connected, as an address and a port.
_Address = tuple[str, int]


def is_another_users(peer: _Address | None, local: _Address | None, tables: Path = Path("/proc/net")) -> bool:
    """Return whether another user than this process's made a connection.

    False where that cannot be known. It comes from `peer` and was taken at `local`, each (host, port); `tables` is the directory
    of the kernel's lists of sockets.
    """
    if peer is None or local is None or not hasattr(os, "geteuid"):
        return False
    # The peer's socket has its own address first; the list names the user who made it.
    sought = [[_spell_address(*peer, mapped), _spell_address(*local, mapped)] for mapped in (False, True)]
    users = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            sockets = [line.split() for line in (tables / name).read_text(encoding="ascii").splitlines()[1:]]
            users |= {int(fields[7]) for fields in sockets if fields[1:3] in sought}
    return bool(users) and os.geteuid() not in users


def _spell_address(host: str, port: int, mapped: bool) -> str:
    """Return HOST:PORT in hexadecimal as the lists spell it."""
    try:
        packed = socket.inet_pton(socket.AF_INET6, host) if ":" in host else socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return ""
    if mapped and len(packed) == 4:
        packed = b"\0" * 10 + b"\xff\xff" + packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
