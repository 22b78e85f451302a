"""A request of a browser as pages and acts read it, and the memory as they see it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, Protocol, TypeVar

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError
from memory_mcp.requests.correct import PERSON
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.response import with_loss
from memory_mcp.requests.scope import Caller, ScopeName
from memory_mcp.web import rendering
from memory_mcp.web.visits import HEADERS, Visit

#: The author of acts by a visitor who did not confirm that the words are their own.
EXPLORER = "explorer"
#: The header by which a script of ours asks for the changing part of a page alone.
PART = "x-part"
_STATUS = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 413, "LOCKED": 503, "UNAVAILABLE": 503}


def status_of(error: MemoryMcpError) -> int:
    """Return the HTTP status for an error's code."""
    return _STATUS.get(error.code, 500)


T = TypeVar("T")


class Host(Protocol):
    """Runs work on the open memory in a thread."""

    async def read(self, work: Callable[[App], T]) -> T:
        """Run a reading call in a thread; cancelled with its caller."""
        ...

    async def write(self, work: Callable[[App], T]) -> T:
        """Run a writing call in a thread; it goes on when cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Pulse:
    """The version of the memory: it changed where this differs."""

    #: Number of the last event.
    event: int = 0
    #: Number of the last change of the tree.
    change: int = 0


@dataclass(slots=True)
class Memory:
    """The open memory and the state of the serving process."""

    host: Host
    #: What `memory-mcp daemon status` shows, as JSON values.
    process: Callable[[], Awaitable[Mapping[str, Any]]]
    #: Cheap, and no reading call: background work does not hurry for it.
    pulse: Callable[[], Pulse]
    #: Short names of all projects by their whole names, as of the last request.
    project_names: Mapping[str, str] = field(default_factory=dict)

    async def ask(self, request: Any) -> dict[str, Any]:
        """Return the response of a reading request as JSON values."""
        response, self.project_names = await self.host.read(partial(_respond, request))
        return response

    async def write(self, request: Any) -> dict[str, Any]:
        """Return the response of a writing request, which cannot be cancelled."""
        response, self.project_names = await self.host.write(partial(_respond, request))
        return response


def _respond(request: Any, app: App) -> tuple[dict[str, Any], Mapping[str, str]]:
    return with_loss(app, as_json(respond(app, request, Caller()))), app.tree.short_names()


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request with its visit, and the memory that answers."""

    request: Request
    visit: Visit
    memory: Memory
    #: Fields of a form.
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def author(self) -> str:
        """Who acts: "person" if the visit is one's, else "explorer"."""
        return PERSON if self.visit.is_person else EXPLORER

    @property
    def back(self) -> str:
        """The page that the form was on; "" for acts and ".."."""
        page = self.form.get("back", "")
        return page if page and not page.startswith("do/") and ".." not in page else ""

    @property
    def part(self) -> str:
        """The part of the page that a script wants; "" for all."""
        return self.request.headers.get(PART, "")

    @property
    def scope_arguments(self) -> dict[str, Any]:
        """Arguments of a request, {"project", "scope"}."""
        project = self.argument("project")
        return {"project": project, "scope": "" if project else ScopeName.ALL.value}

    def path_argument(self, name: str) -> str:
        """Return a part of the address; "" for an unknown name."""
        return str(self.request.path_params.get(name, ""))

    def argument(self, name: str, default: str = "") -> str:
        """Return a stripped field of the form or argument of the address."""
        return (self.form.get(name) or self.request.query_params.get(name) or default).strip()

    def int_argument(self, name: str, default: int) -> int:
        """Return an argument as a whole number; InvalidQuery for others."""
        text = self.argument(name)
        if not text:
            return default
        if not text.isdecimal() or len(text) > 9:
            raise InvalidQuery(f"{name} must be a whole number, not {text[:40]!r}")
        return int(text)

    def link(self, page: str, /, **query: object) -> Markup:
        """Return the escaped address of another page of this visit."""
        return Markup.escape(rendering.page_address(self.visit, page, **query))

    def short_project(self, project: str) -> str:
        """Return the shortest unambiguous name of a project."""
        return self.memory.project_names.get(project, project)

    def render_page(self, name: str, code: int = 200, /, **values: Any) -> Response:
        """Return the page NAME.html, or for a script part_NAME.html."""
        return self.render_template(f"part_{name}.html" if self.part else f"{name}.html", code, **values)

    def render_template(self, template: str, code: int = 200, /, **values: Any) -> Response:
        """Return a page, or a part of one, from a template.

        A whole page takes the visit's notes, which are then gone; a part leaves them.
        """
        notes = list[str]()
        if not self.part:
            # A part has no place for notes: they wait for the next whole page.
            notes, self.visit.notes = self.visit.notes, []
        context = {
            "notes": notes,
            "project": self.argument("project"),
            "at": self.request.url.path,
            "arguments": dict(self.request.query_params),
            "project_names": self.memory.project_names,
            **values,
        }
        html = rendering.template_environment().get_template(template).render(**context, visit=self.visit, link=self.link)
        return HTMLResponse(html, code, HEADERS)


@dataclass(frozen=True, slots=True)
class ActResult:
    """What an act did: a note, and the next page."""

    note: str
    #: Below the visit's address.
    page: str
    #: Further values of the response to a script.
    values: Mapping[str, Any] = field(default_factory=dict)
