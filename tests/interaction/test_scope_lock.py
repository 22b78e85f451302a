"""A connection that is bound to its project: what another project holds does not exist for it, whatever it asks by."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceTemplateReference

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.model.ids import ROOT
from memory_mcp.requests.capturing import ListPaused, PauseCapture, ResumeCapture
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import REQUESTS, load_entry, respond
from memory_mcp.requests.scope import Caller
from memory_mcp.server.build import build_server
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope
from tests.factories import BILLING, SHOP
from tests.fakes import FakeClock
from tests.interaction.conftest import Door, history

#: Words that only the other project's events hold.
FOREIGN = ("billing", "invoice", "Norway", "ledger", "codex")
REFUSED = f"INVALID_ARGUMENT: this connection is bound to project {SHOP}. "


@dataclass(frozen=True)
class Ids:
    """What one project has."""

    grip: str
    node: str
    session: str
    event: str


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    settings = Settings(storage=StorageSettings(timezone="Europe/Berlin"), server=ServerSettings(profile="full", scope_lock=True))
    opened = App(settings, FakeClock(), in_memory=True)
    opened.write(history(), "jsonl")
    opened.derivation.run()
    yield opened
    opened.close()


def ids(app: App, project: str) -> Ids:
    event = app.storage.events.list_events(Scope(project=project))[0]
    cuts = app.tree.segments_below(ROOT, Scope(project=project))
    node = next(node for node in app.tree.nodes([cut.node_id for cut in cuts]).values() if node.bullets)
    return Ids(node.bullets[0].grip_ids[0], node.node_id, event.session_id, event.event_id)


@pytest.fixture(scope="module")
def other(app: App) -> Ids:
    return ids(app, BILLING)


@pytest.fixture(scope="module")
def own(app: App) -> Ids:
    return ids(app, SHOP)


def _refinement(found: Ids) -> dict[str, Any]:
    return {"node_id": found.node, "title": "Told anew", "bullets": [{"text": "Told anew.", "grip_ids": [found.grip]}]}


#: For every request that a tool asks: arguments that name what one project has.
BY_ID: Mapping[str, Callable[[Ids], dict[str, Any]]] = {
    "expand_grip": lambda i: {"grip_id": i.grip},
    "get_node": lambda i: {"node_id": i.node},
    "browse_toc": lambda i: {"node_id": i.node},
    "search_node": lambda i: {"node_id": i.node, "query": "decided"},
    "search_children": lambda i: {"parent_id": i.node, "query": "decided"},
    "refine_show": lambda i: {"node_id": i.node},
    "refine_summary": _refinement,
    "pin": lambda i: {"id": i.grip},
    "intelligent_search": lambda i: {"query": "decided cause", "why_not": i.event},
    "navigate": lambda i: {"query": "decided", "node_id": i.node},
    "correct": lambda i: {"grip_id": i.grip, "text": "It is otherwise."},
    "retract": lambda i: {"grip_id": i.grip},
}
#: Requests that take project and scope, with arguments that find something.
SCOPED: Mapping[str, dict[str, Any]] = {
    "intelligent_search": {"query": "decided cause", "limit": 50},
    "browse_toc": {"node_id": "toc:month:2026-01"},
    "get_node": {"node_id": "toc:week:2026-W04"},
    "get_events": {"limit": 100, "token_budget": 100000},
    "search_children": {"query": "decided cause", "limit": 50},
    "search_node": {"node_id": "toc:month:2026-01", "query": "decided ledger invoices Norway"},
    "navigate": {"query": "decided cause", "limit": 50},
    "refine_due": {},
    "refine_show": {"node_id": "2026-01"},
    "refine_summary": {"node_id": "2019", "title": "x", "bullets": [{"text": "x", "grip_ids": ["grip:1:2"]}]},
    "recall_for": {"file": "decided"},
    "continue_session": {},
    "handoff": {},
    "teleport_search": {"query": "decided"},
    "vector_teleport": {"query": "decided"},
    "hybrid_search": {"query": "decided"},
    "topics_by_query": {"query": "decided"},
    "get_top_topics": {},
    "get_toc_nodes_for_topic": {"topic_id": "topic:aaaaaaaaaaaa"},
    "get_agent_activity": {"days": 3660},
    "get_related_topics": {"topic_id": "topic:aaaaaaaaaaaa"},
    "label_topic": {"topic_id": "topic:aaaaaaaaaaaa"},
}
#: Requests that name every project, and may name only the caller's.
LISTS: Mapping[str, dict[str, Any]] = {"get_retrieval_status": {"detail": "full"}, "list_projects": {}, "list_agents": {}}
#: Requests that concern every project.
REFUSES: Mapping[str, dict[str, Any]] = {
    "alias_project": {"project": BILLING, "same_as": SHOP},
    "split_project": {"project": BILLING, "folder": "/x"},
    "undo_project": {"project": BILLING},
    "rebuild_index": {"index_type": "bm25"},
    "prune_index": {"index_type": "bm25", "age_days": 1},
    "forget": {"value": "retry queue"},
    "pause_capture": {"project": "*"},
    "resume_capture": {"project": "*"},
    "get_teleport_status": {},
    "get_vector_index_status": {},
    "get_topic_graph_status": {},
}
#: Requests that look at nobody's words, and those that no tool asks: a resource reads `get_topic` in the caller's scope, and
#: `requests/test_topic_map.py` has enough to talk about for topics.
NOBODYS = {"plan_query", "classify_query"}
#: The root is a node; what is written goes to the caller's own project, or is refused.
ROOT_AND_WRITES = {"get_toc_root", "remember", "ingest_events"}
NO_TOOL = {"get_spend", "get_topic", "get_topic_map", "audit", "list_paused", "list_hints", "reject_hint"}
#: Of those, which a door for people asks for a bound caller: what concerns every project, and what tells of the caller's.
REFUSED_WITHOUT_TOOL: Mapping[str, dict[str, Any]] = {
    "get_overview": {},
    "list_clients": {},
    "list_excluded": {},
    "exclude": {"project": BILLING},
    "include": {"project": BILLING},
    "list_jobs": {},
    "run_job": {"name": "roll_up"},
    "pause_job": {"name": "roll_up"},
    "resume_job": {"name": "roll_up"},
}
OWN_WITHOUT_TOOL: Mapping[str, dict[str, Any]] = {
    "get_today": {},
    "get_friction": {},
    "list_runs": {"file": "decided"},
    "get_timeline": {},
    "export_shown": {"node": "toc:root", "form": "json"},
}


def test_every_request_is_told_apart() -> None:
    with_tools = {*BY_ID, *SCOPED, *LISTS, *REFUSES, *NOBODYS, *ROOT_AND_WRITES}
    assert with_tools | {*NO_TOOL, *REFUSED_WITHOUT_TOOL, *OWN_WITHOUT_TOOL} == set(REQUESTS)


@pytest.mark.parametrize("tool", BY_ID)
def test_an_id_of_another_project_does_not_exist_and_one_of_its_own_does(app: App, own: Ids, other: Ids, tool: str) -> None:
    door = Door(app, "auto", SHOP)
    there = door.error(tool, **BY_ID[tool](other))
    assert there.startswith("NOT_FOUND")
    # An id that nothing has is answered in the same words.
    nothing = Ids(*(_unlike(x) for x in (other.grip, other.node, other.session, other.event)))
    nowhere = door.error(tool, **BY_ID[tool](nothing))
    assert there.replace(other.grip, "G").replace(other.node, "N").replace(other.event, "E") == nowhere.replace(
        nothing.grip, "G"
    ).replace(nothing.node, "N").replace(nothing.event, "E")
    door.ok(tool, **BY_ID[tool](own))


#: Each digit and letter of an id as another.
_OTHERS = str.maketrans("0123456789" + "abAByzYZ", "1234567890" + "baBAzyZY")


def _unlike(value: str) -> str:
    """An id of the same form that nothing has."""
    head, colon, tail = value.rpartition(":")
    return f"{head}{colon}{tail[:-4]}{tail[-4:].translate(_OTHERS)}"


@pytest.mark.parametrize("tool", SCOPED)
@pytest.mark.parametrize(
    "asked", [{"scope": "all"}, {"project": BILLING}, {"project": "billing"}, {"project": "*"}, {"project": "no"}]
)
def test_neither_another_project_nor_all_can_be_named(app: App, tool: str, asked: dict[str, str]) -> None:
    door = Door(app, "auto", SHOP)
    assert door.error(tool, **SCOPED[tool], **asked).startswith(REFUSED)


@pytest.mark.parametrize("tool", [*SCOPED, *LISTS])
def test_what_is_told_without_naming_any_is_its_own(app: App, tool: str) -> None:
    door = Door(app, "auto", SHOP)
    result = door.call(tool, **(SCOPED.get(tool) or LISTS.get(tool) or {}))
    said = json.dumps(result.structured_content) + str(result.content)
    assert not [word for word in FOREIGN if word in said]
    if tool in LISTS or tool == "get_events":
        assert SHOP in said
    assert door.call(
        tool, **(SCOPED.get(tool) or LISTS.get(tool) or {}), **({"project": SHOP} if tool in SCOPED else {})
    ).is_error is (result.is_error)


@pytest.mark.parametrize("tool", REFUSES)
def test_what_concerns_every_project_is_refused(app: App, tool: str) -> None:
    text = Door(app, "auto", SHOP).error(tool, **REFUSES[tool])
    assert "concerns more than the project of this connection" in text


@pytest.mark.parametrize("name", REFUSED_WITHOUT_TOOL)
def test_what_no_tool_asks_and_concerns_every_project_is_refused_too(app: App, name: str) -> None:
    request = load_entry(name).request(**REFUSED_WITHOUT_TOOL[name])
    with pytest.raises(InvalidQuery, match="concerns more than the project of this connection"):
        respond(app, request, Caller(SHOP, locked=True))


@pytest.mark.parametrize("name", OWN_WITHOUT_TOOL)
def test_what_no_tool_asks_tells_its_own_and_no_other(app: App, name: str) -> None:
    bound = Caller(SHOP, locked=True)
    said = json.dumps(as_json(respond(app, load_entry(name).request(**OWN_WITHOUT_TOOL[name]), bound)))
    assert SHOP in said
    assert not [word for word in FOREIGN if word in said]
    with pytest.raises(InvalidQuery, match="this connection is bound to project"):
        respond(app, load_entry(name).request(**OWN_WITHOUT_TOOL[name], project=BILLING), bound)


def test_a_pause_of_another_project_is_not_told(app: App, tmp_path: Path) -> None:
    app.directory = tmp_path
    try:
        for project in (SHOP, BILLING):
            respond(app, PauseCapture(project), Caller())
        assert list(respond(app, ListPaused(), Caller(SHOP, locked=True)).paused) == [SHOP]
        assert list(respond(app, ListPaused(), Caller()).paused) == [BILLING, SHOP]
        respond(app, ResumeCapture("*"), Caller())
    finally:
        app.directory = None


def test_a_session_of_another_has_no_events_and_nothing_is_written_to_it(app: App, own: Ids, other: Ids) -> None:
    door = Door(app, "auto", SHOP)
    for unseen in (other.session, "no-such-session"):
        assert door.error("get_events", session_id=unseen).startswith(f"NOT_FOUND: no session {unseen}.")
    assert door.ok("get_events", session_id=own.session)["events"]
    assert door.error("remember", text="Note this.", project=BILLING).startswith(REFUSED)
    event = {"session_id": "x", "role": "user", "timestamp": "2026-02-01T10:00:00Z", "text": "The kettle boils."}
    assert REFUSED in door.error("ingest_events", events=[event | {"project": BILLING}])
    door.ok("remember", text="The kettle is descaled on Mondays.", project="shop")


def test_resources_and_completions_know_nothing_of_another(app: App, own: Ids, other: Ids) -> None:
    async def look(client: Client) -> None:
        for kind in ("grip", "session", "toc"):
            name = {"grip": "grip", "session": "session", "toc": "node"}[kind]
            await client.read_resource(f"memory://{kind}/{getattr(own, name)}")
            with pytest.raises(MCPError):
                await client.read_resource(f"memory://{kind}/{getattr(other, name)}")
        status = await client.read_resource("memory://status")
        assert "billing" not in str(status)
        assert SHOP in str(status)
        for name in ("project", "agent", "session_id"):
            ref = ResourceTemplateReference(type="ref/resource", uri="memory://session/{+session_id}")
            found = (await client.complete(ref, {"name": name, "value": ""})).completion.values
            assert found
            assert not [v for v in found if any(word in v for word in FOREIGN) or v == other.session]

    Door(app, "auto", SHOP).run(look)


def test_a_bound_connection_without_a_project_is_refused(app: App) -> None:
    assert "none is known" in Door(app, "auto").error("intelligent_search", query="decided")


@pytest.fixture
def unlocked(app: App) -> Iterator[Door]:
    opened = App(
        Settings(storage=StorageSettings(timezone="Europe/Berlin"), server=ServerSettings(profile="full")),
        FakeClock(),
        in_memory=True,
    )
    opened.write(history(), "jsonl")
    opened.derivation.run()
    yield Door(opened, "auto", SHOP, server=build_server(opened, SHOP))
    opened.close()


def test_a_word_that_only_another_project_holds_is_missing_and_that_project_is_named_only_without_the_lock(
    app: App, unlocked: Door
) -> None:
    bound = Door(app, "auto", SHOP)
    for detail in ("lean", "full"):
        asked = {"query": "which ledger did we choose for Norway", "detail": detail}
        assert bound.ok("intelligent_search", **asked)["missing"] == ["ledger", "Norway"]
        found = unlocked.ok("intelligent_search", **asked, scope="project")
        assert found["missing"] == [f"{word} (occurs in project {BILLING})" for word in ("ledger", "Norway")]
        assert found["confidence"] != "strong"
        assert ("probability" in found) is (detail == "full")
    assert "missing" not in unlocked.ok("intelligent_search", query=asked["query"], scope="all")


def test_without_the_lock_an_id_is_opened_and_marked_with_its_project_and_no_grip_of_it_rewrites_a_shared_period(
    unlocked: Door,
) -> None:
    other, own = ids(unlocked.app, BILLING), ids(unlocked.app, SHOP)
    assert unlocked.ok("expand_grip", grip_id=other.grip)["grip"]["project"] == BILLING
    assert "project" not in unlocked.ok("expand_grip", grip_id=own.grip)["grip"]
    assert unlocked.ok("get_events", session_id=other.session)["scope"] == BILLING
    year = {"node_id": "2026", "title": "The year"}
    text = unlocked.error("refine_summary", **year, bullets=[{"text": "Told anew.", "grip_ids": [other.grip]}])
    assert text.startswith(f"INVALID_ARGUMENT: grip {other.grip} belongs to project {BILLING}, not to {SHOP}. ")
    unlocked.ok("refine_summary", **year, bullets=[{"text": "Told anew.", "grip_ids": [own.grip]}])
    unlocked.ok("refine_summary", **year, bullets=[{"text": "Told once more.", "grip_ids": [other.grip]}], scope="all")
