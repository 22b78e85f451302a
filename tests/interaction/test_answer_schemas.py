"""The published schemas of answers, which are made from the responses."""

import json
from pathlib import Path
from typing import Any

from tests.interaction.conftest import Door

SNAPSHOT = Path(__file__).parent / "answers.json"


def test_schemas_of_answers_are_those_of_the_snapshot(door: Door) -> None:
    """A change here is a change for every agent: look at it, then write the file anew from the failure's left side."""

    async def listed(client: Any) -> Any:
        return await client.list_tools()

    current = {tool.name: tool.output_schema for tool in door.run(listed).tools}
    assert current == json.loads(SNAPSHOT.read_text(encoding="utf-8"))
