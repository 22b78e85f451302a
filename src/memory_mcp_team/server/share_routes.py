"""The routes by which memories of a team's members exchange events with a space: three small ones over `requests.sharing`.

Invariants
1. They are called after authentication, which has put the caller's `Principal` into the scope.
2. A space that the caller may not see does not exist.
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError, ResourceExhausted
from memory_mcp.service.daemon.routes import STATUS
from memory_mcp_team.access.permissions import Grant, Principal, get_grant
from memory_mcp_team.errors import no_such_space
from memory_mcp_team.sharing import space as sharing
from memory_mcp_team.sharing.wire import MAX_BODY

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
