"""The vector index as layers ask it: through a keeper, from texts."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from memory_mcp.base.errors import IndexUnreadable, InvalidQuery
from memory_mcp.embed.base import Vectors
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.indexes.base import DocType, Filters, IndexQuery, Matches, Searcher
from memory_mcp.indexes.calibrate import SIMILARITY, calibrate_scores
from memory_mcp.indexes.keeper import Keeper
from memory_mcp.indexes.live import LiveIndex
from memory_mcp.indexes.registry import KINDS, SEARCHERS
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.index import VectorIndex
from memory_mcp.indexes.vector.kind import VectorBody, VectorKind
from tests.factories import event
from tests.fakes import FakeClock
from tests.indexes.models import made_up, snapshot, static_model, unit


@pytest.fixture
def kind(tmp_path: Path) -> VectorKind:
    return VectorKind(Model2Vec(static_model(tmp_path / "model")))


def index(kind: VectorKind, held: Snapshot[VectorBody], folder: Path) -> VectorIndex:
    """An index that holds just this."""
    kept = SimpleNamespace(index=SimpleNamespace(snapshot=held, kind=kind, home=SimpleNamespace(directory=folder)))
    return VectorIndex(cast("Keeper", kept))


@pytest.fixture
def asked(kind: VectorKind, tmp_path: Path) -> VectorIndex:
    return index(kind, snapshot(kind, [*made_up(40), unit(900, "kitten garden", ["kitten sunrise garden"])]), tmp_path)


def test_a_text_finds_what_means_the_same(asked: VectorIndex) -> None:
    found = asked.search(IndexQuery("garden kitten", Filters(doc_type=DocType.NODE), 3))
    assert found.best[0].node_key == 900
    assert asked.search(IndexQuery("garden kitten", Filters(), 3, 0.99)).total == 1


def test_a_text_without_words_is_refused_and_one_of_unknown_words_finds_nothing(asked: VectorIndex) -> None:
    for text in ("", " \n"):
        with pytest.raises(InvalidQuery):
            asked.search(IndexQuery(text, Filters(), 3))
    assert asked.search(IndexQuery("zyzzyva", Filters(), 3)) == Matches((), 0)


def test_an_empty_index_finds_nothing_and_one_without_files_says_so(kind: VectorKind, tmp_path: Path) -> None:
    assert index(kind, snapshot(kind), tmp_path).search(IndexQuery("login", Filters(), 3)) == Matches((), 0)
    live: LiveIndex[VectorBody] = LiveIndex(kind, tmp_path / "index", "store", FakeClock())
    missing = VectorIndex(cast("Keeper", SimpleNamespace(index=live)))
    with pytest.raises(IndexUnreadable):
        missing.search(IndexQuery("login", Filters(), 3))


def test_a_query_is_embedded_by_what_made_the_snapshot(kind: VectorKind, tmp_path: Path) -> None:
    newer = VectorKind(Model2Vec(static_model(tmp_path / "newer", seed=1, dimensions=48)))
    units = [*made_up(40), unit(900, "kitten garden")]
    swapped = index(newer, snapshot(kind, units), tmp_path)
    assert swapped.search(IndexQuery("garden kitten", Filters(), 5)) == index(kind, snapshot(kind, units), tmp_path).search(
        IndexQuery("garden kitten", Filters(), 5)
    )


def test_events_in_no_document_yet_are_compared_as_grips_of_them_would_be(
    asked: VectorIndex, kind: VectorKind, tmp_path: Path
) -> None:
    texts = ["kitten sunrise garden", "login token", "zyzzyva"]
    events = [event(t, source_id=t) for t in texts]
    found = {u.event.text: u for u in asked.score_pending("kitten garden", events)}
    filed = index(kind, snapshot(kind, [unit(i, "zyzzyva", [t]) for i, t in enumerate(texts)]), tmp_path)
    expected = {m.start_ms: m for m in filed.search(IndexQuery("kitten garden", Filters(), 9)).best}
    assert sorted(u.raw for u in found.values()) == sorted(m.raw for m in expected.values())
    # They are scored by that alone: there is nothing they could stand out from.
    assert all(u.score == round(float(calibrate_scores(SIMILARITY, np.array([u.raw]))[0]), 6) for u in found.values())
    assert "zyzzyva" not in found
    assert asked.score_pending("kitten garden", events) == list(found.values())
    assert asked.score_pending(" ", events) == asked.score_pending("kitten", []) == []


def test_unfiled_events_and_a_question_are_embedded_once(
    asked: VectorIndex, kind: VectorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [event(f"login token {i}", source_id=str(i)) for i in range(5)]
    asked.score_pending("login", events)
    texts: list[str] = []
    embed = kind.embedder.embed

    def counted(asked_for: Sequence[str]) -> Vectors:
        texts.extend(asked_for)
        return embed(asked_for)

    monkeypatch.setattr(kind.embedder, "embed", counted)
    asked.score_pending("login", events)
    assert texts == []
    asked.score_pending("token", events)
    asked.score_pending("token", events)
    assert texts == ["token"]


def test_the_registry_makes_it(kind: VectorKind, tmp_path: Path) -> None:
    made: Any = KINDS["vector"]({"model": str(tmp_path / "model")})
    live: LiveIndex[VectorBody] = LiveIndex(made, tmp_path / "index", "store", FakeClock())
    searcher: Searcher = SEARCHERS["vector"](cast("Keeper", SimpleNamespace(index=live)))
    assert isinstance(searcher, VectorIndex)
    assert np.array_equal(made.embedder.embed(["login"]), kind.embedder.embed(["login"]))
