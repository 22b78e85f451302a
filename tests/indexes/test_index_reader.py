"""What is told of messages without a search, and what a jump reads of the store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.indexes.base import Filters, IndexQuery
from memory_mcp.indexes.bm25.index import Bm25Index
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.search.layers.agentic.scan import Scan
from memory_mcp.search.layers.base import LayerName, Query
from memory_mcp.search.layers.teleport import TeleportLayer
from memory_mcp.storage.duckdb import events
from memory_mcp.storage.duckdb.connection import Connection
from tests.factories import draft
from tests.indexes.helpers import keeper_of, reader_of, serving


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    seen: list[str] = []
    read = Connection.fetch_rows

    def rows(self: Connection, sql: str, parameters: list[Any] | None = None) -> list[Any]:
        seen.append(sql)
        return read(self, sql, parameters)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "fetch_rows", rows)
        yield seen


def test_what_changed_since_is_left_to_the_store(kept: App, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(keeper, kept.storage)
    (first, *_) = kept.storage.toc.iter_cuts()
    stored = [event.event for batch in kept.storage.events.iter_all() for event in batch]
    own = {event.event_id for event in kept.storage.events.segment_events(first)}
    grips = [grip.grip_id for batch in kept.storage.grips.iter_all() for grip in batch]
    turns, companions = reader.find_turns(e.event_id for e in stored), reader.find_companions(grips)
    assert own & set(turns)
    assert companions
    kept.storage.toc.drop_nodes([first.node_id])
    assert set(reader.find_turns(turns)) == set(turns) - own
    assert set(reader.find_companions(grips)) <= set(companions)
    # Further behind than is known.
    monkeypatch.setattr(kept.storage.outbox, "nodes_changed_since", lambda _: None)
    assert not reader.find_turns(turns)
    assert not reader.find_companions(grips)


def test_a_jump_asks_nothing_of_the_engine(kept: App, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.storage.copy_rows(lambda: False)
    layer = TeleportLayer(LayerName.BM25, serving(Bm25Index(keeper)), kept.storage, kept.tree, reader_of(keeper, kept.storage))
    layer.teleport(IndexQuery("first", Filters(), 1))  # reads which statements were superseded
    with statements(monkeypatch) as seen:
        assert len(layer.teleport(IndexQuery("ticket cause", Filters(), 20)).hits) > 5
    assert seen == []


def test_changes_are_told_from_memory(kept: App) -> None:
    outbox = kept.storage.outbox
    last = kept.storage.toc.current_version()
    (first, *_) = kept.storage.toc.iter_cuts()
    assert outbox.nodes_changed_since(last) == frozenset()
    kept.storage.toc.drop_nodes([first.node_id])
    assert outbox.nodes_changed_since(last) == frozenset([first.node_id])
    assert outbox.nodes_changed_since(last + 1) == frozenset()


def test_changes_of_a_transaction_that_failed_are_not_told(kept: App, monkeypatch: pytest.MonkeyPatch) -> None:
    last = kept.storage.toc.current_version()
    (first, *_) = kept.storage.toc.iter_cuts()
    monkeypatch.setattr(events, "failpoint", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        kept.write([draft("never stored", at="2026-03-01 09:00")], "test")
    monkeypatch.undo()
    kept.storage.toc.drop_nodes([first.node_id])
    assert kept.storage.outbox.nodes_changed_since(last) == frozenset([first.node_id])


def fail(name: str) -> None:
    raise RuntimeError(f"in the middle: {name}")


@pytest.mark.parametrize(
    ("words", "literal", "read"),
    [("rhodium nowhere", False, 0), ("rhodium", False, 1), ("hodiu", True, None), ("x rhodium y", True, 1), ("rhodium", True, 1)],
)
@pytest.mark.few(3)
def test_a_scan_reads_the_segments_that_hold_the_whole_words(
    kept: App, tmp_path: Path, words: str, literal: bool, read: int | None
) -> None:
    """A text that is meant literally may begin and end inside a word: of these no index knows, and everything is read."""
    kept.write([draft("rhodium is what we decided on", at="2026-03-01 09:00", session="s")], "test")
    kept.derivation.run()
    scan = scan_of(kept, tmp_path)
    query, sought = Query(words, literal=literal), words.split() if not literal else [words]
    named = scan.read_named(query, sought)
    assert (named.events if named else None) == read
    hits = named.hits if named else scan.read_slice(query, sought)
    assert bool(hits) == (words in ("rhodium", "hodiu"))


def test_where_many_segments_hold_a_literal_text_the_newest_of_them_answer(
    kept: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_mcp.search.layers.agentic.scan._FEW", 3)
    days = [f"2026-03-{day:02d} 09:00" for day in range(1, 8)]
    kept.write([draft("rhodium again", at=at, session=f"s{at}") for at in days], "test")
    kept.derivation.run()
    scan = scan_of(kept, tmp_path)
    named = scan.read_named(Query("rhodium", 2, literal=True), ["rhodium"])
    assert named is not None
    assert named.events == 3
    assert [hit.quote for hit in named.hits] == ["rhodium again"] * 2
    newest = sorted((e.event.timestamp for batch in kept.storage.events.iter_all() for e in batch), reverse=True)
    assert [hit.timestamp for hit in named.hits] == newest[:2]
    # Fewer than wanted in those: the others may hold it too, so that all is read.
    assert scan.read_named(Query("rhodium", 4, literal=True), ["rhodium"]) is None


def scan_of(app: App, folder: Path) -> Scan:
    """A scan beside a keyword index of everything."""
    keeper = keeper_of(app.storage, folder / "index")
    keeper.rebuild()
    return Scan(app.storage, app.tree, reader_of(keeper, app.storage))
