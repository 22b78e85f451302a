"""The MCP server that checks the names of tools, arguments and prompts, and turns failures into errors of ours."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult
from pydantic import ValidationError

from memory_mcp.base import metrics
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.storable import storable_value
from memory_mcp.model.fencing import neutralize, neutralize_json
from memory_mcp.server.apps import hide_pages
from memory_mcp.server.errors import as_ours, as_protocol_error, check_names, describe, error_result

log = logging.getLogger(__name__)

#: A call that takes long reports its progress this often (seconds).
PROGRESS_SECONDS = 1.0


class MemoryServer(MCPServer[Any]):
    """An MCPServer that checks arguments and raises our own errors."""

    def __init__(self, name: str, tools: Sequence[Tool], **settings: Any) -> None:
        super().__init__(name, tools=list(tools), middleware=[_guard_request, hide_pages], **settings)
        self._ours: Mapping[str, Tool] = {t.name: t for t in tools}
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
            return error_result(ours)
        finally:
            # The log has the tool, its outcome and its time, and nothing of what was said.
            tool = name if name in self._ours else "unknown"
            seconds = time.perf_counter() - began
            metrics.count("tool_calls_total", tool=tool, outcome=outcome)
            metrics.observe("tool_latency_seconds", seconds, tool=tool)
            log.info("%s %s %.1f ms", tool, outcome, 1000 * seconds)

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
            near = get_close_matches(name, list(self._ours), n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Tools are {', '.join(self._ours)}."
            raise InvalidQuery(f"unknown tool {name!r}", hint)
        self.allow(name)
        tool = self._ours[name]
        filled = {k: v for k, v in arguments.items() if v is not None}
        check_names(filled, tool.parameters.get("properties", {}))
        validated = tool.fn_metadata.validate_arguments(filled)
        if tool.context_kwarg is not None:
            validated[tool.context_kwarg] = context
        async with _progress(context, name):
            return tool.fn_metadata.convert_result(await tool.fn(**validated))


async def _guard_request(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Pass on storable text only, and turn failures into protocol errors.

    Middleware. What spells a tag of ours is taken out of its text: it may be in a name that the error repeats. Malformed
    parameters are the library's to tell.
    """
    try:
        return await call_next(replace(ctx, params=storable_value(ctx.params)))
    except MCPError as error:
        message, data = neutralize(error.message), neutralize_json(error.data)
        if (message, data) == (error.message, error.data):
            raise
        raise MCPError(error.code, message, data) from error
    except ValidationError:
        raise
    except Exception as error:
        raise as_protocol_error(error, ctx.method) from error


@asynccontextmanager
async def _progress(context: Context[Any, Any] | None, name: str) -> AsyncIterator[None]:
    """Report the seconds that a call has taken, every `PROGRESS_SECONDS`."""
    if context is None:
        yield
        return
    client = context

    async def tell() -> None:
        for count in itertools.count(1):
            await anyio.sleep(PROGRESS_SECONDS)
            seconds = count * PROGRESS_SECONDS
            await client.report_progress(seconds, None, f"{name}: {seconds:.0f} s")

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
