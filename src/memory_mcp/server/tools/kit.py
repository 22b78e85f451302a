"""What every group of tools shares: the host, the caller's project, scopes, and how an answer leaves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery
from memory_mcp.model.sentinel import fence
from memory_mcp.server import shapes, wire
from memory_mcp.server.caller import CALLER
from memory_mcp.server.host import Host
from memory_mcp.server.schema import lean_input, lean_output

#: A call that only reads, gives the same answer twice, and knows nothing but the memory.
READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
#: A call that adds and never takes away.
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
#: A write that, made again, changes nothing more.
SETS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

ALL_PROJECTS = "all projects"


@dataclass(frozen=True, slots=True)
class Scoped:
    """Which project a call is bound to (None: all), in words, and whether only the default bound it."""

    project: str | None
    by_default: bool = False

    @property
    def words(self) -> str:
        """As answers name it."""
        return ALL_PROJECTS if self.project is None else self.project

    def nothing(self, what: str = "results") -> list[str]:
        """What an answer without results says about its scope."""
        if self.project is None:
            return []
        leave = "" if self.by_default else "without project, "
        return [f"0 {what} in project {self.project}; {leave}scope='all' searches everything"]


@dataclass(frozen=True, slots=True)
class Kit:
    """Handed to each group of tools."""

    host: Host
    #: The project of callers whose connection tells none.
    usual_project: str = ""

    @property
    def project(self) -> str:
        """The project the calling client works on; "" when it is not known."""
        return CALLER.get().project or self.usual_project

    def scoped(self, app: App, project: str = "", scope: str = "") -> Scoped:
        """Explicit project, else the caller's, else everything."""
        if project:
            return Scoped(known_project(app, project))
        if scope == "all":
            return Scoped(None)
        if scope == "project" and not self.project:
            raise InvalidQuery("the caller's project is not known", "Name one with project, or use scope='all'.")
        if self.project and (scope == "project" or self.host.settings.server.scope == "project"):
            return Scoped(self.project, by_default=True)
        return Scoped(None)


def known_project(app: App, name: str) -> str:
    """The stored project of that name, or the only one whose last parts it is; else the name as given."""
    known = app.tree.tally().projects
    if name in known:
        return name
    ends = [p for p in known if p.endswith("/" + name.strip("/"))]
    if len(ends) > 1:
        raise InvalidQuery(f"project {name!r} may be {' or '.join(ends[:5])}", "Give the whole name.")
    return ends[0] if ends else name


def answer(value: wire.Wire) -> CallToolResult:
    """The structured answer; its text form is the same JSON, fenced when it carries words from the memory."""
    structured: dict[str, Any] = value.model_dump(mode="json")
    text = shapes.compact(value)
    if isinstance(value, wire.Recalled):
        text = fence(text)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def tool(fn: Callable[..., Any], title: str, annotations: ToolAnnotations = READS) -> Tool:
    """A tool from a method: its docstring is what agents read, its schemas are made lean."""
    description = " ".join((fn.__doc__ or "").split())
    made = Tool.from_function(fn, title=title, description=description, annotations=annotations)
    made.parameters = lean_input(made.parameters)
    if made.fn_metadata.output_schema is not None:
        made.fn_metadata.output_schema = lean_output(made.fn_metadata.output_schema)
    return made
