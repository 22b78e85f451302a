"""Every failure as an agent meets it: a code, whether a retry helps, a safe next step, no noise."""

from contextlib import closing
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

TELEPORTS = [
    ("teleport_search", "BM25 index not enabled", "teleport.bm25.enabled"),
    ("vector_teleport", "Vector index not enabled", "teleport.vector.enabled"),
    ("topics_by_query", "Topic graph not enabled", "topics.enabled"),
]


@requirement("error:teleport-search-unavailable", "error:vector-teleport-unavailable", "error:topics-unavailable")
@pytest.mark.parametrize(("tool", "message", "key"), TELEPORTS)
def test_a_layer_that_is_off_says_what_enables_it_and_what_to_use(era: str, tool: str, message: str, key: str) -> None:
    teleport = TeleportSettings(bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False))
    with closing(open_app(days=None, teleport=teleport, topics=TopicsSettings(enabled=False))) as app:
        text = Door(app, era).error(tool, query="jwt")
    assert text.startswith(f"UNAVAILABLE: {message}. Enable with {key} = true; use search_children meanwhile.")


def test_a_memory_that_keeps_no_topics_asks_for_no_switch(door: Door) -> None:
    for tool, arguments in (("topics_by_query", {"query": "jwt"}), ("get_top_topics", {}), ("pin", {"id": "topic:0123456789ab"})):
        text = door.error(tool, **arguments)
        assert text.startswith("UNAVAILABLE: Topic graph not enabled. A memory without a directory keeps no index;")
        assert "; use search_children meanwhile." in text


def test_a_master_switch_that_is_off_is_named(era: str) -> None:
    with closing(open_app(days=None, teleport=TeleportSettings(enabled=False))) as app:
        text = Door(app, era).error("teleport_search", query="jwt")
    assert "Enable with teleport.enabled = true;" in text


@requirement("bm25:FR-03.5")
@pytest.mark.parametrize(
    "tool", ["intelligent_search", "search_children", "teleport_search", "vector_teleport", "topics_by_query", "navigate"]
)
def test_an_empty_query_is_invalid_everywhere(door: Door, tool: str) -> None:
    without_index = tool in ("intelligent_search", "search_children", "navigate")
    for query in ("", "   ", "\n\t", *(["?! --"] if without_index else [])):
        assert door.error(tool, query=query).startswith("INVALID_ARGUMENT: the query is empty.")


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("intelligent_search", {}, "query is missing"),
        ("intelligent_search", {"query": "a", "limt": 3}, "unknown argument 'limt'. Did you mean 'limit'?"),
        ("get_retrieval_status", {"query": "a"}, "unknown argument 'query'. Arguments are detail."),
        ("intelligent_search", {"query": "a", "limit": 0}, "limit must be at least 1"),
        ("intelligent_search", {"query": "a", "limit": 0, "detail": "huge"}, "limit must be at least 1; detail must be"),
        ("intelligent_search", {"query": "a", "limit": 101}, "limit must be at most 100"),
        ("intelligent_search", {"query": "a", "limit": "many"}, "limit must be a whole number"),
        ("intelligent_search", {"query": "a", "limit": 2.5}, "limit must be a whole number"),
        ("intelligent_search", {"query": ["a"]}, "query must be text"),
        ("intelligent_search", {"query": "a" * 5000}, "query is too long: at most 4000"),
        ("intelligent_search", {"query": "a", "detail": "huge"}, "detail must be 'lean' or 'full'"),
        ("intelligent_search", {"query": "a", "scope": "world"}, "scope must be"),
        ("intelligent_search", {"query": "a", "bounds": {"max_deep": 3}}, "unknown argument 'bounds.max_deep'"),
        ("intelligent_search", {"query": "a", "bounds": {"beam_width": 9}}, "bounds.beam_width must be at most 5"),
        ("intelligent_search", {"query": "a", "bounds": "tight"}, "bounds must be an object"),
        ("intelligent_search", {"query": "a", "since": "yesterdayish"}, "invalid since: 'yesterdayish' (expected ISO 8601 or"),
        ("intelligent_search", {"query": "a", "as_of": "soon"}, "invalid as_of: 'soon'"),
        ("intelligent_search", {"query": "a", "since": "2026-02-01", "until": "2026-01-01"}, "since must lie before until"),
        ("intelligent_search", {"query": "a", "tz": "Middle/Earth"}, "unknown time zone: 'Middle/Earth'"),
        ("intelligent_search", {"query": "a", "cursor": "zzz"}, "the cursor is damaged"),
        ("search_children", {"query": "a", "fields": ["body"]}, "fields.0 must be 'title', 'summary', 'bullets' or 'keywords'"),
        ("search_children", {"query": "a", "child_level": "decade"}, "child_level must be"),
        ("browse_toc", {"node_id": "toc:day:tomorrow"}, "not a node id: 'toc:day:tomorrow'"),
        ("get_events", {"cursor": "zzz"}, "the cursor is damaged"),
        ("no_such_tool", {}, "unknown tool 'no_such_tool'"),
        ("intelligent_serach", {}, "unknown tool 'intelligent_serach'. Did you mean 'intelligent_search'?"),
    ],
)
def test_bad_arguments_are_named_in_plain_words(door: Door, tool: str, arguments: dict[str, Any], expected: str) -> None:
    text = door.error(tool, **arguments)
    assert text.startswith("INVALID_ARGUMENT: ")
    assert expected in text
    for noise in ("pydantic", "Error executing tool", "validation error", "http", "input_value"):
        assert noise not in text


def test_null_counts_as_not_given_and_numbers_as_times(door: Door) -> None:
    nulls = {"until": None, "project": None, "bounds": None, "cursor": None}
    found = door.full("intelligent_search", query="refresh token", since=1_768_950_000_000, token_budget=0, **nulls)
    assert found["results"]


@pytest.mark.parametrize("node_id", ["toc:day:1999-12-31", "toc:segment:2026-01-21:000000000000", "toc:year:2031"])
def test_an_unknown_node_is_not_found_with_a_way_on(door: Door, node_id: str) -> None:
    for tool, argument in (("browse_toc", "node_id"), ("search_children", "parent_id"), ("get_node", "node_id")):
        arguments = {argument: node_id} | ({"query": "a1"} if tool == "search_children" else {})
        text = door.error(tool, **arguments)
        assert text.startswith(f"NOT_FOUND: no node {node_id} here. Browse from the root")


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
    assert block.text.endswith("A retry may help (retryable: true)." if retry else "A retry of the same call will not help.")
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
        assert len(tools) == 9
        calls: dict[str, dict[str, Any]] = {
            "browse_toc": {},
            "get_retrieval_status": {},
            "intelligent_search": {"query": "a1"},
            "search_children": {"query": "a1"},
            "teleport_search": {"query": "a1"},
            "vector_teleport": {"query": "a1"},
            "topics_by_query": {"query": "a1"},
            "expand_grip": {"grip_id": "0123456789abcdef"},
            "remember": {"text": "a1"},
        }
        assert set(calls) == {t.name for t in tools}
        for tool, arguments in calls.items():
            text = door.error(tool, **arguments)
            assert text.startswith("LOCKED: the data directory D is in use by"), tool
            assert text.endswith("Wait for it to end. A retry may help (retryable: true).")
        held[0] = False
        assert door.ok("browse_toc")["children"]
    finally:
        app.close()
