"""`retrieval status`: the layout of the cognitive architecture."""

import pytest

from tests.cli.conftest import Cli
from tests.requirements import requirement


@requirement("contract:status-output-heading", "contract:status-output-tier")
def test_the_status_begins_with_heading_rule_and_tier(memory: Cli) -> None:
    lines = memory("retrieval", "status").out.splitlines()
    assert lines[:3] == ["Retrieval Capabilities", "-" * 40, "Current Tier:    5 (Agentic)"]


@requirement("contract:status-output-available", "contract:status-output-unavailable")
def test_layers_are_listed_with_health_or_reason(memory: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_MCP_TOPICS__ENABLED", "false")
    lines = memory("retrieval", "status").out.splitlines()
    available, unavailable = lines.index("Available Layers:"), lines.index("Unavailable:")
    assert lines[available + 1 : unavailable] == ["  - agentic: healthy (TOC available)"]
    named = [line.split(":")[0].removeprefix("  - ") for line in lines[unavailable + 1 :]]
    assert named == ["bm25", "vector", "hybrid", "topics"]
    assert lines[-1] == "  - topics:  disabled (topics.enabled = false)"
    assert all(line.split(":", 1)[1].strip() for line in lines[unavailable + 1 :])


def test_json_holds_every_layer(memory: Cli) -> None:
    data = memory("retrieval", "status", "--json").data
    assert (data["tier"], data["name"]) == (5, "Agentic")
    assert {x["name"]: x["enabled"] and x["healthy"] for x in data["layers"]} == {
        "bm25": False,
        "vector": False,
        "hybrid": False,
        "topics": False,
        "agentic": True,
    }
