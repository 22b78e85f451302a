"""The policy at work, seen by a client: which layers are asked, when, at once or in turn, and what becomes of the others."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from memory_mcp.app import App
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.search.layers.base import Hit, LayerAnswer, LayerName, LayerStatus, Query, Scanner, Slice
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.policy.engine import Engine
from tests.factories import draft, ms
from tests.interaction.conftest import DAYS, Door, open_app
from tests.requirements import requirement
from tests.waiting import PATIENCE

#: Said in February, where the memory begins in January; a part of a word that no index knows.
NEWEST = "The xylophonist left the rehearsal."
PART = 'Find "ylophonis"'
QUERY = "single-use refresh tokens with a grace window"
ACCELERATORS = (LayerName.BM25, LayerName.VECTOR, LayerName.HYBRID)

Work = Callable[[Query, Budget], LayerAnswer]
State = Callable[[], LayerStatus]
Before = Callable[[TimeWindow | None], None]


@dataclass
class Diary:
    """What was asked of layers, in order."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, what: str, layer: LayerName) -> None:
        with self.lock:
            self.lines.append((what, layer.value))

    def asked(self, what: str) -> list[str]:
        return [layer for name, layer in self.lines if name == what]


@dataclass
class Played:
    """A layer that keeps a diary and answers as it is told."""

    name: LayerName
    diary: Diary
    work: Work
    state: State

    def status(self) -> LayerStatus:
        self.diary.note("status", self.name)
        return self.state()

    def search(self, query: Query, budget: Budget) -> LayerAnswer:
        self.diary.note("search", self.name)
        return self.work(query, budget)


@pytest.fixture(scope="module")
def opened() -> Iterator[App]:
    app = open_app("full", DAYS[:1])
    app.write([draft(NEWEST, at="2026-02-27 09:00", session="music")], "jsonl")
    app.derivation.run()
    yield app
    app.close()


@pytest.fixture
def app(opened: App) -> App:
    """With an engine of its own."""
    opened.engine = Engine(opened.engine_parts())
    return opened


@pytest.fixture
def door(app: App) -> Door:
    return Door(app, "auto")


def usable(name: LayerName, enabled: bool = True, healthy: bool = True) -> State:
    return lambda: LayerStatus(name, enabled, healthy, reason="" if enabled and healthy else "it rests")


def play(app: App, *, state: Mapping[LayerName, State] | None = None, before: Before | None = None, **work: Work) -> Diary:
    """Accelerators that are healthy and answer as the tree does, if not said otherwise; `before` is called before a scan."""
    diary = Diary()
    parts = app.engine_parts()
    layers = dict(parts.layers)
    tree = layers[LayerName.AGENTIC]
    for name in (*ACCELERATORS, LayerName.AGENTIC):
        how = (state or {}).get(name, usable(name))
        layers[name] = Played(name, diary, work.get(name.value, tree.search), how)
    scanner = parts.scanner if before is None else Watched(parts.scanner, before)
    app.engine = Engine(replace(parts, layers=layers, scanner=scanner))
    return diary


#: The two indexes for themselves: side by side, a layer stands for those it is made of.
APART = {LayerName.HYBRID: usable(LayerName.HYBRID, enabled=False, healthy=False)}


def nothing(query: Query, budget: Budget) -> LayerAnswer:
    return LayerAnswer(())


def broken(query: Query, budget: Budget) -> LayerAnswer:
    raise RuntimeError("the disk is on fire")


def until_cancelled(ended: threading.Event) -> Work:
    def work(query: Query, budget: Budget) -> LayerAnswer:
        waiting = threading.Event()
        while not budget.is_cancelled():
            waiting.wait(0.005)
        ended.set()
        return LayerAnswer(())

    return work


def events_in(door: Door) -> int:
    return int(door.ok("get_retrieval_status")["store"]["events"])


def why(door: Door, query: str = QUERY, **more: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", door.ok("intelligent_search", query=query, scope="all", detail="full", **more)["explanation"])


# status first


@requirement("policy:check-status", "contract:capability-detection", "policy:parallel-forbids-unchecked")
@pytest.mark.parametrize("mode", ["sequential", "parallel", "hybrid"])
def test_every_layer_is_asked_for_its_status_once_before_any_is_searched(app: App, door: Door, mode: str) -> None:
    diary = play(app, bm25=nothing, vector=nothing, hybrid=nothing)
    why(door, mode=mode)
    first = diary.lines.index(("search", diary.asked("search")[0]))
    assert sorted(layer for _, layer in diary.lines[:first]) == ["agentic", "bm25", "hybrid", "vector"]
    assert diary.asked("status") == [layer for what, layer in diary.lines[:first] if what == "status"]


@requirement("policy:check-enabled-and-healthy", "policy:parallel-forbids-unchecked", "policy:FR-07")
@pytest.mark.parametrize("mode", ["sequential", "parallel", "hybrid"])
@pytest.mark.parametrize(("enabled", "healthy"), [(True, False), (False, True), (False, False)])
def test_a_layer_that_is_not_both_enabled_and_healthy_is_never_searched(
    app: App, door: Door, mode: str, enabled: bool, healthy: bool
) -> None:
    off = {name: usable(name, enabled, healthy) for name in ACCELERATORS}
    diary = play(app, state=off)
    told = why(door, mode=mode, intent="locate")
    assert set(diary.asked("search")) == {"agentic"}
    assert [(s["layer"], s["reason"]) for s in told["skipped"]] == [(n, "it rests") for n in ("bm25", "hybrid", "vector")]
    assert (told["method_used"], told["tier_used"], told["fallback_occurred"]) == ("agentic", 5, True)


@requirement("policy:status-failure-is-absence")
def test_a_status_that_fails_is_a_layer_that_is_not_there(app: App, door: Door) -> None:
    def fails() -> LayerStatus:
        raise OSError("no such file")

    diary = play(app, state=dict.fromkeys((LayerName.VECTOR, LayerName.HYBRID), fails))
    told = why(door)
    assert told["tier_used"] == 4
    assert told["method_used"] == "bm25"
    assert told["skipped"] == [{"layer": "hybrid", "reason": "its status cannot be told: no such file"}]
    assert set(diary.asked("search")) == {"bm25"}
    status = door.ok("get_retrieval_status")
    assert (status["tier"], status["name"]) == (4, "Keyword")


# failures and the next layer


@requirement("policy:algorithm-error-goes-on", "contract:principle-degrades", "contract:brainstem-fallback-chains")
@pytest.mark.parametrize("mode", ["sequential", "parallel", "hybrid"])
def test_a_layer_that_fails_is_followed_by_the_next_and_the_failure_is_told(app: App, door: Door, mode: str) -> None:
    play(app, hybrid=broken, bm25=broken, vector=broken)
    found = door.ok("intelligent_search", query=QUERY, scope="all", mode=mode, detail="full")
    told = found["explanation"]
    assert "grace window" in found["results"][0]["quote"]
    assert (told["method_used"], told["fallback_occurred"]) == ("agentic", True)
    failed = [t["layer"] for t in told["tried"] if (t["outcome"], t["reason"]) == ("failed", "the disk is on fire")]
    assert set(failed) == ({"hybrid", "bm25", "vector"} if mode == "sequential" else {"hybrid"})
    reasons = {s["layer"]: s["reason"] for s in told["skipped"]}
    assert reasons == dict.fromkeys(failed, "failed: the disk is on fire")


@requirement("policy:algorithm-insufficient-goes-on", "policy:algorithm-sufficient-stops", "contract:intent-locate")
def test_layers_are_asked_until_one_suffices_and_locate_stops_at_the_first_match(app: App, door: Door) -> None:
    diary = play(app, bm25=nothing)
    told = why(door, intent="locate")
    assert diary.asked("search") == ["bm25", "hybrid"]
    assert [(t["layer"], t["outcome"]) for t in told["tried"]] == [("bm25", "nothing"), ("hybrid", "sufficient")]
    diary = play(app)
    told = why(door, '"single-use refresh tokens"')
    assert told["intent"] == "locate"
    assert diary.asked("search") == ["bm25"]
    assert told["tried"][0]["reason"] == "holds single-use refresh tokens literally"


@requirement("policy:chain-final-fallback")
@pytest.mark.parametrize("mode", ["parallel", "hybrid"])
def test_agentic_is_asked_at_last_however_narrow_the_beam(app: App, door: Door, mode: str) -> None:
    diary = play(app, state=APART, bm25=nothing, vector=nothing)
    told = why(door, mode=mode, bounds={"beam_width": 2})
    assert diary.asked("search")[-1] == "agentic"
    assert len(diary.asked("search")) == 3
    assert (told["method_used"], told["fallback_occurred"]) == ("agentic", True)


@requirement("policy:FR-14", "policy:FR-09")
def test_a_layer_that_is_too_slow_is_left_for_the_next_and_the_answer_says_so(app: App, door: Door) -> None:
    ended = threading.Event()
    play(app, hybrid=until_cancelled(ended), bm25=nothing, vector=nothing)
    told = why(door, bounds={"timeout_ms": 1500})
    assert ended.wait(PATIENCE)
    assert told["method_used"] == "agentic"
    assert {"layer": "hybrid", "reason": "its time was up"} in told["skipped"]
    assert next(t["outcome"] for t in told["tried"] if t["layer"] == "hybrid") == "timed out"


# at once, or in turn


@requirement("policy:mode-parallel", "policy:parallel-safe-accelerators")
@pytest.mark.parametrize("mode", ["parallel", "hybrid"])
def test_side_by_side_accelerators_are_at_work_at_the_same_time(app: App, door: Door, mode: str) -> None:
    meeting = threading.Barrier(2)

    def work(query: Query, budget: Budget) -> LayerAnswer:
        meeting.wait(PATIENCE)
        return LayerAnswer(())

    play(app, state=APART, bm25=work, vector=work)
    told = why(door, mode=mode)
    assert not meeting.broken
    outcomes = {t["layer"]: t["outcome"] for t in told["tried"] if t["layer"] != "agentic"}
    assert outcomes == {"bm25": "nothing", "vector": "nothing"}


@requirement("policy:mode-sequential", "policy:mode-default")
def test_in_turn_no_two_layers_are_at_work_at_the_same_time(app: App, door: Door) -> None:
    alone, turns = threading.Lock(), list[bool]()

    def work(query: Query, budget: Budget) -> LayerAnswer:
        turns.append(alone.acquire(blocking=False))
        if turns[-1]:
            alone.release()
        return LayerAnswer(())

    play(app, bm25=work, vector=work, hybrid=work)
    told = why(door, intent="locate")
    assert (told["mode"], told["why_mode"]) == ("sequential", "the default")
    assert told["bounds"]["beam_width"]["limit"] == 1
    assert turns == [True, True]


@requirement("policy:FR-17", "policy:parallel-early-stopping", "policy:mode-hybrid", "policy:mode-parallel-settings")
@pytest.mark.parametrize("mode", ["parallel", "hybrid"])
def test_strong_evidence_on_one_path_cancels_the_others(app: App, door: Door, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever is sure waits for the others until they have taken far longer: time must pass, by looks instead of by itself.
    monkeypatch.setattr(app.clock, "_tick", 0.001)
    ended = threading.Event()
    play(app, state=APART, vector=until_cancelled(ended))
    told = why(door, mode=mode)
    assert ended.wait(PATIENCE), "the loser was told to stop"
    [vector] = [t for t in told["tried"] if t["layer"] == "vector"]
    winner, _, reason = vector["reason"].partition(" ")
    assert (vector["outcome"], reason) == ("cancelled", "had evidence enough")
    assert winner in {"bm25", "agentic"}
    assert winner in told["method_used"].split("+")
    assert "timeout_ms" not in told["bounds_hit"]


@requirement("policy:FR-18", "policy:parallel-rank-merge", "policy:FR-19", "policy:parallel-explainable-arbitration")
def test_what_several_layers_find_is_merged_once_each_and_the_merging_is_told(app: App, door: Door) -> None:
    play(app, state=APART)
    more = {"mode": "parallel", "intent": "locate", "limit": 20, "bounds": {"max_nodes_visited": 500, "beam_width": 3}}
    found = door.ok("intelligent_search", query='"window grace tokens refresh"', scope="all", detail="full", **more)
    told, results = found["explanation"], found["results"]
    assert told["arbitration"].startswith("merged ")
    assert told["arbitration"].endswith("; bm25 comes first")
    assert len({r["id"] for r in results}) == len(results) > 0
    grips = [r["grip_ids"][0] for r in results]
    assert len(set(grips)) == len(grips)
    assert all(0 <= r["score"] <= 1 for r in results)
    assert [r["score"] for r in results] == sorted((r["score"] for r in results), reverse=True)
    for tried in told["tried"]:
        assert tried["outcome"] == "insufficient"
        assert f"{tried['layer']} {tried['hits']}" in told["arbitration"]


@requirement("policy:FR-15")
@pytest.mark.parametrize(
    ("query", "more", "mode", "reason"),
    [
        (QUERY, {}, "sequential", "the default"),
        (QUERY, {"mode": "parallel"}, "parallel", "named by the caller"),
        (QUERY, {"bounds": {"beam_width": 4}}, "parallel", "beam_width=4"),
        ("Where did we decide how the refresh token rotates?", {}, "hybrid", "the intent is ambiguous"),
    ],
)
def test_the_query_and_the_caller_choose_the_mode(door: Door, query: str, more: dict[str, Any], mode: str, reason: str) -> None:
    told = why(door, query, **more)
    assert (told["mode"], told["why_mode"]) == (mode, reason)


@requirement("policy:FR-16", "policy:mode-parallel-settings", "policy:parallel-bounded-fan-out")
@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_no_more_paths_than_the_beam_run_side_by_side(app: App, door: Door, width: int) -> None:
    diary = play(app, state=APART)
    told = why(door, mode="parallel", bounds={"beam_width": width})
    assert told["bounds"]["beam_width"]["limit"] == width
    # A walk is one of the paths, spared here: the others are sure.
    assert len(diary.asked("search")) == 2
    assert {tried["layer"]: tried["outcome"] for tried in told["tried"]}.get("agentic") == (None if width == 2 else "cancelled")
    assert "beam_width" in door.error("intelligent_search", query=QUERY, bounds={"beam_width": 6})
    assert why(door, mode="parallel", bounds={"beam_width": 1})["bounds"]["beam_width"]["limit"] == 2


@requirement("policy:parallel-forbids-full-fan-out")
@pytest.mark.parametrize("mode", ["sequential", "parallel", "hybrid"])
@pytest.mark.parametrize("intent", ["explore", "answer", "locate", "time_boxed"])
def test_no_mode_goes_through_the_whole_tree(app: App, door: Door, mode: str, intent: str) -> None:
    told = why(door, "cause test", intent=intent, mode=mode, timeout_ms=5000, bounds={"max_nodes_visited": 6})
    assert told["nodes_visited"] <= 6 < sum(1 for _ in app.storage.toc.iter_nodes())
    assert "max_nodes_visited" in told["bounds_hit"]


# scanning


@dataclass
class Watched:
    """A scanner whose slices meet before they are read."""

    inner: Scanner
    before: Before

    def read_named(self, query: Query, words: Any, settles: Callable[[Hit], bool] = lambda _: False) -> Slice | None:
        return self.inner.read_named(query, words, settles)

    def read_at_once(self, query: Query, words: Any) -> Slice | None:
        return None

    def list_slices(self, query: Query) -> list[tuple[TimeWindow, int]]:
        return self.inner.list_slices(query)

    def read_slice(self, query: Query, words: Any) -> tuple[Hit, ...]:
        self.before(query.window)
        return self.inner.read_slice(query, words)


def watch(app: App, before: Before) -> None:
    parts = app.engine_parts()
    app.engine = Engine(replace(parts, scanner=Watched(parts.scanner, before)))


@requirement("policy:parallel-safe-time-slices")
def test_slices_of_time_are_read_at_the_same_time(app: App, door: Door) -> None:
    meeting = threading.Barrier(2)
    turns = iter([True, True])

    def before(_: TimeWindow | None) -> None:
        if next(turns, False):
            meeting.wait(PATIENCE)

    watch(app, before)
    assert why(door, "Find photosynthesis_of_orchids")["scan"]["read"] > 1
    assert not meeting.broken


@requirement("policy:escalation-guarantee", "policy:escalation-resources", "policy:escalation-trigger", "policy:FR-12")
def test_a_scan_finds_what_no_layer_knows_and_needs_no_index(app: App, door: Door) -> None:
    assert door.ok("get_retrieval_status")["tier"] == 5
    found = door.ok("intelligent_search", query=PART, scope="all", detail="full")
    told, [result] = found["explanation"], found["results"]
    assert result["quote"] == NEWEST
    assert result["grip_ids"]
    assert result["id"].startswith("toc:segment:2026-02-27")
    assert told["method_used"] == "scan"
    assert told["scan"]["why"] == "no exact match was found"
    assert (told["scan"]["read"], told["scan"]["events"]) == (told["scan"]["slices"], events_in(door))


@requirement("policy:escalation-method")
def test_a_scan_that_is_cut_short_returns_what_the_slices_read_hold(app: App, door: Door) -> None:
    whole = why(door, PART)
    assert whole["scan"]["slices"] > 2
    calls = whole["rpc_calls"] - whole["scan"]["read"] + 1
    cut: dict[str, Any] = {"intent": "locate", "timeout_ms": 5000, "bounds": {"max_rpc_calls": calls}}
    found = door.full("intelligent_search", query=PART, scope="all", **cut)
    scan = found["explanation"]["scan"]
    assert (scan["read"], scan["slices"]) == (1, whole["scan"]["slices"])
    assert found["explanation"]["bounds_hit"] == ["max_rpc_calls"]
    assert found["results"][0]["quote"] == NEWEST


@requirement("policy:escalation-scope")
def test_a_scan_reads_the_time_of_the_question_and_no_other(app: App, door: Door) -> None:
    seen: list[TimeWindow] = []
    watch(app, lambda window: seen.append(cast("TimeWindow", window)))
    before = door.ok("intelligent_search", query=PART, scope="all", detail="full", since="2026-01-20", until="2026-01-31")
    assert before["results"] == []
    assert seen
    assert all(ms("2026-01-20 00:00") <= w.start_ms < w.end_ms <= ms("2026-02-01 00:00") for w in seen)
    assert 0 < before["explanation"]["scan"]["events"] < events_in(door)
    after = door.full("intelligent_search", query=PART, scope="all", since="2026-02-20")
    assert after["results"][0]["quote"] == NEWEST


@requirement("policy:escalation-limit", "policy:escalation-not-a-tier", "policy:enforcement-time-boxed")
@requirement("policy:enforcement-locate", "policy:enforcement-answer", "policy:enforcement-explore")
@pytest.mark.parametrize(
    ("intent", "reason"),
    [
        ("explore", "the pattern is incomplete"),
        ("answer", "the evidence is insufficient"),
        ("locate", "no exact match was found"),
        ("time_boxed", ""),
    ],
)
def test_a_scan_comes_after_agentic_and_never_under_a_deadline(app: App, door: Door, intent: str, reason: str) -> None:
    order: list[str] = []

    def before(_: TimeWindow | None) -> None:
        order.extend(diary.asked("search"))

    diary = play(app, before=before, bm25=nothing, vector=nothing, hybrid=nothing, agentic=nothing)
    told = why(door, '"ylophonis"', intent=intent)
    assert told.get("scan", {}).get("why", "") == reason
    assert told["tier_used"] == 2
    assert ("agentic" in order) is bool(reason)
    strict = door.ok("plan_query", query=QUERY, intent=intent)["strict"]
    assert strict is (intent == "time_boxed")
    over = why(door, "cause photosynthesis", intent=intent, bounds={"max_rpc_calls": 2})
    assert over["rpc_calls"] <= (2 if intent == "time_boxed" else 3)


@requirement("policy:FR-11", "policy:enforcement-time-boxed", "policy:intent-time-boxed")
def test_a_deadline_stops_every_layer_hard_and_other_limits_of_time_are_soft(app: App, door: Door) -> None:
    ended = threading.Event()
    play(app, hybrid=until_cancelled(ended), agentic=until_cancelled(ended))
    told = why(door, "Within 300 ms: " + QUERY)
    assert ended.wait(PATIENCE)
    assert (told["intent"], told["bounds"]["timeout_ms"]["limit"]) == ("time_boxed", 300)
    assert "timeout_ms" in told["bounds_hit"]
    assert any(n.startswith("Timeout exceeded") for n in told["notices"])
    assert door.ok("plan_query", query=QUERY, timeout_ms=300)["strict"] is True
    for intent in ("explore", "answer", "locate"):
        soft = door.ok("plan_query", query="Within 300 ms: " + QUERY, intent=intent)
        assert (soft["strict"], soft["bounds"]["timeout_ms"]) == (False, 300)


# what a query is taken for


@requirement("policy:FR-04", "policy:signal-explore", "policy:signal-answer", "policy:signal-locate", "policy:signal-time-boxed")
@requirement("policy:intent-explore", "policy:intent-answer", "policy:intent-locate", "policy:intent-default-answer")
@requirement("contract:intent-explore", "contract:intent-answer", "contract:intent-locate")
@requirement("contract:brainstem-intent-classification")
@pytest.mark.parametrize(
    ("query", "intent", "bounds"),
    [
        ("What are the themes of the payment module?", "explore", {"max_nodes_visited": 100}),
        ("What topics came up?", "explore", {"max_nodes_visited": 100}),
        ("browse the payment module", "explore", {"max_nodes_visited": 100}),
        ("discover patterns", "explore", {"max_nodes_visited": 100}),
        ("What have I been working on?", "explore", {"max_nodes_visited": 100}),
        ("How did we fix the JWT bug?", "answer", {"max_nodes_visited": 50}),
        ("Why is the token short?", "answer", {"max_nodes_visited": 50}),
        ("what was decided about tokens", "answer", {"max_nodes_visited": 50}),
        ("what did we do about tokens", "answer", {"max_nodes_visited": 50}),
        ("oauth refresh token rotation", "answer", {"max_nodes_visited": 50}),
        ("Where did I define that config?", "locate", {"max_nodes_visited": 20}),
        ("find the error message", "locate", {"max_nodes_visited": 20}),
        ("locate the config", "locate", {"max_nodes_visited": 20}),
        ("parse_config", "locate", {"max_nodes_visited": 20}),
        ('"never log the refresh token"', "locate", {"max_nodes_visited": 20}),
    ],
)
def test_a_query_is_taken_for_what_its_words_ask(door: Door, query: str, intent: str, bounds: dict[str, int]) -> None:
    told = door.ok("classify_query", query=query)
    assert told["intent"] == intent
    assert told["signals"] or intent == "answer"
    plan = door.ok("plan_query", query=query)
    assert plan["intent"] == intent
    assert bounds.items() <= plan["bounds"].items()
    assert plan["min_confidence"] == (0.25 if intent == "answer" else 0)
    boxed = door.ok("classify_query", query=query, timeout_ms=400)
    assert (boxed["intent"], boxed["deadline_ms"]) == ("time_boxed", 400)
    assert boxed["signals"][0] == "time_boxed: timeout_ms=400"


@requirement("policy:FR-06", "contract:intent-time-boxed")
@pytest.mark.parametrize(
    ("query", "limit"),
    [
        ("Within 200 ms: what did we decide", 200),
        ("in under a second, why JWT", 1000),
        ("quickly find the JWT", 500),
        ("em menos de 300 ms: JWT", 300),
    ],
)
def test_a_deadline_in_the_query_becomes_the_limit_and_a_date_does_not(door: Door, query: str, limit: int) -> None:
    told = why(door, query)
    assert told["intent"] == "time_boxed"
    assert told["bounds"]["timeout_ms"]["limit"] == limit
    assert told["bounds"]["max_depth"] == {"limit": 2, "used": told["depth"]}
    assert told["depth"] <= 2
    assert told["mode"] == "sequential"
    dated = why(door, "what did we decide in January about the refresh token")
    assert (dated["intent"], dated["bounds"]["timeout_ms"]["limit"]) == ("answer", 5000)
    assert dated["window"]["words"]
    both = why(door, "Within 4 seconds: the refresh token in January")
    assert (both["intent"], both["window"]["words"]) == ("time_boxed", dated["window"]["words"])
