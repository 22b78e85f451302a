"""What every connection pays for: names, schemas, sizes, instructions."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.requests.entry import Effect
from memory_mcp.requests.registry import DEFAULT_TOOLS, FULL_TOOLS, load_entry
from memory_mcp.server.build import instructions
from tests.interaction.conftest import Door, open_app
from tests.requirements import requirement

SNAPSHOT = Path(__file__).parent / "tools.json"
DEFAULT = [
    "intelligent_search",
    "recall_for",
    "continue_session",
    "get_retrieval_status",
    "browse_toc",
    "search_children",
    "teleport_search",
    "vector_teleport",
    "topics_by_query",
    "expand_grip",
    "remember",
]
TREE = ["get_toc_root", "get_node", "get_events", "search_node", "navigate"]
INDEXES = ["hybrid_search", "get_teleport_status", "get_vector_index_status", "rebuild_index", "prune_index"]
DECIDE = ["plan_query", "classify_query"]
REFINE = ["refine_due", "refine_show", "refine_summary"]
TOPICS = ["get_top_topics", "get_toc_nodes_for_topic", "get_related_topics", "label_topic", "get_topic_graph_status"]
PROJECTS = ["list_projects", "list_agents", "get_agent_activity", "alias_project", "split_project", "undo_project"]
LAST = ["forget", "pause_capture", "resume_capture"]
FULL = [*TREE, *DECIDE, *INDEXES, *TOPICS, "ingest_events", "handoff", *REFINE, "pin", "correct", "retract", *PROJECTS, *LAST]
STATEMENTS = ["remember", "ingest_events", "refine_summary", "label_topic", "pin", "correct", "retract"]
WRITES = {*STATEMENTS, "rebuild_index", "prune_index", *PROJECTS[3:], *LAST}


def test_requests_that_write_are_those_whose_tools_say_so() -> None:
    assert {name for name in (*DEFAULT_TOOLS, *FULL_TOOLS) if load_entry(name).effect is not Effect.READS} == WRITES


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


@pytest.fixture(scope="module")
def default() -> Any:
    app = open_app(days=None)
    yield Door(app, "auto")
    app.close()


def tools(door: Door) -> list[Any]:
    return list(door.run(lambda client: client.list_tools()).tools)


def test_the_eleven_tools_of_the_default_profile_stay_within_their_bytes(
    default: Door,
) -> None:
    assert [t.name for t in tools(default)] == DEFAULT
    total = sum(size({"name": t.name, "description": t.description, "inputSchema": t.input_schema}) for t in tools(default))
    assert total <= 11_200
    assert sum(size(t.output_schema) for t in tools(default)) <= 9_100


def test_the_full_profile_adds_the_rest_behind_them(door: Door) -> None:
    assert [t.name for t in tools(door)] == DEFAULT + FULL


@requirement("plan:risk-semantic-gap")
def test_the_instructions_stay_below_two_kilobytes_arrive_and_say_that_words_are_matched_and_not_meanings(door: Door) -> None:
    async def told(client: Any) -> str | None:
        return str(client.instructions)

    assert door.run(told) == instructions()
    assert len(instructions().encode()) < 2_000
    assert "tiers 4 and 5 match words and their stems, not meanings" in instructions()


def test_instructions_and_descriptions_name_only_tools_that_exist(default: Door) -> None:
    text = " ".join([instructions(), *(str(t.description) for t in tools(default))])
    words = set(re.findall(r"[a-z]+(?:_[a-z]+)*", text))
    assert words & set(FULL) == set()
    assert words >= set(DEFAULT) - {"get_retrieval_status"}


def test_every_tool_says_whether_it_writes_and_no_schema_holds_nulls_titles_or_open_ends(door: Door) -> None:
    for tool in tools(door):
        assert tool.input_schema["additionalProperties"] is False, tool.name
        for schema in (tool.input_schema, tool.output_schema):
            text = json.dumps(schema)
            assert '"null"' not in text, tool.name
            assert "anyOf" not in text, tool.name
            assert '"title": "' not in text, tool.name
        notes = tool.annotations
        assert tool.title, tool.name
        assert notes.read_only_hint is (tool.name not in WRITES), tool.name
        assert notes.destructive_hint is False, tool.name
        assert notes.open_world_hint is False, tool.name


def test_arguments_are_those_of_the_snapshot(door: Door) -> None:
    """A change here is a change for every agent: look at it, then write the file anew from the failure's left side."""
    current = {t.name: t.input_schema for t in tools(door)}
    assert current == json.loads(SNAPSHOT.read_text(encoding="utf-8"))
