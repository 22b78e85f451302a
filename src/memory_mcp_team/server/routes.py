"""The routes of a team server: the protocol in both eras without sessions, hooks, exchange of events, health and metrics.

Invariants
1. No memory is reached without a caller who has proved who they are, in a space that they may see.
2. Nothing of a caller stays here between two requests: any server answers the next one.
3. Health tells nothing of anyone; metrics are read with a token of their own, or from this machine.
"""

import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import asdict
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.app import App
from memory_mcp.base import metrics
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError, ResourceExhausted
from memory_mcp.server.caller import CALLER
from memory_mcp.server.errors import as_ours, hint_of
from memory_mcp.service.daemon.routes import CLIENT, STATUS, Mended, answered, application
from memory_mcp.service.daemon.security import LOOPBACK, Refusal
from memory_mcp_team.access.permissions import Grant, Principal, get_grant
from memory_mcp_team.errors import no_such_space
from memory_mcp_team.postgres.memories import PRIVATE, PROJECT, TEAM
from memory_mcp_team.server.host import CALL, CallContext
from memory_mcp_team.server.intake import Payload, PayloadResult
from memory_mcp_team.sharing import space as sharing
from memory_mcp_team.sharing.wire import MAX_BODY

SPACE_HEADER, KEY_HEADER = "memory-space", "idempotency-key"
_LONGEST_KEY = 200
#: Headers in which a proxy names its client: such a request does not come from this machine.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
_SPACES = "/spaces/"
_HEALTH, _METRICS = "/health/", "/metrics"
#: A database that does not answer for so long is not there (seconds).
_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class Handlers:
    """The functions that answer the routes outside the protocol."""

    take_hook: Callable[[Payload], Awaitable[PayloadResult]]
    #: Raises where the database does not answer; returns why the server is not ready, "" where it is.
    find_unready_reason: Callable[[], str]
    make_exposition: Callable[[], str]
    metrics_token: str


def name_route(path: str) -> str:
    """Return the name under which a path is counted, such as /mcp."""
    if path == "/mcp" or (path.startswith(_SPACES) and path.endswith("/mcp")):
        return "/mcp"
    starts = ("/hooks", "/share", "/health", "/metrics", "/.well-known")
    return next((start for start in starts if path.startswith(start)), "other")


def choose_default_space(principal: Principal, project: str) -> Grant | None:
    """Return the space of a caller who names none.

    The first project space named as `project` or its last part; else the first private one, else the first team's, else the
    only one.
    """
    visible = [grant for grant in principal.grants if principal.find_role(grant.space) is not None]
    of_project = [g for g in visible if g.kind == PROJECT and project and (project == g.name or project.endswith(f"/{g.name}"))]
    for candidates in (of_project, *([g for g in visible if g.kind == kind] for kind in (PRIVATE, TEAM))):
        if candidates:
            return candidates[0]
    return visible[0] if len(visible) == 1 else None


def make_application(server: MCPServer[Any], handlers: Handlers, max_body: int, more: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application behind authentication.

    It serves the protocol, /hooks and `more` routes, which choose their spaces themselves.
    """
    manager = StreamableHTTPSessionManager(server._lowlevel_server, max_request_body_size=max_body, stateless=True)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    async def hook(request: Request) -> Response:
        client = request.path_params["client"]
        if not CLIENT.match(client):
            raise HTTPException(404)
        key = request.headers.get(KEY_HEADER, "")
        if len(key) > _LONGEST_KEY:
            raise InvalidQuery("the Idempotency-Key header is too long", f"Use at most {_LONGEST_KEY} characters.")
        payload = Payload(client, await request.body(), key, CALLER.get().project)
        return JSONResponse(asdict(await handlers.take_hook(payload)))

    async def hooks(scope: Scope, receive: Receive, send: Send) -> None:
        response = await answered(hook)(Request(scope, receive))
        await response(scope, receive, send)

    protocol = _SpaceLayer(Mended(StreamableHTTPASGIApp(manager)))
    route_list = [
        Route("/mcp", protocol, methods=["POST"]),
        Route("/spaces/{name}/mcp", protocol, methods=["POST"]),
        *more,
        Route("/hooks/{client}", _SpaceLayer(hooks), methods=["POST"]),
    ]
    route_names = "Routes are /mcp, /spaces/NAME/mcp, /hooks/CLIENT, /share, /health/live, /health/ready and /metrics."
    return application(route_list, lifespan, route_names)


class _SpaceLayer:
    """Finds the space that a request means, and counts the request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        principal: Principal = scope["principal"]
        try:
            by_path = scope["path"].removeprefix(_SPACES).removesuffix("/mcp") if scope["path"].startswith(_SPACES) else ""
            header_values = [
                value.decode("utf-8", "replace").strip() for name, value in scope["headers"] if name == SPACE_HEADER.encode()
            ]
            if len(header_values) > 1 or (by_path and header_values and header_values[0] != by_path):
                raise InvalidQuery("the request names two spaces", "Name one: by the header Memory-Space or by the address.")
            space_name = by_path or (header_values[0] if header_values else "")
            grant = get_grant(principal, space_name) if space_name else choose_default_space(principal, CALLER.get().project)
        except Exception as error:
            ours = as_ours(error, name_route(scope["path"]))
            await Refusal(STATUS.get(ours.code, 500), ours.code, ours.message, hint_of(ours)).send(send)
            return
        served = CALL.set(CallContext(principal, grant))
        status = "none"

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            CALL.reset(served)
            metrics.count("team_requests_total", tenant_class=principal.tenant_class, status=status)
            metrics.observe("team_request_seconds", time.perf_counter() - began, tenant_class=principal.tenant_class)


class HealthLayer:
    """Answers health and metrics, which monitors ask without a key."""

    def __init__(self, app: ASGIApp, handlers: Handlers) -> None:
        self._app, self._handlers = app, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer paths of health and metrics; pass on everything else."""
        if scope["type"] == "http" and scope["path"].startswith((_HEALTH, _METRICS)):
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if request.method not in ("GET", "HEAD") or path not in ("/health/live", "/health/ready", "/metrics"):
            refusal = Refusal(404, "NOT_FOUND", "no such route", "Routes are /health/live, /health/ready and /metrics.")
            return Response(refusal.body(), refusal.status, media_type="application/json")
        if path == "/health/live":
            return JSONResponse({"status": "ok"})
        if path == "/health/ready":
            reason = "the database does not answer in time"
            with anyio.move_on_after(_PATIENCE):
                try:
                    reason = await anyio.to_thread.run_sync(self._handlers.find_unready_reason, abandon_on_cancel=True)
                except MemoryMcpError as error:
                    reason = error.message
            status = {"status": "not ready", "reason": reason} if reason else {"status": "ready"}
            return JSONResponse(status, 503 if reason else 200)
        if not self._may_measure(request):
            why, hint = "metrics are for this machine, or for a token", "Set team.server.metrics_token."
            refusal = Refusal(401, "UNAUTHENTICATED", why, hint)
            return Response(refusal.body(), refusal.status, {"www-authenticate": "Bearer"}, "application/json")
        return PlainTextResponse(await anyio.to_thread.run_sync(self._handlers.make_exposition), media_type=metrics.CONTENT_TYPE)

    def _may_measure(self, request: Request) -> bool:
        if token := self._handlers.metrics_token:
            scheme, _, sent_token = request.headers.get("authorization", "").partition(" ")
            return scheme.lower() == "bearer" and hmac.compare_digest(sent_token.strip().encode(), token.encode())
        forwarded = any(name in request.headers for name in _FORWARDED)
        return request.client is not None and request.client.host in LOOPBACK and not forwarded


#: Lends the memory of a space to a call, as its member: caller, space, and whether it writes.
Lend = Callable[[Principal, Grant, bool], AbstractContextManager[App]]
_STATUS = {**STATUS, "UNAUTHENTICATED": 401}
_LONGEST_CURSOR = 500


def make_routes(lend: Lend) -> list[Route]:
    """Return the routes; `lend` lends the memory of a space."""

    async def spaces(request: Request) -> Response:
        principal: Principal = request.scope["principal"]
        visible = [(grant, role) for grant in principal.grants if (role := principal.find_role(grant.space)) is not None]
        rows = [{"name": grant.name, "kind": grant.kind, "role": role.value} for grant, role in visible]
        return JSONResponse({"member": principal.name, "spaces": rows})

    async def standing(request: Request) -> Response:
        principal, grant, member = _find_caller(request)
        return await _run_in_space(
            lend, principal, grant, False, lambda app: sharing.describe_permissions(app, grant.name, member)
        )

    async def changes(request: Request) -> Response:
        principal, grant, _ = _find_caller(request)
        after = request.query_params.get("after", "")
        if len(after) > _LONGEST_CURSOR:
            raise InvalidQuery("the cursor is none", "Begin without one.")
        return await _run_in_space(lend, principal, grant, False, lambda app: sharing.read_changes(app, after))

    async def events(request: Request) -> Response:
        principal, grant, member = _find_caller(request)
        batch = await _read_batch(request)
        return await _run_in_space(lend, principal, grant, True, lambda app: sharing.receive_batch(app, batch, member))

    return [
        Route("/share", _wrap_endpoint(spaces), methods=["GET"]),
        Route("/share/{space}", _wrap_endpoint(standing), methods=["GET"]),
        Route("/share/{space}/changes", _wrap_endpoint(changes), methods=["GET"]),
        Route("/share/{space}/events", _wrap_endpoint(events), methods=["POST"]),
    ]


def _find_caller(request: Request) -> tuple[Principal, Grant, sharing.SpaceMember]:
    principal: Principal = request.scope["principal"]
    grant = get_grant(principal, request.path_params["space"])
    role = principal.find_role(grant.space)
    if role is None:
        raise no_such_space(grant.name)
    return principal, grant, sharing.SpaceMember(principal.name, role.value)


async def _run_in_space(
    lend: Lend, principal: Principal, grant: Grant, writes: bool, work: Callable[[App], dict[str, Any]]
) -> Response:
    """Answer with what `work` returns, in a thread that outlasts the caller."""

    def answer() -> dict[str, Any]:
        with lend(principal, grant, writes) as app:
            return work(app)

    return JSONResponse(await anyio.to_thread.run_sync(answer))


async def _read_batch(request: Request) -> dict[str, Any]:
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > MAX_BODY:
            raise ResourceExhausted(f"a batch has at most {MAX_BODY} bytes", "Send several.")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidQuery("the body is no batch", "Both sides must be of the same version.")
    return document


def _wrap_endpoint(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except MemoryMcpError as error:
            response = {"code": error.code, "message": error.message, "hint": error.hint}
            return JSONResponse({"error": response}, status_code=_STATUS.get(error.code, 500))

    return answer
