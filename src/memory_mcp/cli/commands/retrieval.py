"""`retrieval`: what the memory can do at the moment, and what it would do with a question, running nothing."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.ask import add_how, how_of
from memory_mcp.cli.commands.base import Subparsers, as_json, family, leaf, opened, words_of

if TYPE_CHECKING:
    from memory_mcp.layers.base import LayerStatus

#: Order of the layout.
_ORDER = ("bm25", "vector", "hybrid", "topics", "agentic")
_UNITS = {"bm25": "docs", "vector": "vectors", "hybrid": "docs", "topics": "topics"}


def add(parsers: Subparsers) -> None:
    """Arguments of `retrieval`."""
    inner = family(parsers, "retrieval", "show how questions are answered")
    leaf(inner, "status", run, "show tier and layers")
    plan = leaf(inner, "plan", run_plan, "show what would be done with a question, and do nothing")
    plan.add_argument("words", nargs="+", metavar="QUERY", help="a question")
    plan.add_argument("--without", default="", metavar="L,L", help="as if these layers were off: bm25,vector")
    add_how(plan)
    classify = leaf(inner, "classify", run_classify, "show what a question is taken for, and the signs of it")
    classify.add_argument("words", nargs="+", metavar="QUERY", help="a question")


def run(args: argparse.Namespace) -> int:
    """Show the tier and every layer."""
    from memory_mcp.policy.tier import detect

    with opened(args, catch_up=False) as app:
        statuses = app.engine.statuses()
    tier = detect(statuses)
    layers = [_shape(s) for s in sorted(statuses, key=lambda s: _ORDER.index(s.name.value))]
    data = {"tier": int(tier), "name": tier.label, "layers": layers}
    render.emit(as_json(args), data, _lines(data))
    return 0


def run_plan(args: argparse.Namespace) -> int:
    """Show the plan for a question."""
    from memory_mcp.cli.commands import shapes
    from memory_mcp.layers.base import Query
    from memory_mcp.policy.plan import layers_named

    query = words_of(args)
    left_out = layers_named([name.strip() for name in args.without.split(",") if name.strip()])
    with opened(args, catch_up=False) as app:
        plan = app.plan(Query(query), replace(how_of(app, args), without=left_out))
        data = {"query": query, **shapes.plan(plan, app.calendar)}
    render.emit(as_json(args), data, _plan_lines(data))
    return 0


def run_classify(args: argparse.Namespace) -> int:
    """Show what a question is taken for."""
    from memory_mcp.cli.commands import shapes
    from memory_mcp.layers.base import Query
    from memory_mcp.policy.plan import How

    query = words_of(args)
    with opened(args, catch_up=False) as app:
        data = {"query": query, **shapes.classified(app.plan(Query(query), How()), app.calendar)}
    render.emit(as_json(args), data, _understood_lines(data))
    return 0


def _understood_lines(data: dict[str, Any]) -> Iterator[str]:
    yield f"Intent:     {data['intent']} (confidence {data['confidence']:.2f})"
    yield f"Signals:    {'; '.join(data['signals']) or 'none: Answer is the default'}"
    if data["exact"]:
        yield f"Literally:  {', '.join(data['exact'])}"
    if data["deadline_ms"]:
        yield f"Deadline:   {data['deadline_ms']} ms"
    if data["window"]:
        yield f'Time:       "{data["window_words"]}" {" ".join(f"{k} {v}" for k, v in data["window"].items())}'
    yield f"Looks for:  {data['text'] or '(everything in that time)'}"


def _plan_lines(data: dict[str, Any]) -> Iterator[str]:
    yield from _understood_lines(data)
    yield f"Tier:       {data['tier']} ({data['name']})"
    yield f"Mode:       {data['mode']} ({data['why_mode']})"
    joint = " > " if data["mode"] == "sequential" else " | "
    yield f"Order:      {joint.join(data['order'])}"
    for skipped in data["skipped"]:
        yield f"Skipped:    {skipped['layer']}: {skipped['reason']}"
    yield f"Bounds:     {', '.join(f'{k} {v}' for k, v in data['bounds'].items())} ({'hard' if data['strict'] else 'soft'})"
    yield f"Then:       {'a scan of time slices, if ' + data['escalates_when'] if data['escalates_when'] else 'stop'}"


def _shape(status: "LayerStatus") -> dict[str, Any]:
    shape = {
        "name": status.name.value,
        "enabled": status.enabled,
        "healthy": status.healthy,
        "count": status.count,
        "reason": status.reason,
        "enable_with": status.enable_with,
    }
    return {k: v for k, v in shape.items() if v != ""}


def _lines(data: dict[str, Any]) -> Iterator[str]:
    usable = [x for x in data["layers"] if x["enabled"] and x["healthy"]]
    yield "Retrieval Capabilities"
    yield "-" * 40
    yield f"Current Tier:    {data['tier']} ({data['name']})"
    yield "Available Layers:"
    for layer in usable:
        what = f"{layer['count']} {_UNITS[layer['name']]}" if layer["name"] in _UNITS else "TOC available"
        yield f"  - {layer['name'] + ':':<8} healthy ({what})"
    yield "Unavailable:"
    others = [x for x in data["layers"] if x not in usable]
    for layer in others:
        yield f"  - {layer['name'] + ':':<8} {layer.get('reason', 'unhealthy')}"
    if not others:
        yield "  (none)"
