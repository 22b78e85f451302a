"""`navigate`: the whole loop of layer 2, with the path it took and cited evidence as Markdown."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_scope,
    add_times,
    as_json,
    check_limit,
    hint_when_empty,
    leaf,
    opened,
    scope_of,
    window_of,
    words_of,
)

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.layers.budget import Budget

#: The six bounds (agent-retrieval-policy-prd.md, section 5.5), by their names in the settings.
BOUNDS = ("max_depth", "max_nodes_visited", "max_rpc_calls", "max_token_budget", "timeout_ms", "beam_width")
_QUOTE = 300
_QUOTE_VERBOSE = 1200
OFFER = "Would you like me to expand a grip for the full conversation context?"


def add(parsers: Subparsers) -> None:
    """Arguments of `navigate`."""
    parser = leaf(parsers, "navigate", run, "find something by walking the time tree, and show the path")
    parser.add_argument("words", nargs="+", metavar="QUERY", help="a question; it may name a time (yesterday, in january)")
    parser.add_argument("--verbose", action="store_true", help="counters, bounds, window and longer quotations too")
    parser.add_argument("--limit", type=int, default=5, metavar="N", help="most segments of evidence (5)")
    for bound in BOUNDS:
        parser.add_argument(f"--{bound.replace('_', '-')}", type=int, metavar="N", help=f"setting retrieval.bounds.{bound}")
    add_times(parser)
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Walk the tree."""
    query = words_of(args)
    check_limit(args.limit, 100)
    with opened(args) as app:
        data = _walk(app, args, query)
        hint_when_empty(app)
    render.emit(as_json(args), data, path_lines(data, args.verbose), recalled=True)
    return 0


def _walk(app: "App", args: argparse.Namespace, query: str) -> dict[str, Any]:
    from memory_mcp.cli.commands import shapes
    from memory_mcp.layers.base import Query
    from memory_mcp.layers.budget import Budget
    from memory_mcp.policy.engine import within

    project = scope_of(app, args, from_here=True)
    bounds = app.settings.retrieval.bounds.with_(**{b: getattr(args, b) for b in BOUNDS})
    budget = Budget(bounds, app.clock, app.settings.retrieval.token_factor)
    asked = Query(query, args.limit, project, None, window_of(app, args))
    found = app.agentic.navigate(asked, budget)
    hits = within(found.hits, budget)
    return {
        "query": query,
        "path": [shapes.step(s) for s in found.path],
        "results": [shapes.hit(h, app.calendar) for h in hits],
        "explanation": {
            "method_used": app.agentic.name.value,
            "scope": project if project is not None else "all projects",
            "window": shapes.window(found.window, app.calendar),
            "window_words": found.window_words,
            "notices": list(found.notices),
            **_counted(budget, len(found.hits) - len(hits)),
        },
    }


def _counted(budget: "Budget", left_out: int) -> dict[str, Any]:
    used = {
        "depth": budget.depth,
        "nodes_visited": budget.nodes_visited,
        "rpc_calls": budget.rpc_calls,
        "tokens": budget.tokens,
        "elapsed_ms": budget.elapsed_ms(),
    }
    limits = {b: getattr(budget.bounds, b) for b in BOUNDS}
    return {"counters": used, "bounds": limits, "bounds_hit": list(budget.hit), "left_out": left_out}


def path_lines(data: dict[str, Any], verbose: bool = False) -> Iterator[str]:
    """Path and evidence in the plan's form."""
    yield "## Search Path"
    yield ""
    yield f'Query: "{data["query"]}"'
    yield ""
    yield from step_lines(data["path"])
    yield from _notice_lines(data["explanation"])
    if verbose:
        yield from _counter_lines(data["explanation"])
    yield "## Evidence"
    yield ""
    yield from _evidence_lines(data["results"], _QUOTE_VERBOSE if verbose else _QUOTE)


def step_lines(path: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The steps, numbered."""
    for number, step in enumerate(path, 1):
        searched = render.plural(step["searched"], f"{step.get('searched_level', '')} node".strip())
        yield f"{number}. **{_place(step, path[number:])}** - Searched {searched}"
        if "matched" in step:
            yield f'   - Matched: "{render.one_line(step["matched"])}" (score: {step["score"]:.2f})'
        yield f"   - {step['decision']}"
        yield ""


def _place(step: dict[str, Any], later: Sequence[dict[str, Any]]) -> str:
    """The node a step stands at; for a step over the years, the year it chose."""
    if step.get("searched_level") == "year" and later and later[0]["node_id"].startswith("toc:year:"):
        return str(later[0]["label"])
    return str(step["label"])


def _notice_lines(why: dict[str, Any]) -> Iterator[str]:
    if why["window_words"]:
        link = ", widened to" if any("widened" in n for n in why["notices"]) else " is"
        yield f'Time: "{why["window_words"]}"{link} {_span(why["window"])}'
    for notice in why["notices"]:
        yield f"Note: {notice}"
    if why["left_out"]:
        yield f"Note: {render.plural(why['left_out'], 'result')} left out to stay within max_token_budget"
    if why["window_words"] or why["notices"] or why["left_out"]:
        yield ""


def _counter_lines(why: dict[str, Any]) -> Iterator[str]:
    counters, bounds = why["counters"], why["bounds"]
    pairs = (
        ("depth", "max_depth"),
        ("nodes_visited", "max_nodes_visited"),
        ("rpc_calls", "max_rpc_calls"),
        ("tokens", "max_token_budget"),
        ("elapsed_ms", "timeout_ms"),
    )
    yield "## Bounds"
    yield ""
    yield f"- method: {why['method_used']}, scope: {why['scope']}, beam_width: {bounds['beam_width']}"
    yield f"- window: {_span(why['window'])}"
    for used, bound in pairs:
        yield f"- {used}: {counters[used]} of {bound} {bounds[bound]}{' (reached)' if bound in why['bounds_hit'] else ''}"
    yield ""


def _span(window: dict[str, str] | None) -> str:
    if not window:
        return "all time"
    return " ".join(f"{side} {window[side]}" for side in ("since", "until") if side in window) or "all time"


def _evidence_lines(results: Sequence[dict[str, Any]], width: int) -> Iterator[str]:
    if not results:
        yield "Nothing relevant was found. Try other words, --all, or a wider time."
        return
    for result in results:
        place = f"Segment: {result['id']}" if result["kind"] == "segment" else f"Not yet filed in the tree: {result['id']}"
        yield f"**{place}**"
        about = [result["when"][:16].replace("T", " "), result.get("project"), render.gist(result.get("title", ""))]
        yield f"- {' - '.join(a for a in about if a)}"
        first, *others = result.get("grip_ids", [""])
        yield f'- "{render.one_line(result["quote"], width)}" [{first}]'
        for grip in others:
            yield f"- also [{grip}]"
        yield ""
    yield OFFER
    grip = next((r["grip_ids"][0] for r in results if r.get("grip_ids")), "")
    yield f"`memory-mcp query expand-grip {grip}`"
