"""The ranking layer through the shipped entry point: each of its settings changes what is asked for, or how it is shown."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings, StorageSettings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.layers.base import Hit, Query
from memory_mcp.policy.plan import How
from memory_mcp.policy.rank import RankingSettings
from memory_mcp.server import shapes
from memory_mcp.server.tools.evidence import expand
from tests.factories import draft
from tests.fakes import NOON, FakeClock
from tests.requirements import requirement

DAY = 86_400_000
#: Two sessions that a question fits alike, half a year apart; the older one is a rule.
OLD = "Never restart the zirconium gateway by hand."
NEW = "We did restart the zirconium gateway again."
LONG = "the palladium importer reads every ledger row twice and keeps the later one of them because the first may be partial"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of them, and of one long remark that three sessions repeat."""
    made = tmp_path_factory.mktemp("ranking") / "data"
    with opened(made) as app:
        said = [(OLD, 180), (NEW, 1), *((f"{LONG}.", 20 + n) for n in range(3)), ("A palladium rack stands in the cellar.", 25)]
        app.write([draft(text, at=NOON - days * DAY, session=f"s{days}", source_id=f"{days}") for text, days in said], "test")
        app.catch_up()
    return made


@contextmanager
def opened(directory: Path, **ranking: Any) -> Iterator[App]:
    settings = Settings(
        storage=StorageSettings(str(directory), "Europe/Berlin"),
        teleport=TeleportSettings(enabled=False),
        ranking=RankingSettings(**ranking),
    )
    app = App(settings, FakeClock())
    try:
        yield app
    finally:
        app.close()


def asked(directory: Path, text: str, **ranking: Any) -> list[Hit]:
    with opened(directory, **ranking) as app:
        return list(app.ask(Query(text)).hits)


def sessions(hits: list[Hit]) -> list[str]:
    return [h.session_id for h in hits]


QUESTION = "restart the zirconium gateway"


def test_each_signal_and_the_final_value_are_told_and_the_score_is_the_layers_own(directory: Path) -> None:
    hits = asked(directory, QUESTION, preset="spec")
    for hit in hits:
        parts = dict(hit.parts)
        assert {"salience", "recency", "relevance", "rank"} <= set(parts)
        assert parts["relevance"] == round(hit.score, 4)
        assert parts["rank"] == pytest.approx((parts["salience"] + parts["recency"] + parts["relevance"]) / 3, abs=2e-4)
    values = [dict(h.parts)["rank"] for h in hits]
    assert values == sorted(values, reverse=True)


@requirement("contract:layer-6")
def test_the_preset_decides_between_what_is_newer_and_what_fits_better(directory: Path) -> None:
    better = "never restart the zirconium gateway by hand"
    assert sessions(asked(directory, better))[0] == "s180"
    assert sessions(asked(directory, better, preset="spec", salience_weight=0, half_life_days=10))[0] == "s1"


@requirement("contract:ranking-recency")
def test_the_half_life_decides_how_much_newer_counts(directory: Path) -> None:
    only = {"preset": "spec", "salience_weight": 0.3, "relevance_weight": 0.0}
    assert sessions(asked(directory, QUESTION, half_life_days=5, **only))[0] == "s1"
    assert sessions(asked(directory, QUESTION, half_life_days=30_000, **only))[0] == "s180"


@pytest.mark.parametrize(
    ("weights", "first"),
    [
        ({"salience_weight": 1.0, "recency_weight": 0.0, "relevance_weight": 0.0}, "s180"),
        ({"salience_weight": 0.01, "recency_weight": 1.0, "relevance_weight": 0.0}, "s1"),
    ],
)
def test_a_weight_of_its_own_decides(directory: Path, weights: dict[str, float], first: str) -> None:
    assert sessions(asked(directory, QUESTION, **weights))[0] == first


@requirement("contract:ranking-relevance")
def test_the_weight_of_relevance_decides(directory: Path) -> None:
    better = "never restart the zirconium gateway by hand"
    base = {"salience_weight": 0.01, "recency_weight": 1.0, "half_life_days": 10}
    assert sessions(asked(directory, better, relevance_weight=0.0, **base))[0] == "s1"
    with opened(directory, **(base | {"recency_weight": 0.0}), relevance_weight=1.0) as app:
        assert sessions(list(app.ask(Query(better)).hits))[0] == "s180"


@requirement("contract:ranking-usage")
def test_openings_move_what_was_opened_where_usage_is_on_and_by_its_weight(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory, own := tmp_path / "data")
    with opened(own, usage=True) as app:
        for hit in app.ask(Query(QUESTION)).hits:
            if hit.session_id == "s1":
                expand(app, hit.grip_ids[0])
    rule = {"salience_weight": 0.5, "recency_weight": 0.0, "relevance_weight": 0.0}
    assert sessions(asked(own, QUESTION, usage=True, usage_weight=1.0, **rule))[0] == "s1"
    assert sessions(asked(own, QUESTION, usage=True, usage_weight=0.0, **rule))[0] == "s180"
    assert sessions(asked(own, QUESTION, usage=False, usage_weight=1.0, **rule))[0] == "s180"


def test_repetitions_are_shown_once_unless_the_settings_want_them_all(directory: Path) -> None:
    folded = asked(directory, "palladium importer reads every ledger row twice")
    assert dict(folded[0].parts)["folded"] == 2
    assert len(folded[0].grip_ids) == 3
    every = asked(directory, "palladium importer reads every ledger row twice", collapse=False)
    assert len(every) == len(folded) + 2


def test_a_query_that_names_a_time_does_not_go_by_recency(directory: Path) -> None:
    hits = asked(directory, "what did we restart in the last year", preset="spec")
    assert hits
    assert all("recency" not in dict(h.parts) for h in hits)


def test_an_identifier_that_is_named_exactly_is_not_outranked_by_recency(tmp_path: Path) -> None:
    with opened(tmp_path / "data", preset="spec", half_life_days=5, recency_weight=1.0) as app:
        said = [("drain_queue_v2 must never run twice.", 300), ("We drain the queue tonight.", 1)]
        app.write([draft(text, at=NOON - days * DAY, session=f"s{days}", source_id=f"{days}") for text, days in said], "test")
        app.catch_up()
        assert sessions(list(app.ask(Query("drain_queue_v2")).hits))[0] == "s300"


def test_a_superseded_statement_stands_behind_its_successor(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory, own := tmp_path / "data")
    better = "never restart the zirconium gateway by hand"
    with opened(own) as app:
        grips = {h.session_id: h.grip_ids[0] for h in app.ask(Query(better)).hits}
        app.storage.superseded.record(grips["s180"], grips["s1"], NOON)
        hits = list(app.ask(Query(better)).hits)
    assert sessions(hits)[:2] == ["s1", "s180"]
    assert (hits[0].superseded_by, hits[1].superseded_by) == ("", grips["s1"])


def test_recency_is_counted_from_the_moment_that_is_asked_about(directory: Path) -> None:
    with opened(directory, preset="spec", half_life_days=5) as app:
        now = app.ask(Query(QUESTION)).hits
        then = app.ask(Query(QUESTION), How(as_of=NOON - 180 * DAY)).hits
    recencies = [{h.session_id: dict(h.parts)["recency"] for h in hits}["s180"] for hits in (now, then)]
    assert recencies[0] < 0.01
    assert recencies[1] == 1.0


def test_the_server_tells_the_signals_only_where_everything_is_asked_for(directory: Path) -> None:
    with opened(directory) as app:
        [first, *_] = app.ask(Query(QUESTION)).hits
        full, lean = (shapes.result(first, app.calendar, full=f) for f in (True, False))
    assert "rank" in full.score_parts
    assert lean.score_parts == {}
    assert replace(first, parts=()).score == first.score
