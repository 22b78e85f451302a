"""Makes MCP tools of requests: arguments of their fields, descriptions of their docstrings, schemas of their responses."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from functools import cache, partial
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, cast, get_args, get_origin

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, create_model

from memory_mcp.requests.entry import Effect, Entry
from memory_mcp.requests.limits import Argument
from memory_mcp.server.apps import page_meta
from memory_mcp.server.arguments import list_arguments
from memory_mcp.server.caller import agent_name, relay_key
from memory_mcp.server.calls import Answer, Kit, make_request
from memory_mcp.server.schema import lean_input, output_schema

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


def make_tool(kit: Kit, entry: Entry) -> Tool:
    """Return the tool of a request."""
    return bind_tool(entry, partial(kit.answer, entry))


def bind_tool(entry: Entry, run: Callable[[Any], Awaitable[Answer]]) -> Tool:
    """Return the tool of a request that `run` carries out."""

    async def call(ctx: Context[Any, Any] | None, **values: Any) -> CallToolResult:
        checked = {name: _build_value(value) for name, value in values.items()}
        answer = await run(make_request(entry.request, checked, *_identify_caller(ctx)))
        return CallToolResult(content=[TextContent(type="text", text=answer.text)], structured_content=answer.structured)

    return _template(entry).model_copy(update={"fn": call})


def _identify_caller(ctx: Context[Any, Any] | None) -> tuple[str, Callable[[str], str]]:
    """Return the client's name, and what finds a call's idempotency key."""
    if ctx is None:
        return agent_name(""), partial(relay_key, {})
    params = ctx.request_context.session.client_params
    meta: Mapping[str, Any] = ctx.request_context.meta or {}
    return agent_name(params.client_info.name if params is not None else ""), partial(relay_key, meta)


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


def _list_arguments(kind: Any) -> list[tuple[str, Any, Any]]:
    """Return name, checked type and default of the fields that are arguments."""
    # A list that is not given is None for the library, as a value that everyone shares could be changed.
    return [
        (
            name,
            _checked_type(Annotated[hint, argument], default),
            Parameter.empty if default is MISSING else None if default == () else default,
        )
        for name, (hint, argument, default) in list_arguments(kind).items()
    ]


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


def _build_value(value: Any) -> Any:
    """Return a checked value without the library's models; what is None in one is left to its default."""
    if isinstance(value, _Model):
        return value.dataclass(**{name: _build_value(inner) for name, inner in value if inner is not None})
    return tuple(map(_build_value, value)) if isinstance(value, list) else value
