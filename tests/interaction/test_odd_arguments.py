"""Odd arguments over DuckDB: taken, or refused in our words, by every tool, prompt, resource and completion."""

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.interaction.conftest import Door
from tests.interaction.odd import check_odd_arguments


def test_odd_arguments_are_taken_or_refused_in_our_words(own: Door, pytestconfig: pytest.Config) -> None:
    tools = [tool.model_dump(by_alias=True) for tool in own.run(lambda client: client.list_tools()).tools]

    def ask(method: str, **params: Any) -> str:
        async def sent(client: Client) -> str:
            try:
                if method == "tools/call":
                    found: Any = await client.call_tool(params["name"], params["arguments"])
                elif method == "resources/read":
                    found = await client.read_resource(params["uri"])
                elif method == "prompts/get":
                    found = await client.get_prompt(params["name"], params["arguments"])
                else:
                    return "left to the processes"
                return str(found.model_dump_json())
            except (MCPError, ValueError) as error:
                # A client refuses half a character itself.
                return "" if isinstance(error, UnicodeError) else json.dumps(str(error))

        return own.run(sent)

    check_odd_arguments(ask, tools, pytestconfig.getoption("slow"))
