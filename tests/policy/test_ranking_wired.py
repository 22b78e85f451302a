"""The ranking layer through the shipped entry point: each of its settings changes what is asked for, or how it is shown."""

import math
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.grip import Supersession
from memory_mcp.requests.expand import ExpandRequest, expand_grip
from memory_mcp.requests.results import FullResult
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest, search
from memory_mcp.search.layers.base import Hit, Query
from memory_mcp.search.policy.plan import How
from memory_mcp.search.policy.rank import RankingSettings
from memory_mcp.storage.settings import StorageSettings
from tests.factories import draft
from tests.fakes import NOON, FakeClock
from tests.requirements import requirement

DAY = 86_400_000
#: Two sessions that a question fits alike, half a year apart; the older one is a rule.
OLD = "Never restart the zirconium gateway by hand."
NEW = "We did restart the zirconium gateway again."
#: Most words of the older one, and not its whole text.
BETTER = "never restart the gateway by hand"
LONG = "the palladium importer reads every ledger row twice and keeps the later one of them because the first may be partial"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of them, and of one long remark that three sessions repeat."""
    made = tmp_path_factory.mktemp("ranking") / "data"
    with opened(made) as app:
        said = [(OLD, 180), (NEW, 1), *((f"{LONG}.", 20 + n) for n in range(3)), ("A palladium rack stands in the cellar.", 25)]
        app.write([draft(text, at=NOON - days * DAY, session=f"s{days}", source_id=f"{days}") for text, days in said], "test")
        app.derivation.run()
    return made


@contextmanager
def opened(directory: Path, **ranking: Any) -> Iterator[App]:
    settings = Settings(
        storage=StorageSettings(str(directory), "Europe/Berlin"),
        teleport=TeleportSettings(enabled=False),
        ranking=RankingSettings(**ranking),
    )
    with closing(App(settings, FakeClock())) as app:
        yield app


def asked(directory: Path, text: str, **ranking: Any) -> list[Hit]:
    with opened(directory, **ranking) as app:
        return list(app.ask(Query(text)).hits)


def sessions(hits: list[Hit]) -> list[str]:
    return [h.session_id for h in hits]


QUESTION = "restart the zirconium gateway"


def test_each_signal_and_the_final_value_are_told_and_with_the_spec_weights_that_is_the_score_shown(directory: Path) -> None:
    layers = {hit.event_id: hit.score for hit in asked(directory, QUESTION)}
    hits = asked(directory, QUESTION, preset="spec")
    for hit in hits:
        parts = dict(hit.parts)
        assert {"salience", "recency", "relevance", "rank"} <= set(parts)
        assert parts["relevance"] == pytest.approx(
            1 + math.log10(layers.get(hit.event_id, 10 ** (6 * parts["relevance"] - 6))) / 6, abs=2e-4
        )
        assert parts["rank"] == pytest.approx((parts["salience"] + parts["recency"] + parts["relevance"]) / 3, abs=2e-4)
        assert hit.score == parts["rank"]
    values = [hit.score for hit in hits]
    assert values == sorted(values, reverse=True)


@requirement("contract:layer-6", "contract:ranking-relevance", "contract:ranking-recency", "contract:ranking-salience")
def test_preset_and_half_life_decide_between_what_is_newer_and_what_fits_better(directory: Path) -> None:
    assert sessions(asked(directory, BETTER))[0] == "s180"
    assert sessions(asked(directory, BETTER, preset="spec", half_life_days=10))[0] == "s1"
    # What is newer stands first where half a year is long, and the rule where it is nothing.
    assert sessions(asked(directory, QUESTION, preset="spec", half_life_days=5))[0] == "s1"
    assert sessions(asked(directory, QUESTION, preset="spec", half_life_days=30_000))[0] == "s180"


@requirement("contract:ranking-usage")
def test_openings_move_what_was_opened_where_usage_is_on(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory, own := tmp_path / "data")
    even = {"preset": "spec", "half_life_days": 30_000}
    with opened(own, usage=True) as app:
        for hit in app.ask(Query(QUESTION)).hits:
            if hit.session_id == "s1":
                for _ in range(4):
                    expand_grip(app, ExpandRequest(grip_id=hit.grip_ids[0]), Caller())
    on, off = (asked(own, QUESTION, usage=usage, **even) for usage in (True, False))
    [opened_on], [opened_off] = ([h for h in hits if h.session_id == "s1"] for hits in (on, off))
    assert dict(opened_on.parts)["usage"] > 0.9
    assert "usage" not in dict(opened_off.parts)
    assert dict(opened_on.parts)["rank"] > dict(opened_off.parts)["rank"]
    assert sessions(off)[0] == "s180"


def test_repetitions_are_shown_once_unless_the_settings_want_them_all(directory: Path) -> None:
    folded = asked(directory, "palladium importer reads every ledger row twice")
    assert dict(folded[0].parts)["folded"] == 2
    assert len(folded[0].grip_ids) == 3
    every = asked(directory, "palladium importer reads every ledger row twice", collapse=False)
    assert len(every) == len(folded) + 2


def test_recency_is_counted_from_the_moment_that_is_asked_about_and_not_where_a_time_is_named(directory: Path) -> None:
    hits = asked(directory, "what did we restart in the last year", preset="spec")
    assert hits
    assert all("recency" not in dict(h.parts) for h in hits)
    with opened(directory, preset="spec", half_life_days=5) as app:
        now = app.ask(Query(QUESTION)).hits
        then = app.ask(Query(QUESTION), How(as_of=NOON - 180 * DAY)).hits
    recencies = [{h.session_id: dict(h.parts)["recency"] for h in hits}["s180"] for hits in (now, then)]
    assert recencies[0] < 0.01
    assert recencies[1] == 1.0


def test_an_identifier_that_is_named_exactly_is_not_outranked_by_recency(tmp_path: Path) -> None:
    with opened(tmp_path / "data", preset="spec", half_life_days=5) as app:
        said = [("drain_queue_v2 must never run twice.", 300), ("We drain the queue tonight.", 1)]
        app.write([draft(text, at=NOON - days * DAY, session=f"s{days}", source_id=f"{days}") for text, days in said], "test")
        app.derivation.run()
        assert sessions(list(app.ask(Query("drain_queue_v2")).hits))[0] == "s300"


def test_a_superseded_statement_stands_behind_its_successor(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory, own := tmp_path / "data")
    with opened(own) as app:
        grips = {h.session_id: h.grip_ids[0] for h in app.ask(Query(BETTER)).hits}
        app.storage.superseded.record_supersession(Supersession(grips["s180"], grips["s1"], NOON))
        hits = list(app.ask(Query(BETTER)).hits)
    assert sessions(hits)[:2] == ["s1", "s180"]
    assert (hits[0].superseded_by, hits[1].superseded_by) == ("", grips["s1"])


def test_the_server_tells_the_signals_only_where_everything_is_asked_for(directory: Path) -> None:
    with opened(directory) as app:
        [first, *_] = app.ask(Query(QUESTION)).hits
        requests = [SearchRequest(query=QUESTION, detail=detail) for detail in ("full", "lean")]
        full, lean = (search(app, one, Caller()).results[0] for one in requests)
    assert isinstance(full, FullResult)
    assert "rank" in (full.score_parts or {})
    assert not hasattr(lean, "score_parts")
    assert replace(first, parts=()).score == first.score
