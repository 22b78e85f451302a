"""`retrieval`: what the memory can do at the moment, and what it would do with a question, running nothing."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.cli.commands.ask import add_how, bounds_of
from memory_mcp.cli.commands.base import Subparsers, ask, family, leaf, note_lines, print_result, words_of

#: The layers in the order they are printed, and what is counted of each.
_ORDER = ("bm25", "vector", "hybrid", "topics", "agentic")
_UNITS = {"bm25": "docs", "vector": "vectors", "hybrid": "docs", "topics": "topics"}


def add(parsers: Subparsers, about: str) -> None:
    """Add `retrieval` with the subcommands status (`run`), plan and classify; `about` is its help text."""
    inner = family(parsers, "retrieval", about)
    status = leaf(inner, "status", run, "show tier and layers")
    status.add_argument("--detail", default="lean", metavar="D", help="full: also what each layer can and cannot do (JSON)")
    plan = leaf(inner, "plan", run_plan, "show what would be done with a question, and do nothing")
    plan.add_argument("words", nargs="+", metavar="QUERY", help="a question")
    plan.add_argument("--without", default="", metavar="L,L", help="as if these layers were off: bm25,vector")
    add_how(plan)
    _add_when(plan)
    classify = leaf(inner, "classify", run_classify, "show what a question is taken for, and the signs of it")
    classify.add_argument("words", nargs="+", metavar="QUERY", help="a question")
    classify.add_argument("--timeout-ms", type=int, default=0, metavar="N", help="a hard limit; makes it time_boxed")
    _add_when(classify)


def run(args: argparse.Namespace) -> int:
    """Print the tier and every layer, with why one cannot be used; return 0."""
    from memory_mcp.requests.status import GetStatus

    data = ask(args, GetStatus(args.detail), catch_up=False)
    return print_result(args, data, _lines(data))


def run_plan(args: argparse.Namespace) -> int:
    """Print what would be done with a question, as if the layers --without were off; nothing is searched. Returns 0."""
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.plans import PlanQuery

    query, bounds = words_of(args), Bounds(**bounds_of(args))
    without = [name.strip() for name in args.without.split(",") if name.strip()]
    request = PlanQuery(query, without, args.intent or "", args.mode or "", as_of=args.as_of, tz=args.tz, bounds=bounds)
    data = ask(args, request, catch_up=False)
    return print_result(args, data, _plan_lines(data))


def run_classify(args: argparse.Namespace) -> int:
    """Print the intent that a question is taken for, and the signals of it; return 0."""
    from memory_mcp.requests.plans import ClassifyQuery

    data = ask(args, ClassifyQuery(words_of(args), args.timeout_ms, args.as_of, args.tz), catch_up=False)
    return print_result(args, data, _understood_lines(data))


def _add_when(parser: argparse.ArgumentParser) -> None:
    """Add --as-of and --tz, texts that are "" where they are not given."""
    parser.add_argument("--as-of", default="", metavar="TIME", help="now, for time words in the question")
    parser.add_argument("--tz", default="", metavar="ZONE", help="zone of times, such as Europe/Berlin")


def _understood_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield intent, signals, words that are looked for literally, deadline, time and text, as far as the question has them.

    `data` is the response to ClassifyQuery or PlanQuery.
    """
    yield f"Intent:     {data['intent']} (confidence {data['confidence']:.2f})"
    yield f"Signals:    {'; '.join(data['signals']) or 'none: Answer is the default'}"
    if "exact" in data:
        yield f"Literally:  {', '.join(data['exact'])}"
    if "deadline_ms" in data:
        yield f"Deadline:   {data['deadline_ms']} ms"
    if "window" in data:
        span = " ".join(f"{k} {data['window'][k]}" for k in ("since", "until") if k in data["window"])
        yield f'Time:       "{data["window"].get("words", "")}" {span}'
    yield f"Looks for:  {data.get('text') or '(everything in that time)'}"


def _plan_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield how the question is understood, then tier, mode, order of layers, those skipped, bounds, and what follows."""
    yield from _understood_lines(data)
    yield f"Tier:       {data['tier']} ({data['name']})"
    yield f"Mode:       {data['mode']} ({data['why_mode']})"
    joint = " > " if data["mode"] == "sequential" else " | "
    yield f"Order:      {joint.join(data['order'])}"
    for skipped in data["skipped"]:
        yield f"Skipped:    {skipped['layer']}: {skipped['reason']}"
    yield f"Bounds:     {', '.join(f'{k} {v}' for k, v in data['bounds'].items())} ({'hard' if data['strict'] else 'soft'})"
    yield f"Then:       {'a scan of time slices, if ' + data['escalates_when'] if 'escalates_when' in data else 'stop'}"


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield the tier, the layers that can be used with their counts, the others with the reason, and notices.

    `data` is the response to GetStatus. Lost events are reported as a store that is not healthy.
    """
    layers = sorted((x for x in data["layers"] if x["name"] in _ORDER), key=lambda x: _ORDER.index(x["name"]))
    usable = [x for x in layers if x["enabled"] and x["healthy"]]
    yield "Retrieval Capabilities"
    yield "-" * 40
    yield f"Current Tier:    {data['tier']} ({data['name']})"
    if not data.get("healthy", True):
        yield "Store:           not healthy: acknowledged events are missing"
    yield "Available Layers:"
    for layer in usable:
        what = f"{layer['count']} {_UNITS[layer['name']]}" if layer["name"] in _UNITS else "TOC available"
        yield f"  - {layer['name'] + ':':<8} healthy ({what})"
    yield "Unavailable:"
    others = [x for x in layers if x not in usable]
    for layer in others:
        yield f"  - {layer['name'] + ':':<8} {layer.get('reason', 'unhealthy')}"
    if not others:
        yield "  (none)"
    yield from note_lines(data)
