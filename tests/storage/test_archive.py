"""A store as rows and back: what was recorded is the same, what is derived comes out the same, with the same ids."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from memory_mcp.app import App
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId, NodeId, TopicId
from memory_mcp.model.ledger import AuditEntry, ModelCall, Outcome
from memory_mcp.model.project import Alias, Split
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.requests.refine import RefineSummary, Statement, refine_summary
from memory_mcp.requests.scope import Caller
from memory_mcp.storage.archive import DERIVED, ROWS, SHARED, TableRows
from memory_mcp.storage.duckdb import SCHEMA
from memory_mcp.storage.settings import StorageSettings
from tests.factories import SHOP, a_small_history, draft
from tests.toc.helpers import engine, findings, memory, one, rebuild, run_sql, term_sets

Where = Callable[[], StorageSettings]
#: From each engine to the other; the long form also from each to its own kind.
_TO_ITSELF = [pytest.param(e, e, marks=pytest.mark.slow) for e in ("duckdb", "postgres")]
_MOVES = [("duckdb", "postgres"), ("postgres", "duckdb"), *_TO_ITSELF]
MOVED, MOVED_BACK = (pytest.mark.parametrize(("kept_in", "carried_to"), m, indirect=True) for m in (_MOVES, _MOVES[::-1]))


def lived_in(where: Where) -> App:
    """A memory in which everything that cannot be derived has a row."""
    app = memory(a_small_history(1), where=where())
    store = app.storage
    grips = [g for batch in store.grips.iter_all() for g in batch]
    store.toc.set_pin(grips[0].grip_id, True, "person")
    store.usage.record_usage([grips[1].grip_id], 5)
    store.superseded.record_supersession(Supersession(grips[2].grip_id, grips[3].grip_id, 6, "changed our minds", "agent"))
    store.superseded.record_supersession(Supersession(grips[4].grip_id, None, 7))
    store.spending.record_call(ModelCall(5, NodeId("toc:day:2026-01-12"), "aa", "m", 7, 8, True, Outcome.FALLBACK, "no grips", 9))
    store.audit.record_entry(AuditEntry("correct", 6, "agent", grips[2].grip_id, "changed our minds", {"grips": 1}))
    store.topics.replace_topics([TopicRecord(TopicId("topic:a"), 5, False, (1, 2**63), None, False, ())])
    store.topics.set_label(TopicLabel(TopicId("topic:a"), None, "Checkout", "agent", 7))
    store.projects.add_alias(Alias("old-shop", SHOP, "person", 8))
    store.projects.add_splits([Split(SHOP, "", "/srv/shop/app", "app", 9)])
    store.outbox.set_position("import:x", "mark")
    return app


def carried(app: App, to: Where, drop: Iterable[str] = ()) -> App:
    """The rows of one memory in another, without those of some tables."""
    parts = rows_of(app)
    fresh = memory(where=to())
    fresh.storage.archive.load_rows([p for p in parts if p.table not in drop])
    fresh.derivation.run()
    rebuild(fresh)
    return fresh


def rows_of(app: App) -> list[TableRows]:
    """All rows of a memory."""
    with app.storage.archive.open_snapshot() as snapshot:
        parts = [*snapshot.iter_shared("event", 0), *snapshot.iter_shared("grip", 0), *snapshot.iter_others()]
        assert snapshot.last_seq == app.storage.events.last_seq()
    return parts


def tables_of(app: App) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """The rows of each table and its columns, in no order."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for part in rows_of(app):
        found.setdefault((part.table, part.columns), []).extend(repr(list(row)) for row in part.rows)
    return {table: sorted(rows) for table, rows in found.items()}


def nodes_of(app: App) -> dict[str, object]:
    """Every node but for how often it was written."""
    return {n.node_id: replace(n, version=0, built=0) for n in app.storage.toc.iter_nodes()}


def grips_of(app: App) -> dict[GripId, object]:
    return {g.grip_id: g for batch in app.storage.grips.iter_all() for g in batch}


@MOVED
def test_everything_comes_back_as_it_was_and_what_is_written_after_it_continues_the_numbers(
    kept_in: Where, carried_to: Where
) -> None:
    app = lived_in(kept_in)
    segment = next(n for n in app.storage.toc.iter_nodes() if n.level.value == "segment" and len(n.bullets) > 1)
    cited = segment.bullets[0].grip_ids + segment.bullets[1].grip_ids
    words = RefineSummary(segment.node_id, "Our own words", [Statement("We decided it.", cited)], "What we did.")
    refine_summary(app, words, Caller())
    app.derivation.run()
    other = carried(app, carried_to)
    assert nodes_of(other) == nodes_of(app)
    assert grips_of(other) == grips_of(app)
    assert other.storage.toc.list_refined() == app.storage.toc.list_refined() == [segment.node_id]
    assert term_sets(other) == term_sets(app)
    assert tables_of(other).keys() == tables_of(app).keys()
    # How often a node was written is told by its own rows alone.
    for table, rows in tables_of(app).items():
        if table[0] not in ("node", "bullet", "bullet_grip"):
            assert tables_of(other)[table] == rows, table
    with app.storage.archive.open_snapshot() as before, other.storage.archive.open_snapshot() as after:
        for name in SHARED:
            last = before.last_key(name)
            assert (after.last_key(name), after.fingerprint(name, 0, last)) == (last, before.fingerprint(name, 0, last))
        assert (before.schema, after.schema) == (ROWS, ROWS)
        assert before.store_id == after.store_id
    assert other.storage.toc.list_pins() == app.storage.toc.list_pins()
    assert other.storage.outbox.get_positions("import:") == {"import:x": "mark"}
    assert [a.old for a in other.storage.projects.names.aliases] == ["old-shop"]
    assert other.storage.get_stats().store_id == app.storage.get_stats().store_id
    assert findings(other) == []
    go_on_alike(app, other)


def go_on_alike(app: App, other: App) -> None:
    """What is written now gets the same numbers in both, and the same nodes."""
    for each in (app, other):
        each.write([draft("one more thing", session="later")], "test")
        each.derivation.run()
    assert other.storage.events.last_seq() == app.storage.events.last_seq()
    assert nodes_of(other) == nodes_of(app)
    assert findings(other) == []


def test_what_is_loaded_instead_takes_the_place_of_what_was_there_and_nothing_does_where_that_fails(kept_in: Where) -> None:
    app = lived_in(kept_in)
    others = [p for p in rows_of(app) if p.table != "event"]
    before = tables_of(app)

    def broken() -> Iterator[TableRows]:
        yield TableRows("pin", ("target", "set_by", "at_ms"), [["grip:a", "me", 5]])
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        app.storage.archive.load_rows(broken(), replace_all=True)
    assert tables_of(app) == before
    app.storage.archive.load_rows(others, replace_all=True)
    assert tables_of(app) == before
    app.storage.toc.set_pin("another", True, "person")
    app.storage.archive.load_rows(others, replace_all=True)
    assert tables_of(app) == before
    rebuild(app)
    assert findings(app) == []


def test_a_moment_stays_what_it_was_while_others_write(kept_in: Where) -> None:
    app = memory(a_small_history(1), where=kept_in())
    before = app.storage.events.last_seq()
    with app.storage.archive.open_snapshot() as snapshot:
        events = snapshot.iter_shared("event", 0)
        first = next(events)
        app.write([draft("written meanwhile", session="later")], "test")
        app.derivation.run()
        app.storage.toc.set_pin("pinned meanwhile", True, "person")
        rows = [row for part in (first, *events) for row in part.rows]
        assert [row[0] for row in rows] == list(range(1, before + 1))
        assert snapshot.last_seq == before
        assert snapshot.fingerprint("event", 1, before)[0] == before
        others = list(snapshot.iter_others())
        assert not [p for p in others if p.table == "pin"]
        marks = {row[0]: row[1] for p in others if p.table == "checkpoint" for row in p.rows}
        assert int(marks["deriver"]) == before
    assert app.storage.events.last_seq() == before + 1


def test_slices_are_small(kept_in: Where) -> None:
    app = memory(a_small_history(3), where=kept_in())
    with app.storage.archive.open_snapshot() as snapshot:
        assert (
            max(
                len(p.rows)
                for p in (*snapshot.iter_shared("event", 0), *snapshot.iter_shared("grip", 0), *snapshot.iter_others())
            )
            <= 500
        )


@MOVED
@pytest.mark.few(1)
def test_cuts_that_are_lost_are_made_anew(kept_in: Where, carried_to: Where) -> None:
    app = lived_in(kept_in)
    other = carried(app, carried_to, drop=("segment_cut", "checkpoint"))
    assert other.storage.events.last_seq() == app.storage.events.last_seq()
    assert findings(other) == []


@MOVED_BACK
@pytest.mark.few(1)
def test_rows_that_speak_of_what_is_lost_go_with_it(kept_in: Where, carried_to: Where) -> None:
    app = lived_in(kept_in)
    run_sql(app, "DELETE FROM event WHERE seq BETWEEN 11 AND 150")
    other = carried(app, carried_to)
    assert one(other, "SELECT count(*) FROM event") == one(app, "SELECT count(*) FROM event")
    assert findings(other) == []


def test_rows_of_another_schema_find_their_columns(kept_in: Where) -> None:
    app = memory(where=kept_in())
    told = app.storage.archive.load_rows(
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
    rows = engine(memory()).connection.fetch_rows("SELECT table_name FROM duckdb_tables() WHERE NOT internal")
    assert {row[0] for row in rows} >= DERIVED


def test_the_rows_have_the_form_of_the_first_engines_tables() -> None:
    assert SCHEMA == ROWS
