"""teleport_search, vector_teleport, hybrid_search and the tools for the indexes, on real index files."""

import itertools
import json
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.base import children, machine
from memory_mcp.base.errors import ConfigError
from memory_mcp.config import Settings
from memory_mcp.embed.base import Vectors
from memory_mcp.embed.models import BUNDLED
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, VectorSettings
from memory_mcp.model.project import Alias
from memory_mcp.server.build import build_server
from memory_mcp.server.guard import MemoryServer
from memory_mcp.service.daemon.gauges import exposition
from tests.factories import BILLING, SHOP, SITE, draft
from tests.files import read_at_rest
from tests.interaction.conftest import Door
from tests.interaction.indexed import RARE, full, opened, over
from tests.interaction.test_errors import SNAPSHOT as REFUSALS
from tests.requirements import requirement
from tests.snapshots import assert_same
from tests.waiting import PATIENCE, until

NO_MODEL = "no model: embedder.model is empty"
#: Words that only the other project's events hold.
FOREIGN = ("billing", "invoice", "Norway", "ledger", "codex")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Filled and indexed once; for tests that only read."""
    app = opened(tmp_path_factory.mktemp("indexed") / "data")
    yield app
    app.close()


@pytest.fixture(scope="module")
def servers(indexed: App) -> tuple[MemoryServer, MemoryServer]:
    return build_server(indexed, ""), build_server(indexed, SHOP)


@pytest.fixture
def door(indexed: App, era: str, servers: tuple[MemoryServer, MemoryServer]) -> Door:
    return Door(indexed, era, server=servers[0])


@pytest.fixture
def shop(indexed: App, era: str, servers: tuple[MemoryServer, MemoryServer]) -> Door:
    return Door(indexed, era, SHOP, server=servers[1])


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Door]:
    """For tests that change something."""
    app = opened(tmp_path / "data")
    yield Door(app, "auto")
    app.close()


def ids(found: dict[str, Any]) -> list[str]:
    return [r["id"] for r in found["results"]]


# teleport_search


@requirement("us:US-01", "bm25:FR-03.1", "bm25:FR-03.2", "bm25:level-3-teleport", "bm25:decided-all-doc-types", "policy:tier-4")
@requirement("bm25:teleport-search-response", "bm25:decision-single-index", "contract:layer-3", "tele:TELE-01")
def test_words_lead_to_ranked_nodes_and_grips(door: Door) -> None:
    found = door.full("teleport_search", query="refresh token rotate")
    assert found["total_hits"] >= len(found["results"]) > 1
    assert found["search_time_ms"] >= 0
    assert {r["kind"] == "grip" for r in found["results"]} == {True, False}
    scores = [r["score"] for r in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert "refresh token" in found["results"][0]["quote"]
    assert door.ok("get_retrieval_status")["tier"] == 4


@requirement(
    "us:US-02",
    "goal:G2",
    "bm25:teleport-search-result",
    "bm25:FR-03.3",
    "bm25:indexed-toc_node-keywords",
    "bm25:indexed-toc_node-level",
)
def test_a_result_says_how_it_scored_what_it_is_when_it_was_and_what_proves_it(door: Door) -> None:
    found = door.full("teleport_search", query="refresh token rotate", limit=20)
    for result in found["results"]:
        assert 0 <= result["score"] <= 1
        assert result["bm25_score"] > 0
        assert result["when"].startswith("2026-0")
        assert result["quote"]
        assert result["grip_ids"]
        assert result["level"] in ("year", "month", "week", "day", "segment")
        if result["kind"] == "grip":
            assert result["id"].startswith("grip:")
            assert "keywords" not in result
        else:
            assert (result["id"].startswith("toc:"), result["kind"]) == (True, result["level"])
    segment = next(r for r in found["results"] if r["kind"] == "segment")
    assert "refresh token" in {k.casefold() for k in segment["keywords"]}


@requirement("plan:future-bm25")
def test_every_grip_of_a_result_expands_to_words_that_were_stored_and_search_node_goes_on_from_its_node(door: Door) -> None:
    results = door.full("teleport_search", query="refresh token rotate")["results"]
    for grip_id in dict.fromkeys(itertools.chain.from_iterable(r["grip_ids"] for r in results)):
        grown = door.ok("expand_grip", grip_id=grip_id)
        assert grown["verified"] is True
    best = next(r for r in results if r["kind"] == "grip")
    assert door.ok("expand_grip", grip_id=best["id"])["grip"]["quote"] == best["quote"]
    best = door.full("teleport_search", query="refresh token", doc_type="toc_node")["results"][0]
    found = door.ok("search_node", node_id=best["id"], query="refresh token")
    assert found["matched"] is True


@requirement("us:US-03", "bm25:FR-02.3", "bm25:indexed-toc_node-doc_type", "bm25:indexed-grip-doc_type")
def test_doc_type_keeps_to_nodes_or_to_grips(door: Door) -> None:
    grips = door.full("teleport_search", query="refresh token", doc_type="grip")
    nodes = door.full("teleport_search", query="refresh token", doc_type="toc_node")
    assert {r["kind"] for r in grips["results"]} == {"grip"}
    assert "grip" not in {r["kind"] for r in nodes["results"]}
    assert grips["total_hits"] + nodes["total_hits"] == door.full("teleport_search", query="refresh token")["total_hits"]


@requirement("bm25:teleport-search-request")
def test_level_keeps_to_nodes_of_it(door: Door) -> None:
    for level in ("segment", "day", "week", "month", "year"):
        found = door.full("teleport_search", query="refresh token", level=level)
        assert {r["kind"] for r in found["results"]} == {level}


@requirement("bm25:FR-05.3")
def test_the_limit_is_ten_unless_another_is_given(door: Door) -> None:
    ten = door.full("teleport_search", query="cause decided test")
    assert len(ten["results"]) == 10 < ten["total_hits"]
    assert ids(door.full("teleport_search", query="cause decided test", limit=3)) == ids(ten)[:3]


@requirement("bm25:indexed-grip-timestamp_ms", "bm25:indexed-toc_node-timestamp_ms")
def test_a_time_keeps_to_what_lies_in_it(door: Door) -> None:
    found = door.full("teleport_search", query="decided", since="2026-01-21", until="2026-01-29", limit=50)
    assert found["results"]
    assert {r["when"][:10] for r in found["results"]} <= {"2026-01-21", "2026-01-29"}
    assert {r["level"] for r in found["results"]} <= {"segment", "day"}
    late = door.full("teleport_search", query="payment module", since="2026-03-01")
    assert (late["results"], late["total_hits"]) == ([], 0)


def test_agent_speaker_and_kind_keep_to_what_is_theirs(door: Door) -> None:
    codex = door.full("teleport_search", query="decided cause", agent="codex", doc_type="grip", limit=50)
    assert {r["agent"] for r in codex["results"]} == {"codex"}
    said = door.full("teleport_search", query="sunrise nightly job", speaker="caroline", doc_type="grip")
    assert {r["speaker"] for r in said["results"]} == {"Caroline"}
    rules = door.full("teleport_search", query="store session cookies test", kind="constraint", limit=50)
    assert {"segment", "grip"} <= {r["kind"] for r in rules["results"]}
    assert rules["total_hits"] < door.full("teleport_search", query="store session cookies test", limit=50)["total_hits"]
    assert all("cookies" in r["quote"] for r in rules["results"] if r["kind"] == "grip")
    assert door.full("teleport_search", query="decided", agent="nobody")["results"] == []


@pytest.mark.parametrize("level", ["", "year", "month", "week", "day", "segment"])
@pytest.mark.parametrize("tool", ["teleport_search", "hybrid_search"])
def test_a_scoped_caller_sees_nothing_of_another_project(shop: Door, tool: str, level: str) -> None:
    query = "decided cause invoice ledger Norway fix"
    found = shop.full(tool, query=query, level=level, limit=50)
    assert found["results"]
    text = json.dumps(found["results"], ensure_ascii=False)
    assert not [word for word in FOREIGN if word in text]
    assert {r["project"] for r in found["results"]} == {SHOP}
    everything = json.dumps(shop.full(tool, query=query, level=level, scope="all", limit=50), ensure_ascii=False)
    assert [word for word in FOREIGN if word in everything]


def test_words_of_another_project_alone_find_nothing_and_the_answer_says_whose_scope_that_was(shop: Door) -> None:
    found = shop.full("teleport_search", query="Norway ledger")
    assert (found["results"], found["total_hits"]) == ([], 0)
    [notice] = found["notices"]
    assert re.fullmatch(rf"0 of [1-9][\d,]* events in project {SHOP}; scope='all' searches every project", notice)
    assert shop.full("teleport_search", query="Norway ledger", project=BILLING)["results"]


def test_a_query_without_words_is_refused_and_finds_never_everything(door: Door) -> None:
    for tool, query in itertools.product(("teleport_search", "hybrid_search"), ("", "  ", "?!", "-- ~~ ::")):
        assert door.error(tool, query=query).startswith("INVALID_ARGUMENT: the query is empty.")


SIGNS = (
    *('"', "'; DROP TABLE event; --", "title:token AND (", "token^4 OR", "+token -rotate ~2"),
    *("[2026 TO *}", "token*", "/regex[/", "\\", "a\\\"b:'c"),
    *("{{token}}", "%s %n $(token) `id`", "\x00\x01token\ud7ff", "🔑 token → 再試行", "((((((((((token"),
)


def test_no_sign_makes_a_query_fail(door: Door) -> None:
    async def ask(client: Client) -> list[Any]:
        return [await client.call_tool("teleport_search", {"query": f"refresh {signs} token"}) for signs in SIGNS]

    for signs, found in zip(SIGNS, door.run(ask), strict=True):
        assert not found.is_error, signs
        assert "refresh token" in json.dumps(found.structured_content["results"]), signs


@requirement("bm25:indexed-grip-text", "bm25:FR-02.2", "bm25:indexed-grip-doc_id", "bm25:indexed-toc_node-doc_id")
def test_a_rare_identifier_leads_to_its_segment_and_to_its_grip(door: Door) -> None:
    for query in (RARE, f"where is {RARE}() called?", "zx81"):
        found = door.full("teleport_search", query=query)["results"]
        assert {"segment", "grip"} <= {r["kind"] for r in found}
        assert all(RARE in r["quote"] for r in found if r["kind"] in ("segment", "grip"))
    segment = next(r["id"] for r in door.full("teleport_search", query=RARE)["results"] if r["kind"] == "segment")
    assert door.ok("get_node", node_id=segment)["node"]["node_id"] == segment


def test_everything_recalled_carries_the_mark_of_its_origin(door: Door) -> None:
    for tool in ("teleport_search", "hybrid_search"):
        assert "origin" in door.ok(tool, query="refresh token")


# freshness


def test_an_event_is_found_before_the_index_holds_it_and_after_in_its_own_project_alone(own: Door) -> None:
    said = "The theodolite in the cellar is miscalibrated."
    own.app.write([draft(said, at="2026-02-26 09:00", session="late")], "jsonl")
    [fresh] = own.full("teleport_search", query="theodolite")["results"]
    assert (fresh["kind"], fresh["quote"]) == ("event", said)
    assert own.ok("expand_grip", grip_id=fresh["grip_ids"][0])["verified"] is True
    own.app.derivation.run()
    assert own.ok("teleport_search", query="theodolite")["total_hits"] >= 1
    own.app.accelerators.catch_up()
    filed = own.full("teleport_search", query="theodolite")["results"]
    assert {"segment", "grip"} <= {r["kind"] for r in filed}
    assert "event" not in {r["kind"] for r in filed}
    own.app.write([draft("The sextant is lost.", at="2026-02-26 09:00", session="late", project=BILLING)], "jsonl")
    assert own.full("teleport_search", query="sextant", project=BILLING)["results"]
    assert own.full("teleport_search", query="sextant", project=SHOP)["results"] == []


@pytest.mark.usefixtures("processes")
def test_of_events_that_wait_only_the_newest_are_embedded_for_a_question(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During an import thousands wait: each costs as much as the question itself."""
    from memory_mcp.embed.model2vec import Model2Vec
    from memory_mcp.search.layers.pending import EMBEDDED

    texts: list[str] = []
    whole = Model2Vec.embed

    def embed(self: Model2Vec, given: Sequence[str]) -> Vectors:
        texts.extend(given)
        return whole(self, given)

    monkeypatch.setattr(Model2Vec, "embed", embed)
    meaning = Door(opened(data_dir, BUNDLED), "auto")
    said = [draft(f"The plover counts shell {n}.", at="2026-02-26 09:00", session="late", source_id=str(n)) for n in range(200)]
    meaning.app.write(said, "jsonl")
    texts.clear()
    one_by_one = meaning.full("vector_teleport", query="plover shells", scope="all")["results"]
    index = meaning.app.accelerators.keyword_index
    while index is not None and index.count_arrivals(meaning.app.storage.events):
        pass
    assert meaning.full("vector_teleport", query="plover shells", scope="all")["results"] == one_by_one != []
    meaning.app.close()
    assert "plover shells" in texts
    assert len(texts) <= EMBEDDED + 4, "the question itself, for what is indexed and for what is not"


def test_a_note_is_found_behind_all_that_an_import_brings(own: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.search.layers.pending.MOST_WAITING", 10)
    monkeypatch.setattr("memory_mcp.search.layers.pending.BROUGHT", 5)
    own.app.write([draft("The astrolabe is in the loft.", at="2026-02-26 09:00", session="live", source_id="a")], "tool")
    brought = [draft(f"Row {n} of the ledger.", at="2026-02-26 10:00", session="late", source_id=str(n)) for n in range(20)]
    own.app.write(brought, "jsonl")
    assert own.full("teleport_search", query="astrolabe", scope="all")["results"]
    # A question is answered from the tree as well, which has what the index only counts.
    row = own.full("intelligent_search", query="ledger row 3", scope="all")
    assert "agentic" in row["explanation"]["method_used"]
    assert any("wait to be indexed" in notice for notice in row["explanation"]["notices"])
    assert any("Row 3 of" in result["quote"] for result in row["results"])


@pytest.mark.usefixtures("processes")
def test_what_an_import_brings_is_found_by_terms_that_were_counted_once(own: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = [
        draft(f"Row {n} of the {'ledger ' * (n % 4)}book.", at=f"2026-02-26 10:{n % 60:02}", session="late", source_id=str(n))
        for n in range(150)
    ]
    own.app.write(brought, "jsonl")
    # Told again by another client, which shows it once.
    own.app.write([replace(d, session_id="again", source_id=f"{d.source_id}b") for d in brought[:99]], "claude-code")
    index, events = own.app.accelerators.keyword_index, own.app.storage.events
    assert index is not None

    def ask() -> list[list[tuple[str, float]]]:
        asked: list[dict[str, Any]] = [
            {"query": "ledger row 7"},
            {"query": "book", "keywords": ["ledger"]},
            {"query": "ledger", "project": SHOP},
        ]
        answers = [own.full("teleport_search", **{"scope": "all", **query})["results"] for query in asked]
        return [[(r["quote"], r["score"]) for r in results] for results in answers]

    one_by_one = ask()
    assert all(one_by_one)
    while index.count_arrivals(events):
        pass
    # Only what was counted can be found now, and no more of the latest than one.
    monkeypatch.setattr("memory_mcp.search.layers.pending._UNCOUNTED", 1)
    asked_of_tree = own.full("intelligent_search", query="ledger row 7", scope="all")
    assert "agentic" not in asked_of_tree["explanation"]["method_used"]
    assert ask() == one_by_one
    own.app.write([draft("The quadrant is in the loft.", at="2026-02-26 11:00", session="live")], "tool")
    own.app.write([draft(f"Page {n}.", at="2026-02-26 12:00", session="late", source_id=f"p{n}") for n in range(9)], "jsonl")
    later = own.full("teleport_search", query="quadrant", scope="all")
    assert [r["quote"] for r in later["results"]] == ["The quadrant is in the loft."]
    # A child that is gone is replaced by the next round.
    for child in [*children._running]:
        child.kill()
    with pytest.raises((OSError, EOFError)):
        index.count_arrivals(events)
    assert index.count_arrivals(events)
    own.app.derivation.run()
    own.app.accelerators.catch_up()
    assert not index.end_counting()
    assert own.full("teleport_search", query="ledger row 7", scope="all")["results"]


@pytest.mark.usefixtures("processes")
def test_where_counting_has_ended_or_a_project_got_another_name_what_waits_is_found(own: Door) -> None:
    index, events = own.app.accelerators.keyword_index, own.app.storage.events
    assert index is not None
    said = [
        draft(f"Row {n} of the ledger.", at="2026-02-26 10:00", session="late", source_id=str(n), project=SITE) for n in range(9)
    ]
    own.app.write(said, "jsonl")
    while index.count_arrivals(events):
        pass
    own.app.storage.projects.add_alias(Alias(SITE, BILLING, "a person", 1))
    renamed = own.full("teleport_search", query="row 7", project=BILLING)["results"]
    assert [(r["quote"], r["project"]) for r in renamed if r["kind"] == "event"][:1] == [("Row 7 of the ledger.", BILLING)]
    waiting = [stored.event for stored in events.read_after(events.last_seq() - len(said), len(said))]
    alone = [match for event in waiting for match in index.score_pending("row 7", [event])]
    assert index.score_pending("row 7", waiting) == alone, "what waits beside an event says nothing about it"
    # The import has ended before the rest of it was counted.
    index.end_counting()
    own.app.write([draft("The quadrant is in the loft.", at="2026-02-26 11:00", session="late")], "jsonl")
    later = [draft(f"Page {n}.", at="2026-02-26 12:00", session="late", source_id=f"p{n}") for n in range(120)]
    own.app.write(later, "jsonl")
    assert own.full("teleport_search", query="quadrant", scope="all")["results"][0]["quote"] == "The quadrant is in the loft."


# status


@requirement("bm25:status-fields", "bm25:FR-07.1", "bm25:FR-07.2", "bm25:FR-07.3", "bm25:FR-07.4", "bm25:FR-07.5")
@requirement("bm25:health-bm25_enabled", "bm25:health-bm25_healthy", "bm25:health-bm25_doc_count", "bm25:health-message")
@requirement("policy:status-bm25", "tele:TELE-06")
def test_the_status_of_both_indexes_has_the_fields_of_the_specification(door: Door) -> None:
    found = door.ok("get_teleport_status")
    detail = found.pop("indexes")["bm25"]
    assert found == {
        "bm25_enabled": True,
        "bm25_healthy": True,
        "bm25_doc_count": sum(detail["documents"].values()),
        "vector_enabled": True,
        "vector_healthy": False,
        "vector_doc_count": 0,
        "message": f"BM25: healthy; vector: {NO_MODEL}",
    }
    assert set(detail["documents"]) == {"toc_node", "grip"}
    assert detail["size_bytes"] > 0
    assert detail["last_commit_at"]
    found = door.ok("get_vector_index_status")
    wanted = {"enabled": True, "ready": False, "vector_count": 0, "message": NO_MODEL}
    assert {k: found[k] for k in wanted} == wanted


@requirement("error:teleport-status-disabled", "us:US-07")
def test_what_is_switched_off_has_a_status_and_no_results_and_questions_go_to_the_tree(tmp_path: Path, era: str) -> None:
    off = TeleportSettings(bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False))
    with closing(opened(tmp_path / "data", teleport=off)) as app:
        door = Door(app, era)
        found = door.ok("get_teleport_status")
        assert (found["bm25_enabled"], found["bm25_healthy"], found["vector_enabled"]) == (False, False, False)
        refusals = {tool: door.error(tool, query="token") for tool in ("teleport_search", "hybrid_search", "vector_teleport")}
        for tool, more in (("rebuild_index", {}), ("prune_index", {"age_days": 3})):
            refusals[tool] = door.error(tool, index_type="bm25", **more)
        assert {text.partition(":")[0] for text in refusals.values()} == {"UNAVAILABLE"}
        assert_same(REFUSALS, "indexes switched off", refusals)
        found = door.full("intelligent_search", query="refresh token")
        assert found["results"]
        assert found["explanation"]["method_used"] == "agentic"
        assert {"layer": "bm25", "reason": "disabled (teleport.bm25.enabled = false)"} in found["explanation"]["skipped"]
        assert not (tmp_path / "data" / "indexes").exists()


# rebuilding and pruning


@requirement("bm25:rebuild-index-response", "bm25:decision-index-lifecycle")
def test_a_rebuild_says_what_it_made_and_finds_the_same_and_what_is_pruned_leaves_the_index_and_nothing_else(own: Door) -> None:
    before = own.full("teleport_search", query="refresh token decided", limit=50)
    made = own.ok("rebuild_index", index_type="bm25")
    assert made["success"] is True
    assert made["documents_indexed"] == own.ok("get_teleport_status")["bm25_doc_count"]
    assert made["duration_ms"] > 0
    assert made["message"] == f"the bm25 index holds {made['documents_indexed']:,} documents"
    after = own.full("teleport_search", query="refresh token decided", limit=50)
    assert [(r["id"], r["score"]) for r in after["results"]] == [(r["id"], r["score"]) for r in before["results"]]
    total = own.ok("get_teleport_status")["bm25_doc_count"]
    made = own.ok("prune_index", index_type="bm25", age_days=20, level="segment")
    assert (made["success"], set(made["pruned"])) == (True, {"segment"})
    status = own.ok("get_teleport_status")
    detail = status["indexes"]["bm25"]
    assert status["bm25_doc_count"] == total - made["pruned"]["segment"]
    assert detail["pruned"] == made["pruned"]
    assert detail["last_prune_at"] == "2026-03-02T13:00:00+01:00"
    assert own.full("teleport_search", query="refresh token", level="segment")["results"] == []
    assert own.full("teleport_search", query="refresh token", level="month")["results"]
    assert own.ok("search_children", query="refresh token", child_level="segment")["results"]
    lacking = "partial: the index leaves out what ended before 2026-02-10"
    assert lacking in own.ok("teleport_search", query="refresh token")["notices"]
    assert own.ok("hybrid_search", query="refresh token")["partial"] is True
    for mode in ("sequential", "parallel", "hybrid"):
        found = own.ok("intelligent_search", query="refresh token grace window", mode=mode)
        assert found["results"][0]["when"][:10] == "2026-01-21", "the tree is searched for what the index leaves out"
        assert {lacking, "what an index lacks was searched for in the tree"} <= set(found["explanation"]["notices"])
    recent = own.ok("intelligent_search", query="refresh token grace window", since="2026-02-20")
    assert not [n for n in recent.get("explanation", {}).get("notices", ()) if "partial" in n or "lacks" in n]
    layers = {layer["name"]: layer.get("reason", "") for layer in own.ok("get_retrieval_status")["layers"]}
    assert "of all segments, those before 2026-02-10" in layers["bm25"]
    assert own.ok("rebuild_index", index_type="bm25")["documents_indexed"] == total


def test_wrong_arguments_are_refused(door: Door) -> None:
    assert door.error("rebuild_index", index_type="grips").startswith("INVALID_ARGUMENT: ")
    assert door.error("prune_index", index_type="topics", age_days=3).startswith("INVALID_ARGUMENT: ")
    assert door.error("teleport_search", query="a", since="2026-02-01", until="2026-01-01").startswith("INVALID_ARGUMENT: ")


# meaning, and both


@requirement("error:hybrid-search-partial")
def test_without_a_model_hybrid_is_the_keyword_side_and_partial_and_a_search_by_meaning_says_why_it_cannot_be(door: Door) -> None:
    found = door.full("hybrid_search", query="refresh token rotate")
    assert found["partial"] is True
    assert found["notices"] == [f"partial: vector could not answer ({NO_MODEL})"]
    keyword = door.full("teleport_search", query="refresh token rotate")
    assert [(r["id"], r["score"]) for r in found["results"]] == [(r["id"], r["score"]) for r in keyword["results"]]
    assert_same(REFUSALS, "without a model", {"vector_teleport": door.error("vector_teleport", query="token")})


def test_a_layer_that_cannot_answer_names_the_tool_of_the_best_layer_that_can(
    door: Door, both: App, meaning: App, era: str
) -> None:
    assert "; use teleport_search meanwhile." in door.error("topics_by_query", query="token")
    assert "; use hybrid_search meanwhile." in Door(both, era).error("topics_by_query", query="token")
    text = Door(meaning, era).error("teleport_search", query="token")
    assert "teleport.bm25.enabled = true; use vector_teleport " in text
    assert "; use vector_teleport meanwhile." in Door(meaning, era).error("topics_by_query", query="token")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """With the model of the package, and so with both indexes."""
    app = opened(tmp_path_factory.mktemp("both") / "data", BUNDLED)
    yield app
    app.close()


@pytest.fixture(scope="module")
def meaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """With the model and no index of words."""
    app = opened(tmp_path_factory.mktemp("meaning") / "data", BUNDLED, TeleportSettings(bm25=IndexSettings(enabled=False)))
    yield app
    app.close()


@requirement("policy:status-vector", "policy:tier-2", "contract:tier-2-hybrid", "contract:layer-4", "tele:TELE-02")
def test_with_a_model_meaning_leads_to_nodes_and_grips(both: App, era: str) -> None:
    door = Door(both, era)
    status = door.ok("get_vector_index_status")
    assert (status["enabled"], status["ready"]) == (True, True)
    assert status["vector_count"] == sum(status["documents"].values()) > 0
    found = door.full("vector_teleport", query="payment module frozen")["results"]
    assert {r["kind"] == "grip" for r in found} == {True, False}
    assert any("payment module" in r["quote"] for r in found[:3])
    assert all(-1 <= r["similarity"] <= 1.001 and 0 <= r["score"] <= 1 for r in found)
    near = door.full("vector_teleport", query="payment module frozen", min_similarity=0.5)["results"]
    assert all(r["similarity"] >= 0.5 for r in near)
    assert (door.ok("get_retrieval_status")["tier"], door.ok("get_retrieval_status")["name"]) == (2, "Hybrid")


@requirement("contract:hybrid-mode", "tele:TELE-04", "plan:future-vector")
def test_hybrid_fuses_the_scores_of_both_sides(both: App, era: str) -> None:
    door = Door(both, era)
    found = door.ok("hybrid_search", query="payment module frozen", detail="full", limit=20)
    assert found["partial"] is False
    sides = [set(r["score_parts"]) for r in found["results"]]
    assert {"bm25", "vector"} in sides
    for result in found["results"]:
        assert result["score"] == pytest.approx(sum(result["score_parts"].values()), abs=0.002)
    best = next(r for r in door.full("vector_teleport", query="payment module", doc_type="toc_node")["results"])
    assert door.ok("search_node", node_id=best["id"], query="payment module")["matched"] is True


def test_a_scoped_search_by_meaning_sees_nothing_of_another_project(both: App, era: str) -> None:
    found = Door(both, era, SHOP).full("vector_teleport", query="decided cause test", limit=50)
    assert not [word for word in FOREIGN if word in json.dumps(found["results"])]


# intelligent_search


@requirement("policy:pattern-check-then-search")
def test_a_question_is_answered_by_a_healthy_index_and_by_the_tree_where_it_finds_nothing(door: Door) -> None:
    why = door.full("intelligent_search", query="refresh token")["explanation"]
    assert (why["method_used"], why["tier_used"]) == ("bm25", 4)
    assert {s["layer"]: s["reason"] for s in why["skipped"]} == {"hybrid": f"vector: {NO_MODEL}"}
    why = door.full("intelligent_search", query="xylophone")["explanation"]
    assert (why["method_used"], why["fallback_occurred"]) == ("agentic", True)
    assert {"layer": "bm25", "reason": "found nothing"} in why["skipped"]


@requirement("error:teleport-status-unhealthy", "bm25:NFR-02.1", "bm25:NFR-02.2", "contract:principle-disposable-indexes")
def test_an_index_that_is_damaged_or_gone_is_reported_questions_go_to_the_tree_and_it_is_built_again(own: Door) -> None:
    keeper = own.app.accelerators.get_keeper("bm25")
    parts = own.app.settings.storage.directory / "indexes" / "bm25" / "parts"
    victim, _ = max(read_at_rest(parts).items(), key=lambda item: len(item[1]))
    victim.write_bytes(b"\0" + victim.read_bytes()[1:] + b"\0")
    assert keeper.index.verify_files() is False
    status = own.ok("get_teleport_status")
    assert (status["bm25_enabled"], status["bm25_healthy"]) == (True, False)
    assert status["message"].startswith(f"BM25: {victim.name} of the index was changed from outside")
    text = own.error("teleport_search", query="refresh")
    assert text.startswith("UNAVAILABLE: ")
    assert_same(REFUSALS, "an index that is damaged", {"teleport_search": text.replace(victim.name, "FILE")})
    found = own.full("intelligent_search", query="refresh token")
    assert (found["explanation"]["method_used"], found["explanation"]["tier_used"]) == ("agentic", 5)
    assert found["results"]
    own.app.accelerators.maintain()
    until(lambda: own.full("intelligent_search", query="refresh token")["explanation"]["method_used"] == "bm25")
    # The folder may go at any moment.
    until(lambda: own.ok("get_teleport_status")["bm25_healthy"])
    before = ids(own.full("teleport_search", query="refresh token"))
    shutil.rmtree(own.app.settings.storage.directory / "indexes")
    assert own.full("intelligent_search", query="refresh token")["results"]
    own.app.accelerators.maintain()
    assert own.full("intelligent_search", query="refresh token")["results"]
    until((parts.parent / "CURRENT").exists)
    until(lambda: own.ok("get_teleport_status")["bm25_healthy"])
    assert ids(own.full("teleport_search", query="refresh token")) == before


def test_an_index_whose_changes_cannot_be_prepared_is_reported_and_questions_go_to_the_tree(
    own: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError("no room for this unit")

    reason = "changes cannot be prepared: no room for this unit"
    with monkeypatch.context() as broken:
        broken.setattr(own.app.accelerators.get_keeper("bm25").index.kind, "prepare_unit", refuse)
        own.app.write([draft("The sextant is in the loft.", at="2026-02-26 11:00", session="late")], "jsonl")
        own.app.derivation.run()
        own.app.accelerators.maintain()
        status = own.ok("get_teleport_status")
        assert (status["bm25_healthy"], reason in status["message"]) == (False, True)
        assert reason in own.error("teleport_search", query="sextant")
        answer = own.full("intelligent_search", query="refresh token")
        assert (answer["explanation"]["method_used"], bool(answer["results"])) == ("agentic", True)
        assert {"layer": "bm25", "reason": reason} in answer["explanation"]["skipped"]
    assert own.ok("get_teleport_status")["bm25_healthy"]
    assert own.full("teleport_search", query="sextant", scope="all")["results"]


# tiers and contracts


@requirement("policy:tier-3", "contract:tier-3-semantic")
def test_with_a_model_and_no_keyword_index_the_tier_is_semantic(meaning: App) -> None:
    door = Door(meaning, "auto")
    status = door.ok("get_retrieval_status")
    why = door.full("intelligent_search", query="refresh token")["explanation"]
    assert (status["tier"], status["name"]) == (3, "Semantic")
    assert (why["method_used"], why["tier_used"]) == ("vector", 3)


@requirement("contract:bm25-declared", "contract:vector-declared")
def test_both_layers_declare_what_they_can_and_cannot_do(door: Door) -> None:
    layers = {x["name"]: x["contract"] for x in door.ok("get_retrieval_status", detail="full")["layers"]}
    assert layers["bm25"] == {
        "strength": "Fast exact keyword",
        "weakness": "Misses synonyms",
        "failure_mode": "Index unavailable",
        "safe_fallback": "Agentic",
    }
    assert layers["vector"] == {
        "strength": "Semantic similarity",
        "weakness": "Can hallucinate relevance",
        "failure_mode": "Index unavailable",
        "safe_fallback": "BM25 or Agentic",
    }


# what is indexed


@requirement("bm25:FR-02.1", "bm25:indexed-toc_node-text", "bm25:FR-01.3")
@pytest.mark.parametrize("level", ["segment", "day", "week", "month", "year"])
def test_a_node_is_found_by_its_title_its_bullets_and_its_keywords(indexed: App, level: str) -> None:
    door = Door(indexed, "auto")
    nodes = [n for n in indexed.storage.toc.iter_nodes() if n.level == level][:2]
    assert nodes
    for node in nodes:
        for words in (node.title.split(" · ", 1)[-1], node.bullets[0].text, " ".join(node.keywords)):
            assert node.node_id in ids(door.full("teleport_search", query=words, level=level, limit=50)), (node.node_id, words)


@requirement("bm25:indexed-no-raw-events")
def test_documents_are_nodes_and_grips_and_no_events(indexed: App) -> None:
    counts = Door(indexed, "auto").ok("get_teleport_status")["indexes"]["bm25"]["documents"]
    nodes = list(indexed.storage.toc.iter_nodes())
    shares = sum(len({b.project for b in n.bullets}) for n in nodes if n.level != "segment")
    assert counts == {"toc_node": len(nodes) + shares, "grip": indexed.storage.get_stats().rows["grip"]}
    assert indexed.storage.get_stats().rows["event"] > 0


# upkeep


def jobs(app: App) -> dict[str, str]:
    return {s.name: s.schedule for s in app.scheduler.statuses()}


@requirement("bm25:FR-04.1", "bm25:FR-04.2", "bm25:FR-04.3", "us:US-08")
def test_a_job_commits_what_is_searchable_already(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "data", teleport=TeleportSettings(bm25=IndexSettings(commit_interval_secs=20)))) as app:
        assert jobs(app)["commit_indexes"] == "every 20 seconds"
        door = Door(app, "auto")
        app.write([draft("The theodolite is broken.", at="2026-02-26 09:00", session="late")], "jsonl")
        app.derivation.run()
        app.accelerators.catch_up()
        before = door.ok("get_teleport_status")["indexes"]["bm25"]
        found = ids(door.full("teleport_search", query="theodolite"))
        assert found
        assert app.scheduler.run_now("commit_indexes").counts == {"committed": 1}
        assert door.ok("get_teleport_status")["indexes"]["bm25"]["generation"] == before["generation"] + 1
        assert ids(door.full("teleport_search", query="theodolite")) == found
        assert app.scheduler.run_now("commit_indexes").counts == {"committed": 0}


@requirement("bm25:FR-04.1", "bm25:FR-08.5", "bm25:FR-09.2")
def test_indexes_are_on_by_default_and_kept_every_minute_and_every_night(indexed: App) -> None:
    usual = Settings().teleport
    assert (usual.enabled, usual.bm25.enabled, usual.vector.enabled) == (True, True, True)
    assert jobs(indexed)["commit_indexes"] == "every minute"
    assert jobs(indexed)["prune_indexes"] == jobs(indexed)["housekeeping"] == "daily at 03:00"


@requirement("bm25:FR-09.2")
def test_the_nightly_job_leaves_out_what_has_aged_once_the_index_is_large(indexed: App, tmp_path: Path) -> None:
    assert indexed.scheduler.run_now("prune_indexes").words == "nothing had aged out"
    shutil.copytree(full("", TeleportSettings()), tmp_path / "data")
    large = TeleportSettings(bm25=IndexSettings(retention_min_docs=10))
    with closing(opened(tmp_path / "data", teleport=large, filled=False)) as app:
        app.accelerators.catch_up()
        door = Door(app, "auto")
        assert door.full("teleport_search", query="refresh token", level="segment")["results"]
        assert app.scheduler.run_now("prune_indexes").counts["bm25"] > 0
        assert door.full("teleport_search", query="refresh token", level="segment")["results"] == []
        assert door.full("teleport_search", query="refresh token", level="day")["results"]


@requirement("bm25:FR-04.4")
def test_closing_commits_what_was_only_in_memory(tmp_path: Path) -> None:
    app = opened(tmp_path / "data")
    app.write([draft("The theodolite is broken.", at="2026-02-26 09:00", session="late")], "jsonl")
    app.derivation.run()
    app.accelerators.catch_up()
    before = app.accelerators.index_statuses()["bm25"]
    app.close()
    with closing(opened(tmp_path / "data", filled=False)) as app:
        loaded = app.accelerators.index_statuses()["bm25"]
        assert (loaded.counts, loaded.behind, loaded.generation) == (before.counts, 0, before.generation + 1)
        assert Door(app, "auto").full("teleport_search", query="theodolite")["results"][0]["kind"] != "event"


@requirement("bm25:FR-01.4")
def test_an_index_lies_in_the_data_directory_or_where_the_settings_say(indexed: App, tmp_path: Path) -> None:
    assert (indexed.settings.storage.directory / "indexes" / "bm25" / "CURRENT").is_file()
    opened(tmp_path / "other", "", TeleportSettings(bm25=IndexSettings(index_path=str(tmp_path / "elsewhere")))).close()
    assert (tmp_path / "elsewhere" / "CURRENT").is_file()
    assert not (tmp_path / "other" / "indexes" / "bm25").exists()


@requirement("bm25:NFR-02.3", "bm25:risk-cold-start")
def test_a_server_without_an_index_answers_at_once_and_has_one_soon_without_being_asked(indexed: App, tmp_path: Path) -> None:
    from memory_mcp.server.service import Service

    shutil.copytree(full("", TeleportSettings()), tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "indexes")
    storage = replace(indexed.settings.storage, data_dir=str(tmp_path / "data"))
    with closing(Service(replace(indexed.settings, storage=storage))) as service:
        running = service.host.app()
        assert Door(running, "auto").full("intelligent_search", query="refresh token")["results"]
        current = tmp_path / "data" / "indexes" / "bm25" / "CURRENT"
        until(current.is_file)
        until(lambda: running.accelerators.index_statuses()["bm25"].ready)
        door = Door(running, "auto")
        until(lambda: door.full("intelligent_search", query="refresh token")["explanation"]["method_used"] == "bm25")


# how it is watched


@requirement("bm25:span-teleport_search", "bm25:span-parse_query", "bm25:span-execute_search", "bm25:span-collect_results")
@requirement("bm25:NFR-04.1")
def test_a_search_is_a_span_with_its_steps_inside_and_so_is_upkeep(own: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_mcp.indexes import keeper, live
    from memory_mcp.indexes.bm25 import index as bm25
    from memory_mcp.search.layers import teleport

    told: list[str] = []

    @contextmanager
    def span(name: str) -> Iterator[None]:
        told.append(f"+{name}")
        yield
        told.append(f"-{name}")

    for module in (bm25, teleport, keeper, live):
        monkeypatch.setattr(module, "span", span)
    own.full("teleport_search", query="refresh token")
    inner = ("parse_query", "execute_search", "collect_results")
    assert told == ["+teleport_search", *(f"{sign}{name}" for name in inner for sign in "+-"), "-teleport_search"]
    told.clear()
    own.app.write([draft("The theodolite is broken.", at="2026-02-26 09:00", session="late")], "jsonl")
    own.app.derivation.run()
    own.app.accelerators.maintain()
    own.app.scheduler.run_now("commit_indexes")
    own.ok("rebuild_index", index_type="bm25")
    begun = [name for name in told if name.startswith("+")]
    assert begun == ["+index_follow", "+index_commit", "+index_rebuild", "+index_commit"]


@requirement("bm25:FR-01.1", "bm25:FR-01.2")
def test_the_engine_is_declared_and_has_a_room_of_its_own() -> None:
    import tomllib

    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert any(d.startswith("bm25s") for d in project["project"]["dependencies"])
    [contract] = [c for c in project["tool"]["importlinter"]["contracts"] if c["id"] == "engines"]
    assert contract["rows"]["bm25s"] == ["indexes.bm25"]
    room = root / "src" / "memory_mcp" / "indexes" / "bm25"
    assert {p.name for p in room.glob("*.py")} >= {"kind.py", "postings.py", "search.py"}


# when something goes wrong, and while much is going on


@requirement("bm25:NFR-02.4", "bm25:risk-commit-failure", "bm25:metric-bm25_commit_errors_total")
def test_a_commit_that_fails_is_counted_and_told_costs_no_answer_and_is_made_up_for(
    own: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def errors() -> float:
        [line] = [x for x in exposition(own.app).splitlines() if x.startswith("bm25_commit_errors_total ")]
        return float(line.split()[1])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    own.app.write([draft("The theodolite is broken.", at="2026-02-26 09:00", session="late")], "jsonl")
    own.app.derivation.run()
    own.app.accelerators.catch_up()
    before = errors()
    with monkeypatch.context() as patch:
        patch.setattr(machine, "put", full)
        with pytest.raises(OSError, match="No space left"):
            own.app.scheduler.run_now("commit_indexes")
    assert errors() == before + 1
    [told] = [s for s in own.app.scheduler.statuses() if s.name == "commit_indexes"]
    assert (told.failures, "No space left" in told.last_result) == (1, True)
    assert "commit_indexes" in caplog.text
    assert own.full("teleport_search", query="theodolite")["results"]
    assert own.app.scheduler.run_now("commit_indexes").counts == {"committed": 1}
    assert own.ok("get_teleport_status")["indexes"]["bm25"]["generation"] == 2


@requirement("bm25:risk-blocking")
def test_calls_are_answered_while_an_index_is_being_built(own: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio

    began, may_end = threading.Event(), threading.Event()
    rebuild = own.app.accelerators.rebuild

    def slowly(name: str) -> Any:
        began.set()
        assert may_end.wait(PATIENCE)
        return rebuild(name)

    monkeypatch.setattr(own.app.accelerators, "rebuild", slowly)
    answers: list[Any] = []

    async def work(client: Any) -> None:
        async def build() -> None:
            answers.append(await client.call_tool("rebuild_index", {"index_type": "bm25"}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(build)
            while not began.is_set():
                await anyio.sleep(0.01)
            for tool in ("teleport_search", "intelligent_search"):
                answers.append(await client.call_tool(tool, {"query": "refresh token"}))
            may_end.set()

    own.run(work)
    assert ["results" in a.structured_content for a in answers] == [True, True, False]
    assert answers[-1].structured_content["success"] is True


@requirement("bm25:FR-08.3", "bm25:decided-memory-budget")
@pytest.mark.usefixtures("processes")
def test_the_settings_say_how_much_memory_a_build_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_mcp.base.children import Child
    from memory_mcp.indexes import build

    told: list[int] = []

    class Told(Child):
        def __init__(self, module: str, hello: Any) -> None:
            told.append(hello.budget_mb)
            super().__init__(module, hello)

    shutil.copytree(full("", TeleportSettings()), tmp_path / "data")
    monkeypatch.setattr(build, "Child", Told)
    # As if it were more than is built in this process.
    monkeypatch.setattr(build, "_FEW", 0)
    shutil.rmtree(tmp_path / "data" / "indexes")
    with closing(over(tmp_path / "data", "", TeleportSettings(bm25=IndexSettings(memory_budget_mb=8)))) as app:
        app.accelerators.catch_up()
    assert told == [8]
    assert IndexSettings().memory_budget_mb == 50
    with pytest.raises(ConfigError, match="memory_budget_mb"):
        IndexSettings(memory_budget_mb=1)


@requirement("bm25:metric-bm25_index_doc_count", "bm25:metric-bm25_index_size_bytes", "bm25:NFR-04.3")
@requirement("bm25:metric-bm25_search_latency_seconds", "bm25:metric-bm25_commit_latency_seconds")
@requirement("bm25:metric-bm25_index_operations_total", "bm25:metric-bm25_rebuild_duration_seconds")
def test_the_metrics_follow_what_an_index_does(own: Door) -> None:
    def read() -> dict[str, float]:
        lines = [x.rsplit(" ", 1) for x in exposition(own.app).splitlines() if x.startswith("bm25_")]
        return {name: float(value) for name, value in lines}

    before = read()
    assert any(name.startswith('bm25_search_latency_seconds_bucket{le="0.1"}') for name in before)
    assert any(name.startswith('bm25_commit_latency_seconds_bucket{le="0.5"}') for name in before)
    own.full("teleport_search", query="refresh token")
    made = own.ok("rebuild_index", index_type="bm25")
    pruned = own.ok("prune_index", index_type="bm25", age_days=20, level="segment")
    after = read()

    def gained(name: str) -> float:
        return after[name] - before[name]

    assert gained("bm25_search_latency_seconds_count") == 1
    # One for the new generation, one for what was pruned, one for the parts that pruning left half empty.
    assert gained("bm25_commit_latency_seconds_count") == gained("bm25_commit_total") == 3
    assert gained("bm25_commit_errors_total") == 0
    assert gained('bm25_index_operations_total{op="add"}') == made["documents_indexed"]
    assert gained('bm25_index_operations_total{op="delete"}') == pruned["pruned"]["segment"]
    status = own.ok("get_teleport_status")["indexes"]["bm25"]
    for kind, count in status["documents"].items():
        assert after[f'bm25_index_doc_count{{doc_type="{kind}"}}'] == count
    assert after["bm25_index_size_bytes"] == status["size_bytes"] > 0
    assert after["bm25_rebuild_duration_seconds"] == pytest.approx(made["duration_ms"] / 1000, abs=0.01)


# what it is worth


@requirement("metric:rare-entity-recall", "metric:successful-teleport-rate", "metric:token-savings")
def test_rare_names_are_found_at_once_and_for_less_than_half_of_what_walking_the_tree_costs(tmp_path: Path) -> None:
    names = [
        f"{kind}_{i}{tail}" for i in range(5) for kind, tail in (("ERR", "F"), ("parse", "()"), ("cfg", ".yml"), ("job", "-x"))
    ]
    with closing(opened(tmp_path / "data")) as app:
        days = [f"2026-01-{day:02} 15:00" for day in range(2, 30)]
        said = [
            draft(f"While renaming handlers, {name} turned up and we changed it.", at=days[i % len(days)], session=f"r{i}")
            for i, name in enumerate(names)
        ]
        app.write(said, "jsonl")
        app.derivation.run()
        app.accelerators.catch_up()
        door = Door(app, "auto")
        answers = {name: door.full("teleport_search", query=name, limit=3) for name in names}
        found = [name for name, answer in answers.items() if any(name in r["quote"] for r in answer["results"])]
        walks = [tokens_of_the_way_to(door, answers[name]["results"]) for name in names[:3]]
    assert len(found) > 0.95 * len(names)
    assert all(tokens(answers[name]) < walk / 2 for name, walk in zip(names, walks, strict=False))


@requirement("metric:teleport-usage-rate")
def test_most_questions_that_have_an_answer_are_answered_by_an_index(indexed: App) -> None:
    door = Door(indexed, "auto")
    questions = ("refresh token grace window", "idempotency key", "what did we decide about the queue", "VAT Norway", "retry")
    methods = [door.full("intelligent_search", query=q, scope="all")["explanation"]["method_used"] for q in questions]
    assert methods.count("bm25") / len(methods) > 0.3


def tokens(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False)) // 4


def tokens_of_the_way_to(door: Door, results: list[dict[str, Any]]) -> int:
    """Reading the tree from its root to the segment of some results, page by page."""
    segment = next(r["id"] for r in results if r["kind"] == "segment")
    day = segment.split(":")[2]
    pages = [door.ok("get_toc_root"), door.ok("browse_toc", node_id="toc:year:2026")]
    pages += [door.ok("browse_toc", node_id=f"toc:{level}") for level in (f"month:{day[:7]}", f"day:{day}")]
    return sum(map(tokens, [*pages, door.ok("get_node", node_id=segment)]))
