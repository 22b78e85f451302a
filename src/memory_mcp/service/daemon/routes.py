"""The ASGI application of the HTTP door: streamable HTTP and SSE over one server, health, metrics and hooks.

Change here: add an HTTP route.
"""

import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from memory_mcp.base import lines, metrics
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.server.caller import CALLER, Caller
from memory_mcp.server.errors import as_ours, hint_of
from memory_mcp.server.message_ids import mend_ids, restore_ids
from memory_mcp.service.daemon.security import Refusal, send_whole
from memory_mcp.web.visits import PAGES

#: The header by which a client says which project it works on.
PROJECT_HEADER = b"memory-project"
#: Characters of a project in that header, and how a client is called in the address of its hook.
_LONGEST_PROJECT = 500
CLIENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}\Z")
#: Status by the code of an error that a route ends with.
STATUS = {
    "INVALID_ARGUMENT": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 413,
    "LOCKED": 503,
    "UNAVAILABLE": 503,
}

#: Takes a client's name and the payload of a hook; its answer, if it is a mapping, is the answer to the hook.
TakeHook = Callable[[str, bytes], Any]
Endpoint = Callable[[Request], Awaitable[Response]]


def route_of(path: str) -> str:
    """Return the route of a path as metrics label it.

    /mcp, /sse, /messages/, /health, /metrics, /ui, /hooks, or "other".
    """
    if path in ("/mcp", "/sse", "/messages/", "/health", "/metrics"):
        return path
    if path.startswith(PAGES):
        return "/ui"
    return "/hooks" if path.startswith("/hooks/") else "other"


@dataclass(frozen=True, slots=True)
class Asked:
    """The handlers of health, metrics and hooks."""

    health: Callable[[], dict[str, Any]]
    metrics: Callable[[], str]
    take_hook: TakeHook


def routes(server: MCPServer[Any], answers: Asked, max_body: int, pages: Sequence[BaseRoute] = (), **transport: Any) -> Starlette:
    """Return the application: MCP, health, metrics, hooks and pages.

    `transport` goes to the library's manager of sessions. The library's checks of Host and Origin are left off: they know no
    name without a port, and ours come before every route. What health, metrics and hooks raise is answered as JSON.
    """
    manager = StreamableHTTPSessionManager(server._lowlevel_server, max_request_body_size=max_body, **transport)
    sse = _Sse(server, max_body)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    async def health(_: Request) -> Response:
        return JSONResponse(answers.health())

    async def text(_: Request) -> Response:
        return PlainTextResponse(await anyio.to_thread.run_sync(answers.metrics), media_type=metrics.CONTENT_TYPE)

    async def hook(request: Request) -> Response:
        """Take a hook's payload, answer with what `_taken` returns.

        Raises HTTPException (404) for a name that no client has.
        """
        client = request.path_params["client"]
        if not CLIENT.match(client):
            raise HTTPException(404)
        return JSONResponse(await _take_payload(answers.take_hook, client, await request.body()))

    all_routes = [
        Route("/mcp", Mended(StreamableHTTPASGIApp(manager)), methods=["GET", "POST", "DELETE"]),
        Route("/sse", sse, methods=["GET"]),
        Route("/messages/", Mended(sse.transport.handle_post_message), methods=["POST"]),
        Route("/health", answered(health), methods=["GET"]),
        Route("/metrics", answered(text), methods=["GET"]),
        Route("/hooks/{client}", answered(hook), methods=["POST"]),
        *pages,
    ]
    return application(all_routes, lifespan, "Routes are /mcp, /sse, /health, /metrics and /hooks/CLIENT.")


async def _take_payload(take_hook: TakeHook, client: str, payload: bytes) -> dict[str, Any]:
    """Return what `take_hook` answers, {} where that is no mapping.

    Raises what it raises. It runs in a thread, unless it is a coroutine function; an awaitable that it returns is awaited here.
    """
    if inspect.iscoroutinefunction(take_hook):
        answer = await take_hook(client, payload)
    else:
        answer = await anyio.to_thread.run_sync(take_hook, client, payload)
        answer = await answer if isinstance(answer, Awaitable) else answer
    return answer if isinstance(answer, dict) else {}


def application(all_routes: Sequence[BaseRoute], lifespan: Lifespan[Starlette], route_names: str) -> Starlette:
    """Return an application of routes that redirects nothing.

    `route_names` names the routes as the next step of a refusal. An unknown route is refused as JSON with NOT_FOUND, a method
    that a route does not take with 405 and INVALID_ARGUMENT.
    """

    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            refusal = Refusal(405, "INVALID_ARGUMENT", "this route takes another method", route_names)
        else:
            refusal = Refusal(error.status_code, "NOT_FOUND", "no such route", route_names)
        return Response(refusal.body(), refusal.status, dict(error.headers or {}), "application/json")

    app = Starlette(routes=all_routes, lifespan=lifespan, exception_handlers={HTTPException: refuse})
    # A redirect would lead to wherever the Host header says.
    app.router.redirect_slashes = False
    return app


def answered(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint with its exceptions turned into JSON responses.

    HTTPException passes, tracebacks go to the log.
    """

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except Exception as error:
            ours = as_ours(error, route_of(request.url.path))
            refusal = Refusal(STATUS.get(ours.code, 500), ours.code, ours.message, hint_of(ours))
            return Response(refusal.body(), refusal.status, media_type="application/json")

    return answer


class Mended:
    """Middleware that repairs messages, or answers broken ones.

    The SDK takes a request whose id is null for a notification, and in one of the eras passes half a character on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request.

        A POST only with one JSON message, which is mended first. A body that is not declared as JSON gets 415, one that cannot
        be passed on 400 with the message's id. Of other methods the header last-event-id is dropped, as nothing is kept to be
        sent again.
        """
        if scope["method"] != "POST":
            # Nothing is kept to be sent again, and asked for that the library answers nothing at all.
            headers = [(name, value) for name, value in scope["headers"] if name != b"last-event-id"]
            await self._app({**scope, "headers": headers}, receive, send)
            return
        request = Request(scope, receive)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            hint = "Send one JSON message with Content-Type: application/json."
            await Refusal(415, "INVALID_ARGUMENT", "the body is not declared as JSON", hint).send(send)
            return
        body = await request.body()
        checked = lines.read_line(body)
        if checked.answer:
            await send_whole(send, 400, checked.answer.rstrip(), b"application/json", ())
            return
        body = checked.line or body
        if mend_ids(checked.message):
            body, send = json.dumps(checked.message).encode(), _restoring_send(send)
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            """Return the mended body, later what comes next."""
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)


def _restoring_send(send: Send) -> Send:
    start: list[Message] = []

    async def restore(message: Message) -> None:
        if message["type"] == "http.response.start" and any(name == b"content-length" for name, _ in message["headers"]):
            start.append(message)
            return
        message = {**message, "body": restore_ids(message["body"])} if message.get("body") else message
        if start:
            headers = [(name, value) for name, value in start[0]["headers"] if name != b"content-length"]
            length = str(len(message.get("body", b""))).encode()
            await send({**start.pop(), "headers": [*headers, (b"content-length", length)]})
        await send(message)

    return restore


class _Sse:
    """The SSE transport, called for the stream to a client."""

    def __init__(self, server: MCPServer[Any], max_body: int) -> None:
        self._server = server._lowlevel_server
        self.transport = SseServerTransport("/messages/", max_request_body_size=max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            raise HTTPException(405)
        # This enters the server's lifespan once per connection; ours holds nothing that could be opened twice.
        async with self.transport.connect_sse(scope, receive, _restoring_send(send)) as (reading, writing):
            await self._server.run(reading, writing, self._server.create_initialization_options())


class Connection:
    """Middleware that sets the project, and ends requests with the door.

    HTTP callers are no relays of ours: a repeated write counts twice unless it carries an idempotency key.
    """

    def __init__(self, app: ASGIApp, locked: bool = False) -> None:
        self._app = app
        self._locked = locked
        self._streams_end = anyio.Event()
        self._calls_end = anyio.Event()

    def end_streams(self) -> None:
        """End every open stream, and each one that comes later."""
        self._streams_end.set()

    def end_calls(self) -> None:
        """Cancel running calls, and later ones.

        As if their clients had left; one without a response yet gets 503.
        """
        self._calls_end.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request as the caller of its header's project."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            project = _project(scope)
        except InvalidQuery as error:
            await Refusal(400, error.code, error.message, error.hint).send(send)
            return
        if self._locked:
            # The library answers 404 for a session of another user, over both transports.
            scope = {**scope, "user": AuthenticatedUser(AccessToken(token="", client_id=project, scopes=[]))}
        caller = CALLER.set(Caller(project=project))
        try:
            await self._until(self._streams_end if scope["method"] == "GET" else self._calls_end, scope, receive, send)
        finally:
            CALLER.reset(caller)

    async def _until(self, end: anyio.Event, scope: Scope, receive: Receive, send: Send) -> None:
        begun = ended = False

        async def noted(message: Message) -> None:
            nonlocal begun, ended
            begun = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        await self._app(scope, lambda: _first(receive, end), noted)
        if end.is_set() and not begun:
            await Refusal(503, "UNAVAILABLE", "memory-mcp is ending", "Call again in a few seconds.").send(send)
        elif end.is_set() and not ended:
            await send({"type": "http.response.body", "body": b""})


def _project(scope: Scope) -> str:
    """Return the project of the Memory-Project header, stripped, "" without one.

    Raises InvalidQuery if too long or repeated.
    """
    names = [value.decode("utf-8", "replace").strip() for name, value in scope["headers"] if name == PROJECT_HEADER]
    if len(names) > 1:
        raise InvalidQuery("the Memory-Project header comes twice", "Send it once: nobody can tell which of them is meant.")
    if names and len(names[0]) > _LONGEST_PROJECT:
        hint = f"Use the project's name as results show it: at most {_LONGEST_PROJECT} characters."
        raise InvalidQuery("the Memory-Project header is too long", hint)
    return names[0] if names else ""


async def _first(receive: Receive, end: anyio.Event) -> Message:
    message: Message = {"type": "http.disconnect"}
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await end.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        message = await receive()
        tasks.cancel_scope.cancel()
    return message
