"""The list of acts: what changes a memory is recorded by whichever door, once, and without the words concerned."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.requests.correct import Audit
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door, copied

WORDS = "Zanzibar rotation"


@pytest.fixture
def own(data_dir: Path) -> Iterator[Door]:
    app = copied(data_dir)
    yield Door(app, "auto", client="Claude Code")
    app.close()


def acts(app: App) -> list[tuple[str, str, str]]:
    """What was done, by whom, to what; newest first."""
    found = as_json(respond(app, Audit(), Caller()))["acts"]
    assert WORDS not in json.dumps(found)
    return [(act["what"], act["author"], act.get("subject", "")) for act in found]


def test_a_pin_is_recorded_with_who_set_it_and_not_again(own: Door) -> None:
    for on in (True, True, False, False):
        own.ok("pin", id="toc:day:2026-01-21", on=on)
    assert acts(own.app) == [("unpin", "claude-code", "toc:day:2026-01-21"), ("pin", "claude-code", "toc:day:2026-01-21")]


def test_a_statement_that_is_remembered_and_pinned_is_recorded_as_a_pin(own: Door) -> None:
    kept = own.ok("remember", text=f"{WORDS} is the rule.", pin=True)
    assert acts(own.app) == [("pin", "claude-code", kept["grip_id"])]


def test_a_refined_summary_is_recorded_without_its_words(own: Door) -> None:
    day = own.ok("browse_toc", node_id="toc:day:2026-01-21")["node"]
    said = [{"text": f"{WORDS} adopted.", "grip_ids": day["bullets"][0]["grip_ids"]}]
    for _ in range(2):
        own.ok("refine_summary", node_id="toc:day:2026-01-21", title=WORDS, bullets=said, scope="all")
    assert acts(own.app) == [("refine", "claude-code", "toc:day:2026-01-21")]


def test_names_of_projects_are_recorded_as_they_change(own: Door) -> None:
    for _ in range(2):
        own.ok("alias_project", project=BILLING, same_as=SHOP)
    own.ok("undo_project", project=BILLING)
    assert acts(own.app) == [("undo alias", "claude-code", BILLING), ("alias", "claude-code", f"{BILLING} {SHOP}")]
    session = own.ok("get_events", since="2026-01-20", until="2026-01-20", project=SHOP)["events"][0]["session_id"]
    own.ok("split_project", project=SHOP, sessions=[session], name="part")
    own.ok("undo_project", project="part")
    assert acts(own.app)[:2] == [("undo split", "claude-code", "part"), ("split", "claude-code", "part")]
