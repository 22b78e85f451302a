"""What every group of tools shares: the host, the caller's project, scopes, and how an answer leaves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from memory_mcp.app import App
from memory_mcp.model.fencing import fence, neutral, neutral_json
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.server import wire
from memory_mcp.server.apps import shown_by
from memory_mcp.server.caller import CALLER
from memory_mcp.server.host import Host
from memory_mcp.server.markdown import markdown
from memory_mcp.server.schema import lean_input, lean_output

#: A call that only reads, gives the same answer twice, and knows nothing but the memory.
READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
#: A call that adds and never takes away.
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
#: A write that, made again, changes nothing more.
SETS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


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

    @property
    def caller(self) -> Caller:
        """The calling client, as requests know it."""
        locked = CALLER.get().locked or self.host.settings.server.scope_lock
        return Caller(self.project, self.host.deriver_error(), locked)

    async def ask(self, request: Any) -> CallToolResult:
        """Return the response of a request that only reads."""
        caller = self.caller
        return answer(await self.host.read(lambda app: self.host.told(app, as_json(respond(app, request, caller)))))

    async def write(self, request: Any) -> CallToolResult:
        """Return the response of a request that is carried out whatever the client does meanwhile."""
        caller = self.caller
        return await self.carry_out(lambda app: respond(app, request, caller))

    async def carry_out(self, work: Callable[[App], object]) -> CallToolResult:
        """Return what a change of the memory comes to."""
        return answer(await self.host.write(lambda app: self.host.told(app, _plain(work(app)))))

    def scoped(self, app: App, project: str = "", scope: str = "") -> Scoped:
        """See `requests.scope`."""
        return scope_of(app, project, scope, self.caller)


def answer(value: object) -> CallToolResult:
    """The structured answer of a wire shape, a response, or one as JSON; as text in Markdown, fenced where it carries words."""
    structured: dict[str, Any] = neutral_json(_plain(value))
    text = markdown(structured)
    # What is not fenced names projects and sessions all the same: joined on a line, they must spell no tag either.
    text = fence(text) if "origin" in structured else neutral(text)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def _plain(value: object) -> dict[str, Any]:
    found: dict[str, Any] = value.model_dump(mode="json") if isinstance(value, wire.Wire) else as_json(value)
    return found


#: What was made of a method, by its function: that of another server differs in whom it asks alone.
_MADE: dict[object, Tool] = {}


def tool(fn: Callable[..., Any], title: str, annotations: ToolAnnotations = READS, page: str = "") -> Tool:
    """A tool from a method: its docstring is what agents read, its schemas are made lean; `page` shows its answers."""
    function = getattr(fn, "__func__", fn)
    if function not in _MADE:
        description = " ".join((fn.__doc__ or "").split())
        made = Tool.from_function(
            fn, title=title, description=description, annotations=annotations, meta=shown_by(page) if page else None
        )
        made.parameters = lean_input(made.parameters)
        if made.fn_metadata.output_schema is not None:
            made.fn_metadata.output_schema = lean_output(made.fn_metadata.output_schema)
        _MADE[function] = made
    return _MADE[function].model_copy(update={"fn": fn})
