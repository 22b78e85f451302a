"""What a hit brings along for the ranking: its kind, its node's salience, pins and successors, from every layer alike."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.model.event import TOOL, EventType, Role
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import span_grip_id
from memory_mcp.model.toc import MemoryKind
from memory_mcp.search.layers.base import Hit, LayerName, Query
from memory_mcp.search.layers.budget import Budget, StopConditions
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.tree.summarize.text_kind import read_kind
from tests.factories import draft
from tests.fakes import FakeClock
from tests.indexes.helpers import opened

RULE = "Never deploy the palladium service on a Friday."
SEEN = "The zirconium report came in and looked complete to everybody."
LAYERS = (LayerName.AGENTIC, LayerName.BM25)


@pytest.fixture
def app(data_dir: Path, clock: FakeClock) -> Iterator[App]:
    """A rule and an observation in sessions of their own, found by walking and by the keyword index."""
    found = opened(data_dir, clock)
    seen = draft(SEEN, at="2026-01-13 09:00", session="seen", source_id="2")
    found.write([draft(RULE, session="rule", source_id="1"), seen], "test")
    found.derivation.run()
    found.accelerators.catch_up()
    yield found
    found.close()


def first(app: App, layer: LayerName, text: str) -> Hit:
    budget = Budget(StopConditions(), app.clock)
    asked = app.agentic if layer is LayerName.AGENTIC else app.teleports[layer]
    return asked.search(Query(text), budget).hits[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_hit_tells_its_kind_how_salient_its_node_is_whether_either_is_pinned_and_what_holds_now(
    app: App, layer: LayerName
) -> None:
    rule, seen = first(app, layer, "palladium"), first(app, layer, "zirconium")
    assert (rule.kind, seen.kind) == ("constraint", "")
    stored = app.storage.toc.get_nodes([rule.node_id, seen.node_id])
    assert (rule.salience, seen.salience) == (stored[rule.node_id].salience, stored[seen.node_id].salience)
    assert rule.salience > seen.salience > 0
    found = first(app, layer, "palladium")
    assert not found.pinned
    for target in (found.node_id, found.grip_ids[0]):
        app.storage.toc.set_pin(target, True, "test")
        assert first(app, layer, "palladium").pinned
        assert not first(app, layer, "zirconium").pinned
        app.storage.toc.set_pin(target, False, "test")
    old, new = (first(app, layer, word).grip_ids[0] for word in ("palladium", "zirconium"))
    app.storage.superseded.record_supersession(Supersession(old, new, 1))
    assert first(app, layer, "palladium").superseded_by == new
    assert first(app, layer, "zirconium").superseded_by == ""


def test_a_note_has_its_authors_kind_and_its_pin_filed_or_not_and_what_a_day_is_listed_with_its_standing_too(app: App) -> None:
    note = draft(
        "Rhodium goes first.", at="2026-01-14 09:00", role=Role.ASSISTANT, kind=EventType.NOTE, metadata={"kind": "procedure"}
    )
    [stored] = app.write([note], TOOL).new_ids
    app.storage.toc.set_pin(span_grip_id(stored, 0, 19), True, "test")
    waiting = first(app, LayerName.AGENTIC, "rhodium")
    app.derivation.run()
    filed = first(app, LayerName.AGENTIC, "rhodium")
    assert (waiting.node_id, waiting.kind, waiting.pinned) == ("", "procedure", True)
    assert (bool(filed.node_id), filed.kind, filed.pinned) == (True, "procedure", True)
    day, found = app.agentic.navigate(Query("2026-01-12"), Budget(StopConditions(), app.clock)).hits
    assert (day.level, found.level) == ("day", "segment")
    for hit in (day, found):
        assert (hit.kind, hit.salience > 0.5) == ("constraint", True)


@pytest.mark.parametrize("layer", LAYERS)
def test_what_a_search_asks_the_store_for_does_not_grow_with_pins_and_successors(
    app: App, layer: LayerName, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    rows = Connection.fetch_rows

    def told(self: Connection, sql: str, parameters: list[Any] | None = None) -> list[Any]:
        asked.append(sql)
        return rows(self, sql, parameters)

    old, new = (first(app, layer, word).grip_ids[0] for word in ("palladium", "zirconium"))
    app.storage.superseded.record_supersession(Supersession(old, new, 1))
    app.storage.toc.set_pin("grip:1", True, "test")
    first(app, layer, "palladium zirconium")
    monkeypatch.setattr(Connection, "fetch_rows", told)
    first(app, layer, "palladium zirconium")
    assert [sql for sql in asked if any(f"FROM {table}" in sql for table in ("pin", "superseded", "usage"))] == []


def test_of_several_sentences_the_most_durable_kind_counts_and_the_authors_word_before_all() -> None:
    assert read_kind(f"{SEEN} {RULE}") == "constraint"
    assert read_kind(RULE, author_kind="preference") == "preference"
    assert read_kind(RULE, author_kind=MemoryKind.OBSERVATION) == ""
    assert read_kind(SEEN, author_kind="no such kind") == ""
    assert read_kind("") == ""
