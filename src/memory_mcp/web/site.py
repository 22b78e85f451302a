"""Serves the pages and acts below `/ui/`; every failure is a page that says what to do next."""

import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from pathlib import PurePosixPath
from urllib.parse import parse_qsl

import anyio
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from memory_mcp.base.errors import InvalidQuery, MemoryMcpError, NotFound
from memory_mcp.web import rendering
from memory_mcp.web.asking import ActResult, Memory, PageRequest, status_of
from memory_mcp.web.registry import ACTS, FIRST, PAGES
from memory_mcp.web.visits import COOKIE, ENTER, HEADERS, LONE_HEADERS, LONE_STYLE, Visit, Visits
from memory_mcp.web.visits import PAGES as BELOW

log = logging.getLogger(__name__)

#: A change of the memory is announced to open pages after at most so long; silence is broken this often (seconds).
_LOOK, _SILENCE = 1.0, 20.0
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: Fields of one form.
_MOST_FIELDS = 100
#: The field of a form, and the header of a script, that carry the visit's token.
TOKEN, TOKEN_HEADER = "token", "x-token"

#: Status of a response that no client waits for any longer.
_LEFT = 499
#: Forms that are known again when they are sent again.
_MOST_SENT = 100

Handler = Callable[[PageRequest], Awaitable[Response]]
Act = Callable[[PageRequest], Awaitable[ActResult]]


def list_routes(memory: Memory, visits: Visits) -> list[BaseRoute]:
    """Return the routes below `/ui/`.

    Whether a request belongs to a visit must have been checked before they are reached.
    """
    site = _Site(memory, visits)
    below = BELOW + "{visit}/"
    return [
        Route(f"{ENTER}{{ticket}}", site.open_visit, methods=["GET"]),
        Route(f"{below}static/{{version}}/{{name}}", site.serve_static, methods=["GET"]),
        Route(f"{below}live", site.stream_changes, methods=["GET"]),
        Route(f"{below}do/{{act}}", site.carry_out_act, methods=["POST"]),
        Route(below, site.redirect_first, methods=["GET"]),
        *(Route(f"{below}{path}", site.make_endpoint(show), methods=["GET"]) for path, show in PAGES.items()),
        Route(f"{below}{{missing:path}}", site.make_endpoint(_show_missing), methods=["GET"]),
    ]


async def _show_missing(ask: PageRequest) -> Response:
    raise NotFound(f"there is no page {ask.path_argument('missing')}", "The links above lead to all of them.")


class _Site:
    """The endpoints of the explorer."""

    def __init__(self, memory: Memory, visits: Visits) -> None:
        self._memory = memory
        self._visits = visits

    async def open_visit(self, request: Request) -> Response:
        """Open a visit by the ticket in the address.

        The page leads on, so that the cookie is sent wherever the link was followed. A prefetch gets 503, the ticket unused.
        """
        if "prefetch" in request.headers.get("sec-purpose", ""):
            # The browser's guess of what the person is about to open; the ticket is kept for when they do.
            return Response(status_code=503, headers=HEADERS)
        visit = self._visits.open_visit(request.url.path)
        if visit is None:
            html = rendering.template_environment().get_template("used.html").render(style=Markup(LONE_STYLE))
            return HTMLResponse(html, 403, LONE_HEADERS)
        self._visits.note_use()
        html = rendering.template_environment().get_template("enter.html").render(target=f"{visit.base}/")
        response = HTMLResponse(html, headers=HEADERS)
        response.set_cookie(COOKIE, visit.cookie, path=visit.base, httponly=True, samesite="strict")
        return response

    async def redirect_first(self, request: Request) -> Response:
        """Redirect (303) to the page that a visit begins with, today."""
        return RedirectResponse(rendering.page_address(_visit(request), FIRST), 303, HEADERS)

    async def serve_static(self, request: Request) -> Response:
        """Return a style sheet, script or picture of the package."""
        name = PurePosixPath(request.path_params["name"])
        resource = files("memory_mcp.web").joinpath("static", name.name)
        if name.suffix not in _TYPES or not resource.is_file():
            raise HTTPException(404)
        headers = {**HEADERS, "cache-control": "private, max-age=604800, immutable"}
        return Response(resource.read_bytes(), 200, headers, f"{_TYPES[name.suffix]}; charset=utf-8")

    async def stream_changes(self, request: Request) -> Response:
        """Announce changes as server-sent events while the page is open.

        The memory's version is read each second and sent when it differs, and after 20 seconds of silence. The visit does
        not count as used.
        """
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type="text/event-stream")

        async def events() -> AsyncIterator[str]:
            last_pulse, silent = None, 0.0
            while True:
                now = self._memory.pulse()
                if now != last_pulse or silent >= _SILENCE:
                    yield f"data: {json.dumps({'event': now.event, 'change': now.change})}\n\n"
                    last_pulse, silent = now, 0.0
                await anyio.sleep(_LOOK)
                silent += _LOOK

        return StreamingResponse(events(), headers=HEADERS, media_type="text/event-stream")

    async def carry_out_act(self, request: Request) -> Response:
        """Carry out an act of a form or a script.

        A script gets JSON (note, page, further values), a form a redirect (303) to the next page. Errors are not raised: a
        form that the act refuses is shown again, a script gets {"error": {code, message, hint}} with the error's status. A
        missing or foreign token (InvalidQuery) and an unknown act (NotFound) give a form the error page.
        """
        visit = _visit(request)
        try:
            fields = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError:
            fields = {}
        token = fields.pop(TOKEN, "") or request.headers.get(TOKEN_HEADER, "")
        act = ACTS.get(request.path_params["act"])

        async def carry_out(ask: PageRequest) -> Response:
            if not hmac.compare_digest(token.encode(), visit.form_token.encode()):
                raise InvalidQuery("the form is not of this visit", "Go back, load the page again, and send the form from there.")
            if act is None:
                raise NotFound(f"there is no act {request.path_params['act']}", "Nothing was changed.")
            try:
                done = await _act_once(ask, act)
                if ask.part:
                    page = rendering.page_address(ask.visit, done.page)
                    return JSONResponse({"note": rendering.plain(done.note), "page": page, **done.values}, 200, HEADERS)
                if done.note:
                    ask.visit.notes.append(done.note)
                return RedirectResponse(rendering.page_address(ask.visit, done.page), 303, HEADERS)
            except MemoryMcpError as error:
                if ask.part:
                    return _respond_with_error(ask, error)
                name = str(ask.request.path_params["act"])
                return ask.render_template("refused.html", status_of(error), error=error, act=name, given=ask.form, back=ask.back)

        return await self._respond(request, carry_out, fields)

    def make_endpoint(self, show: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a page, with errors as pages."""

        async def endpoint(request: Request) -> Response:
            # Where the browser closes the connection first, the work for it is cancelled.
            response = Response(status_code=_LEFT, headers=HEADERS)
            async with anyio.create_task_group() as tasks:

                async def watch() -> None:
                    while (await request.receive())["type"] != "http.disconnect":
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(watch)
                response = await self._respond(request, show, {})
                tasks.cancel_scope.cancel()
            return response

        return endpoint

    async def _respond(self, request: Request, handler: Handler, form: dict[str, str]) -> Response:
        """Answer, with errors as pages; `x-live` keeps the visit unused."""
        ask = PageRequest(request, _visit(request), self._memory, form)
        if "x-live" not in request.headers:
            self._visits.note_use()
        try:
            return await handler(ask)
        except MemoryMcpError as error:
            return _respond_with_error(ask, error)
        except Exception:
            log.exception("the page %s failed", request.url.path.removeprefix(ask.visit.base))
            hint = "The log of memory-mcp has the details (memory-mcp daemon status)."
            return _respond_with_error(ask, MemoryMcpError("the page failed", hint))


def _visit(request: Request) -> Visit:
    visit = request.scope["visit"]
    assert isinstance(visit, Visit)
    return visit


async def _act_once(ask: PageRequest, act: Act) -> ActResult:
    """Carry out a form with the same key and content once."""
    if not ask.form.get("key"):
        return await act(ask)
    content = json.dumps([ask.request.path_params["act"], sorted(ask.form.items())])
    seal, sent = hashlib.sha256(content.encode()).hexdigest(), ask.visit.sent
    async with ask.visit.acting:
        if seal not in sent:
            sent[seal] = await act(ask)
            while len(sent) > _MOST_SENT:
                sent.popitem(last=False)
        done: ActResult = sent[seal]
        return done


def _respond_with_error(ask: PageRequest, error: MemoryMcpError) -> Response:
    status = status_of(error)
    if ask.part and ask.request.method == "POST":
        error_values = {
            "error": {"code": error.code, "message": rendering.plain(error.message), "hint": rendering.plain(error.hint)}
        }
        return JSONResponse(error_values, status, HEADERS)
    return ask.render_template("part_error.html" if ask.part else "error.html", status, error=error)
