"""Resources, prompts and completion."""

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from memory_mcp.model.sentinel import MARK
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door


def read(door: Door, uri: str) -> Any:
    found = door.run(lambda client: client.read_resource(uri))
    [content] = found.contents
    assert content.mime_type == "application/json"
    return json.loads(content.text)  # type: ignore[union-attr]


def test_the_status_and_three_templates_are_offered(door: Door) -> None:
    resources = door.run(lambda client: client.list_resources()).resources
    templates = door.run(lambda client: client.list_resource_templates()).resource_templates
    assert [str(r.uri) for r in resources] == ["memory://status"]
    assert [t.uri_template for t in templates] == [
        "memory://toc/{+node_id}",
        "memory://grip/{+grip_id}",
        "memory://session/{+session_id}",
    ]


def test_each_resource_reads_as_its_tool_answers(shop: Door) -> None:
    best = shop.ok("intelligent_search", query="single-use refresh tokens")["results"][0]
    assert read(shop, "memory://status")["tier"] == 5
    node = read(shop, f"memory://toc/{best['id']}")
    assert node["node"]["node_id"] == best["id"]
    assert node["origin"] == MARK
    assert read(shop, f"memory://grip/{best['grip_ids'][0]}")["grip"]["quote"] == best["quote"]
    assert [e["session_id"] for e in read(shop, "memory://session/auth")["events"]] == ["auth"] * 3


@pytest.mark.parametrize(
    "uri", ["memory://toc/toc:day:1999-01-01", "memory://grip/0123456789abcdef", "memory://session/none", "memory://toc/x"]
)
def test_an_unknown_resource_is_an_error_with_our_text(door: Door, uri: str) -> None:
    async def refused(client: Client) -> MCPError:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        return caught.value

    error = door.run(refused).error
    assert error.code == -32602
    assert error.message.startswith(("NOT_FOUND: ", "INVALID_ARGUMENT: "))


@pytest.mark.parametrize(
    ("name", "arguments", "tools"),
    [
        ("recall", {"topic": "refresh tokens"}, ["intelligent_search", "search_children", "expand_grip"]),
        ("what_did_we_decide", {"about": "token rotation"}, ["intelligent_search", "expand_grip"]),
        ("weekly_digest", {}, ["browse_toc", "expand_grip"]),
        ("weekly_digest", {"week": "toc:week:2026-W04"}, ["browse_toc", "toc:week:2026-W04"]),
        ("continue_session", {}, ["browse_toc", "expand_grip", "intelligent_search"]),
        ("continue_session", {"session_id": "auth"}, ["memory://session/auth", "expand_grip"]),
    ],
)
def test_prompts_name_tools_and_ask_for_citations(door: Door, name: str, arguments: dict[str, str], tools: list[str]) -> None:
    found = door.run(lambda client: client.get_prompt(name, arguments))
    text = found.messages[0].content.text  # type: ignore[union-attr]
    for word in (*tools, "grip_id", *(v for v in arguments.values())):
        assert word in text


def test_four_prompts_are_offered(door: Door) -> None:
    prompts = door.run(lambda client: client.list_prompts()).prompts
    assert [p.name for p in prompts] == ["recall", "what_did_we_decide", "weekly_digest", "continue_session"]
    assert all(p.title and p.description for p in prompts)


def complete(door: Door, ref: Any, name: str, value: str) -> list[str]:
    found = door.run(lambda client: client.complete(ref, {"name": name, "value": value}))
    return list(found.completion.values)


def test_ids_sessions_projects_and_agents_complete(door: Door) -> None:
    toc = ResourceTemplateReference(type="ref/resource", uri="memory://toc/{+node_id}")
    assert complete(door, toc, "node_id", "toc:month:") == ["toc:month:2026-02", "toc:month:2026-01"]
    assert complete(door, toc, "node_id", "toc:segment:2026-02-24")[0].startswith("toc:segment:2026-02-24:")
    session = ResourceTemplateReference(type="ref/resource", uri="memory://session/{+session_id}")
    assert complete(door, session, "session_id", "rel") == ["release"]
    prompt = PromptReference(type="ref/prompt", name="recall")
    assert complete(door, prompt, "project", "acme") == [BILLING, SHOP]
    assert complete(door, prompt, "agent", "co") == ["codex"]
    assert complete(door, prompt, "week", "toc:week:2026-W04") == ["toc:week:2026-W04"]
    assert complete(door, prompt, "topic", "x") == []


def test_completion_keeps_to_the_callers_project(shop: Door) -> None:
    session = ResourceTemplateReference(type="ref/resource", uri="memory://session/{+session_id}")
    assert "billing-2026-01-20" not in complete(shop, session, "session_id", "")
