"""The MCP server that checks the names of tools, arguments and prompts, and turns failures into errors of ours."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, cast

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool, ToolManager
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, LOG_LEVEL_META_KEY, CallToolResult, GetPromptResult, InputRequiredResult, TextContent
from pydantic import ValidationError

from memory_mcp.base import metrics
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.storable import storable_value
from memory_mcp.model.fencing import neutralize, neutralize_json
from memory_mcp.server.apps import hide_pages
from memory_mcp.server.calls import REVISIONS, Answer, is_plain_call, note_call
from memory_mcp.server.envelope import MODERN
from memory_mcp.server.errors import as_ours, as_protocol_error, check_names, describe
from memory_mcp.server.progress import report_progress

#: The library's middleware that traces every request.
_TRACING = "OpenTelemetryMiddleware"


class _LazyTools(ToolManager):
    """Makes each tool when it is first needed: most connections call two or three."""

    def __init__(self, makers: Mapping[str, Callable[[], Tool]]) -> None:
        super().__init__()
        self._makers = makers

    def get_tool(self, name: str) -> Tool | None:
        if name in self._makers and name not in self._tools:
            self._tools[name] = self._makers[name]()
        return super().get_tool(name)

    def list_tools(self) -> list[Tool]:
        tools = {name: tool for name in self._makers if (tool := self.get_tool(name)) is not None}
        return [*tools.values(), *(tool for tool in super().list_tools() if tool.name not in tools)]


class MemoryServer(MCPServer[Any]):
    """An MCPServer that checks arguments and raises our own errors."""

    def __init__(self, name: str, tools: Mapping[str, Callable[[], Tool]], **settings: Any) -> None:
        """Offer `tools`, each made when it is first called or listed."""
        super().__init__(name, middleware=[_guard_request, hide_pages, self._answer_call], **settings)
        low = self._lowlevel_server
        low.middleware = [partial(_trace_request, m) if type(m).__name__ == _TRACING else m for m in low.middleware]
        self._tool_manager = _LazyTools(tools)
        self._ours = tuple(tools)
        #: Called with a tool's name before it runs; raises where the caller may not use it.
        self.allow: Callable[[str], None] = lambda _: None

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Run a tool and return its result.

        An argument that is null counts as not given. The call is counted, timed and logged.

        Raises:
            MCPError: An error of the protocol; every other failure is returned as an error result.

        """
        if name not in self._ours and self._tool_manager.get_tool(name) is not None:
            # Added behind our back, with errors of its own kind.
            return await super().call_tool(name, arguments, context)
        began = time.perf_counter()
        outcome = "cancelled"
        try:
            result = await self._call(name, arguments, context)
            outcome = "ok"
            return result
        except MCPError:
            outcome = "protocol_error"
            raise
        except Exception as error:
            ours = as_ours(error, name)
            outcome = ours.code
            # Text only: clients check structured content against the output schema.
            return CallToolResult(content=[TextContent(type="text", text=describe(ours))], is_error=True)
        finally:
            note_call(name if name in self._ours else "unknown", outcome, began)

    async def _answer_call(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Carry out a plain call of a tool of ours; any other request is the library's.

        Middleware, the innermost. The library would check the parameters three times, and dump, check and dump the result again:
        half a millisecond.
        """
        params = ctx.params
        if ctx.method != "tools/call" or params is None or not _is_plain_call(ctx) or params["name"] not in self._ours:
            return await call_next(ctx)
        context: Context[Any, Any] = Context(request_context=ctx, mcp_server=self)
        # Tools of ours never ask back.
        result = cast("CallToolResult", await self.call_tool(params["name"], params.get("arguments") or {}, context))
        text = "".join(block.text for block in result.content if isinstance(block, TextContent))
        return Answer(text, result.structured_content, result.is_error).as_result(ctx.protocol_version == MODERN)

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Return a rendered prompt.

        Raises MCPError with our text for an unknown name; raises what rendering does.
        """
        names = [prompt.name for prompt in await self.list_prompts()]
        if name not in names:
            error = InvalidQuery(f"unknown prompt {name!r}", f"Prompts are {', '.join(names)}.")
            raise MCPError(code=INVALID_PARAMS, message=describe(error)) from error
        return await super().get_prompt(name, arguments, context)

    async def _call(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None
    ) -> CallToolResult | InputRequiredResult:
        """Check a call, run its tool and return the result.

        Raises InvalidQuery for an unknown tool or argument, what `allow` raises, ValidationError for
        arguments of another type, and what the tool raises.
        """
        if name not in self._ours:
            near = get_close_matches(name, self._ours, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Tools are {', '.join(self._ours)}."
            raise InvalidQuery(f"unknown tool {name!r}", hint)
        self.allow(name)
        tool = cast("Tool", self._tool_manager.get_tool(name))
        filled = {k: v for k, v in arguments.items() if v is not None}
        check_names(filled, tool.parameters.get("properties", {}))
        validated = tool.fn_metadata.validate_arguments(filled)
        if tool.context_kwarg is not None:
            validated[tool.context_kwarg] = context
        async with nullcontext() if context is None else report_progress(partial(_tell_progress, context), name):
            return tool.fn_metadata.convert_result(await tool.fn(**validated))


async def _tell_progress(context: Context[Any, Any], seconds: float, text: str) -> None:
    await context.report_progress(seconds, None, text)


def _is_plain_call(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether a call has only a name, arguments and well-formed metadata, of a client that has said who it is."""
    params = ctx.params
    return (
        ctx.protocol_version in {*REVISIONS, MODERN}
        and ctx.session.client_params is not None
        and is_plain_call(params)
        and ("_meta" not in params or (ctx.meta is not None and LOG_LEVEL_META_KEY not in ctx.meta))
    )


async def _trace_request(
    tracing: ServerMiddleware[Any], ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Have a request traced where somebody hears of it. Middleware."""
    return await (tracing(ctx, call_next) if metrics.is_traced() else call_next(ctx))


async def _guard_request(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Pass on storable text only, and turn failures into protocol errors.

    Middleware. What spells a tag of ours is taken out of its text: it may be in a name that the error repeats. Malformed
    parameters are the library's to tell.
    """
    try:
        params = storable_value(ctx.params)
        return await call_next(ctx if params is ctx.params else replace(ctx, params=params))
    except MCPError as error:
        message, data = neutralize(error.message), neutralize_json(error.data)
        if (message, data) == (error.message, error.data):
            raise
        raise MCPError(error.code, message, data) from error
    except ValidationError:
        raise
    except Exception as error:
        raise as_protocol_error(error, ctx.method) from error
