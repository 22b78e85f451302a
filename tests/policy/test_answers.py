"""Whole answers: nothing is withheld, how sure they are is said, a time is preferred, and the question is no hit of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Role
from memory_mcp.question.intent import Intent
from memory_mcp.search.layers.base import LayerName, Query
from memory_mcp.search.layers.budget import Budget, StopConditions
from memory_mcp.search.policy.execute import Execution, Judge
from memory_mcp.search.policy.merge import Run
from memory_mcp.search.policy.plan import How, Mode, Plan
from memory_mcp.search.policy.relevance import Confidence
from tests.factories import draft, ms
from tests.fakes import NOON, FakeClock
from tests.filled import filled
from tests.indexes.helpers import opened

DAY = 86_400_000
STATEMENT = "We keep the osmium key in the blue cabinet"
#: Told on other days than those they tell of, and by a tool, too.
SAID = [
    (STATEMENT + ".", "2026-01-12 09:00", "key", Role.USER),
    ("The zirconium gateway was restarted twice.", "2026-02-10 09:00", "gateway", Role.USER),
    ("The zirconium gateway answers slowly again.", "2026-02-25 09:00", "slow", Role.USER),
    ("error: zirconium gateway failed, zirconium gateway exit 1", "2026-02-26 09:00", "run", Role.TOOL),
    ("Lunch will be at noon, and bread is in the kitchen.", "2026-02-27 09:00", "lunch", Role.USER),
]


@contextmanager
def told_in(place: Path, indexed: bool) -> Iterator[App]:
    """A few messages, and beside them many of no matter."""
    other = [
        draft(
            f"Parcel {n} went to the harbour office in crate {n * 7 % 31}.",
            at=NOON - (9 + n) * DAY,
            session=f"p{n}",
            source_id=f"p{n}",
        )
        for n in range(30)
    ]
    told = [draft(text, at=at, session=session, role=role, source_id=session) for text, at, session, role in SAID]
    filled(place, [*told, *other])
    found = opened(place, FakeClock())
    if indexed:
        found.accelerators.catch_up()
    yield found
    found.close()


@pytest.fixture(scope="module", params=[True, False], ids=["words", "tree"])
def indexed(request: pytest.FixtureRequest) -> bool:
    """Whether there is a keyword index, or the tree alone."""
    return bool(request.param)


@pytest.fixture(scope="module")
def app(indexed: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """For tests that only ask."""
    with told_in(tmp_path_factory.mktemp("told") / "data", indexed) as found:
        yield found


@pytest.fixture
def own(indexed: bool, data_dir: Path) -> Iterator[App]:
    """For tests that tell it more."""
    with told_in(data_dir, indexed) as found:
        yield found


def test_an_answer_says_whether_it_holds_the_words_or_some_of_them_or_none(app: App) -> None:
    found = app.ask(Query("which palladium supplier delivered the submarine to the harbour"))
    assert found.hits
    assert found.confidence is not Confidence.STRONG
    assert found.missing == ("palladium", "supplier", "delivered", "submarine")
    found = app.ask(Query("where do we keep the osmium key"))
    assert found.hits[0].session_id == "key"
    assert (found.confidence, found.missing) == (Confidence.STRONG, ())
    found = app.ask(Query("xylophone quokka"))
    assert (found.hits, found.confidence, found.probability, found.complete) == ((), Confidence.NONE, 0.0, True)
    assert found.missing == ("xylophone", "quokka")


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("intent", [Intent.ANSWER, Intent.LOCATE, Intent.EXPLORE])
def test_a_single_word_in_common_is_shown_in_every_mode_and_for_every_intent(app: App, mode: Mode, intent: Intent) -> None:
    found = app.ask(Query("did the marmalade submarine ever reach the kitchen"), How(mode=mode, intent=intent))
    assert "lunch" in [h.session_id for h in found.hits]


def test_only_a_caller_who_names_a_least_score_loses_results(app: App) -> None:
    question = Query("did the parcel of zirconium reach the harbour office")
    everything = app.ask(question).hits
    least = everything[2].score
    assert least < everything[0].score
    kept = app.ask(question, How(min_confidence=least)).hits
    assert [h.event_id for h in kept] == [h.event_id for h in everything if h.score >= least]
    assert 0 < len(kept) < len(everything)


# a time that the question names


def test_what_lies_inside_the_time_named_comes_first_and_the_best_from_outside_marked_and_a_given_window_filters(
    app: App,
) -> None:
    found = app.ask(Query("what about the zirconium gateway on 2026-02-25"))
    assert (found.hits[0].session_id, found.hits[0].outside) == ("slow", False)
    assert ("gateway", True) in [(h.session_id, h.outside) for h in found.hits]
    assert {h.session_id for h in found.hits if not h.outside} <= {"slow"}
    window = TimeWindow(ms("2026-02-25 00:00"), ms("2026-02-26 00:00"))
    found = app.ask(Query("zirconium gateway", window=window))
    assert [(h.session_id, h.outside) for h in found.hits] == [("slow", False)]


@pytest.mark.parametrize(("timeout_ms", "runs"), [(None, 2), (200, 1)])
def test_in_a_short_time_everything_is_searched_once_and_what_lies_inside_still_comes_first(
    app: App, monkeypatch: pytest.MonkeyPatch, timeout_ms: int | None, runs: int
) -> None:
    windows: list[TimeWindow | None] = []
    run = Execution.run

    def counted(self: Execution, plan: Plan, query: Query, budget: Budget, judge: Judge) -> Run:
        windows.append(query.window)
        return run(self, plan, query, budget, judge)

    monkeypatch.setattr(Execution, "run", counted)
    found = app.ask(Query("zirconium gateway on 10 February 2026"), How(bounds={"timeout_ms": timeout_ms}))
    assert found.hits[0].session_id == "gateway"
    assert [h.outside for h in found.hits][:2] == [False, True]
    assert len(windows) == runs
    assert windows[0] is None


# who said it


def test_words_come_before_what_a_tool_put_out(app: App) -> None:
    found = [h.session_id for h in app.ask(Query("what happened to the zirconium gateway")).hits]
    assert set(found[:2]) == {"gateway", "slow"}


@pytest.mark.parametrize("derived", [True, False], ids=["filed", "not filed yet"])
def test_a_role_is_what_a_jump_finds_alone_filed_or_not(own: App, derived: bool) -> None:
    """However many messages of others would come before."""
    late = [
        draft(f"zirconium gateway {n}", at=NOON - n, session="late", role=Role.ASSISTANT, source_id=f"l{n}") for n in range(1, 30)
    ]
    own.write([*late, draft("about the zirconium gateway", at=NOON, session="me", source_id="me")], "test")
    if derived:
        own.derivation.run()
    own.accelerators.catch_up()
    layer, budget = own.teleports[LayerName.BM25], Budget(StopConditions(), own.clock)

    def sessions(role: str) -> set[str]:
        return {h.session_id for h in layer.search(Query("zirconium gateway", role=role, limit=3), budget).hits}

    assert sessions("user") == {"gateway", "slow", "me"}
    assert sessions("assistant") == {"late"}
    assert sessions("tool") == {"run"}
    assert sessions("system") == set()


@pytest.mark.parametrize("mode", [Mode.SEQUENTIAL, Mode.PARALLEL])
def test_a_role_is_kept_to_whatever_layers_answer(app: App, mode: Mode) -> None:
    question = "what happened to the zirconium gateway"
    for role, sessions in (("user", {"gateway", "slow"}), ("tool", {"run"}), ("assistant", set())):
        found = app.ask(Query(question, role=role), How(mode=mode)).hits
        assert ({h.role for h in found}, {h.session_id for h in found}) == ({role} if sessions else set(), sessions)


# the question itself


@pytest.mark.parametrize("derived", [True, False], ids=["filed", "not filed yet"])
def test_the_question_just_asked_is_not_a_hit(own: App, derived: bool) -> None:
    question = "tell me where we keep the osmium key"
    own.write([draft(question, at=NOON - 2000, session="now", source_id="now")], "test")
    if derived:
        own.derivation.run()
    found = own.ask(Query(question))
    assert found.hits[0].session_id == "key"
    assert "now" not in [h.session_id for h in found.hits]


def test_a_question_that_was_asked_before_does_not_answer_itself(own: App) -> None:
    question = "Where do we keep the osmium key?"
    own.write([draft(question, at="2026-02-01 09:00", session="before", source_id="before")], "test")
    own.derivation.run()
    for asked in (question, "where do we keep the OSMIUM key"):
        assert [h.session_id for h in own.ask(Query(asked)).hits][:1] == ["key"]
        assert "before" not in [h.session_id for h in own.ask(Query(asked)).hits]


@pytest.mark.parametrize("asked", [STATEMENT, STATEMENT.lower() + ".", f'"{STATEMENT}"'])
def test_a_statement_that_is_looked_for_by_its_own_words_is_found(app: App, asked: str) -> None:
    found = app.ask(Query(asked))
    assert found.hits[0].session_id == "key"
    assert found.confidence is Confidence.STRONG
