"""The program the plugin's documents are held against: the real server with all its tools, and with its default ones."""

import pytest
from mcp import Client
from mcp.types import Tool

from tests.interaction.conftest import Door, open_app
from tests.skills.documents import Program


def tools_of(profile: str) -> list[Tool]:
    """What a client is offered in a profile."""

    async def listed(client: Client) -> list[Tool]:
        return list((await client.list_tools()).tools)

    app = open_app(profile, days=None)
    try:
        return Door(app, "auto").run(listed)
    finally:
        app.close()


@pytest.fixture(scope="session")
def program() -> Program:
    return Program(tools_of("full"), tools_of("default"))
