"""Resources, prompts and completion."""

import json
from contextlib import closing
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from memory_mcp.model.sentinel import CLOSE, MARK, OPEN
from memory_mcp.model.tokens import estimate_tokens
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door, open_app


def read(door: Door, uri: str) -> Any:
    found = door.run(lambda client: client.read_resource(uri))
    [content] = found.contents
    assert content.mime_type == "application/json"
    return json.loads(content.text)  # type: ignore[union-attr]


def test_the_status_four_templates_and_four_prompts_are_offered(door: Door) -> None:
    resources = door.run(lambda client: client.list_resources()).resources
    templates = door.run(lambda client: client.list_resource_templates()).resource_templates
    assert [str(r.uri) for r in resources] == ["memory://status"]
    assert [t.uri_template for t in templates] == [
        "memory://toc/{+node_id}",
        "memory://grip/{+grip_id}",
        "memory://session/{+session_id}",
        "memory://topic/{+topic_id}",
    ]
    prompts = door.run(lambda client: client.list_prompts()).prompts
    assert [p.name for p in prompts] == ["recall", "what_did_we_decide", "weekly_digest", "continue_session"]
    assert all(p.title and p.description for p in prompts)


def test_each_resource_reads_as_its_tool_answers(shop: Door) -> None:
    best = shop.full("intelligent_search", query="single-use refresh tokens")["results"][0]
    assert read(shop, "memory://status")["tier"] == 5
    segment = shop.ok("expand_grip", grip_id=best["id"])["grip"]["node_id"]
    node = read(shop, f"memory://toc/{segment}")
    assert node["node"]["node_id"] == segment
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


def told(door: Door, name: str, **arguments: str) -> str:
    [message] = door.run(lambda client: client.get_prompt(name, arguments)).messages
    return message.content.text  # type: ignore[union-attr]


def refused(door: Door, name: str, **arguments: str) -> str:
    async def work(client: Client) -> MCPError:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, arguments)
        return caught.value

    error = door.run(work).error
    assert error.code == -32602
    return error.message


DECISION = "We decided on single-use refresh tokens with a 30 second grace window."


@pytest.mark.parametrize(
    ("name", "arguments", "quoted"),
    [
        ("recall", {"topic": "refresh tokens"}, "How should the refresh token rotate?"),
        ("what_did_we_decide", {"about": "refresh token rotation"}, DECISION),
        ("weekly_digest", {"week": "2026-W04"}, DECISION),
        ("weekly_digest", {"week": "toc:week:2026-W04"}, DECISION),
        ("weekly_digest", {}, "freeze the payment module"),
        ("continue_session", {"session_id": "auth"}, DECISION),
        ("continue_session", {"session_id": "aut"}, DECISION),
        ("continue_session", {}, "payment module frozen from Wednesday"),
    ],
)
def test_a_prompt_carries_dated_quotations_with_grips_fenced_and_within_its_tokens(
    shop: Door, name: str, arguments: dict[str, str], quoted: str
) -> None:
    text = told(shop, name, **arguments)
    assert estimate_tokens(text) <= 800
    task, fenced = text[: text.index(OPEN)], text[text.index(OPEN) :]
    assert fenced.endswith(CLOSE)
    assert "expand_grip" in task
    [line] = [one for one in fenced.splitlines() if quoted in one]
    grip = line.rpartition(" ")[2]
    assert quoted in shop.ok("expand_grip", grip_id=grip)["grip"]["quote"]
    assert "2026-0" in fenced


def test_prompts_of_a_project_hold_nothing_of_another(shop: Door) -> None:
    for name, arguments in (("recall", {"topic": "invoice ledger"}), ("weekly_digest", {}), ("continue_session", {})):
        assert "ledger" not in told(shop, name, **arguments).partition(OPEN)[2]


def test_a_prompt_of_a_long_store_keeps_within_its_tokens() -> None:
    with closing(open_app(days=[f"2026-02-{day:02}" for day in range(2, 28)])) as app:
        door = Door(app, "auto")
        for name, arguments in (
            ("recall", {"topic": "the cart total is wrong for discounts " * 20}),
            ("what_did_we_decide", {"about": "why Decimal"}),
            ("weekly_digest", {"week": "2026-W08"}),
            ("continue_session", {}),
        ):
            text = told(door, name, **arguments)
            assert 200 <= estimate_tokens(text) <= 800, name
        days = [line for line in told(door, "weekly_digest", week="2026-W08").splitlines() if line.startswith("2026-02-")]
        assert [day[:10] for day in days] == [f"2026-02-{day:02}" for day in range(16, 23)]


def test_a_prompt_with_nothing_to_tell_says_what_was_searched(shop: Door) -> None:
    text = told(shop, "weekly_digest", week="2026-W06")
    assert f"Nothing is recorded in toc:week:2026-W06 (2026-02-02 to 2026-02-08) in {SHOP}." in text
    assert "Nearest weeks that hold something: toc:week:2026-W04, toc:week:2026-W05, toc:week:2026-W07." in text
    assert OPEN not in text


def test_a_prompt_names_what_is_missing_or_wrong_and_an_unknown_one_those_there_are(shop: Door) -> None:
    for arguments in ({}, {"topic": " "}):
        assert refused(shop, "recall", **arguments).startswith("INVALID_ARGUMENT: topic is missing. The prompt recall needs it")
    assert refused(shop, "what_did_we_decide").startswith("INVALID_ARGUMENT: about is missing.")
    assert "Did you mean 'topic'?" in refused(shop, "recall", topc="x")
    for week in ("some day", "2026", "toc:day:2026-01-20"):
        assert refused(shop, "weekly_digest", week=week).startswith(f"INVALID_ARGUMENT: not a week: {week!r}. Write 2026-W05")
    text = refused(shop, "continue_session", session_id="none")
    assert text.startswith(f"NOT_FOUND: no session none in {SHOP}. Sessions, latest first: release, ")
    assert refused(shop, "digest").startswith("INVALID_ARGUMENT: unknown prompt 'digest'. Prompts are recall, ")


@pytest.mark.parametrize("week", ["2026-W10", "2026w10", "toc:week:2026:W10", "this week"])
def test_a_digest_takes_a_week_in_any_form(shop: Door, week: str) -> None:
    assert "toc:week:2026-W10 (2026-03-02 to 2026-03-08)" in told(shop, "weekly_digest", week=week)


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
    assert complete(door, prompt, "week", "2026-W0")[-1] == "2026-W04"
    assert complete(door, prompt, "topic", "x") == []


def test_completion_keeps_to_the_callers_project(shop: Door) -> None:
    session = ResourceTemplateReference(type="ref/resource", uri="memory://session/{+session_id}")
    assert "billing-2026-01-20" not in complete(shop, session, "session_id", "")
