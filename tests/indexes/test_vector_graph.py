"""Graphs of large tables: nearly the answers of exact search, and exact search whenever one cannot be believed."""

import ast
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from memory_mcp.base.children import Child
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.embed.models import BUNDLED, resolve_model
from memory_mcp.indexes.base import DocType, Filters, Matches, Position
from memory_mcp.indexes.build import ShardBuilder
from memory_mcp.indexes.document import Unit
from memory_mcp.indexes.files import FolderContents, seal_folder
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings
from memory_mcp.indexes.shard import LiveShard, build_shard, read_shard, write_shard
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector import stored
from memory_mcp.indexes.vector.graph import GRAPH_FROM, RETURNED_ROWS
from memory_mcp.indexes.vector.index import VectorIndex
from memory_mcp.indexes.vector.kind import VectorBody, VectorKind
from memory_mcp.indexes.vector.rows import CodedQuery, VectorRows
from memory_mcp.indexes.vector.search import search_documents
from tests.factories import SHOP, a_day_of_drafts
from tests.fakes import FakeClock
from tests.indexes.helpers import opened
from tests.indexes.models import made_up, static_model, unit
from tests.waiting import until

QUERIES = (
    "fix the login timeout",
    "kitten garden",
    "refund of the invoice",
    "train travel ticket",
    "slow database schema migrate",
)


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> VectorKind:
    return VectorKind(Model2Vec(static_model(tmp_path_factory.mktemp("model"))), graph_from=50)


def on_disk(kind: VectorKind, folder: Path, *groups: Sequence[Unit]) -> Snapshot[VectorBody]:
    """One part on disk per group, with graphs."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for i, units in enumerate(groups):
        made = build_shard(kind, units, [kind.prepare_unit(u) for u in units])
        better = kind.improve_body(made.body)
        assert better is not None
        files = write_shard(kind, replace(made, body=better), folder / f"p{i}")
        parts.append(LiveShard(read_shard(kind, folder / f"p{i}", files, folder)))
    return Snapshot.from_shards(tuple(parts), Position())


def scanned(held: Snapshot[VectorBody]) -> Snapshot[VectorBody]:
    """Return the same without its graphs."""
    parts = []
    for live in held:
        body = live.shard.body
        bare = replace(body, nodes=replace(body.nodes, graph=None), grips=replace(body.grips, graph=None))
        parts.append(LiveShard(replace(live.shard, body=bare), live.alive))
    return Snapshot.from_shards(tuple(parts), held.position)


def ask(kind: VectorKind, held: Snapshot[VectorBody], text: str, filters: Filters | None = None) -> Matches:
    return search_documents(held, kind.embedder.embed([text])[0], filters or Filters(), 10)


def test_a_match_from_a_graph_is_the_match_of_exact_search(kind: VectorKind, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(600), [unit(5000 + i, u.nodes[0].gist) for i, u in enumerate(made_up(300, 1))])
    assert [(p.shard.body.nodes.graph is None, p.shard.body.grips.graph is None) for p in held] == [(False, False), (False, True)]
    asked = 0
    for query in QUERIES:
        near, exact = ask(kind, held, query), ask(kind, scanned(held), query)
        asked += near.total < exact.total
        same = {(m.grip_id or m.node_id): m.raw for m in near.best}
        assert {k: raw for k, raw in same.items() if k in {m.grip_id or m.node_id for m in exact.best}}.items() <= {
            (m.grip_id or m.node_id): m.raw for m in exact.best
        }.items()
        assert len({m.grip_id or m.node_id for m in exact.best} & set(same)) >= 9
    assert asked, "no graph was asked"


def test_filtered_searches_scan_their_subset(kind: VectorKind, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(300))
    filters = Filters(project="shop")
    for query in QUERIES:
        assert ask(kind, held, query, filters) == ask(kind, scanned(held), query, filters)


def test_documents_of_one_text_are_all_known(kind: VectorKind, tmp_path: Path) -> None:
    units = [*made_up(200), *(unit(1000 + i, "login token", ["login token"]) for i in range(700))]
    held = on_disk(kind, tmp_path, units)
    assert len(held.shards[0].shard.body.grips.codes) < 700
    assert ask(kind, held, "login token").best == ask(kind, scanned(held), "login token").best


def test_too_few_that_count_mean_an_exact_search(kind: VectorKind, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(600))
    part = held.shards[0]
    best = search_documents(scanned(held), kind.embedder.embed([QUERIES[0]])[0], Filters(), 10_000).best[:1080]
    gone = np.unique(np.array([m.node_key for m in best], dtype=np.uint64))
    less = Snapshot.from_shards((part.without_units(part.find_units(gone)),), Position())
    assert ask(kind, less, QUERIES[0]) == ask(kind, scanned(less), QUERIES[0])


def test_a_question_that_is_far_from_every_row_is_scanned(kind: VectorKind, tmp_path: Path) -> None:
    held = on_disk(kind, tmp_path, made_up(900))
    rows = held.shards[0].shard.body.grips
    assert rows.graph is not None
    query = CodedQuery.from_vector(kind.embedder.embed([QUERIES[0]])[0])
    tenth = float(np.sort(rows.compute_similarities(query)[np.unique(rows.row_of, return_index=True)[1]])[-10])
    for least, told in ((tenth - 0.01, True), (tenth + 0.01, False)):
        near = replace(rows.graph, least=least).find_near(query.codes)
        assert (near is not None) == told
        assert near is None or len(near) >= RETURNED_ROWS
    body = replace(held.shards[0].shard.body, grips=replace(rows, graph=replace(rows.graph, least=1.0)))
    doubted = Snapshot.from_shards((LiveShard(replace(held.shards[0].shard, body=body)),), Position())
    only = Filters(doc_type=DocType.GRIP)
    assert ask(kind, doubted, QUERIES[0], only) == ask(kind, scanned(held), QUERIES[0], only)


def test_usual_parts_and_parts_in_memory_get_no_graph(kind: VectorKind) -> None:
    assert GRAPH_FROM == 100_000
    units = made_up(300)
    usual = VectorKind(kind.embedder)
    made = build_shard(usual, units, [usual.prepare_unit(u) for u in units])
    assert usual.improve_body(made.body) is None


# real texts, embedded by the model that ships


def _texts(most: int) -> Iterator[str]:
    """Paragraphs that people wrote about code: those of the docstrings of the standard library."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if {"site-packages", "test", "tests", "lib2to3"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and (said := ast.get_docstring(node)):
                yield from (" ".join(p.split())[:most] for p in said.split("\n\n") if len(p) > 20)


@pytest.mark.filterwarnings("ignore:.*:SyntaxWarning")
def test_of_real_texts_a_graph_finds_what_a_scan_finds(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The bar is .98 of the ten best, at every size; larger ones are those of the long form and of `bench.graph`."""
    texts = list(dict.fromkeys(islice(_texts(600), 7000 if request.config.getoption("--slow") else 1800)))
    questions = [" ".join(t.split()[:7]) for t in texts[5::60]]
    documents = [t for i, t in enumerate(texts) if i % 60 != 5]
    assert len(documents) > 1500
    embedder = Model2Vec(resolve_model(BUNDLED, None).folder)
    digests = np.arange(len(documents), dtype=np.uint64)
    stored.write_rows(VectorRows.from_vectors(embedder.embed(documents), digests), tmp_path, DocType.GRIP, 1)
    held = stored.read_rows(FolderContents(tmp_path, seal_folder(tmp_path), tmp_path), DocType.GRIP, embedder.dimensions)
    assert held.graph is not None
    found = [_ten(held, CodedQuery.from_vector(v)) for v in embedder.embed(questions)]
    assert np.mean([share for share, _ in found]) >= 0.98
    assert np.mean([by_graph for _, by_graph in found]) >= 0.5, "most of the questions were scanned"


def _ten(held: VectorRows, query: CodedQuery) -> tuple[float, bool]:
    """Share of the ten most similar that are found, and whether by the graph."""
    assert held.graph is not None
    exact = held.compute_similarities(query)
    tenth = np.partition(exact, len(exact) - 10)[len(exact) - 10]
    near = held.graph.find_near(query.codes)
    if near is None:
        return 1.0, False
    assert np.array_equal(held.compute_similarities(query, near), exact[near])
    return min(int(np.count_nonzero(exact[near] >= tenth)), 10) / 10, True


# how a part comes by its graph


def index_of(kind: VectorKind, folder: Path) -> VectorIndex:
    """Return an index in a folder, as a process that starts finds it, with children of its own."""
    live: LiveIndex[VectorBody] = LiveIndex(kind, folder, "store", FakeClock())
    workshop = ShardBuilder(live, {}, 64)
    live.merge_in_child = workshop.merge_shards
    live.load(10)
    return VectorIndex(cast("Keeper", SimpleNamespace(index=live)))


def graphs(index: VectorIndex) -> list[bool]:
    """Return of each table of each part whether it has a graph."""
    snapshot: Snapshot[VectorBody] = index.keeper.index.snapshot
    return [p.shard.body.table(t).graph is not None for p in snapshot for t in (DocType.NODE, DocType.GRIP)]


@pytest.mark.usefixtures("processes")
def test_a_child_process_writes_large_parts_anew_and_nothing_else_differs(kind: VectorKind, tmp_path: Path) -> None:
    index = index_of(kind, tmp_path / "index")
    live = index.keeper.index
    live.adopt_shards([], Position())
    for n, units in enumerate((made_up(300), made_up(10, 1)), start=1):
        live.apply_units([replace(u, key=n << 40 | u.key) for u in units], [], Position(n, n))
        live.commit()
    before = [search_documents(live.snapshot, kind.embedder.embed([q])[0], Filters(project="shop"), 20) for q in QUERIES]
    assert graphs(index) == [False] * 4
    assert index.improve_shards() == 1, "the small part is left alone"
    for found in (index, index_of(kind, tmp_path / "index")):
        assert sorted(graphs(found)) == [False, False, True, True]
        snapshot: Snapshot[VectorBody] = found.keeper.index.snapshot
        assert snapshot.position == Position(2, 2)
        assert [search_documents(snapshot, kind.embedder.embed([q])[0], Filters(project="shop"), 20) for q in QUERIES] == before
        assert found.improve_shards() == 0


def test_improving_leaves_off_when_it_is_told_to(kind: VectorKind, tmp_path: Path) -> None:
    index = index_of(kind, tmp_path / "index")
    assert index.improve_shards() == 0, "there is nothing yet"
    index.keeper.index.adopt_shards([], Position())
    index.keeper.index.apply_units(made_up(300), [], Position(1, 1))
    index.keeper.index.commit()
    assert index.improve_shards(lambda: False) == 0
    assert graphs(index) == [False, False]


@pytest.mark.usefixtures("processes")
def test_a_child_that_dies_leaves_everything_as_it_was(kind: VectorKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(kind, tmp_path / "index")
    live = index.keeper.index
    live.adopt_shards([], Position())
    live.apply_units(made_up(300), [], Position(1, 1))
    live.commit()
    before = ask(kind, live.snapshot, QUERIES[0])
    submit = Child.submit
    monkeypatch.setattr(Child, "submit", lambda self, request: self.kill() or submit(self, request))
    with pytest.raises((OSError, EOFError)):
        index.improve_shards()
    monkeypatch.undo()
    assert ask(kind, live.snapshot, QUERIES[0]) == before
    assert live.verify_files()
    assert index.improve_shards() == 1


@pytest.mark.usefixtures("processes")
def test_the_job_improves_the_index_of_a_store(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.indexes.vector.kind.GRAPH_FROM", 5)
    app = opened(data_dir, teleport=TeleportSettings(bm25=IndexSettings(enabled=False)))
    app.write(a_day_of_drafts("2026-01-12", (SHOP,)), "test")
    app.derivation.run()
    app.accelerators.catch_up()
    app.accelerators.commit()
    index = cast("VectorIndex", app.accelerators.find_searcher("vector"))
    wanted = ask(cast("VectorKind", index.keeper.index.kind), index.keeper.index.snapshot, QUERIES[0], Filters(project=SHOP))
    assert not any(graphs(index))
    assert app.scheduler.run_now("improve_indexes").counts == {"begun": 1}
    until(lambda: not any(thread.name == "improving" for thread in threading.enumerate()))
    assert any(graphs(index))
    kind = cast("VectorKind", index.keeper.index.kind)
    assert ask(kind, index.keeper.index.snapshot, QUERIES[0], Filters(project=SHOP)) == wanted
    app.close()
