"""Is "nothing relevant" said where nothing is, and only there? Queries of one corpus asked of another's store, and written ones.

`labels/unanswerable.jsonl` names what a store cannot answer: 300 queries by reference, of each ordered pair of seven corpora
those with the smallest sha1 of "store id", in turn, without those that name a speaker of the store asked; and 100 written
ones, of which the "hard" half is about people and things of the store. Held out is a third (sha1 of the query's id or text
divisible by 3); answerable are the judged queries, halved as in `bench.judged`. Only the tuning parts are looked at, unless
`--held-out` is given. "Recognised": nothing is answered. "Lost": nothing is answered though the answer held a right session.

    python -m bench.unanswerable --data DIR [--keep DIR] [--fit] [--held-out] [--engine]
"""

import argparse
import datetime as dt
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.locomo import half, load, to_jsonl
from memory_mcp import config
from memory_mcp.app import App
from memory_mcp.clock import SystemClock
from memory_mcp.layers.agentic.match import below, weigh
from memory_mcp.layers.base import Layer, LayerName, Query
from memory_mcp.layers.budget import Budget, StopConditions
from memory_mcp.policy.plan import How
from memory_mcp.policy.relevance import CURVES, Evidence, evidence, features, relevant, sufficient
from memory_mcp.text import query_terms

LABELS = Path(__file__).parent / "labels" / "unanswerable.jsonl"
#: The store of everything; what it is asked: the written queries, and of the answerable ones every third.
COMPOSED = "everything"
LAYERS = (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR, LayerName.AGENTIC)
#: What is switched off so that a layer is the first that can be used.
OFF: dict[LayerName, dict[str, str]] = {
    LayerName.HYBRID: {},
    LayerName.BM25: {"teleport.vector.enabled": "false"},
    LayerName.VECTOR: {"teleport.bm25.enabled": "false"},
    LayerName.AGENTIC: {"teleport.enabled": "false"},
}
_FOUND = 10
_BOUNDS = StopConditions(max_token_budget=100_000, timeout_ms=20_000)
_MEETINGS = dt.datetime(2025, 1, 6, 10, tzinfo=dt.UTC)
#: Share of the right answers that the floor may empty.
_GIVEN_UP = 0.02


@dataclass(slots=True)
class Case:
    """A query asked of a store; without gold nothing there answers it. `kind` says where it comes from."""

    text: str
    store: str
    kind: str
    held: bool
    gold: frozenset[str] = frozenset()
    evidence: dict[LayerName, Evidence] = field(default_factory=dict)
    #: Sessions answered by each layer.
    found: dict[LayerName, set[str]] = field(default_factory=dict)

    def right(self, layer: LayerName) -> bool:
        """Whether a layer's answer holds a right session."""
        return bool(self.gold & self.found[layer])

    def silent(self, layer: LayerName) -> bool:
        """Whether a layer's answer would be withheld."""
        return not relevant(self.evidence[layer], layer)


class Then(SystemClock):
    """A clock at the end of a store's history, so that time words mean what they meant."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """That moment, always."""
        return self._now_ms


def units_of(data: Path) -> dict[str, list[dict[str, Any]]]:
    """Units by store: each conversation, the coding sessions, all meetings; these have no times: one a day.

    A session of a meeting is one of its topics.
    """
    stores: dict[str, list[dict[str, Any]]] = defaultdict(list)
    days: dict[str, list[int]] = {}
    for kind in ("locomo", "commits", "qmsum"):
        for unit in load(data / kind / "units.jsonl"):
            corpus = unit["corpus"]
            if kind == "qmsum":
                place = days.setdefault(corpus, [len(days), 0])
                unit["ts"] = (_MEETINGS + dt.timedelta(days=place[0], seconds=10 * place[1])).isoformat()
                place[1] += 1
            own = {"session": f"{corpus}/{unit['session']}" if unit["session"] else corpus, "id": f"{corpus}/{unit['id']}"}
            stores[corpus if kind == "locomo" else kind].append(unit | own)
    return stores


def judged(data: Path) -> dict[tuple[str, str], Case]:
    """Answerable queries by store and id."""
    cases = {}
    for kind in ("locomo", "commits", "qmsum"):
        for query in load(data / kind / "queries.jsonl"):
            if query["gold_sessions"] and not str(query["category"]).startswith("5"):
                corpus = query["corpus"]
                gold = [f"{corpus}/{session}" for session in query["gold_sessions"]]
                store = corpus if kind == "locomo" else kind
                held = half(query["id"]) == "held"
                cases[store, query["id"]] = Case(query["query"], store, "answerable", held, frozenset(gold))
    return cases


def cases_of(data: Path) -> list[Case]:
    """Everything that is asked, of each store and of the composed one."""
    own = judged(data)
    labels = load(LABELS)
    written = [
        Case(label["query"], label["asked_of"], "hard" if label["hard"] else "easy", label["held_out"])
        for label in labels
        if "query" in label
    ]
    crossed = [
        Case(
            own[label["corpus_of_query"], label["query_id"]].text,
            label["asked_of"],
            f"of {label['corpus_of_query'].split('-')[0]}",
            label["held_out"],
        )
        for label in labels
        if "query_id" in label
    ]
    composed = [replace(c, store=COMPOSED, evidence={}, found={}) for c in (*list(own.values())[::3], *written)]
    return [*own.values(), *crossed, *written, *composed]


def opened(folder: Path, units: list[dict[str, Any]], flags: dict[str, str]) -> App:
    """The store of some units, made when the folder is empty, its indexes up to date."""
    now = max(int(dt.datetime.fromisoformat(u["ts"]).timestamp() * 1000) for u in units)
    app = App(config.load({}, {"storage.data_dir": str(folder), "storage.timezone": "UTC"} | flags), Then(now))
    if app.storage.events.last_seq() == 0:
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / "events.jsonl"
            to_jsonl(units, source)
            app.run_import("jsonl", source)
        app.derive_in_bulk()
    app.accelerators.settle()
    return app


def layers_of(app: App) -> dict[LayerName, Layer]:
    """The real layers, each by itself."""
    indexes: list[Layer] = [app.hybrid(), app.teleport(LayerName.BM25), app.teleport(LayerName.VECTOR)]
    return {layer.name: layer for layer in (*indexes, app.agentic)}


def ask(app: App, layers: dict[LayerName, Layer], case: Case, costs: list[float]) -> None:
    """Every layer's hits and what they show; appends the milliseconds that the evidence took."""
    for name, layer in layers.items():
        answer = layer.search(Query(case.text, _FOUND), Budget(_BOUNDS, app.clock, 1.0))
        began = time.perf_counter()
        rest = case.text.replace(answer.window_words, " ") if answer.window_words else case.text
        rest = rest if query_terms(rest) else case.text
        segments = app.tree.tally().segments
        query = weigh(rest, app.tree.frequencies(), None, segments)
        sets = app.tree.term_sets([h.node_id for h in answer.hits if h.node_id])
        covered = {node: below(query, hashes) for node, hashes in sets.items()}
        case.evidence[name] = evidence(rest, query.weights, query.counts, answer.hits, covered, segments)
        costs.append((time.perf_counter() - began) * 1000)
        case.found[name] = {h.session_id for h in answer.hits}


def through_engine(app: App, layers: dict[LayerName, Layer], first: LayerName, cases: Sequence[Case]) -> None:
    """What the shipped engine answers, where `first` is the first layer that can be used."""
    gone = empty = answerable = 0
    for case in cases:
        silent = not app.ask(Query(case.text, _FOUND), How(bounds={"max_token_budget": 100_000})).hits
        if case.gold:
            answer = layers[first].search(Query(case.text, _FOUND), Budget(_BOUNDS, app.clock, 1.0))
            answerable += 1
            gone += silent and any(h.session_id in case.gold for h in answer.hits)
        else:
            empty += silent
    asked = len(cases) - answerable
    print(f"{cases[0].store}, {first} first: recognised {empty}/{asked}, lost {gone}/{answerable}", flush=True)


def share(passed: Iterable[bool]) -> float:
    """Share of what is true; 0 of nothing."""
    values = list(passed)
    return sum(values) / len(values) if values else 0.0


def recognised(cases: Iterable[Case], layer: LayerName) -> float:
    """Share of the unanswerable that a layer's answer is withheld from."""
    return share(c.silent(layer) for c in cases if not c.gold)


def lost(cases: Iterable[Case], layer: LayerName) -> float:
    """Share of the answerable whose right answer is withheld."""
    return share(c.silent(layer) and c.right(layer) for c in cases if c.gold)


def row(*cells: object) -> None:
    """One line of a table."""
    print("| " + " | ".join(f"{c:.3f}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def heads(*cells: object) -> None:
    """The head of a table."""
    print()
    row(*cells)
    print("|---" * len(cells) + "|")


def report(cases: Sequence[Case]) -> None:
    """The floor layer by layer, by where queries come from, and by store."""
    nothing = [c for c in cases if not c.gold]
    kinds, stores = sorted({c.kind for c in nothing}), sorted({c.store for c in cases})
    print(f"\n{len(cases) - len(nothing)} answerable, {len(nothing)} unanswerable queries")
    numbers = (f"{kind} ({sum(c.kind == kind for c in nothing)})" for kind in kinds)
    heads("layer", "recognised", "lost", "of those found", *numbers)
    for layer in LAYERS:
        found = share(c.silent(layer) for c in cases if c.gold and c.right(layer))
        by_kind = (recognised([c for c in nothing if c.kind == k], layer) for k in kinds)
        row(layer, recognised(cases, layer), lost(cases, layer), found, *by_kind)
    heads("recognised / lost", *stores)
    for layer in LAYERS:
        own = ([c for c in cases if c.store == s] for s in stores)
        row(layer, *(f"{recognised(some, layer):.2f} / {lost(some, layer):.3f}" for some in own))


def chains(cases: Sequence[Case]) -> None:
    """What becomes of the floor when a withheld answer makes other layers be asked."""
    rules: dict[str, Callable[[Case, LayerName], bool]] = {
        "alone": lambda case, first: case.silent(first),
        "then agentic where it overlooked something": _overlooking,
        "then agentic": lambda case, first: case.silent(first) and case.silent(LayerName.AGENTIC),
        "then every other": lambda case, _: all(map(case.silent, LAYERS)),
    }
    heads("nothing is said when nothing is relevant to", "recognised", "lost")
    for first in LAYERS[:-1]:
        for words, silent in rules.items():
            own = [(silent(c, first), c) for c in cases]
            right = share(s and (c.right(first) or c.right(LayerName.AGENTIC)) for s, c in own if c.gold)
            row(f"{first} {words}", share(s for s, c in own if not c.gold), right)


def _overlooking(case: Case, first: LayerName) -> bool:
    return case.silent(first) and (not case.evidence[first].overlooked or case.silent(LayerName.AGENTIC))


def enough(cases: Sequence[Case], wanted: float) -> None:
    """How often a layer's answer is good enough to stop, and how often another layer finds what it lacks altogether."""
    answerable = [c for c in cases if c.gold]
    heads("layer", f"best hit >= {wanted}", "sufficient", "right if so", "others right", "right if not", "others right")
    for layer in LAYERS:
        stops = [sufficient(c.evidence[layer], layer, wanted) for c in answerable]
        figures = []
        for stop in (True, False):
            some = [c for c, own in zip(answerable, stops, strict=True) if own is stop]
            figures.append(share(c.right(layer) for c in some))
            figures.append(share(not c.right(layer) and any(map(c.right, LAYERS)) for c in some))
        row(layer, share(c.evidence[layer].best >= wanted for c in answerable), share(stops), *figures)


def fit(cases: Sequence[Case]) -> None:
    """Constants for `policy.relevance`: per layer a logistic regression of right answers against the unanswerable; the floor.

    Answers that should have been right and were not are neither.
    """
    for layer in LAYERS:
        shown = [c for c in cases if c.evidence[layer].hits and (not c.gold or c.right(layer))]
        inputs = np.array([(*features(c.evidence[layer]), 1.0) for c in shown])
        wanted = np.array([float(bool(c.gold)) for c in shown])
        values = logistic(inputs, wanted)
        sure = 1 / (1 + np.exp(-(inputs @ values)))
        floor = np.quantile(sure[wanted == 1], _GIVEN_UP)
        print(f"{layer}: Curve({', '.join(f'{v:.2f}' for v in values)}, {floor:.3f}), now {CURVES[layer]}")


def logistic(inputs: "np.ndarray[Any, Any]", wanted: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Constants of a logistic regression by Newton's method, one for each column of `inputs`, held back very slightly."""
    values = np.zeros(inputs.shape[1])
    for _ in range(50):
        odds = 1 / (1 + np.exp(-(inputs @ values)))
        slope = inputs.T @ (wanted - odds) - 1e-3 * values
        bend = (inputs * (odds * (1 - odds))[:, None]).T @ inputs + 1e-3 * np.eye(len(values))
        values = values + np.linalg.solve(bend, slope)
    return values


def run(data: Path, folder: Path, cases: list[Case], engine: bool) -> None:
    """Ask every case of its store."""
    units = units_of(data)
    costs: list[float] = []
    for store in sorted({c.store for c in cases}):
        own = [c for c in cases if c.store == store]
        filled = [u for some in units.values() for u in some] if store == COMPOSED else units[store]
        for first in LAYERS if engine else LAYERS[:1]:
            app = opened(folder / store, filled, OFF[first])
            try:
                if engine:
                    through_engine(app, layers_of(app), first, own)
                else:
                    layers = layers_of(app)
                    for case in own:
                        ask(app, layers, case, costs)
                    print(f"  {store}: {len(own)} queries, {app.tree.tally().segments} segments", file=sys.stderr)
            finally:
                app.close()
    if costs:
        costs.sort()
        print(f"evidence of one answer: p50 {costs[len(costs) // 2]:.1f} ms, p99 {costs[int(len(costs) * 0.99)]:.1f} ms")


def main() -> None:
    """Run, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds locomo/, commits/ and qmsum/")
    parser.add_argument("--keep", type=Path, help="keep the stores here and use them again")
    parser.add_argument("--fit", action="store_true", help="fit the constants on the tuning parts")
    parser.add_argument("--held-out", action="store_true", help="ask the parts that nothing was fitted on")
    parser.add_argument("--engine", action="store_true", help="through the engine as it is shipped, layers switched off in turn")
    arguments = parser.parse_args()
    if arguments.data is None or not all((arguments.data / k / "units.jsonl").exists() for k in ("locomo", "commits", "qmsum")):
        print("skipped: --data DIR with locomo, commits and qmsum is not there")
        return
    cases = [c for c in cases_of(arguments.data) if c.held is arguments.held_out]
    with tempfile.TemporaryDirectory() as scratch:
        run(arguments.data, arguments.keep or Path(scratch), cases, arguments.engine)
    if arguments.engine:
        return
    if arguments.fit:
        fit(cases)
    apart = [c for c in cases if c.store != COMPOSED]
    report(apart)
    chains(apart)
    enough(apart, 0.6)
    print("\nEverything in one store:")
    report([c for c in cases if c.store == COMPOSED])


if __name__ == "__main__":
    main()
