"""Every intent at every tier in every mode, asked of the real server: order, fallbacks, bounds, explanation, cost.

What is expected stands here as it does in the specification; nothing of it is read from the program.
"""

import asyncio
import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from bench.place import Place
from memory_mcp.app import App
from memory_mcp.config import load
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.question.intent import Intent
from memory_mcp.search.layers.base import LayerName, LayerStatus, Query
from memory_mcp.search.layers.budget import StopConditions
from memory_mcp.search.policy.plan import How, Mode, PlanContext, make_plan
from memory_mcp.server.build import build_server
from memory_mcp.server.guard import MemoryServer
from tests.daemon.inside import ALONE, Inside
from tests.factories import CALENDAR, a_small_history, draft, ms
from tests.indexes.helpers import fill_indexed
from tests.requirements import requirement
from tests.waiting import PATIENCE, UNHURRIED, until_async

INTENTS = ("explore", "answer", "locate", "time_boxed")
MODES = ("sequential", "parallel", "hybrid")
TIERS = (1, 2, 3, 4, 5)
#: Settings of the running program that leave a tier.
OFF = {
    "topics": {"MEMORY_MCP_TOPICS__ENABLED": "false"},
    "bm25": {"MEMORY_MCP_TELEPORT__BM25__ENABLED": "false"},
    "vector": {"MEMORY_MCP_TELEPORT__VECTOR__ENABLED": "false"},
}
SWITCHED_OFF = {1: (), 2: ("topics",), 3: ("topics", "bm25"), 4: ("topics", "vector"), 5: ("topics", "bm25", "vector")}
NAMES = {1: "Full", 2: "Hybrid", 3: "Semantic", 4: "Keyword", 5: "Agentic"}

#: Each intent's layers in the order of its route; time-boxed takes the best accelerator, by the order of the tiers.
CHAIN = {
    "explore": ("topics", "hybrid", "vector", "bm25", "agentic"),
    "answer": ("hybrid", "bm25", "vector", "agentic"),
    "locate": ("bm25", "hybrid", "vector", "agentic"),
    "time_boxed": ("hybrid", "bm25", "vector", "agentic"),
}
#: What can be used at each tier.
USABLE = {1: {*CHAIN["explore"]}, 2: {*CHAIN["answer"]}, 3: {"vector", "agentic"}, 4: {"bm25", "agentic"}, 5: {"agentic"}}
#: What is left of a route at each tier; of that of time-boxed the first accelerator.
ORDER = {(intent, tier): [name for name in CHAIN[intent] if name in USABLE[tier]] for intent in INTENTS for tier in TIERS}
ORDER |= {("time_boxed", tier): [*ORDER["time_boxed", tier][:-1][:1], "agentic"] for tier in TIERS}
#: What is passed over on the way to agentic, because it cannot be used.
MISSING = {(intent, tier): [name for name in CHAIN[intent] if name not in USABLE[tier]] for intent, tier in ORDER}
MISSING["time_boxed", 4] = ["hybrid"]
#: What runs side by side: a layer rather than those it is made of.
SIDE_BY_SIDE = {
    (intent, tier): set(ORDER[intent, tier]) - ({"bm25", "vector"} if tier <= 2 else set())
    for intent in INTENTS
    for tier in TIERS
}
#: Where an intent has no other; but for the time, which a busy machine may need, those of the program.
DEFAULTS = {
    "max_depth": 5,
    "max_nodes_visited": 100,
    "max_rpc_calls": 20,
    "max_token_budget": 4000,
    "timeout_ms": int(1000 * PATIENCE),
}
OWN_BOUNDS = {
    "explore": {"max_nodes_visited": 100},
    "answer": {"max_nodes_visited": 50},
    "locate": {"max_nodes_visited": 20},
    "time_boxed": {"max_depth": 2},
}
#: When a scan may follow; time-boxed never scans.
TRIGGERS = {
    "explore": "the pattern is incomplete",
    "answer": "the evidence is insufficient",
    "locate": "no exact match was found",
}
LEAN, SMALL, FEW = 120, 300, 3
#: Nodes, named by a caller: room for every layer.
WIDE = 200

RARE = "reconcile_zx81_tapes"
#: By their own words: answered, and answered by nothing.
ANSWERED = {
    "explore": "What are the recurring themes around the retry queue?",
    "answer": "How did we fix the retry queue that has no idempotency key?",
    "locate": f"Where is {RARE}?",
    "time_boxed": "Within 60 seconds: the retry queue and its idempotency key",
}
NOTHING = {
    "explore": "What are the recurring themes of photosynthesis in orchids?",
    "answer": "How does photosynthesis feed tropical orchids?",
    "locate": "Find photosynthesis_of_orchids",
    "time_boxed": "Within 60 seconds: photosynthesis of tropical orchids",
}
#: For the intent that is named beside it.
NAMED = {**dict.fromkeys(INTENTS, "retry queue idempotency key"), "locate": RARE}
#: Words of one segment in an order that nobody used.
UNSAID = '"idempotency retry key queue"'
#: A part of a word: no index and no term set can tell where it stands.
PART = 'Find "ylophonis"'


def said() -> list[EventDraft]:
    """Two weeks of work, and a name that is said once."""
    once = draft(f"The culprit is {RARE}, says the xylophonist.", at="2026-02-02 20:00", session="night", role=Role.ASSISTANT)
    return [*a_small_history(2), once]


@dataclass(frozen=True)
class Told:
    """What one server answered."""

    status: dict[str, Any]
    #: By case, intent and mode: in full, and as an agent gets it.
    full: dict[tuple[str, str, str], dict[str, Any]]
    lean: dict[tuple[str, str, str], dict[str, Any]]
    #: With a small token budget.
    small: dict[tuple[str, str, str], dict[str, Any]]
    #: What would be done, by intent and mode.
    plans: dict[tuple[str, str], dict[str, Any]]
    #: Other calls, by name.
    more: dict[str, dict[str, Any]]


CASES = ("answered", "named", "nothing", "unsaid", "part")


def arguments(case: str, intent: str, mode: str) -> dict[str, Any]:
    """One call; the default mode is not named."""
    how = {} if mode == "sequential" else {"mode": mode}
    by_words = {"answered": ANSWERED, "nothing": NOTHING}
    if case in by_words:
        return {"query": by_words[case][intent], **how}
    query = {"named": NAMED[intent], "unsaid": UNSAID, "part": PART}[case]
    wide = {"bounds": {"max_nodes_visited": WIDE}} if case == "unsaid" else {}
    return {"query": query, "intent": intent, **how, **wide}


async def call(client: Client, tool: str, /, **more: Any) -> dict[str, Any]:
    found = await client.call_tool(tool, more)
    assert not found.is_error, found.content
    assert isinstance(found.structured_content, dict)
    return found.structured_content


async def ready(client: Client, tier: int) -> dict[str, Any]:
    """The status, once the files of the indexes are read."""
    statuses: list[dict[str, Any]] = []

    async def reached() -> bool:
        statuses.append(await call(client, "get_retrieval_status"))
        return bool(statuses[-1]["tier"] == tier)

    await until_async(reached, f"for tier {tier}")
    return statuses[-1]


async def ask(client: Client, **more: Any) -> dict[str, Any]:
    return await call(client, "intelligent_search", scope="all", **more)


async def others(client: Client) -> dict[str, dict[str, Any]]:
    """What time, the words of a query and single bounds change."""
    query, hurried = NAMED["answer"], f"Within 1500 ms: {NAMED['answer']}"
    calls: dict[str, dict[str, Any]] = {
        "deadline": {"query": hurried},
        # So many words that reading them alone takes longer, on any machine.
        "late": {"query": f"{query} {' '.join(f'word{n}' for n in range(400))}", "timeout_ms": 1},
        "ambiguous": {"query": "Where did we decide how the retry queue works?"},
        "many": {"query": RARE, "limit": 50},
        "narrow": {"query": query, "mode": "parallel", "bounds": {"beam_width": 2}},
        "strict": {"query": query, "intent": "time_boxed", "limit": 1, "bounds": {"max_nodes_visited": 2, "max_rpc_calls": 2}},
    }
    told = {name: await ask(client, **given, detail="full") for name, given in calls.items()}
    hastes: dict[str, dict[str, Any]] = {"soft": {"intent": "answer"}, "hard": {"timeout_ms": 300}}
    for name, given in hastes.items():
        told[name] = await call(client, "plan_query", query=hurried, **given)
    for name, given in {"plain": {}, "boxed": {"timeout_ms": 300}}.items():
        told[name] = await call(client, "classify_query", query=query, **given)
    return told


def sampled(tier: int, intent: str, mode: str) -> bool:
    """A third of the table: every two of tier, intent and mode meet in it. The whole of it is the long form."""
    return (TIERS.index(tier) + INTENTS.index(intent)) % len(MODES) == MODES.index(mode)


async def everything(client: Client, tier: int, whole: bool) -> Told:
    """Every intent in every mode, each case; if not the whole, the sample."""
    told = Told(await ready(client, tier), {}, {}, {}, {}, await others(client))
    for intent in INTENTS:
        for mode in (m for m in MODES if whole or sampled(tier, intent, m)):
            told.plans[intent, mode] = await call(client, "plan_query", query=NAMED[intent], intent=intent, mode=mode)
    # What every row looks at beside its own intent.
    always = {("unsaid", "locate", mode) for mode in MODES}
    for key in itertools.product(CASES, INTENTS, MODES):
        case, intent, mode = key
        if whole or key in always or sampled(tier, intent, mode):
            given = arguments(case, intent, mode)
            told.full[key] = await ask(client, **given, limit=FEW, detail="full")
            # What an agent gets is the same made short: each tier tells it of another case in the short form.
            if not whole and case != CASES[tier - 1]:
                continue
            told.lean[key] = await ask(client, **given, limit=FEW)
            told.small[key] = await ask(client, **given, token_budget=SMALL)
    return told


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with both indexes and its topics, at rest."""
    return fill_indexed(tmp_path_factory.mktemp("origin") / "data", said(), TeleportSettings(), topics=True)


@pytest.fixture(scope="module")
def tables(origin: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> dict[int, Told]:
    """What a server of each tier answers."""
    whole = bool(pytestconfig.getoption("--slow"))
    return {tier: at(tier, origin, tmp_path_factory.mktemp(f"tier{tier}"), whole) for tier in TIERS}


def at(tier: int, origin: Path, root: Path, whole: bool) -> Told:
    """What a server of a tier answers over a copy of the memory; in the long form in a process, as in `test_end_to_end.py`."""
    settings = {k: v for name in SWITCHED_OFF[tier] for k, v in OFF[name].items()}

    async def main(server: StdioServerParameters | MemoryServer) -> Told:
        async with Client(server) as client:
            return await everything(client, tier, whole)

    with Place(root, more=settings | UNHURRIED) as place:
        shutil.copytree(origin, place.directory)
        if whole:
            return asyncio.run(main(place.server("serve", "--in-process")))
        app = App(load(place.environment()))
        app.accelerators.catch_up()
        told = asyncio.run(main(build_server(app, "")))
        app.close()
        return told


def combinations() -> Iterator[Any]:
    for tier in TIERS:
        for intent in INTENTS:
            for mode in MODES:
                marks = () if sampled(tier, intent, mode) else pytest.mark.slow
                yield pytest.param(tier, intent, mode, id=f"{tier}-{intent}-{mode}", marks=marks)


def test_in_the_sample_every_two_of_tier_intent_and_mode_meet() -> None:
    chosen = [row for row in itertools.product(TIERS, INTENTS, MODES) if sampled(*row)]
    for one, other in itertools.combinations(range(3), 2):
        pairs = set(itertools.product(*((TIERS, INTENTS, MODES)[i] for i in (one, other))))
        assert {(row[one], row[other]) for row in chosen} == pairs


table = pytest.mark.parametrize(("tier", "intent", "mode"), list(combinations()))


def explained(tables: dict[int, Told], tier: int, intent: str, mode: str) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Each case of a combination with its results and its explanation."""
    for case in CASES:
        found = tables[tier].full[case, intent, mode]
        yield case, found["explanation"], found["results"]


def tokens(value: Any) -> int:
    return -(-len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) // 4)


def walked(intent: str, tier: int) -> list[str]:
    """The order one after the other: what a layer that was asked is made of is not asked again."""
    order = ORDER[intent, tier]
    parts = {"bm25", "vector"} if "hybrid" in order else set()
    return [n for i, n in enumerate(order) if n not in parts or "hybrid" not in order[:i]]


def bounds_of(intent: str, mode: str) -> dict[str, int]:
    """The limits of an intent; side by side its own beam, or a usual one of three."""
    beam = 1 if mode == "sequential" else 5 if intent == "explore" else 3
    return {**DEFAULTS, **OWN_BOUNDS[intent], "beam_width": beam}


def heard(why: dict[str, Any]) -> list[str]:
    return [t["layer"] for t in why["tried"]]


@requirement("policy:FR-01", "policy:FR-02", "policy:FR-03", "policy:tier-2", "policy:tier-3", "policy:tier-4", "policy:tier-5")
@requirement("contract:tier-2-hybrid", "contract:tier-3-semantic", "contract:tier-4-keyword", "contract:tier-5-agentic")
@requirement("contract:brainstem-tier-detection", "policy:tier-1", "contract:tier-1-full")
@pytest.mark.parametrize("tier", TIERS)
def test_one_call_tells_the_tier_and_every_layer_before_any_search(tables: dict[int, Told], tier: int) -> None:
    status = tables[tier].status
    assert (status["tier"], status["name"]) == (tier, NAMES[tier])
    usable = {one["name"] for one in status["layers"] if one["enabled"] and one["healthy"]}
    assert usable == {*ORDER["explore", tier]}
    (topics,) = (one for one in status["layers"] if one["name"] == "topics")
    assert (topics["count"] > 0) is (tier == 1)
    assert {one["name"] for one in status["layers"]} == {"topics", "hybrid", "vector", "bm25", "agentic"}


@requirement("policy:FR-05", "policy:FR-07", "policy:chain-explore", "policy:chain-answer", "policy:chain-locate")
@requirement("policy:chain-time-boxed", "policy:algorithm-tier-supports", "policy:chain-skip-reported")
@requirement(
    "contract:guarantee-respects-intent", "contract:philosophy-intent-routes", "contract:guarantee-respects-configuration"
)
@table
def test_a_plan_has_the_usable_layers_of_the_intents_route_in_its_order(
    tables: dict[int, Told], tier: int, intent: str, mode: str
) -> None:
    plan = tables[tier].plans[intent, mode]
    if mode == "sequential":
        assert plan["order"] == ORDER[intent, tier]
    else:
        assert set(plan["order"]) == SIDE_BY_SIDE[intent, tier]
    assert [s["layer"] for s in plan["skipped"]] == MISSING[intent, tier]
    assert plan["bounds"] == bounds_of(intent, mode)
    assert plan["strict"] is (intent == "time_boxed")
    assert plan.get("escalates_when", "") == TRIGGERS.get(intent, "")


@pytest.mark.parametrize("intent", INTENTS)
def test_at_tier_one_topics_come_first_for_explore_alone(intent: str) -> None:
    statuses = [LayerStatus(name, enabled=True, healthy=True) for name in LayerName if name is not LayerName.TOC]
    known = PlanContext(statuses, StopConditions(), ms("2026-02-04 12:00"), CALENDAR)
    plan = make_plan(Query("retry queue idempotency key"), How(Intent(intent)), known)
    assert (int(plan.tier), plan.tier.label) == (1, "Full")
    assert [n.value for n in plan.order] == ORDER[intent, 1]
    assert [s.layer for s in plan.skipped] == []
    aside = make_plan(Query("retry queue idempotency key"), How(Intent(intent), Mode.PARALLEL), known)
    assert len(aside.paths) <= aside.bounds.beam_width <= 5
    # Topics stay on the way of explore even where the tier is not called full: the chain follows what is there.
    lone = [s for s in statuses if s.name in {LayerName.TOPICS, LayerName.BM25, LayerName.AGENTIC}]
    keyword = make_plan(Query("retry queue"), How(Intent(intent)), PlanContext(lone, StopConditions(), 0, CALENDAR))
    assert keyword.tier.label == "Keyword"
    assert (keyword.order[0] is LayerName.TOPICS) is (intent == "explore")


@requirement("policy:FR-04", "policy:FR-08", "policy:intent-explore", "policy:intent-answer", "policy:intent-locate")
@requirement("policy:chain-final-fallback", "contract:layer-brainstem", "contract:brainstem-fallback-chains")
@requirement("contract:fallback-flow", "contract:brainstem-intent-classification", "bm25:combined-status-check")
@table
def test_layers_are_tried_in_order_as_far_as_need_be(tables: dict[int, Told], tier: int, intent: str, mode: str) -> None:
    for case, why, results in explained(tables, tier, intent, mode):
        assert why["intent"] == intent, case
        assert why["tier_used"] == tier
        tried = heard(why)
        if mode == "sequential":
            assert tried == walked(intent, tier)[: len(tried)], case
            assert tried
        else:
            assert set(tried) == SIDE_BY_SIDE[intent, tier], case
        if case in {"answered", "named"}:
            assert results, case
            # What a walk finds before its bounds end it is no evidence that nothing better lies behind them.
            walked_out = tried[-1] == "agentic" and {"max_nodes_visited", "max_rpc_calls"} & set(why["bounds_hit"])
            assert why["tried"][-1]["outcome"] == ("insufficient" if walked_out else "sufficient") or mode != "sequential"
        if case == "nothing":
            # What resembles it in meaning is shown; without that nothing is, and the answer says so.
            assert results == [] or tier <= 3
            assert results or any(n.startswith("nothing found") for n in why["notices"]), case
    whole = tables[tier].full["unsaid", "locate", mode]["explanation"]
    assert set(heard(whole)) == set(walked("locate", tier) if mode == "sequential" else SIDE_BY_SIDE["locate", tier])


@requirement("policy:FR-13", "policy:FR-14", "policy:chain-skip-reported", "policy:algorithm-reports", "policy:check-inform")
@requirement("policy:algorithm-sufficient-stops", "policy:algorithm-insufficient-goes-on", "contract:principle-degrades")
@table
def test_method_fallback_and_what_was_passed_over_are_told(tables: dict[int, Told], tier: int, intent: str, mode: str) -> None:
    for case, why, results in explained(tables, tier, intent, mode):
        tried = {t["layer"]: t["outcome"] for t in why["tried"]}
        last = max(CHAIN[intent].index(n) for n in tried)
        missing = [n for n in MISSING[intent, tier] if CHAIN[intent].index(n) < last]
        told = {s["layer"]: s["reason"] for s in why["skipped"]}
        assert [s["layer"] for s in why["skipped"]][: len(missing)] == missing, case
        for name in missing:
            assert told[name].endswith(".enabled = false)")
        for name, outcome in tried.items():
            assert (name in told) <= (outcome in {"nothing", "irrelevant"}), (case, name, outcome)
        relevant = {n for n, outcome in tried.items() if outcome in {"sufficient", "insufficient"}}
        if results and "scan" not in why:
            assert set(why["method_used"].split("+")) <= relevant | {"hybrid"}, case
        first = ORDER[intent, tier][0] if intent == "time_boxed" else CHAIN[intent][0]
        if first in missing:
            assert why["fallback_occurred"] is True
        if why["fallback_occurred"]:
            parts = {"hybrid": {"bm25", "vector"}}.get(first, set()) if mode != "sequential" else set()
            assert first in told or (parts and parts <= set(told)), f"{case}: a fallback without a reason"
        if mode == "sequential" and results:
            answered = set(why["method_used"].split("+"))
            answered |= {"bm25", "vector"} if "hybrid" in answered else set()
            assert why["fallback_occurred"] is (first not in answered), case
        enough = [n for n, outcome in tried.items() if outcome == "sufficient"]
        if mode == "sequential" and enough:
            assert list(tried)[-1] == enough[0], "the first that suffices is the last that is asked"


@requirement("policy:FR-10", "policy:FR-11", "policy:FR-16", "policy:mode-sequential", "policy:mode-default")
@requirement("policy:mode-parallel-settings", "policy:parallel-forbids-full-fan-out", "policy:execute-with-bounds")
@requirement("policy:parallel-bounded-fan-out", "contract:intent-time-boxed", "contract:guarantee-respects-bounds")
@table
def test_bounds_are_those_of_the_intent_and_kept(tables: dict[int, Told], tier: int, intent: str, mode: str) -> None:
    for case, why, _ in explained(tables, tier, intent, mode):
        assert why["mode"] == mode, case
        limits = {name: one["limit"] for name, one in why["bounds"].items()}
        wanted = bounds_of(intent, mode)
        if intent == "time_boxed" and case in {"answered", "nothing"}:
            wanted |= {"timeout_ms": 60_000}
        if case == "unsaid":
            wanted |= {"max_nodes_visited": WIDE}
        assert limits == wanted, case
        used = {name: one["used"] for name, one in why["bounds"].items() if "used" in one}
        assert set(used) == set(DEFAULTS)
        assert (why["nodes_visited"], why["rpc_calls"]) == (used["max_nodes_visited"], used["max_rpc_calls"])
        assert why["rpc_calls"] > 0
        over = [n for n in ("max_depth", "max_nodes_visited", "max_rpc_calls", "max_token_budget") if used[n] > limits[n]]
        assert all(used[n] <= limits[n] * 1.5 for n in over)
        assert len(over) <= (0 if intent == "time_boxed" else 1)
        for name in over:
            assert any(n.startswith(f"{name} was exceeded once") for n in why["notices"]), case
        aside = [n for n in heard(why) if n not in {"agentic", "topics"}]
        assert len(aside) <= limits["beam_width"] or mode == "sequential"


@requirement("policy:FR-12", "policy:escalation-not-a-tier", "policy:escalation-trigger", "policy:escalation-limit")
@requirement("policy:escalation-guarantee", "policy:enforcement-locate", "policy:enforcement-time-boxed")
@requirement("policy:enforcement-answer", "policy:enforcement-explore")
@table
def test_a_scan_follows_where_the_intent_allows_it_and_never_a_deadline(
    tables: dict[int, Told], tier: int, intent: str, mode: str
) -> None:
    for case, why, results in explained(tables, tier, intent, mode):
        scan = why.get("scan")
        if intent == "time_boxed" or any(t["outcome"] == "sufficient" for t in why["tried"]):
            assert scan is None, case
        if scan:
            assert scan["why"] == TRIGGERS[intent]
            assert "agentic" in heard(why)
            assert scan["read"] <= scan["slices"]
        if intent == "locate" and (case in {"nothing", "unsaid"} or (case == "part" and tier > 3)):
            assert scan, case
            # A keyword index may name the segments that hold the words; without one every event is compared.
            assert scan["events"] == len(said()) or (tier in (1, 2, 4) and scan["events"] < len(said()))
        if mode != "sequential" and intent != "time_boxed" and case == "nothing":
            assert scan or results
        if intent == "locate" and case == "part":
            assert any("xylophonist" in r["quote"] for r in results)
            assert why["method_used"] == "scan" or not scan


@requirement("policy:FR-19", "policy:parallel-explainable-arbitration", "contract:explainability-payload")
@requirement("policy:FR-17", "policy:FR-18", "policy:parallel-early-stopping", "policy:parallel-rank-merge")
@requirement("policy:mode-parallel", "policy:mode-hybrid", "policy:parallel-safe-accelerators")
@table
def test_every_path_has_its_reason_and_results_are_merged(tables: dict[int, Told], tier: int, intent: str, mode: str) -> None:
    for case, why, results in explained(tables, tier, intent, mode):
        assert why["why_mode"]
        assert why["signals"] or case not in {"answered", "nothing"}
        assert all(t["outcome"] and t["reason"] for t in why["tried"])
        enough = [t["layer"] for t in why["tried"] if t["outcome"] == "sufficient"]
        for one in why["tried"]:
            if one["outcome"] == "cancelled":
                assert one["reason"] in {f"{name} had evidence enough" for name in enough}
        # Topics tell something else than results, beside whatever finds these.
        found = [t["layer"] for t in why["tried"] if t["layer"] != "topics"]
        relevant = [t["layer"] for t in why["tried"] if t["outcome"] in {"sufficient", "insufficient"} and t["layer"] in found]
        if mode != "sequential" and len(relevant) > 1:
            assert why["arbitration"].startswith("merged ")
            assert all(f"{name} " in why["arbitration"] for name in relevant)
        if mode == "hybrid" and len(relevant) == 1 and enough:
            assert why["method_used"].removeprefix("topics+") == enough[0]
        assert all(0 <= r["score"] <= 1 for r in results)
        assert len({r["id"] for r in results}) == len(results)
        quoted = [r["grip_ids"][0] for r in results if r["grip_ids"]]
        assert len(set(quoted)) == len(quoted)
    if tier < 5:
        assert "merged" in tables[tier].full["unsaid", "locate", mode]["explanation"]["arbitration"]


@requirement("contract:budget-enforcement", "policy:bound-max_token_budget")
@table
def test_an_explanation_is_lean_and_no_limit_is_passed(tables: dict[int, Told], tier: int, intent: str, mode: str) -> None:
    cases = [case for case in CASES if (case, intent, mode) in tables[tier].lean]
    assert cases
    for case in cases:
        key = (case, intent, mode)
        why = tables[tier].lean[key]["explanation"]
        assert tokens(why) <= LEAN, why
        # A lean one says only what changes what to do next; the rest is in the full one.
        assert set(why).isdisjoint({"tier_used", "method_used", "fallback_occurred", "skipped", "tried", "limits"})
        whole = tables[tier].full[key]["explanation"]
        assert whole["method_used"]
        assert whole["tier_used"] == tier
        assert {"intent", "fallback_occurred", "scope"} <= set(whole)
        assert tokens(tables[tier].small[key]) <= SMALL, case
        for found in (tables[tier].lean[key], tables[tier].full[key]):
            assert len(found["results"]) <= FEW
        if case in {"answered", "named"}:
            assert tables[tier].small[key]["results"], case


@requirement("policy:FR-04", "policy:FR-06", "policy:FR-09", "policy:FR-11", "policy:FR-15", "policy:FR-16")
@pytest.mark.parametrize("tier", TIERS)
def test_deadlines_ambiguity_and_single_bounds_are_minded_at_every_tier(tables: dict[int, Told], tier: int) -> None:
    more = tables[tier].more
    why = {name: found["explanation"] for name, found in more.items() if "explanation" in found}
    assert (why["deadline"]["intent"], why["deadline"]["bounds"]["timeout_ms"]["limit"]) == ("time_boxed", 1500)
    # Or a busy machine was too slow for it, and says so.
    assert more["deadline"]["results"] or "timeout_ms" in why["deadline"]["bounds_hit"]
    assert "timeout_ms" in why["late"]["bounds_hit"]
    assert any(n.startswith("Timeout exceeded") for n in why["late"]["notices"])
    assert (more["soft"]["intent"], more["soft"]["strict"], more["soft"]["bounds"]["timeout_ms"]) == ("answer", False, 1500)
    assert (more["hard"]["intent"], more["hard"]["strict"], more["hard"]["bounds"]["timeout_ms"]) == ("time_boxed", True, 300)
    assert (why["ambiguous"]["mode"], why["ambiguous"]["why_mode"]) == ("hybrid", "the intent is ambiguous")
    assert why["many"]["bounds"]["max_nodes_visited"]["limit"] >= 51, "never fewer than the results asked for, and one"
    assert why["narrow"]["bounds"]["beam_width"]["limit"] == 2
    assert len([n for n in heard(why["narrow"]) if n != "agentic"]) <= 2
    assert why["strict"]["nodes_visited"] <= 2
    assert why["strict"]["rpc_calls"] <= 2
    assert (more["plain"]["intent"], more["boxed"]["intent"], more["boxed"]["deadline_ms"]) == ("answer", "time_boxed", 300)


@requirement("policy:FR-04", "policy:FR-05", "policy:FR-13")
def test_the_command_plans_classifies_and_answers_as_the_server_does(origin: Path, tmp_path: Path) -> None:
    off = {k: v for name in SWITCHED_OFF[4] for k, v in OFF[name].items()}
    with Inside(tmp_path, more=off | ALONE) as place:
        shutil.copytree(origin, place.directory)
        plan = json.loads(place.ok("retrieval", "plan", "--json", "--intent", "locate", "--without", "bm25", RARE))
        assert (plan["intent"], plan["order"]) == ("locate", ORDER["locate", 5])
        assert {"layer": "bm25", "reason": "left out of this plan"} in plan["skipped"]
        classified = json.loads(place.ok("retrieval", "classify", "--json", ANSWERED["locate"]))
        assert (classified["intent"], classified["exact"]) == ("locate", [RARE])
        asked = place.ok("ask", "--explain", ANSWERED["locate"])
        assert RARE in asked
        assert "Understood as locate. Answered by" in asked
        assert "Intent     locate" in asked
