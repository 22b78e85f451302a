"""What every group of tools shares: the host, the caller's project and scope, and the rendering of answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from memory_mcp.app import App
from memory_mcp.model.fencing import fence_text, neutralize, neutralize_json
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.server.apps import page_meta
from memory_mcp.server.caller import CALLER
from memory_mcp.server.host import Host
from memory_mcp.server.markdown import markdown
from memory_mcp.server.schema import lean_input
from memory_mcp.server.wire import output_schema

T = TypeVar("T")

#: A call that only reads, gives the same answer twice, and knows nothing but the memory.
READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
#: A call that adds and never takes away.
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
#: A write that, made again, changes nothing more.
SETS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


@dataclass(frozen=True, slots=True)
class Kit:
    """The host and the caller, as each group of tools has them."""

    host: Host
    #: The project of callers whose connection names none.
    usual_project: str = ""

    @property
    def project(self) -> str:
        """The project that the calling client works on; "" where it is not known."""
        return CALLER.get().project or self.usual_project

    @property
    def caller(self) -> Caller:
        """The calling client as requests take it: its project, the deriver's last error, whether it is bound to the project."""
        locked = CALLER.get().locked or self.host.settings.server.scope_lock
        connection = CALLER.get().connection
        return Caller(self.project, self.host.deriver_error(), locked, connection() if connection else None)

    async def ask(self, request: Any) -> CallToolResult:
        """Run a request that only reads and return its response as a tool result; raises what its handler or opening raises."""
        caller = self.caller
        return answer(await self.host.read(lambda app: self.host.with_notices(app, as_json(respond(app, request, caller)))))

    async def write(self, request: Any) -> CallToolResult:
        """Run a request that writes, to its end even if the client cancels; return its response as a tool result."""
        caller = self.caller
        return await self.carry_out(lambda app: respond(app, request, caller))

    async def carry_out(self, work: Callable[[App], object]) -> CallToolResult:
        """Run `work`, which writes, even if the client cancels; return its value as a tool result, with notices of loss."""
        return answer(await self.host.write(lambda app: self.host.with_notices(app, as_json(work(app)))))

    def scoped(self, app: App, project: str = "", scope: str = "") -> Scoped:
        """Return the scope of this caller's request: the project it names, else the caller's or all by setting; as `scope_of`."""
        return scope_of(app, project, scope, self.caller)


#: The attribute of a method that holds its title, its annotations and its page.
_OFFER = "offer"


def offered(title: str, annotations: ToolAnnotations = READS, page: str = "") -> Callable[[T], T]:
    """Return a decorator that marks a method of a Group as a tool; `page` is the address of a page that shows its answers."""

    def mark(method: T) -> T:
        """Store title, annotations and page in the method, and return it."""
        setattr(method, _OFFER, (title, annotations, page))
        return method

    return mark


class Group:
    """Tools that are offered together: its methods that are marked by `offered`."""

    def __init__(self, kit: Kit) -> None:
        """Run the tools on the host and for the caller that `kit` holds."""
        self._kit = kit

    def tools(self) -> list[Tool]:
        """Return a tool for each marked method of the class itself, in the order in which they are defined."""
        return [
            tool(getattr(self, name), *getattr(method, _OFFER))
            for name, method in vars(type(self)).items()
            if hasattr(method, _OFFER)
        ]


def answer(value: object) -> CallToolResult:
    """Return a tool result with `value` as structured content and as Markdown, fenced if it carries recalled words."""
    structured: dict[str, Any] = neutralize_json(as_json(value))
    text = markdown(structured)
    # Text that is not fenced still has names of projects and sessions, which must not form a tag of ours.
    text = fence_text(text) if "origin" in structured else neutralize(text)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


#: Tools by the function of their method: another server's tool differs only in the instance it calls.
_MADE: dict[object, Tool] = {}


def tool(fn: Callable[..., Any], title: str, annotations: ToolAnnotations = READS, page: str = "") -> Tool:
    """Return a tool for a method, described by its docstring, with lean schemas made once; `page` is its page's address or "".

    The method's return annotation must be Annotated[CallToolResult, the dataclass of its response].
    """
    function = getattr(fn, "__func__", fn)
    if function not in _MADE:
        description = " ".join((fn.__doc__ or "").split())
        new_tool = Tool.from_function(
            fn,
            title=title,
            description=description,
            annotations=annotations,
            meta=page_meta(page) if page else None,
            structured_output=False,
        )
        new_tool.parameters = lean_input(new_tool.parameters)
        new_tool.fn_metadata.output_schema = output_schema(new_tool.name, get_args(fn.__annotations__["return"])[1])
        _MADE[function] = new_tool
    return _MADE[function].model_copy(update={"fn": fn})
