"""A request that is made up in one file is a tool, has flags, and is described by the reference."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.cli.commands.base import add_flags, read_request
from memory_mcp.cli.main import Parser
from memory_mcp.requests import entry, registry
from tests.interaction.conftest import Door, open_app

ROOT = Path(__file__).parents[2]
SOURCE = '''
from dataclasses import dataclass
from typing import Annotated

from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import Argument, Flag, Range


@dataclass(frozen=True, slots=True)
class CountBoats:
    """How many boats a harbour holds."""

    harbour: Annotated[str, Argument("Its name", longest=9, flag=Flag("NAME", "the harbour"))]
    kinds: Annotated[tuple[str, ...], Argument("Default: all", flag=Flag("K,K", "only these", has_commas=True))] = ()
    limit: Annotated[int, arguments.most("boats", Range(5, most=7))] = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Boats:
    harbour: str
    count: Annotated[int, "Of all kinds"]


@answers("count_boats", CountBoats, "Boats")
def count_boats(app, request, caller) -> Boats:
    return Boats(harbour=request.harbour, count=request.limit + len(request.kinds))
'''


@pytest.fixture
def boats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Any]]:
    """The type of the request, whose file and line in the registry are there as long as the test."""
    (tmp_path / "made_up_boats.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.DEFAULT_TOOLS, "count_boats", "made_up_boats")
    monkeypatch.setitem(registry.REQUESTS, "count_boats", "made_up_boats")
    made = registry.load_entry("count_boats")
    yield made.request
    del entry.ENTRIES["count_boats"], entry.BY_TYPE[made.request], sys.modules["made_up_boats"]


def test_it_is_a_tool(boats: type[Any]) -> None:
    app = open_app(days=None)
    door = Door(app, "auto")
    assert door.ok("count_boats", harbour="Norddeich", kinds=["cutter", "yawl"], limit=6) == {"harbour": "Norddeich", "count": 8}
    assert "limit must be at most 7" in door.error("count_boats", harbour="Norddeich", limit=8)
    assert "harbour is too long" in door.error("count_boats", harbour="Wilhelmshaven")
    [tool] = [tool for tool in door.run(lambda client: client.list_tools()).tools if tool.name == "count_boats"]
    assert (tool.title, tool.description) == ("Boats", "How many boats a harbour holds.")
    assert tool.input_schema["properties"]["limit"] == {"default": 5, "maximum": 7, "minimum": 1, "type": "integer"}
    assert tool.output_schema is not None
    assert tool.output_schema["properties"]["count"] == {"description": "Of all kinds", "type": "integer"}
    app.close()


def test_it_has_flags(boats: type[Any]) -> None:
    parser = Parser(prog="boats")
    add_flags(parser, boats)
    for words in ("--harbour NAME", "the harbour", "--kinds K,K", "--limit N", "most boats (5)"):
        assert words in parser.format_help()
    assert read_request(parser.parse_args(["--harbour", "Emden", "--kinds", "cutter, yawl"]), boats) == boats(
        "Emden", ("cutter", "yawl"), 5
    )


def test_the_reference_describes_it(boats: type[Any]) -> None:
    page = "\n".join(runpy.run_path(str(ROOT / "docs" / "reference.py"))["tools"]())
    assert "### count_boats" in page
    assert "| `harbour` | text | needed | Its name |" in page
