"""Layers run by a plan: real threads, layers that are slow, blocked, broken or missing, and what is made of them."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import InvalidQuery, LayerUnavailable, StorageError
from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.model.ids import NodeId
from memory_mcp.search.layers.base import Hit, Layer, LayerAnswer, LayerName, LayerStatus, Query
from memory_mcp.search.layers.budget import Budget, StopConditions
from memory_mcp.search.policy import path as stopping
from memory_mcp.search.policy.execute import Execution, Judge
from memory_mcp.search.policy.merge import Run, Verdict
from memory_mcp.search.policy.plan import How, Mode, Plan, PlanContext, make_plan
from tests.requirements import requirement
from tests.waiting import PATIENCE, until

ALL = (LayerName.BM25, LayerName.VECTOR, LayerName.AGENTIC)


def hit(name: str, score: float) -> Hit:
    return Hit(NodeId(f"toc:segment:2026-01-01:{name}"), name, name, (), 0, "", "", "", "", "", score)


@dataclass
class Made:
    """A layer that does as it is told, and remembers the thread that asked it."""

    name: LayerName
    work: Callable[[Budget], LayerAnswer]
    ended: threading.Event = field(default_factory=threading.Event)
    asked: int = 0
    query: Query | None = None

    def status(self) -> LayerStatus:
        return LayerStatus(self.name, enabled=True, healthy=True)

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        self.asked, self.query = self.asked + 1, query
        try:
            return self.work(budget)
        finally:
            self.ended.set()


def finds(*scores: float) -> Callable[[Budget], LayerAnswer]:
    return lambda _: LayerAnswer(tuple(hit(f"{n}: {score}", score) for n, score in enumerate(scores)))


def raises(error: Exception) -> Callable[[Budget], LayerAnswer]:
    def work(_: Budget) -> LayerAnswer:
        raise error

    return work


def until_stopped(budget: Budget) -> LayerAnswer:
    """Works until its budget says that it is over, and gives what it has by then."""
    never = threading.Event()
    while not budget.out_of_time():
        never.wait(0.001)
    return LayerAnswer((hit("partial", 0.3),))


class Reads:
    """Something that blocks until its thread is interrupted; the first interrupt is lost, as between two reads."""

    def __init__(self) -> None:
        self.interrupts: list[int] = []
        #: By thread, of which there may be several of one identity after each other: since when, and what ends it.
        self._wanted: dict[int, tuple[int, threading.Event]] = {}

    def block(self, _: Budget) -> LayerAnswer:
        own = threading.Event()
        self._wanted[threading.get_ident()] = (len(self.interrupts), own)
        assert own.wait(PATIENCE)
        raise StorageError("interrupted")

    def interrupt(self, thread: int) -> None:
        self.interrupts.append(thread)
        since, own = self._wanted.get(thread, (0, threading.Event()))
        if self.interrupts[since:].count(thread) > 1:
            own.set()


@contextmanager
def identity_taken(identity: int) -> Iterator[None]:
    """Have a thread live that has the identity of one that ended, or no thread if none gets it."""
    until(lambda: identity not in {thread.ident for thread in threading.enumerate()})
    over = threading.Event()
    several: list[threading.Thread] = []
    while identity not in (thread.ident for thread in several) and len(several) < 100:
        several.append(threading.Thread(target=over.wait, args=(PATIENCE,)))
        several[-1].start()
    yield
    over.set()
    for thread in several:
        thread.join()


def judge(layer: LayerName, hits: Sequence[Hit]) -> Verdict:
    """One hit of 0.6 is enough."""
    del layer
    best = max((h.score for h in hits), default=0.0)
    return Verdict(best >= 0.6, best, "judged")


def plan_of(layers: Mapping[LayerName, Made], mode: Mode, timeout_ms: int | None = None, nodes: int | None = None) -> Plan:
    statuses = [made.status() for made in layers.values()]
    bounds = {"timeout_ms": timeout_ms, "beam_width": None if mode is Mode.SEQUENTIAL else 5, "max_nodes_visited": nodes}
    known = PlanContext(statuses, StopConditions(), 0, Calendar("UTC"))
    made = make_plan(Query("words to look for"), How(mode=mode, bounds=bounds), known)
    return replace(made, order=tuple(layers))


@dataclass
class Ran:
    run: Run
    budget: Budget


def ran(
    *layers: Made,
    mode: Mode = Mode.PARALLEL,
    timeout_ms: int | None = None,
    interrupt: Callable[[int], None] = lambda _: None,
    judge: Judge = judge,
    nodes: int | None = None,
    covered_from: int = 0,
) -> Ran:
    by_name: dict[LayerName, Layer] = {made.name: made for made in layers}
    plan = replace(plan_of({made.name: made for made in layers}, mode, timeout_ms, nodes), covered_from=covered_from)
    budget = Budget(plan.bounds, SystemClock(), strict=plan.strict)
    return Ran(Execution(by_name, interrupt).run(plan, Query("words to look for"), budget, judge), budget)


def outcomes(run: Run) -> dict[str, str]:
    return {tried.layer: tried.outcome for tried in run.tried}


def test_side_by_side_strong_evidence_on_one_path_cancels_the_others() -> None:
    slow = Made(LayerName.VECTOR, until_stopped)
    done = ran(Made(LayerName.BM25, finds(0.9)), slow)
    assert slow.ended.wait(PATIENCE)
    assert outcomes(done.run) == {"bm25": "sufficient", "vector": "cancelled"}
    assert [h.score for h in done.run.hits] == [0.9]
    assert done.run.sufficient
    assert not done.budget.spent.hit


@pytest.mark.parametrize(("score", "walks"), [(0.7, 0), (0.4, 1)])
def test_side_by_side_the_tree_is_walked_where_no_other_layer_is_sure(score: float, walks: int) -> None:
    walk = Made(LayerName.AGENTIC, finds(0.3))
    done = ran(Made(LayerName.TOPICS, finds()), Made(LayerName.HYBRID, finds(score)), walk)
    assert walk.asked == walks
    assert [tried.layer for tried in done.run.tried] == [LayerName.TOPICS, LayerName.HYBRID, LayerName.AGENTIC]


def test_a_blocked_read_is_interrupted_until_its_thread_ends_and_no_longer() -> None:
    """One interrupt may come between two reads, and is lost; another thread may soon have the same identity."""
    reads = Reads()
    blocked = Made(LayerName.VECTOR, reads.block)
    done = ran(Made(LayerName.BM25, finds(0.9)), blocked, interrupt=reads.interrupt)
    assert outcomes(done.run)["vector"] == "cancelled"
    assert blocked.ended.wait(PATIENCE)
    [first] = set(reads.interrupts)
    with identity_taken(first):
        ended = len(reads.interrupts)
        ran(
            Made(LayerName.BM25, finds(0.9)),
            Made(LayerName.VECTOR, reads.block, other := threading.Event()),
            interrupt=reads.interrupt,
        )
        assert other.wait(PATIENCE)
        # One may have been under way.
        assert reads.interrupts[ended:].count(first) <= 1


def test_side_by_side_the_best_layers_results_come_first_and_alone_where_others_found_nothing() -> None:
    done = ran(Made(LayerName.BM25, finds(0.3)), Made(LayerName.VECTOR, finds(0.4, 0.2)))
    assert outcomes(done.run) == {"bm25": "insufficient", "vector": "insufficient"}
    assert [h.title for h in done.run.hits] == ["0: 0.3", "0: 0.4", "1: 0.2"]
    assert [h.score for h in done.run.hits] == sorted((h.score for h in done.run.hits), reverse=True)
    assert done.run.hits[0].score == 0.3
    assert done.run.arbitration == "merged bm25 1, vector 2: 0 of 3 in several; bm25 comes first"
    assert done.run.used == (LayerName.BM25, LayerName.VECTOR)
    done = ran(Made(LayerName.BM25, finds()), Made(LayerName.VECTOR, finds(0.4, 0.2)), mode=Mode.HYBRID)
    assert [h.score for h in done.run.hits] == [0.4, 0.2]
    assert done.run.method == "vector"
    assert done.run.arbitration == ""


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.PARALLEL])
@requirement("policy:mode-hybrid")
def test_side_by_side_a_path_that_is_sure_answers_with_the_others_not_instead_of_them(mode: Mode) -> None:
    """Both ended in time; whose evidence was the surer decides nothing, as the difference is noise."""
    first = threading.Event()

    def later(_: Budget) -> LayerAnswer:
        assert first.wait(PATIENCE)
        return finds(0.95)(_)

    def weak(_: Budget) -> LayerAnswer:
        first.set()
        return finds(0.3)(_)

    done = ran(Made(LayerName.BM25, weak), Made(LayerName.VECTOR, later), mode=mode)
    assert [h.title for h in done.run.hits] == ["0: 0.3", "0: 0.95"]
    assert done.run.sufficient
    assert done.run.method == "hybrid"
    assert outcomes(done.run) == {"bm25": "insufficient", "vector": "sufficient"}


def test_side_by_side_layers_are_told_of_in_the_order_of_the_plan_whichever_ended_first() -> None:
    heard = threading.Event()

    def hearing(layer: LayerName, hits: Sequence[Hit]) -> Verdict:
        if layer is LayerName.VECTOR:
            heard.set()
        return Verdict(False, 0.1, f"{len(hits)} hits")

    def later(budget: Budget) -> LayerAnswer:
        assert heard.wait(PATIENCE)
        return finds(0.3)(budget)

    gone = raises(LayerUnavailable("gone"))
    layers = (Made(LayerName.BM25, later), Made(LayerName.VECTOR, finds()), Made(LayerName.AGENTIC, gone))
    done = ran(*layers, judge=hearing).run
    assert [tried.layer for tried in done.tried] == ["bm25", "vector", "agentic"]
    assert list(done.answers) == ["bm25", "vector"]
    assert [skipped.layer for skipped in done.skipped] == ["vector", "agentic"]


def test_one_by_one_what_was_not_enough_is_kept_and_a_layer_with_evidence_enough_is_the_last_that_is_asked() -> None:
    done = ran(Made(LayerName.BM25, finds(0.3)), Made(LayerName.AGENTIC, finds(0.9)), mode=Mode.SEQUENTIAL)
    assert [h.title for h in done.run.hits] == ["0: 0.3", "0: 0.9"]
    assert done.run.method == "bm25+agentic"
    next_one = Made(LayerName.AGENTIC, finds(0.9))
    done = ran(Made(LayerName.BM25, finds(0.7)), next_one, mode=Mode.SEQUENTIAL)
    assert [h.title for h in done.run.hits] == ["0: 0.7"]
    assert not next_one.asked


@pytest.mark.parametrize("mode", Mode)
def test_a_layer_that_fails_or_is_missing_never_fails_the_search(mode: Mode) -> None:
    done = ran(
        Made(LayerName.BM25, raises(ValueError("broken"))),
        Made(LayerName.VECTOR, raises(LayerUnavailable("Vector index not enabled", reason="disabled"))),
        Made(LayerName.AGENTIC, finds(0.7)),
        mode=mode,
    )
    assert [h.score for h in done.run.hits] == [0.7]
    assert done.run.method == "agentic"
    told = outcomes(done.run)
    assert told["agentic"] == "sufficient"
    if mode is Mode.SEQUENTIAL:
        assert told == {"bm25": "failed", "vector": "unavailable", "agentic": "sufficient"}
        assert {s.layer: s.reason for s in done.run.skipped} == {"bm25": "failed: broken", "vector": "disabled"}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("error", [StorageError("the file is gone"), InvalidQuery("no words")], ids=["storage", "query"])
def test_what_no_other_layer_can_mend_is_passed_up_and_nothing_goes_on_working(mode: Mode, error: Exception) -> None:
    slow = Made(LayerName.VECTOR, until_stopped)
    with pytest.raises(type(error)):
        ran(Made(LayerName.BM25, raises(error)), slow, mode=mode)
    assert not slow.asked or slow.ended.wait(PATIENCE)


def test_a_path_that_fails_only_when_another_has_won_is_no_error() -> None:
    won = threading.Event()

    def loses(budget: Budget) -> LayerAnswer:
        while not budget.out_of_time():
            pass
        won.set()
        raise StorageError("interrupted")

    done = ran(Made(LayerName.BM25, finds(0.9)), Made(LayerName.VECTOR, loses))
    assert won.wait(PATIENCE)
    assert done.run.method == "bm25"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of a time limit is kept for an answer to be heard: two milliseconds are not enough on a busy machine."""
    monkeypatch.setattr(stopping, "_TO_ANSWER", 500.0)


@pytest.mark.usefixtures("patient")
def test_what_a_slow_layer_has_when_its_time_is_up_is_kept_and_time_is_left_for_the_next() -> None:
    done = ran(Made(LayerName.BM25, until_stopped), Made(LayerName.AGENTIC, finds(0.5)), mode=Mode.SEQUENTIAL, timeout_ms=2000)
    assert outcomes(done.run)["agentic"] == "insufficient"
    assert [h.title for h in done.run.hits] == ["partial", "0: 0.5"]
    done = ran(Made(LayerName.AGENTIC, until_stopped), mode=Mode.SEQUENTIAL, timeout_ms=2000)
    assert [h.title for h in done.run.hits] == ["partial"]


def test_a_layer_that_hears_nothing_is_left_at_the_deadline_and_what_others_found_is_kept() -> None:
    heard = threading.Event()

    def hears_nothing(_: Budget) -> LayerAnswer:
        assert heard.wait(PATIENCE)
        return LayerAnswer(())

    deaf = Made(LayerName.VECTOR, hears_nothing)
    done = ran(Made(LayerName.BM25, finds(0.3)), deaf, timeout_ms=1000)
    assert not deaf.ended.is_set()
    assert outcomes(done.run) == {"bm25": "insufficient", "vector": "timed out"}
    assert [h.score for h in done.run.hits] == [0.3]
    assert done.budget.spent.hit == ["timeout_ms"]
    heard.set()
    assert deaf.ended.wait(PATIENCE)


@pytest.mark.parametrize("mode", Mode)
def test_what_a_layer_has_reported_is_its_answer_where_it_has_not_ended_in_time(mode: Mode) -> None:
    heard = threading.Event()

    def reports(budget: Budget) -> LayerAnswer:
        budget.on_partial(LayerAnswer((hit("early", 0.4),)))
        assert heard.wait(PATIENCE)
        return LayerAnswer((hit("late", 0.9),))

    done = ran(Made(LayerName.AGENTIC, reports), mode=mode, timeout_ms=100)
    assert [h.title for h in done.run.hits] == ["early"]
    assert outcomes(done.run) == {"agentic": "insufficient"}
    assert done.budget.spent.hit == ["timeout_ms"]
    heard.set()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("others", [finds(), raises(LayerUnavailable("gone")), raises(ValueError("broken"))])
def test_the_first_find_of_the_last_resort_is_waited_for_whatever_the_time(
    mode: Mode, others: Callable[[Budget], LayerAnswer]
) -> None:
    def late(budget: Budget) -> LayerAnswer:
        never = threading.Event()
        while budget.ms_to_limit() > -20:
            never.wait(0.005)
        return LayerAnswer(() if budget.out_of_time() else (hit("first", 0.4),))

    done = ran(Made(LayerName.BM25, others), Made(LayerName.AGENTIC, late), mode=mode, timeout_ms=60)
    assert [h.title for h in done.run.hits] == ["first"]


@pytest.mark.parametrize("mode", [Mode.PARALLEL, Mode.HYBRID])
def test_a_layer_that_was_left_no_nodes_is_not_said_to_have_found_nothing(mode: Mode) -> None:
    def visits(count: int) -> Callable[[Budget], LayerAnswer]:
        def work(budget: Budget) -> LayerAnswer:
            return LayerAnswer(tuple(hit(f"{n}", 0.3) for n in range(budget.visit_nodes(count))))

        return work

    def looks(budget: Budget) -> LayerAnswer:
        budget.visit_nodes(100)
        return LayerAnswer(())

    walk = Made(LayerName.AGENTIC, looks)
    starved = ran(Made(LayerName.HYBRID, visits(14)), walk, mode=mode, nodes=14).run.tried[-1]
    assert (starved.layer, starved.outcome, starved.reason) == (
        "agentic",
        "not tried",
        "not tried: 14 of 14 nodes used by hybrid",
    )
    assert not walk.asked
    cut = ran(Made(LayerName.HYBRID, visits(14)), walk, mode=mode, nodes=60, timeout_ms=5000).run.tried[-1]
    assert cut.outcome == "cut short"
    assert "14 of 60 nodes used by hybrid" in cut.reason
    empty = ran(Made(LayerName.HYBRID, visits(14)), Made(LayerName.AGENTIC, finds()), mode=mode, nodes=60, timeout_ms=5000)
    assert empty.run.tried[-1].outcome == "nothing"
    alone = ran(walk, mode=mode, nodes=60, timeout_ms=5000).run.tried[-1]
    assert (alone.outcome, alone.reason) == ("cut short", "found nothing in 60 nodes, not searched to the end")


@pytest.mark.parametrize("mode", Mode)
def test_after_an_index_that_lacks_something_the_tree_is_searched_for_that_and_the_likelier_comes_first(mode: Mode) -> None:
    def index(score: float, *, is_partial: bool) -> Made:
        return Made(LayerName.BM25, lambda _: LayerAnswer((hit("new", score),), is_partial=is_partial))

    for score, first in ((0.95, "new"), (0.65, "0: 0.8")):
        walk = Made(LayerName.AGENTIC, finds(0.8))
        done = ran(index(score, is_partial=True), walk, mode=mode, covered_from=1000).run
        assert done.hits[0].title == first
        assert len(done.hits) == 2
        assert walk.query is not None
        assert walk.query.window == TimeWindow(0, 1000)
        assert not done.lacks_something
    untouched = Made(LayerName.AGENTIC, finds(0.8))
    done = ran(index(0.95, is_partial=False), untouched, mode=Mode.SEQUENTIAL).run
    assert not untouched.asked


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No layer goes on working behind a test."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("layer "):
            thread.join(PATIENCE)
            assert not thread.is_alive()
