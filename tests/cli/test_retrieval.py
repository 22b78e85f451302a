"""`retrieval status`: the layout of the cognitive architecture."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.requirements import requirement


@requirement("contract:status-output-heading", "contract:status-output-tier")
@requirement("contract:status-output-available", "contract:status-output-unavailable")
def test_the_status_has_a_heading_the_tier_and_each_layer_with_health_or_reason(
    copy: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_MCP_TOPICS__ENABLED", "false")
    lines = cli("retrieval", "status", "--data-dir", str(copy)).out.splitlines()
    assert lines[:3] == ["Retrieval Capabilities", "-" * 40, "Current Tier:    5 (Agentic)"]
    available, unavailable = lines.index("Available Layers:"), lines.index("Unavailable:")
    assert lines[available + 1 : unavailable] == ["  - agentic: healthy (TOC available)"]
    named = [line.split(":")[0].removeprefix("  - ") for line in lines[unavailable + 1 :]]
    assert named == ["bm25", "vector", "hybrid", "topics"]
    assert lines[-1] == "  - topics:  disabled (topics.enabled = false)"
    assert all(line.split(":", 1)[1].strip() for line in lines[unavailable + 1 :])
    data = cli("retrieval", "status", "--data-dir", str(copy), "--json").data
    assert (data["tier"], data["name"]) == (5, "Agentic")
    healthy = {x["name"]: x["enabled"] and x["healthy"] for x in data["layers"]}
    assert healthy == dict.fromkeys(("bm25", "vector", "hybrid", "topics"), False) | {"agentic": True}
