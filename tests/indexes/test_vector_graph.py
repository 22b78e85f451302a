"""Graphs of large parts: nearly the answers of exact search, and exact search whenever one cannot be had."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.indexes.base import DocType, Filters, Match, Matches, Position
from memory_mcp.indexes.document import Unit
from memory_mcp.indexes.part import LivePart, part_of, read_part, write_part
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.graph import GRAPH_FROM, Graphs
from memory_mcp.indexes.vector.kind import Body, Vector
from memory_mcp.indexes.vector.search import Nearest, search
from tests.indexes.models import made_up, static_model, unit

ALL = Filters()
QUERIES = (
    "fix the login timeout",
    "kitten garden",
    "refund of the invoice",
    "train travel ticket",
    "slow database schema migrate",
)


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> Vector:
    return Vector(Model2Vec(static_model(tmp_path_factory.mktemp("model"))))


def on_disk(kind: Vector, folder: Path, *groups: Sequence[Unit]) -> Snapshot[Body]:
    """One part on disk per group."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for i, units in enumerate(groups):
        files = write_part(kind, part_of(kind, units, [kind.prepared(u) for u in units]), folder / f"p{i}")
        parts.append(LivePart(read_part(kind, folder / f"p{i}", files, folder)))
    return Snapshot.of(tuple(parts), Position())


def ask(kind: Vector, held: Snapshot[Body], text: str, graphs: Nearest | None, filters: Filters = ALL) -> Matches:
    return search(held, kind.embedder.embed([text])[0], filters, 10, graphs=graphs)


def graphs_of(folder: Path) -> Graphs:
    return Graphs(folder, graph_from=200, part_from=50)


def test_graphs_find_what_exact_search_finds(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(1000), [unit(5000 + i, u.nodes[0].gist) for i, u in enumerate(made_up(600, 1))])
    graphs = graphs_of(tmp_path)
    assert ask(kind, held, QUERIES[0], graphs) == ask(kind, held, QUERIES[0], None)
    assert graphs.build_missing(held) == 3
    hits = 0
    for query in QUERIES:
        exact, near = ask(kind, held, query, None), ask(kind, held, query, graphs)
        assert near.total < exact.total, "the graph was not asked"
        hits += len({m.grip_id or m.node_id for m in exact.best} & {m.grip_id or m.node_id for m in near.best})
    assert hits >= 0.98 * 10 * len(QUERIES)
    assert graphs.build_missing(held) == 0


def test_a_match_from_a_graph_is_the_match_of_exact_search(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(300))
    graphs = graphs_of(tmp_path)
    graphs.build_missing(held)
    exact, near = ask(kind, held, QUERIES[1], None), ask(kind, held, QUERIES[1], graphs)
    assert near.best == exact.best


def test_filtered_searches_scan_their_subset(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(300))
    graphs = graphs_of(tmp_path)
    graphs.build_missing(held)
    filters = Filters(project="shop")
    assert ask(kind, held, QUERIES[0], graphs, filters) == ask(kind, held, QUERIES[0], None, filters)


def test_documents_of_one_text_are_all_known(kind: Vector, tmp_path: Path) -> None:
    units = [*made_up(200), *(unit(1000 + i, "login token", ["login token"]) for i in range(150))]
    held = on_disk(kind, tmp_path, units)
    graphs = graphs_of(tmp_path)
    graphs.build_missing(held)
    assert ask(kind, held, "login token", graphs).best == ask(kind, held, "login token", None).best


def test_dropped_units_are_not_found_and_too_few_that_live_mean_an_exact_search(kind: Vector, tmp_path: Path) -> None:
    units = made_up(400)
    held = on_disk(kind, tmp_path, units)
    graphs = graphs_of(tmp_path)
    graphs.build_missing(held)
    part = held.parts[0]
    best = np.sort(np.array([m.node_key for m in search_all(kind, held, QUERIES[0])[:150]], dtype=np.uint64))
    less = Snapshot.of((part.without(part.places(np.unique(best))),), Position())
    assert ask(kind, less, QUERIES[0], graphs).best == ask(kind, less, QUERIES[0], None).best


def search_all(kind: Vector, held: Snapshot[Body], text: str) -> list[Match]:
    return list(search(held, kind.embedder.embed([text])[0], Filters(), 10_000).best)


def test_graphs_are_loaded_again_and_not_built_again(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(300))
    first, second = graphs_of(tmp_path), graphs_of(tmp_path)
    assert first.build_missing(held) == 2
    assert second.build_missing(held) == 0
    assert ask(kind, held, QUERIES[0], second) == ask(kind, held, QUERIES[0], first)
    assert ask(kind, held, QUERIES[0], second).total < ask(kind, held, QUERIES[0], None).total


def damages(path: Path) -> list[bytes]:
    whole = path.read_bytes()
    middle = len(whole) // 2
    return [b"", whole[:middle], whole[:middle] + bytes([whole[middle] ^ 64]) + whole[middle + 1 :], whole + b"x"]


@pytest.mark.parametrize("suffix", ["usearch", "json"])
def test_a_damaged_graph_is_ignored_and_built_again(
    kind: Vector, tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    held = on_disk(kind, tmp_path, made_up(300))
    graphs_of(tmp_path).build_missing(held)
    path = tmp_path / "graphs" / f"p0-grip.{suffix}"
    whole = path.read_bytes()
    for damaged in damages(path):
        path.write_bytes(damaged)
        graphs = graphs_of(tmp_path)
        assert ask(kind, held, QUERIES[0], graphs) == ask(kind, held, QUERIES[0], None)
        assert graphs.build_missing(held) == 1
        assert ask(kind, held, QUERIES[0], graphs).best == ask(kind, held, QUERIES[0], None).best
    path.unlink()
    assert graphs_of(tmp_path).build_missing(held) == 1
    assert path.stat().st_size == len(whole)


def test_a_graph_of_other_rows_is_not_used(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path / "one", made_up(300))
    graphs_of(tmp_path / "one").build_missing(held)
    gists = [replace(u, nodes=(replace(u.nodes[0], gist=f"login {u.nodes[0].gist}"),)) for u in made_up(300)]
    another = on_disk(kind, tmp_path / "two", gists)
    (tmp_path / "one" / "graphs").rename(tmp_path / "two" / "graphs")
    assert graphs_of(tmp_path / "two").build_missing(another) == 1, "the grips are the same"


def test_graphs_of_parts_that_are_gone_and_leftovers_are_removed(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(300), made_up(300, 1))
    graphs = graphs_of(tmp_path)
    assert graphs.build_missing(held) == 4
    (tmp_path / "graphs" / "new").mkdir()
    (tmp_path / "graphs" / "new" / "p0-grip.usearch").write_bytes(b"x")
    graphs.build_missing(replace(held, parts=held.parts[:1]))
    names = {f"p0-{t.value}.{s}" for t in DocType for s in ("json", "usearch")}
    assert {p.name for p in (tmp_path / "graphs").iterdir()} == names


def test_small_indexes_and_parts_in_memory_get_none(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(300))
    assert Graphs(tmp_path).build_missing(held) == 0
    assert GRAPH_FROM == 400_000
    units = made_up(300)
    tail = LivePart(part_of(kind, units, [kind.prepared(u) for u in units]))
    assert graphs_of(tmp_path).build_missing(Snapshot.of((tail,), Position())) == 0


def test_building_ends_when_it_is_told_to_and_goes_on_later(kind: Vector, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(300))
    graphs = graphs_of(tmp_path)
    turns = iter([True, False])
    assert graphs.build_missing(held, lambda: next(turns)) == 1
    assert graphs.build_missing(held) == 1
