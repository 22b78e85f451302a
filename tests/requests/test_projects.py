"""Projects that are one, and one that is two: everything that shows or filters projects follows, and undoing is exact."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base import paths
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.config import Settings
from memory_mcp.model.event import EventDraft
from memory_mcp.model.ids import NodeId
from memory_mcp.requests.nodes import Browse
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.projects import AliasProject, ListProjects, SplitProject, UndoProject
from memory_mcp.requests.refine import RefineSummary, Statement
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller, known_project
from memory_mcp.requests.search import SearchRequest
from memory_mcp.requests.status import GetStatus, get_status
from memory_mcp.requests.teleport import TeleportSearch, VectorTeleport
from memory_mcp.search.layers.base import Query
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.check import check_store
from tests.factories import BILLING, SHOP, a_day_of_drafts, draft, ms
from tests.fakes import FakeClock

TREE = "/data/harbour"


def opened(place: Path) -> App:
    return App(Settings(storage=StorageSettings(str(place), "Europe/Berlin")), FakeClock(ms("2026-02-16 09:00")))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Days of two projects in two weeks and two months, derived and indexed, to be copied."""
    place = tmp_path_factory.mktemp("projects") / "data"
    made = opened(place)
    made.write([d for day in ("2026-01-30", "2026-02-02") for d in a_day_of_drafts(day, (SHOP, BILLING))], "jsonl")
    made.derivation.run()
    made.accelerators.catch_up()
    made.close()
    return place


@pytest.fixture
def app(tmp_path: Path, stored: Path) -> Iterator[App]:
    shutil.copytree(stored, tmp_path / "data")
    made = opened(tmp_path / "data")
    yield made
    made.close()


def ask(app: App, request: Any, caller: str = "") -> dict[str, Any]:
    found: dict[str, Any] = as_json(respond(app, request, Caller(caller)))
    return found


def listed(app: App) -> dict[str, dict[str, Any]]:
    return {one["project"]: one for one in ask(app, ListProjects())["projects"]}


def shown(app: App) -> dict[str, Any]:
    """Everything that names a project, as it is stored or answered."""
    return {
        "list": listed(app),
        "cuts": sorted((c.node_id, c.project) for c in app.storage.toc.iter_cuts()),
        "nodes": sorted((n.node_id, n.title, n.projects, n.bullets) for n in app.storage.toc.iter_nodes()),
        "terms": {p: app.tree.tally(p).segments for p in app.tree.tally().projects},
        "events": sorted((s.session_id, s.project, s.events) for s in app.storage.events.list_sessions(Scope(), 1000)),
    }


def frequencies(app: App) -> dict[str, list[tuple[int, int]]]:
    import numpy as np

    found: dict[str, dict[int, int]] = {}
    for project, hashes, counts in app.storage.toc.list_frequencies():
        own = found.setdefault(project, {})
        for term, count in zip(np.frombuffer(hashes, "<u4").tolist(), np.frombuffer(counts, "<i4").tolist(), strict=True):
            own[term] = own.get(term, 0) + count
    return {p: sorted((t, c) for t, c in own.items() if c) for p, own in found.items() if any(own.values())}


def test_an_alias_is_followed_by_everything_that_shows_or_filters_projects(app: App) -> None:
    both = [listed(app)[name]["events"] for name in (SHOP, BILLING)]
    done = ask(app, AliasProject("billing", "acme/shop"))
    app.accelerators.catch_up()
    assert (done["project"], done["shown_as"], done["undo"]) == (BILLING, SHOP, BILLING)
    assert set(listed(app)) == {SHOP}
    assert listed(app)[SHOP]["events"] == sum(both)
    assert listed(app)[SHOP]["aliases"] == [{"name": BILLING, "by": "person"}]
    assert app.tree.tally().projects == (SHOP,)
    assert {c.project for c in app.storage.toc.iter_cuts()} == {SHOP}
    assert all(b.project in (SHOP, "") for n in app.storage.toc.iter_nodes() for b in n.bullets)
    assert {e.project for e in app.storage.events.list_events(Scope(project=SHOP), None, 1000)} == {SHOP}
    assert set(frequencies(app)) == {SHOP}
    for caller in (SHOP, BILLING):
        for request in (
            SearchRequest(query="idempotency key of the retry queue", limit=5),
            TeleportSearch(query="retry queue idempotency"),
        ):
            found = ask(app, request, caller)
            assert found["results"], request
            assert BILLING not in json.dumps(found)
        assert ask(app, VectorTeleport(query="invoices are sent twice"), caller)["results"]
        assert ask(app, Browse("2026-02"), caller)["scope"] == SHOP
    assert known_project(app, BILLING) == known_project(app, "billing") == SHOP
    assert check_store(app.storage, app.calendar) == []


def test_a_caller_may_name_its_project_by_the_last_part_and_a_misspelt_one_is_answered_with_the_nearest(app: App) -> None:
    for caller in ("shop", "acme/shop", SHOP):
        assert ask(app, Browse("2026-02"), caller)["scope"] == SHOP
    # A directory is itself, and nobody else's last part.
    assert ask(app, Browse("2026-02"), "/shop")["scope"] == "all projects"
    with pytest.raises(InvalidQuery, match=r"Did you mean shop\?"):
        known_project(app, "shopp")


def test_undoing_an_alias_is_exact(app: App) -> None:
    before, terms = shown(app), frequencies(app)
    ask(app, AliasProject(BILLING, SHOP))
    assert shown(app) != before
    ask(app, UndoProject(BILLING))
    assert shown(app) == before
    assert frequencies(app) == terms
    app.accelerators.catch_up()
    assert ask(app, TeleportSearch(query="idempotency", project=BILLING))["results"]
    assert not ask(app, TeleportSearch(query="idempotency", project=SHOP))["results"]


def test_events_that_come_after_an_alias_go_with_it_and_leave_with_it(app: App) -> None:
    ask(app, AliasProject(BILLING, SHOP))
    app.write([draft("The xylophone invoice is late.", at="2026-02-15 10:00", project=BILLING, session="late")], "jsonl")
    found = ask(app, SearchRequest(query="xylophone invoice"), SHOP)
    assert found["results"][0]["quote"] == "The xylophone invoice is late."
    app.derivation.run()
    assert {c.project for c in app.storage.toc.iter_cuts() if c.session_id == "late"} == {SHOP}
    ask(app, UndoProject(BILLING))
    assert {c.project for c in app.storage.toc.iter_cuts() if c.session_id == "late"} == {BILLING}
    assert {e.project for e in app.storage.events.list_events(Scope(), "late", 10)} == {BILLING}


def test_a_session_that_goes_on_behind_an_alias_keeps_its_stream(app: App) -> None:
    app.write([draft("Where do the parrots sleep?", at="2026-02-15 10:00", project=BILLING, session="on")], "jsonl")
    app.derivation.run()
    ask(app, AliasProject(BILLING, SHOP))
    app.write([draft("In the rigging, mostly.", at="2026-02-15 10:01", project=BILLING, session="on")], "jsonl")
    app.derivation.run()
    [cut] = [c for c in app.storage.toc.iter_cuts() if c.session_id == "on"]
    assert (cut.events, cut.project) == (2, SHOP)
    assert len(app.storage.events.segment_events(cut)) == 2


def harbour(session: str, folder: str, day: int, text: str, project: str = TREE) -> EventDraft:
    return draft(text, at=f"2026-02-{day:02d} 10:00", session=session, project=project, metadata={"cwd": folder, "branch": "x"})


def test_sessions_of_a_folder_are_split_off_stored_and_new_ones(app: App) -> None:
    app.write(
        [
            harbour("main", TREE, 2, "The harbour crane is stuck."),
            harbour("side", f"{TREE}-wt-2/src", 3, "The crane of the other harbour is painted."),
            harbour("near", f"{TREE}-wt-22", 4, "A third crane is rented."),
        ],
        "jsonl",
    )
    app.derivation.run()
    before = shown(app)
    done = ask(app, SplitProject(TREE, f"{TREE}-wt-2"))
    assert (done["project"], done["sessions"]) == (f"{TREE}-wt-2", 1)
    assert listed(app)[f"{TREE}-wt-2"]["split_from"] == TREE
    app.write([harbour("side-2", f"{TREE}-wt-2", 5, "The painter of the crane is ill.")], "jsonl")
    app.derivation.run()
    whose = {s.session_id: s.project for s in app.storage.events.list_sessions(Scope(), 1000) if "crane" not in s.session_id}
    assert (whose["main"], whose["near"]) == (TREE, TREE)
    assert (whose["side"], whose["side-2"]) == (f"{TREE}-wt-2", f"{TREE}-wt-2")
    app.accelerators.catch_up()
    found = ask(app, SearchRequest(query="crane", detail="full"), TREE)
    assert {r["session_id"] for r in found["results"]} == {"main", "near"}
    found = ask(app, SearchRequest(query="crane", project=f"{TREE}-wt-2", detail="full"))
    assert {r["session_id"] for r in found["results"]} == {"side", "side-2"}
    assert {e.session_id for e in app.storage.events.list_events(Scope(project=TREE), None, 100)} == {"main", "near"}
    ask(app, UndoProject(f"{TREE}-wt-2"))
    assert {s.project for s in app.storage.events.list_sessions(Scope(), 1000) if s.session_id.startswith("side")} == {TREE}
    assert set(listed(app)) == set(before["list"])


def test_a_split_outlives_a_restart_and_follows_an_alias_of_its_project(tmp_path: Path) -> None:
    app = opened(tmp_path / "own")
    app.write([harbour("a", TREE, 2, "One crane."), harbour("b", f"{TREE}/east", 3, "Two cranes.")], "jsonl")
    app.write([harbour("c", "/data/port", 4, "Three cranes.", "/data/port")], "jsonl")
    app.derivation.run()
    ask(app, SplitProject(TREE, f"{TREE}/east", name="east"))
    ask(app, AliasProject(TREE, "/data/port"))
    app.close()
    app = opened(tmp_path / "own")
    assert {s.session_id: s.project for s in app.storage.events.list_sessions(Scope(), 9)} == {
        "a": "/data/port",
        "b": "east",
        "c": "/data/port",
    }
    ask(app, UndoProject(TREE))
    ask(app, UndoProject("east"))
    assert {s.session_id: s.project for s in app.storage.events.list_sessions(Scope(), 9)} == {
        "a": TREE,
        "b": TREE,
        "c": "/data/port",
    }
    app.close()


def test_gone_worktrees_join_a_project_that_is_known_whichever_comes_first(app: App) -> None:
    app.write([harbour("w1", f"{TREE}-wt-1", 2, "First worktree.", f"{TREE}-wt-1")], "jsonl")
    app.derivation.run()
    assert f"{TREE}-wt-1" in listed(app), "nothing is known yet that it could belong to"
    app.write([harbour("m", TREE, 3, "Main tree.")], "jsonl")
    app.write([harbour("w2", f"{TREE}-wt-2", 4, "Second worktree.", f"{TREE}-wt-2")], "jsonl")
    app.write([harbour("sub", f"{TREE}/east", 5, "A folder of it.", f"{TREE}/east")], "jsonl")
    app.write([harbour("no", f"{TREE}-admin", 5, "Another repository.", f"{TREE}-admin")], "jsonl")
    app.derivation.run()
    assert listed(app)[TREE]["sessions"] == 4
    assert {a["name"]: a["by"] for a in listed(app)[TREE]["aliases"]} == dict.fromkeys(
        (f"{TREE}-wt-1", f"{TREE}-wt-2", f"{TREE}/east"), "guess"
    )
    assert listed(app)[f"{TREE}-admin"]["sessions"] == 1
    ask(app, UndoProject(f"{TREE}-wt-1"))
    app.write([harbour("w3", f"{TREE}-wt-1", 6, "First worktree again.", f"{TREE}-wt-1")], "jsonl")
    app.derivation.run()
    assert listed(app)[f"{TREE}-wt-1"]["sessions"] == 2, "a guess that was taken back is not made again"


def test_two_repositories_of_one_name_are_not_guessed_to_be_one(app: App) -> None:
    pool = "/home/dev/.codex/worktrees"
    app.write([harbour("a", "/data/one/port", 2, "One.", "/data/one/port")], "jsonl")
    app.write([harbour("p", f"{pool}/ab/port", 3, "Pooled.", f"{pool}/ab/port")], "jsonl")
    app.derivation.run()
    assert "/data/one/port" in {p for p, one in listed(app).items() if one.get("aliases")}
    app.write([harbour("b", "/data/two/port", 4, "Two.", "/data/two/port")], "jsonl")
    app.write([harbour("q", f"{pool}/cd/port", 5, "Pooled, too.", f"{pool}/cd/port")], "jsonl")
    app.derivation.run()
    assert f"{pool}/cd/port" in listed(app)


def test_a_folder_without_a_branch_is_no_part_of_a_gone_repository_above_it(app: App) -> None:
    plain = draft(
        "No repository.", at="2026-02-03 10:00", session="p", project=f"{TREE}/notes", metadata={"cwd": f"{TREE}/notes"}
    )
    app.write([harbour("m", TREE, 2, "Main tree."), plain], "jsonl")
    app.derivation.run()
    assert f"{TREE}/notes" in listed(app)


def test_a_period_that_an_agent_told_names_the_project_of_its_bullets(app: App) -> None:
    best = app.ask(Query("retry queue idempotency", 1, BILLING)).hits[0]
    bullets = [Statement("Invoices went out twice.", [best.grip_ids[0]])]
    day = NodeId(f"toc:day:{best.node_id.split(':')[2]}")
    ask(app, RefineSummary(day, "A day of invoices", bullets))
    before = app.storage.toc.get_nodes([day])[day].bullets
    # The other project's own statements follow those of the agent.
    assert (before[0].text, before[0].project) == ("Invoices went out twice.", BILLING)
    assert {b.project for b in before[1:]} == {SHOP}
    ask(app, AliasProject(BILLING, SHOP))
    told = app.storage.toc.get_nodes([day])[day]
    assert told.title.endswith("A day of invoices")
    assert {b.project for b in told.bullets} == {SHOP}
    ask(app, UndoProject(BILLING))
    assert app.storage.toc.get_nodes([day])[day].bullets == before


def test_a_session_that_begins_below_another_name_is_told_of_the_project(app: App) -> None:
    directory = app.settings.storage.directory
    app.scheduler.run_now("render_briefings")
    own = Path(paths.briefing_file(str(directory), BILLING))
    before = own.read_text(encoding="utf-8")
    ask(app, AliasProject(BILLING, SHOP))
    app.scheduler.run_now("render_briefings")
    both = own.read_text(encoding="utf-8")
    assert both == Path(paths.briefing_file(str(directory), SHOP)).read_text(encoding="utf-8")
    ask(app, UndoProject(BILLING))
    app.scheduler.run_now("render_briefings")
    assert own.read_text(encoding="utf-8") == before


def test_rebuilding_the_tree_changes_nothing_of_it(app: App) -> None:
    from memory_mcp.tree.derive.rebuild_toc import TocRebuild

    ask(app, AliasProject(BILLING, SHOP))
    before = shown(app)
    with app.derivation.publishing:
        report = TocRebuild(app.storage, app.calendar, app.summarizer, app.settings.toc).run()
    assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)
    assert shown(app) == before


def test_the_status_says_what_of_the_environment_is_passed_over(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "/no/zone")
    monkeypatch.setenv("MEMORY_MCP_HOME", "${HOME}")
    notices = get_status(app, GetStatus(), Caller()).notices
    assert [any(words in notice for notice in notices) for words in ("TZ is passed over", "HOME ('${HOME}')")] == [True, True]
    monkeypatch.delenv("TZ")
    monkeypatch.delenv("MEMORY_MCP_HOME")
    assert not get_status(app, GetStatus(), Caller()).notices
