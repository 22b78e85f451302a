"""A store as rows and back: what was recorded is the same, what is derived comes out the same, with the same ids."""

from collections.abc import Iterable
from dataclasses import replace

from memory_mcp.app import App
from memory_mcp.model.audit import Act
from memory_mcp.model.ids import GripId, TopicId
from memory_mcp.model.project import Alias
from memory_mcp.model.superseded import Superseded
from memory_mcp.model.topic import KnownTopic, TopicLabel
from memory_mcp.requests.refine import RefineSummary, Statement, refine_summary
from memory_mcp.requests.scope import Caller
from memory_mcp.storage.archive import DERIVED, TableRows
from tests.factories import SHOP, a_small_history, draft
from tests.toc.helpers import engine, findings, memory, one, rebuild, run_sql, term_sets


def lived_in() -> App:
    """A memory in which everything that cannot be derived has a row."""
    app = memory(a_small_history(2))
    store = app.storage
    grips = [g for batch in store.grips.iter_all() for g in batch]
    store.toc.set_pin(grips[0].grip_id, True, "person")
    store.usage.record([grips[1].grip_id], 5)
    store.superseded.record(Superseded(grips[2].grip_id, grips[3].grip_id, 6, "changed our minds", "agent"))
    store.audit.record(Act("correct", 6, "agent", grips[2].grip_id, "changed our minds", {"grips": 1}))
    store.topics.replace([KnownTopic(TopicId("topic:a"), 5, False, (1, 2**63), None, False, ())])
    store.topics.label(TopicLabel(TopicId("topic:a"), None, "Checkout", "agent", 7))
    store.projects.add_alias(Alias("old-shop", SHOP, "person", 8))
    store.outbox.mark("import:x", "mark")
    return app


def carried(app: App, drop: Iterable[str] = ()) -> App:
    """The rows of one memory in another, without those of some tables."""
    with app.storage.archive.snapshot() as snapshot:
        parts = [*snapshot.behind("event", 0), *snapshot.behind("grip", 0), *snapshot.others()]
        assert snapshot.last_seq == app.storage.events.last_seq()
    fresh = memory()
    fresh.storage.archive.load([p for p in parts if p.table not in drop])
    fresh.derivation.run()
    rebuild(fresh)
    return fresh


def nodes_of(app: App) -> dict[str, object]:
    """Every node but for how often it was written."""
    return {n.node_id: replace(n, version=0, built=0) for n in app.storage.toc.all_nodes()}


def grips_of(app: App) -> dict[GripId, object]:
    return {g.grip_id: g for batch in app.storage.grips.iter_all() for g in batch}


def test_everything_comes_back_as_it_was() -> None:
    app = lived_in()
    segment = next(n for n in app.storage.toc.all_nodes() if n.level.value == "segment" and n.bullets)
    cited = segment.bullets[0].grip_ids
    words = RefineSummary(segment.node_id, "Our own words", [Statement("We decided it.", cited)], "What we did.")
    refine_summary(app, words, Caller())
    app.derivation.run()
    other = carried(app)
    assert nodes_of(other) == nodes_of(app)
    assert grips_of(other) == grips_of(app)
    assert other.storage.toc.refined() == app.storage.toc.refined() == [segment.node_id]
    assert term_sets(other) == term_sets(app)
    for table in ("event", "duplicate", "segment_cut", "pin", "usage", "superseded", "audit", "topic", "topic_label"):
        rows = "SELECT * FROM {} ORDER BY ALL"
        assert engine(other)._con.rows(rows.format(table)) == engine(app)._con.rows(rows.format(table)), table
    assert other.storage.toc.pins() == app.storage.toc.pins()
    assert other.storage.outbox.marks("import:") == {"import:x": "mark"}
    assert [a.old for a in other.storage.projects.names.aliases] == ["old-shop"]
    assert other.storage.stats().store_id == app.storage.stats().store_id
    assert findings(other) == []


def test_what_is_written_after_it_continues_the_numbers() -> None:
    app = lived_in()
    other = carried(app)
    for each in (app, other):
        each.write([draft("one more thing", session="later")], "test")
        each.derivation.run()
    assert other.storage.events.last_seq() == app.storage.events.last_seq()
    assert nodes_of(other) == nodes_of(app)
    assert findings(other) == []


def test_a_moment_stays_what_it_was_while_others_write() -> None:
    app = memory(a_small_history(1))
    before = app.storage.events.last_seq()
    with app.storage.archive.snapshot() as snapshot:
        events = snapshot.behind("event", 0)
        first = next(events)
        app.write([draft("written meanwhile", session="later")], "test")
        app.derivation.run()
        app.storage.toc.set_pin("pinned meanwhile", True, "person")
        rows = [row for part in (first, *events) for row in part.rows]
        assert [row[0] for row in rows] == list(range(1, before + 1))
        assert snapshot.last_seq == before
        assert snapshot.print_of("event", 1, before)[0] == before
        others = list(snapshot.others())
        assert not [p for p in others if p.table == "pin"]
        marks = {row[0]: row[1] for p in others if p.table == "checkpoint" for row in p.rows}
        assert int(marks["deriver"]) == before
    assert app.storage.events.last_seq() == before + 1


def test_slices_are_small() -> None:
    app = memory(a_small_history(4))
    with app.storage.archive.snapshot() as snapshot:
        assert max(len(p.rows) for p in (*snapshot.behind("event", 0), *snapshot.behind("grip", 0), *snapshot.others())) <= 500


def test_cuts_that_are_lost_are_made_anew() -> None:
    app = lived_in()
    other = carried(app, drop=("segment_cut", "checkpoint"))
    assert other.storage.events.last_seq() == app.storage.events.last_seq()
    assert findings(other) == []


def test_rows_that_speak_of_what_is_lost_go_with_it() -> None:
    app = lived_in()
    run_sql(app, "DELETE FROM event WHERE seq BETWEEN 11 AND 300")
    other = carried(app)
    assert one(other, "SELECT count(*) FROM event") == one(app, "SELECT count(*) FROM event")
    assert findings(other) == []


def test_rows_of_another_schema_find_their_columns() -> None:
    app = memory()
    told = app.storage.archive.load(
        [
            TableRows("superseded", ("old_id", "new_id", "at_ms"), [["grip:a", "grip:b", 5]]),
            TableRows("pin", ("target", "set_by", "at_ms", "colour"), [["grip:a", "me", 5, "red"]]),
            TableRows("of_another_time", ("x",), [[1]]),
        ]
    )
    assert told.rows == {"superseded": 1, "pin": 1}
    assert told.unknown == ("of_another_time",)
    assert one(app, "SELECT reason || author FROM superseded") == ""


def test_what_is_left_out_are_tables() -> None:
    rows = engine(memory())._con.rows("SELECT table_name FROM duckdb_tables() WHERE NOT internal")
    assert {row[0] for row in rows} >= DERIVED
