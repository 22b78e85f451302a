"""The one place every tool call passes: names checked, nulls dropped, any failure turned into an error an agent can use."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, InputRequiredResult

from memory_mcp.server.errors import as_ours, check_names, check_tool, error_result


class MemoryServer(MCPServer[Any]):
    """MCPServer whose tool errors are ours."""

    def __init__(self, name: str, tools: Sequence[Tool], **settings: Any) -> None:
        super().__init__(name, tools=list(tools), **settings)
        self._by_name: Mapping[str, Tool] = {t.name: t for t in tools}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """See MCPServer; never raises but for protocol errors. An argument that is null counts as not given."""
        try:
            check_tool(name, self._by_name)
            tool = self._by_name[name]
            given = {k: v for k, v in arguments.items() if v is not None}
            check_names(given, tool.parameters.get("properties", {}))
            validated = tool.fn_metadata.validate_arguments(given)
            if tool.context_kwarg is not None:
                validated[tool.context_kwarg] = context
            return tool.fn_metadata.convert_result(await tool.fn(**validated))
        except MCPError:
            raise
        except Exception as error:
            return error_result(as_ours(error, name))
