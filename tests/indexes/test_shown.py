"""What hits show, copied beside the index: as the store has it, and no longer once the store has something else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_mcp.app import App
from memory_mcp.capture.evidence import make_quotation, quote_events
from memory_mcp.indexes.base import Filters, IndexQuery
from memory_mcp.indexes.bm25.index import Bm25Index
from memory_mcp.indexes.copies import Copies, PackedTexts
from memory_mcp.indexes.follow import FollowedIndex, follow_changes
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.shard import LiveShard
from memory_mcp.model.calendar import LEVELS
from memory_mcp.model.grip import Quotation
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.search.layers.agentic.scan import Scan
from memory_mcp.search.layers.base import LayerName, Query
from memory_mcp.search.layers.teleport import TeleportLayer
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import events
from memory_mcp.storage.duckdb.connection import Connection
from tests.factories import draft
from tests.indexes.helpers import keeper_of, merged, serving, shown_of


def all_nodes(storage: Storage) -> list[NodeId]:
    return [i for level in LEVELS for i in storage.toc.list_ids(level)]


def all_said(storage: Storage) -> dict[GripId, Quotation]:
    found = {}
    for grips in storage.grips.iter_all():
        for grip in grips:
            events = storage.events.get_events([grip.event_id_start, grip.event_id_end])
            pair = [events[grip.event_id_start], events[grip.event_id_end]]
            quote = quote_events(grip, pair if pair[0].event_id != pair[1].event_id else pair[:1])
            found[grip.grip_id] = make_quotation(grip, pair[0], quote)
    return found


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


def test_everything_is_shown_as_the_store_has_it(kept: App, keeper: Keeper) -> None:
    shown = shown_of(keeper, kept.storage)
    nodes = all_nodes(kept.storage)
    assert len(nodes) > 10
    assert shown.read_nodes(nodes) == {i: replace(n, pinned=False) for i, n in kept.storage.toc.get_nodes(nodes).items()}
    said = all_said(kept.storage)
    assert len(said) > 20
    assert shown.read_quotations(said) == said


def test_it_is_the_same_after_changes_merges_and_a_restart(kept: App, keeper: Keeper, tmp_path: Path) -> None:
    for n in range(4):
        kept.write([draft(f"rhodium {n} is what we decided on", at=f"2026-03-0{n + 1} 09:00", session=f"s{n}")], "test")
        kept.derivation.run()
        while follow_changes(kept.storage, FollowedIndex(keeper.index, keeper.shard_builder)):
            continue
        keeper.index.commit()
    merged(keeper.index)
    again = keeper_of(kept.storage, tmp_path / "index")
    again.load()
    for one in (keeper, again):
        shown = shown_of(one, kept.storage)
        assert shown.read_quotations(all_said(kept.storage)) == all_said(kept.storage)
        assert set(shown.read_nodes(all_nodes(kept.storage))) == set(all_nodes(kept.storage))


def test_what_changed_since_is_left_to_the_store(kept: App, keeper: Keeper) -> None:
    shown = shown_of(keeper, kept.storage)
    (first, *_) = kept.storage.toc.iter_cuts()
    own = {
        i
        for i, s in all_said(kept.storage).items()
        if s.event_id in {e.event_id for e in kept.storage.events.segment_events(first)}
    }
    before = shown.read_quotations(all_said(kept.storage))
    assert own & set(before)
    kept.storage.toc.drop_nodes([first.node_id])
    assert first.node_id not in shown.read_nodes([*all_nodes(kept.storage), first.node_id])
    assert set(shown.read_quotations(before)) == set(before) - own


def test_an_index_further_behind_than_is_known_shows_nothing(kept: App, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_of(keeper, kept.storage)
    monkeypatch.setattr(kept.storage.outbox, "nodes_changed_since", lambda _: None)
    assert not shown.read_nodes(all_nodes(kept.storage))
    assert not shown.read_quotations(all_said(kept.storage))


def test_words_that_are_not_those_of_the_grip_are_not_shown(keeper: Keeper) -> None:
    live: LiveShard[Any] = keeper.index.snapshot.shards[0]
    copies: Copies = live.shard.body.copies
    row = int(np.argmax(np.diff(copies.quotes.ends, prepend=0)))
    assert copies.read_quotation(row, 0) is not None
    data = bytearray(copies.quotes.data)
    data[int(copies.quotes.ends[row]) - 1] ^= 1
    assert replace(copies, quotes=PackedTexts(bytes(data), copies.quotes.ends)).read_quotation(row, 0) is None


def test_a_jump_reads_nothing_by_id(kept: App, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = TeleportLayer(LayerName.BM25, serving(Bm25Index(keeper)), kept.storage, kept.tree, shown_of(keeper, kept.storage))
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
    found = named or scan.read_slice(query, sought)
    assert bool(found.hits) == (words in ("rhodium", "hodiu"))


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
    return Scan(app.storage, app.tree, shown_of(keeper, app.storage))
