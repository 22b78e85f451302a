"""Which project a call sees: explicit, else the caller's, else all; and an answer says which."""

import json

import pytest

from memory_mcp.config import ServerSettings
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door, open_app

#: Each with words that both projects hold, or that only the other one does.
READS = [
    ("intelligent_search", {"query": "decided cause", "limit": 50, "token_budget": 20000}),
    ("search_children", {"query": "decided cause", "child_level": "segment", "limit": 50, "token_budget": 20000}),
    ("browse_toc", {"node_id": "toc:month:2026-01"}),
    ("get_node", {"node_id": "toc:week:2026-W04"}),
    ("get_events", {"limit": 100, "token_budget": 100000}),
    ("get_toc_root", {}),
    ("search_node", {"node_id": "toc:month:2026-01", "query": "decided invoices ledger Norway"}),
    ("navigate", {"query": "decided cause", "limit": 50}),
]
#: Words that only the other project's events hold.
FOREIGN = ("billing", "invoice", "Norway", "ledger", "codex")


@pytest.mark.parametrize(("tool", "arguments"), READS)
def test_a_scoped_caller_sees_nothing_of_another_project(shop: Door, tool: str, arguments: dict[str, object]) -> None:
    found = shop.ok(tool, **arguments)
    text = json.dumps(found, ensure_ascii=False)
    assert not [word for word in FOREIGN if word in text]
    assert found.get("scope", found.get("explanation", {}).get("scope", SHOP)) == SHOP


@pytest.mark.parametrize(("tool", "arguments"), READS)
def test_scope_all_lifts_it(shop: Door, tool: str, arguments: dict[str, object]) -> None:
    if tool == "get_toc_root":
        arguments = {}
    text = json.dumps(shop.ok(tool, **arguments, scope="all"), ensure_ascii=False)
    assert [word for word in FOREIGN if word in text]


def test_an_explicit_project_wins_and_may_be_named_by_its_end(shop: Door) -> None:
    for name in (BILLING, "billing", "acme/billing"):
        found = shop.ok("intelligent_search", query="decided cause", project=name, scope="all")
        assert found["explanation"]["scope"] == BILLING
        assert {r["project"] for r in found["results"]} == {BILLING}


def test_a_project_that_holds_nothing_says_so(shop: Door) -> None:
    found = shop.ok("intelligent_search", query="decided", project="github.com/acme/none")
    assert found["explanation"]["notices"] == [
        "0 results in project github.com/acme/none; without project, scope='all' searches everything"
    ]
    assert shop.ok("browse_toc", project="github.com/acme/none")["notices"]


def test_a_caller_whose_project_holds_nothing_is_scoped_all_the_same(shared_app: object, era: str) -> None:
    door = Door(shared_app, era, "github.com/acme/new")  # type: ignore[arg-type]
    found = door.ok("intelligent_search", query="decided cause")
    assert found["results"] == []
    assert found["explanation"]["notices"] == ["0 results in project github.com/acme/new; scope='all' searches everything"]


def test_the_setting_may_lift_the_default_scope(era: str) -> None:
    app = open_app()
    try:
        door = Door(app, era, SHOP)
        object.__setattr__(app.settings, "server", ServerSettings(scope="all"))
        assert door.ok("intelligent_search", query="decided")["explanation"]["scope"] == "all projects"
        assert door.ok("intelligent_search", query="decided", scope="project")["explanation"]["scope"] == SHOP
    finally:
        app.close()


def test_asking_for_the_callers_project_when_none_is_known_is_refused(door: Door) -> None:
    text = door.error("intelligent_search", query="decided", scope="project")
    assert text.startswith("INVALID_ARGUMENT: the caller's project is not known. Name one with project")


def test_an_ambiguous_name_is_refused_with_the_candidates(own: Door) -> None:
    event = {"session_id": "x", "role": "user", "timestamp": "2026-02-01T10:00:00Z", "text": "Hello there."}
    own.ok("ingest_events", events=[event | {"project": "gitlab.com/b/shop"}])
    own.app.catch_up()
    text = own.error("intelligent_search", query="decided", project="shop")
    assert f"{SHOP} or gitlab.com/b/shop" in text
