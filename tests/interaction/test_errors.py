"""Every failure as an agent meets it: a code, whether a retry helps, a safe next step, no noise."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp.types import TextContent

from memory_mcp.app import App
from memory_mcp.base.errors import (
    DeadlineExceeded,
    LayerUnavailable,
    MemoryMcpError,
    ResourceExhausted,
    StorageError,
    StorageLocked,
)
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, TopicsSettings, VectorSettings
from memory_mcp.server.build import assemble
from memory_mcp.server.errors import hint_of
from memory_mcp.server.host import Host
from tests.interaction.conftest import Door, open_app
from tests.requirements import requirement
from tests.snapshots import assert_same

SNAPSHOT = Path(__file__).with_name("refusals.json")
#: The tool of each kind of index.
TELEPORTS = ("teleport_search", "vector_teleport", "topics_by_query")


@requirement("error:teleport-search-unavailable", "error:vector-teleport-unavailable", "error:topics-unavailable")
def test_a_layer_that_is_off_says_what_enables_it_and_what_to_use(era: str) -> None:
    each_off = TeleportSettings(bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False))
    no_topics, usual = TopicsSettings(enabled=False), TopicsSettings()
    for part, teleport, topics in (
        ("each index off", each_off, no_topics),
        ("master switch off", TeleportSettings(enabled=False), usual),
        ("a memory without a directory", TeleportSettings(), usual),
    ):
        with closing(open_app(days=None, teleport=teleport, topics=topics)) as app:
            refusals = {tool: Door(app, era).error(tool, query="jwt") for tool in TELEPORTS}
        assert {text.partition(":")[0] for text in refusals.values()} == {"UNAVAILABLE"}
        assert_same(SNAPSHOT, part, refusals)


@pytest.mark.parametrize(("tool", "arguments"), [("get_top_topics", {}), ("pin", {"id": "topic:0123456789ab"})])
def test_what_needs_topics_is_refused_alike(door: Door, tool: str, arguments: dict[str, Any]) -> None:
    assert door.error(tool, **arguments) == door.error("topics_by_query", query="jwt")


@requirement("bm25:FR-03.5")
@pytest.mark.parametrize(
    "tool", ["intelligent_search", "search_children", "teleport_search", "vector_teleport", "topics_by_query", "navigate"]
)
def test_an_empty_query_is_invalid_everywhere(door: Door, tool: str) -> None:
    without_index = tool in ("intelligent_search", "search_children", "navigate")
    for query in ("", "   ", "\n\t", *(["?! --"] if without_index else [])):
        assert door.error(tool, query=query).startswith("INVALID_ARGUMENT: the query is empty.")


BAD_ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("intelligent_search", {}),
    ("intelligent_search", {"query": "a", "limt": 3}),
    ("get_retrieval_status", {"query": "a"}),
    ("intelligent_search", {"query": "a", "limit": 0}),
    ("intelligent_search", {"query": "a", "limit": 0, "detail": "huge"}),
    ("intelligent_search", {"query": "a", "limit": 101}),
    ("intelligent_search", {"query": "a", "limit": "many"}),
    ("intelligent_search", {"query": "a", "limit": 2.5}),
    ("intelligent_search", {"query": ["a"]}),
    ("intelligent_search", {"query": "a" * 5000}),
    ("intelligent_search", {"query": "a", "detail": "huge"}),
    ("intelligent_search", {"query": "a", "scope": "world"}),
    ("intelligent_search", {"query": "a", "bounds": {"max_deep": 3}}),
    ("intelligent_search", {"query": "a", "bounds": {"beam_width": 9}}),
    ("intelligent_search", {"query": "a", "bounds": "tight"}),
    ("intelligent_search", {"query": "a", "since": "yesterdayish"}),
    ("intelligent_search", {"query": "a", "as_of": "soon"}),
    ("intelligent_search", {"query": "a", "since": "2026-02-01", "until": "2026-01-01"}),
    ("intelligent_search", {"query": "a", "tz": "Middle/Earth"}),
    ("intelligent_search", {"query": "a", "cursor": "zzz"}),
    ("search_children", {"query": "a", "fields": ["body"]}),
    ("search_children", {"query": "a", "child_level": "decade"}),
    ("browse_toc", {"node_id": "toc:day:tomorrow"}),
    ("get_events", {"cursor": "zzz"}),
    ("no_such_tool", {}),
    ("intelligent_serach", {}),
]


def test_bad_arguments_are_refused_in_the_words_of_the_snapshot(door: Door) -> None:
    refusals = {f"{tool} {json.dumps(arguments)}"[:100]: door.error(tool, **arguments) for tool, arguments in BAD_ARGUMENTS}
    assert len(refusals) == len(BAD_ARGUMENTS)
    for text in refusals.values():
        assert text.startswith("INVALID_ARGUMENT: ")
        for noise in ("pydantic", "Error executing tool", "validation error", "http", "input_value"):
            assert noise not in text
    assert_same(SNAPSHOT, "bad arguments", refusals)


def test_null_counts_as_not_given_and_numbers_as_times(door: Door) -> None:
    nulls = {"until": None, "project": None, "bounds": None, "cursor": None}
    found = door.full("intelligent_search", query="refresh token", since=1_768_950_000_000, token_budget=0, **nulls)
    assert found["results"]


@pytest.mark.parametrize("node_id", ["toc:day:1999-12-31", "toc:segment:2026-01-21:000000000000", "toc:year:2031"])
def test_an_unknown_node_is_not_found_with_a_way_on(door: Door, node_id: str) -> None:
    for tool, argument in (("browse_toc", "node_id"), ("search_children", "parent_id"), ("get_node", "node_id")):
        arguments = {argument: node_id} | ({"query": "a1"} if tool == "search_children" else {})
        text = door.error(tool, **arguments)
        assert text.startswith("NOT_FOUND: ")
        assert node_id in text


def test_an_error_has_no_structured_part_since_clients_check_it_against_the_output_schema(door: Door) -> None:
    found = door.call("teleport_search", query="jwt")
    assert found.is_error
    [block] = found.content
    assert isinstance(block, TextContent)
    assert block.text.startswith("UNAVAILABLE: ")
    assert found.structured_content is None


@requirement("error:other-errors-propagate")
@pytest.mark.parametrize(
    ("error", "start", "retry"),
    [
        (DeadlineExceeded("Timeout exceeded"), "DEADLINE_EXCEEDED: Timeout exceeded. Give more time", True),
        (ResourceExhausted("too much", "Ask for less."), "RESOURCE_EXHAUSTED: too much. Ask for less.", False),
        (StorageError("the disk is full", "Free some space."), "INTERNAL: the disk is full. Free some space.", False),
        (LayerUnavailable("the index is rebuilding"), "UNAVAILABLE: the index is rebuilding. get_retrieval_status", False),
        (RuntimeError("secret /home/me/key"), "INTERNAL: unexpected failure inside memory-mcp. The log", False),
    ],
)
def test_a_failure_inside_arrives_with_its_code_and_nothing_private(era: str, error: Exception, start: str, retry: bool) -> None:

    def fail(*_: object, **__: object) -> None:
        raise error

    with closing(open_app(days=None)) as app:
        app.ask = fail  # type: ignore[method-assign, assignment]
        found = Door(app, era).call("intelligent_search", query="a")
    [block] = found.content
    assert isinstance(block, TextContent)
    assert block.text.startswith(start)
    assert ("(retryable: true)" in block.text) is retry
    assert "secret" not in block.text
    assert "Traceback" not in block.text


def below(kind: type[MemoryMcpError]) -> set[type[MemoryMcpError]]:
    """A class of errors and all that are made of it, but for private ones, which carry the words of another process."""
    return {kind}.union(*(below(one) for one in kind.__subclasses__() if not one.__name__.startswith("_")))


def test_every_error_has_words_for_its_code_and_none_suggests_deleting_anything() -> None:
    """Those that any code of ours can carry, by their hints."""
    for kind in below(MemoryMcpError):
        text = hint_of(kind("It failed.")).lower()
        assert text, kind
        assert "delete" not in text
        assert "remove" not in text


def test_a_locked_store_answers_every_tool_with_its_error_and_works_once_it_is_free(era: str) -> None:
    """The server starts; the first call after the other process has ended succeeds."""
    app = open_app()
    held = [True]

    def opener() -> App:
        if held[0]:
            raise StorageLocked("the data directory D is in use by `memory-mcp serve` (process 7)", "Wait for it to end.")
        return app

    door = Door(app, era)
    door.server = assemble(Host(Settings(), opener), "")
    try:
        tools = door.run(lambda client: client.list_tools()).tools
        assert len(tools) == 11
        calls: dict[str, dict[str, Any]] = {
            "browse_toc": {},
            "get_retrieval_status": {},
            "intelligent_search": {"query": "a1"},
            "search_children": {"query": "a1"},
            "teleport_search": {"query": "a1"},
            "vector_teleport": {"query": "a1"},
            "topics_by_query": {"query": "a1"},
            "expand_grip": {"grip_id": "0123456789abcdef"},
            "recall_for": {"error": "a1"},
            "continue_session": {},
            "remember": {"text": "a1"},
        }
        assert set(calls) == {t.name for t in tools}
        for tool, arguments in calls.items():
            text = door.error(tool, **arguments)
            assert text.startswith("LOCKED: "), tool
            assert text.endswith("(retryable: true).")
        held[0] = False
        assert door.ok("browse_toc")["children"]
    finally:
        app.close()
