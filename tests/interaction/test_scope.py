"""Which project a call sees: explicit, else the caller's, else all; and an answer says which."""

import json
import re
from contextlib import closing
from typing import Any

import pytest

from memory_mcp.config import ServerSettings
from memory_mcp.model.project import Alias
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door, open_app

#: Each with words that both projects hold, or that only the other one does.
READS: list[tuple[str, dict[str, Any]]] = [
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
def test_a_scoped_caller_sees_nothing_of_another_project_and_scope_all_lifts_it(
    shop: Door, tool: str, arguments: dict[str, Any]
) -> None:
    found = shop.ok(tool, **arguments)
    text = json.dumps(found, ensure_ascii=False)
    assert not [word for word in FOREIGN if word in text]
    assert found.get("scope", found.get("explanation", {}).get("scope", SHOP)) == SHOP
    text = json.dumps(shop.ok(tool, **arguments, scope="all"), ensure_ascii=False)
    assert [word for word in FOREIGN if word in text]


def test_an_explicit_project_wins_and_may_be_named_by_its_end(shop: Door) -> None:
    for name in (BILLING, "billing", "acme/billing"):
        found = shop.full("intelligent_search", query="decided cause", project=name, scope="all")
        assert found["explanation"]["scope"] == BILLING
        assert {r["project"] for r in found["results"]} == {BILLING}


@pytest.mark.parametrize("name", ["illing", "cme/billing", "legacy-billing", "github.com/acme/none"])
def test_an_unknown_project_is_refused_with_those_that_are_known(shop: Door, name: str) -> None:
    for tool, arguments in READS[:5]:
        text = shop.error(tool, **arguments, project=name)
        assert text.startswith(f"INVALID_ARGUMENT: no project is called '{name}'. ")
        assert "Projects: billing, shop." in text
        assert ("Did you mean billing?" in text) is ("billing" in name or name == "illing")


def test_a_project_that_holds_nothing_of_it_says_so(shop: Door) -> None:
    found = shop.full("intelligent_search", query="invoices Norway", project=SHOP)
    notice = found["explanation"]["notices"][-1]
    assert re.fullmatch(rf"0 of [1-9]\d* events in project {SHOP}; scope='all' without project searches every project", notice)


def test_a_project_is_known_before_its_events_are_in_the_tree_and_an_ambiguous_name_is_refused_with_the_candidates(
    own: Door,
) -> None:
    event = {"session_id": "x", "role": "user", "timestamp": "2026-02-01T10:00:00Z", "text": "The kettle boils."}
    own.ok("ingest_events", events=[event | {"project": "gitlab.com/b/tea"}])
    found = own.full("intelligent_search", query="kettle", project="gitlab.com/b/tea")
    assert [r["project"] for r in found["results"]] == ["gitlab.com/b/tea"]
    own.ok("ingest_events", events=[event | {"text": "Hello there.", "project": "gitlab.com/b/shop"}])
    own.app.derivation.run()
    text = own.error("intelligent_search", query="decided", project="shop")
    assert "acme/shop or b/shop" in text


@pytest.mark.parametrize(
    ("tool", "arguments"), [(t, a) for t, a in READS if t not in ("get_events", "get_toc_root", "search_node")]
)
def test_where_the_callers_project_holds_nothing_every_project_is_searched_and_the_answer_says_so(
    shared_app: object, era: str, tool: str, arguments: dict[str, Any]
) -> None:
    door = Door(shared_app, era, "github.com/acme/new")  # type: ignore[arg-type]
    found = door.ok(tool, **arguments)
    said = ["nothing is stored of project github.com/acme/new yet; every project was searched"]
    if tool != "get_node":
        assert [n for n in found.get("notices", found.get("explanation", {}).get("notices", [])) if "was searched" in n] == said
    assert [word for word in FOREIGN if word in json.dumps(found, ensure_ascii=False)]


def test_a_caller_is_widened_until_its_project_has_an_event_or_a_name(own: Door, era: str) -> None:
    new, renamed = (Door(own.app, era, f"github.com/acme/{name}") for name in ("new", "renamed"))
    question = {"query": "kettle decided cause"}

    def read_scope(door: Door) -> str:
        return str(door.full("intelligent_search", **question)["explanation"]["scope"])

    assert [read_scope(door) for door in (new, new, renamed, renamed)] == ["all projects"] * 4
    event = {"session_id": "x", "role": "user", "timestamp": "2026-02-01T10:00:00Z", "text": "The kettle boils."}
    own.ok("ingest_events", events=[event | {"project": "github.com/acme/new"}])
    own.app.storage.projects.add_alias(Alias("github.com/acme/renamed", SHOP, "user", 1))
    assert [read_scope(door) for door in (new, renamed)] == ["github.com/acme/new", SHOP]
    own.app.storage.projects.drop_alias("github.com/acme/renamed")
    assert read_scope(renamed) == "all projects"


def test_a_project_that_is_asked_for_is_never_widened(shared_app: object, era: str) -> None:
    door = Door(shared_app, era, "github.com/acme/new")  # type: ignore[arg-type]
    found = door.full("intelligent_search", query="decided cause", scope="project")
    assert found["results"] == []
    assert found["explanation"]["notices"] == ["0 of 0 events in project github.com/acme/new; scope='all' searches every project"]


def test_the_setting_may_lift_the_default_scope(era: str) -> None:
    with closing(open_app()) as app:
        door = Door(app, era, SHOP)
        object.__setattr__(app.settings, "server", ServerSettings(scope="all"))
        assert door.full("intelligent_search", query="decided")["explanation"]["scope"] == "all projects"
        assert door.full("intelligent_search", query="decided", scope="project")["explanation"]["scope"] == SHOP


def test_asking_for_the_callers_project_when_none_is_known_is_refused(door: Door) -> None:
    text = door.error("intelligent_search", query="decided", scope="project")
    assert text.startswith("INVALID_ARGUMENT: the caller's project is not known. Name one with project")
