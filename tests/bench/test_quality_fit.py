"""The fit of the weights by which answers are judged: signs, what it finds again, and the questions that it is made on."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from bench.quality import fit, hard
from bench.quality.corpora import Half, Kind, Message, Question
from memory_mcp.search.policy import relevance_weights
from memory_mcp.search.policy.relevance import Signals, logistic

AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def question(name: str, text: str, session: str, store: str = "store", corpus: str = "locomo") -> Question:
    sessions = frozenset({session})
    return Question(corpus, store, name, text, Kind.ANSWERABLE, Half.TUNE, AT, sessions, frozenset({f"{session}-1"}))


def row(name: str, lead: float, right: bool, unknown: float = 0.0) -> fit.Row:
    values = dict.fromkeys((*fit.ANSWER_VALUES, *fit.HIT_VALUES), 0.0) | {"lead": lead, "unknown": unknown}
    kind = Kind.ANSWERABLE if right else Kind.TAKEN_OUT
    return fit.Row("locomo", "store", name, kind, Half.TUNE, 2, Signals.BOTH, right, right, False, values, [(values, right)])


def test_what_tells_right_from_wrong_gets_weight_and_nothing_gets_a_weight_against_its_sign() -> None:
    chance = np.random.default_rng(7)
    rows = [row(f"{n}", lead=2 * (n % 2) - 1 + chance.normal(), right=bool(n % 2)) for n in range(400)]
    found = fit.fit(rows)["ANSWER"]["both"]
    assert found["lead"] > 0
    assert logistic(found, rows[1].values | {"lead": 3.0}) > 0.9 > 0.5 > logistic(found, rows[1].values | {"lead": -3.0})
    turned = [replace(one, right=not one.right) for one in rows]
    assert "lead" not in fit.fit(turned)["ANSWER"]["both"]


def test_questions_with_an_answer_weigh_as_much_more_as_is_said_however_many_there_are() -> None:
    rows = [*(row(f"a{n}", 1.0, right=True) for n in range(10)), *(row(f"b{n}", 1.0, right=False) for n in range(90))]
    weights = fit.weights_of(rows)
    assert weights[:10].sum() / weights[10:].sum() == pytest.approx(fit.ODDS / fit.TAKEN_OUT)


def test_the_shipped_weights_are_written_as_the_module_has_them() -> None:
    shipped = {"ANSWER": relevance_weights.ANSWER, "HIT": relevance_weights.HIT}
    made: dict[str, object] = {}
    exec(fit.written({name: {s: dict(w) for s, w in own.items()} for name, own in shipped.items()}), made)
    assert (made["ANSWER"], made["HIT"]) == (shipped["ANSWER"], shipped["HIT"])


def test_recombined_and_foreign_questions_have_no_answer_and_are_the_same_each_time() -> None:
    asked = [
        question("a", "where did Caroline keep the palladium", "s1"),
        question("b", "when did Melanie repaint the harbour", "s2"),
    ]
    made = hard.recombined(asked)
    assert made == hard.recombined(asked)
    assert {one.kind for one in made} == {Kind.UNANSWERABLE}
    assert not {one.text for one in made} & {one.text for one in asked}
    others = [question("c", "why kafka", "s9", "elsewhere", "commits"), question("d", "为什么", "s9", "zh", "lifebench-zh")]
    assert [one.text for one in hard.foreign(asked[0], others)] == ["why kafka"]


def test_a_small_store_answers_half_of_what_it_is_asked() -> None:
    messages = [Message(f"s{n}-{m}", f"s{n}", AT, "user", "", "words") for n in range(9) for m in range(20)]
    asked = [question(f"q{n}", f"question {n}", f"s{n}") for n in range(9)]
    for _, kept, questions in hard.small_stores("store", messages, asked):
        sessions = {message.session for message in kept}
        assert len(kept) <= hard.MESSAGES
        assert {one.kind for one in questions} == {Kind.ANSWERABLE, Kind.TAKEN_OUT}
        assert all(one.sessions <= sessions for one in questions)
