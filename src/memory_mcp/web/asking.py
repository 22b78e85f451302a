"""A request of a browser, as pages and acts read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from memory_mcp.base.errors import InvalidQuery, MemoryMcpError
from memory_mcp.requests.correct import PERSON
from memory_mcp.requests.scope import ScopeName
from memory_mcp.web import rendering
from memory_mcp.web.headers import HEADERS
from memory_mcp.web.memory import Memory
from memory_mcp.web.visits import Visit

#: The author of acts by a visitor who did not confirm that the words are their own.
EXPLORER = "explorer"
#: The header by which a script of ours asks for the changing part of a page alone.
PART = "x-part"
_STATUS = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 413, "LOCKED": 503, "UNAVAILABLE": 503}


def status_of(error: MemoryMcpError) -> int:
    """Return the HTTP status for an error's code."""
    return _STATUS.get(error.code, 500)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request with its visit, and the memory that answers."""

    request: Request
    visit: Visit
    memory: Memory
    #: Fields of a form.
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def by(self) -> str:
        """Who acts: "person" if the visit is one's, else "explorer"."""
        return PERSON if self.visit.is_person else EXPLORER

    @property
    def back(self) -> str:
        """The page that the form was on, from its field `back`.

        "" (the first page) where the form does not say, for paths of acts ("do/...") and for those with "..".
        """
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

    def path(self, name: str) -> str:
        """Return a part of the address; "" for an unknown name."""
        return str(self.request.path_params.get(name, ""))

    def argument(self, name: str, default: str = "") -> str:
        """Return a stripped field of the form or argument of the address."""
        return (self.form.get(name) or self.request.query_params.get(name) or default).strip()

    def number(self, name: str, default: int) -> int:
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

    def short(self, project: str) -> str:
        """Return the shortest unambiguous name of a project."""
        return self.memory.project_names.get(project, project)

    def render(self, name: str, code: int = 200, /, **values: Any) -> Response:
        """Return the page NAME.html, or for a script part_NAME.html."""
        return self.page(f"part_{name}.html" if self.part else f"{name}.html", code, **values)

    def page(self, template: str, code: int = 200, /, **values: Any) -> Response:
        """Return a page, or a part of one, from a template.

        The template gets notes, project, at (the path of the address), arguments (of the address) and `values`, which win over
        these, and visit and link. A whole page takes the visit's notes, which are then gone; a part leaves them.
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
class Done:
    """What an act did: a note, and the next page."""

    note: str
    #: Below the visit's address.
    page: str
    #: Further values of the response to a script.
    values: Mapping[str, Any] = field(default_factory=dict)
