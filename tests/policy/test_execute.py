"""Layers run by a plan: real threads, layers that are slow, blocked, broken or missing, and what is made of them."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from memory_mcp.clock import SystemClock
from memory_mcp.errors import InvalidQuery, LayerUnavailable, StorageError
from memory_mcp.layers.base import Hit, Layer, LayerAnswer, LayerName, LayerStatus, Query
from memory_mcp.layers.budget import Budget, StopConditions
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.ids import NodeId
from memory_mcp.policy.execute import Execution, Run, Verdict
from memory_mcp.policy.plan import How, Known, Mode, Plan, make_plan

#: A thread that should end is waited for at most so long (seconds).
PATIENCE = 5.0
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

    def status(self) -> LayerStatus:
        return LayerStatus(self.name, enabled=True, healthy=True)

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        del query
        self.asked += 1
        try:
            return self.work(budget)
        finally:
            self.ended.set()


def finds(*scores: float) -> Callable[[Budget], LayerAnswer]:
    return lambda _: LayerAnswer(tuple(hit(f"{n}{score}", score) for n, score in enumerate(scores)))


def raises(error: Exception) -> Callable[[Budget], LayerAnswer]:
    def work(_: Budget) -> LayerAnswer:
        raise error

    return work


def until_stopped(budget: Budget) -> LayerAnswer:
    """Works until its budget says that it is over, and gives what it has by then."""
    while not budget.out_of_time():
        pass
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


def judge(layer: LayerName, hits: Sequence[Hit]) -> Verdict:
    """Any hit is relevant, one of 0.6 enough."""
    del layer
    best = max((h.score for h in hits), default=0.0)
    return Verdict(bool(hits), best >= 0.6, best, "judged")


def plan_of(layers: Mapping[LayerName, Made], mode: Mode, timeout_ms: int | None = None) -> Plan:
    statuses = [made.status() for made in layers.values()]
    bounds = {"timeout_ms": timeout_ms, "beam_width": None if mode is Mode.SEQUENTIAL else 5}
    known = Known(statuses, StopConditions(), 0, Calendar("UTC"))
    made = make_plan(Query("words to look for"), How(mode=mode, bounds=bounds), known)
    return replace(made, order=tuple(layers))


@dataclass
class Ran:
    run: Run
    seconds: float
    budget: Budget


def ran(
    *layers: Made, mode: Mode = Mode.PARALLEL, timeout_ms: int | None = None, interrupt: Callable[[int], None] = lambda _: None
) -> Ran:
    by_name: dict[LayerName, Layer] = {made.name: made for made in layers}
    plan = plan_of({made.name: made for made in layers}, mode, timeout_ms)
    budget = Budget(plan.bounds, SystemClock(), strict=plan.strict)
    began = time.monotonic()
    run = Execution(by_name, interrupt).run(plan, Query("words to look for"), budget, judge)
    return Ran(run, time.monotonic() - began, budget)


def outcomes(run: Run) -> dict[str, str]:
    return {tried.layer: tried.outcome for tried in run.tried}


def test_side_by_side_strong_evidence_on_one_path_cancels_the_others() -> None:
    slow = Made(LayerName.VECTOR, until_stopped)
    done = ran(Made(LayerName.BM25, finds(0.9)), slow)
    assert slow.ended.wait(PATIENCE)
    assert outcomes(done.run) == {"bm25": "sufficient", "vector": "cancelled"}
    assert [h.score for h in done.run.hits] == [0.9]
    assert done.run.sufficient
    assert done.seconds < 1
    assert not done.budget.hit


def test_the_blocked_read_of_a_cancelled_path_is_interrupted_until_it_ends() -> None:
    """One interrupt may come between two reads, and is lost."""
    reads = Reads()
    blocked = Made(LayerName.VECTOR, reads.block)
    done = ran(Made(LayerName.BM25, finds(0.9)), blocked, interrupt=reads.interrupt)
    assert outcomes(done.run)["vector"] == "cancelled"
    assert blocked.ended.wait(1)
    assert len(set(reads.interrupts)) == 1
    assert done.seconds < 1


def test_interrupts_end_with_the_thread() -> None:
    """Another thread may soon have the same identity."""
    reads = Reads()
    blocked = Made(LayerName.VECTOR, reads.block)
    ran(Made(LayerName.BM25, finds(0.9)), blocked, interrupt=reads.interrupt)
    assert blocked.ended.wait(PATIENCE)
    ended = len(reads.interrupts)
    ran(
        Made(LayerName.BM25, finds(0.9)),
        Made(LayerName.VECTOR, reads.block, other := threading.Event()),
        interrupt=reads.interrupt,
    )
    assert other.wait(PATIENCE)
    assert len(reads.interrupts) - ended <= 3


def test_side_by_side_without_strong_evidence_everything_is_merged() -> None:
    done = ran(Made(LayerName.BM25, finds(0.3)), Made(LayerName.VECTOR, finds(0.4, 0.2)))
    assert outcomes(done.run) == {"bm25": "insufficient", "vector": "insufficient"}
    assert [h.score for h in done.run.hits] == [0.4, 0.3, 0.2]
    assert done.run.arbitration.startswith("merged ")


def test_in_hybrid_mode_the_dominating_path_answers_alone() -> None:
    first = threading.Event()

    def later(_: Budget) -> LayerAnswer:
        assert first.wait(PATIENCE)
        return finds(0.95)(_)

    def weak(_: Budget) -> LayerAnswer:
        first.set()
        return finds(0.3)(_)

    layers = (Made(LayerName.BM25, weak), Made(LayerName.VECTOR, later))
    done = ran(*layers, mode=Mode.HYBRID)
    assert [h.score for h in done.run.hits] == [0.95]
    assert done.run.method == "vector"
    assert "dominates" in done.run.arbitration


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
    assert not slow.asked or slow.ended.wait(1)


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


def test_one_by_one_a_slow_layer_leaves_time_for_the_next() -> None:
    done = ran(Made(LayerName.BM25, until_stopped), Made(LayerName.AGENTIC, finds(0.5)), mode=Mode.SEQUENTIAL, timeout_ms=400)
    assert outcomes(done.run)["agentic"] == "insufficient"
    assert done.seconds < 0.39


def test_what_a_layer_has_when_its_time_is_up_is_kept() -> None:
    done = ran(Made(LayerName.AGENTIC, until_stopped), mode=Mode.SEQUENTIAL, timeout_ms=200)
    assert [h.title for h in done.run.hits] == ["partial"]
    assert done.seconds < 0.25


def test_a_layer_that_hears_nothing_is_left_at_the_deadline_and_what_others_found_is_kept() -> None:
    reads = Reads()
    deaf = Made(LayerName.VECTOR, reads.block)
    done = ran(Made(LayerName.BM25, finds(0.3)), deaf, timeout_ms=100, interrupt=reads.interrupt)
    assert 0.05 < done.seconds < 0.2
    assert outcomes(done.run) == {"bm25": "insufficient", "vector": "timed out"}
    assert [h.score for h in done.run.hits] == [0.3]
    assert done.budget.hit == ["timeout_ms"]
    assert deaf.ended.wait(1)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No layer goes on working behind a test."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("layer "):
            thread.join(PATIENCE)
            assert not thread.is_alive()
