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
    """Print the tier, the layers that can be used with their counts, and the others with the reason; return 0."""
    from memory_mcp.requests.status import GetStatus

    data = ask(args, GetStatus(args.detail), catch_up=False)
    layers = sorted((x for x in data["layers"] if x["name"] in _ORDER), key=lambda x: _ORDER.index(x["name"]))
    usable = [x for x in layers if x["enabled"] and x["healthy"]]
    lines = ["Retrieval Capabilities", "-" * 40, f"Current Tier:    {data['tier']} ({data['name']})"]
    if not data.get("healthy", True):
        lines.append("Store:           not healthy: acknowledged events are missing")
    lines.append("Available Layers:")
    for layer in usable:
        what = f"{layer['count']} {_UNITS[layer['name']]}" if layer["name"] in _UNITS else "TOC available"
        health = (
            f"partial ({what}): {layer['reason']}" if layer["name"] != "topics" and layer.get("reason") else f"healthy ({what})"
        )
        lines.append(f"  - {layer['name'] + ':':<8} {health}")
    unusable = [f"  - {x['name'] + ':':<8} {x.get('reason', 'unhealthy')}" for x in layers if x not in usable]
    return print_result(args, data, [*lines, "Unavailable:", *(unusable or ["  (none)"]), *note_lines(data)])


def run_plan(args: argparse.Namespace) -> int:
    """Print what would be done with a question, as if the layers --without were off; nothing is searched. Returns 0."""
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.plans import PlanQuery

    query, bounds = words_of(args), Bounds(**bounds_of(args))
    without = [name.strip() for name in args.without.split(",") if name.strip()]
    request = PlanQuery(query, without, args.intent or "", args.mode or "", as_of=args.as_of, tz=args.tz, bounds=bounds)
    data = ask(args, request, catch_up=False)
    limits = f"{', '.join(f'{k} {v}' for k, v in data['bounds'].items())} ({'hard' if data['strict'] else 'soft'})"
    lines = [
        *_understood_lines(data),
        f"Tier:       {data['tier']} ({data['name']})",
        f"Mode:       {data['mode']} ({data['why_mode']})",
        f"Order:      {(' > ' if data['mode'] == 'sequential' else ' | ').join(data['order'])}",
        *(f"Skipped:    {skipped['layer']}: {skipped['reason']}" for skipped in data["skipped"]),
        f"Bounds:     {limits}",
        f"Then:       {'a scan of time slices, if ' + data['escalates_when'] if 'escalates_when' in data else 'stop'}",
    ]
    return print_result(args, data, lines)


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
