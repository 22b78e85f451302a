"""Makes MCP tools of requests: arguments of their fields, descriptions of their docstrings, schemas of their responses."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, cast, get_args, get_origin, get_type_hints

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, create_model

from memory_mcp.app import App
from memory_mcp.model.fencing import fence_text, neutralize, neutralize_json
from memory_mcp.requests.entry import Effect, Entry
from memory_mcp.requests.limits import Argument
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller
from memory_mcp.server.apps import page_meta
from memory_mcp.server.caller import CALLER, agent_of, request_key
from memory_mcp.server.host import Host
from memory_mcp.server.markdown import markdown
from memory_mcp.server.schema import lean_input
from memory_mcp.server.wire import output_schema

#: What clients are told of a tool: none of them knows anything but the memory, and none takes anything away.
_HINTS = {
    effect: ToolAnnotations(
        read_only_hint=effect is Effect.READS,
        destructive_hint=False,
        idempotent_hint=effect is not Effect.ADDS,
        open_world_hint=False,
    )
    for effect in Effect
}
#: Fields that the server fills: who acts, and the key under which a call is carried out once.
_AUTHOR, _KEY = "by", "idempotency_key"


@dataclass(frozen=True, slots=True)
class Kit:
    """The host and the caller, as tools, resources and prompts have them."""

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
        """Run a request that only reads; raises what its handler or opening raises."""
        return make_result(await self.host.read(self._responder(request)))

    async def write(self, request: Any) -> CallToolResult:
        """Run a request that writes, to its end even if the client cancels."""
        return make_result(await self.host.write(self._responder(request)))

    def _responder(self, request: Any) -> Callable[[App], dict[str, Any]]:
        caller = self.caller
        return lambda app: self.host.with_notices(app, as_json(respond(app, request, caller)))


def make_result(value: object) -> CallToolResult:
    """Return a tool result with `value` as structured content and as Markdown, fenced if it carries recalled words."""
    structured: dict[str, Any] = neutralize_json(as_json(value))
    text = markdown(structured)
    # Text that is not fenced still has names of projects and sessions, which must not form a tag of ours.
    text = fence_text(text) if "origin" in structured else neutralize(text)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def make_tool(kit: Kit, entry: Entry) -> Tool:
    """Return the tool of a request."""
    return bind_tool(entry, kit.ask if entry.effect is Effect.READS else kit.write)


def bind_tool(entry: Entry, run: Callable[[Any], Awaitable[CallToolResult]]) -> Tool:
    """Return the tool of a request that `run` carries out."""

    async def call(ctx: Context[Any, Any], **values: Any) -> CallToolResult:
        names = {field.name for field in fields(entry.request)}
        if _AUTHOR in names:
            values[_AUTHOR] = agent_of(ctx)
        if _KEY in names:
            values[_KEY] = request_key(ctx, values.get(_KEY, ""))
        return await run(_build(entry.request, values))

    return _template(entry).model_copy(update={"fn": call})


@cache
def _template(entry: Entry) -> Tool:
    """Return a tool whose function only has the signature: schemas are made once, whatever servers there are."""

    def call() -> None: ...

    # The library reads a tool's arguments from the signature of its function.
    call.__signature__ = Signature(_parameters(entry.request))  # type: ignore[attr-defined]
    tool = Tool.from_function(
        call,
        name=entry.name,
        title=entry.title,
        description=" ".join((entry.request.__doc__ or "").split()),
        context_kwarg="ctx",
        annotations=_HINTS[entry.effect],
        meta=page_meta(entry.page) if entry.page else None,
        structured_output=False,
    )
    tool.parameters = lean_input(tool.parameters)
    tool.fn_metadata.output_schema = output_schema(entry.name, entry.response)
    return tool


def _parameters(kind: type[Any]) -> list[Parameter]:
    arguments = _list_arguments(kind)
    return [Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint, default=default) for name, hint, default in arguments]


def _list_arguments(kind: type[Any]) -> list[tuple[str, Any, Any]]:
    """Return name, checked type and default of the fields that are arguments."""
    hints, arguments = get_type_hints(kind, include_extras=True), list[tuple[str, Any, Any]]()
    for field in fields(kind):
        hint = hints[field.name]
        if get_origin(hint) is not Annotated or not get_args(hint)[1].is_for_tools:
            continue
        default = Parameter.empty if field.default is MISSING else field.default
        # A list that is not given is None for the library, as a value that everyone shares could be changed.
        arguments.append((field.name, _checked_type(hint, default), None if default == () else default))
    return arguments


def _checked_type(hint: Any, default: Any = None) -> Any:
    """Return the type by which the library checks a value; one of a list of values may be "" where that is the default."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        argument: Argument = inner[1]
        # Members of an enum would be told by their names.
        values = tuple(map(str, argument.values))
        checked = Literal[("", *values) if default == "" else values] if values else _checked_type(inner[0])
        return Annotated[checked | None if default == () else checked, _constrain(argument)]
    if origin is UnionType:
        return _checked_type(inner[0]) | None
    if origin is not None and issubclass(origin, Sequence):
        return list[_checked_type(inner[0])]  # type: ignore[misc]
    return _model_of(cast("type[Any]", hint)) if is_dataclass(hint) else hint


def _constrain(argument: Argument) -> Any:
    return Field(
        description=argument.description or None,
        ge=None if argument.range is None else argument.range.least,
        le=None if argument.range is None else argument.range.most,
        min_length=argument.shortest,
        max_length=argument.longest,
        coerce_numbers_to_str=argument.takes_numbers or None,
    )


class _Model(BaseModel):
    """An argument that is an object; `dataclass` is what it becomes."""

    model_config = ConfigDict(extra="forbid")

    dataclass: ClassVar[type[Any]]


def _model_of(kind: type[Any]) -> type[_Model]:
    arguments: dict[str, Any] = {
        name: (hint, ... if default is Parameter.empty else default) for name, hint, default in _list_arguments(kind)
    }
    model: type[_Model] = create_model(kind.__name__, __base__=_Model, **arguments)
    model.dataclass = kind
    return model


def _build(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Return the request of checked values; what is None is left to its default."""
    return kind(**{name: _build_value(value) for name, value in values.items() if value is not None})


def _build_value(value: Any) -> Any:
    if isinstance(value, _Model):
        return _build(value.dataclass, dict(value))
    return tuple(map(_build_value, value)) if isinstance(value, list) else value
