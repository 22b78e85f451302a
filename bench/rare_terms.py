"""Rare terms and latency: a store of made-up sessions in which each of some terms occurs in exactly one event.

Reports how many of them navigate and intelligent_search find within their default bounds, whether the counters stay
within the bounds, and the latency of both and of search_children over 100 children.

    python -m bench.rare_terms --events 100000 --terms 500 [--keep DIR]
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import corpus
from memory_mcp.app import App
from memory_mcp.config import load
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import ROOT
from memory_mcp.search.layers.agentic.match import FIELDS
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import Budget


def quantiles(times: list[float]) -> str:
    """p50 and p99 in milliseconds."""
    ordered = sorted(times)
    p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"p50 {p50 * 1000:7.1f} ms   p99 {p99 * 1000:7.1f} ms"


def timed(work: Callable[[], object], times: list[float]) -> object:
    """The result of `work`, its seconds added to `times`."""
    started = time.perf_counter()
    result = work()
    times.append(time.perf_counter() - started)
    return result


def open_store(directory: Path, events: int, terms: int) -> App:
    """A store with that many events, made when the directory is empty."""
    settings = load({}, {"storage.data_dir": str(directory), "storage.timezone": "UTC"})
    app = App(settings)
    if app.storage.events.last_seq() == 0:
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / "events.jsonl"
            corpus.write(source, events, rare=terms)
            app.run_import("jsonl", source)
        app.derivation.run()
    return app


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--terms", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="keep the store here and use it again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        app = open_store(arguments.keep or Path(scratch) / "store", arguments.events, arguments.terms)
        measure(app, corpus.rare_terms(arguments.terms))
        app.close()


def measure(app: App, terms: list[str]) -> None:
    """Ask for every term in three ways."""
    bounds = app.settings.retrieval.bounds
    navigate, ask = list[float](), list[float]()
    found = asked = broken = deepest = 0
    for term in terms:
        budget = Budget(bounds, app.clock)
        answer = timed(lambda t=term, b=budget: app.agentic.search(Query(t), b), navigate)  # type: ignore[misc]
        found += any(term in h.quote for h in answer.hits[:1])  # type: ignore[attr-defined]
        broken += budget.spent.nodes_visited > bounds.max_nodes_visited or budget.spent.rpc_calls > bounds.max_rpc_calls
        deepest = max(deepest, budget.spent.nodes_visited)
        reply = timed(lambda t=term: app.ask(Query(f"where did {t} come up?")), ask)  # type: ignore[misc]
        asked += any(term in h.quote for h in reply.hits[:1])  # type: ignore[attr-defined]
        broken += reply.why.nodes_visited > bounds.max_nodes_visited  # type: ignore[attr-defined]
    segments = app.tree.descendants(ROOT, TocLevel.SEGMENT)
    cold, warm = list[float](), list[float]()
    for start in range(0, min(len(segments), 5000) - 100, 100):
        part = segments[start : start + 100]
        for text, times in (("deploy the cache retry failed", cold), ("which test returned nothing after the merge", warm)):
            weighed = app.agentic.nodes.weigh_query(text, None)
            timed(lambda p=part, w=weighed: app.agentic.nodes.rank_nodes(p, w, FIELDS, True, None), times)  # type: ignore[misc]
    stats = app.storage.get_stats()
    print(f"{stats.rows['event']} events, {stats.rows['segment_cut']} segments, {len(terms)} terms in one event each\n")
    print(f"navigate finds            {found / len(terms):7.1%}   {quantiles(navigate)}   at most {deepest} nodes visited")
    print(f"intelligent_search finds  {asked / len(terms):7.1%}   {quantiles(ask)}")
    print(f"search_children over 100            {quantiles(cold)}   never read before")
    print(f"                                    {quantiles(warm)}   the same 100 again, another query")
    print(f"bounds broken: {broken}")


if __name__ == "__main__":
    main()
