"""`navigate`: walk the time tree to the evidence for a question, and print the path and the citations as Markdown."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_scope,
    add_times,
    add_who,
    ask,
    leaf,
    note_lines,
    print_result,
    words_of,
)
from memory_mcp.requests.limits import EVIDENCE

#: The six bounds (agent-retrieval-policy-prd.md, section 5.5), by their names in the settings.
BOUNDS = ("max_depth", "max_nodes_visited", "max_rpc_calls", "max_token_budget", "timeout_ms", "beam_width")
#: Characters shown of a quotation, and with --verbose.
_QUOTE, _QUOTE_VERBOSE = 300, 1200
#: Shown below the evidence.
OFFER = "Would you like me to expand a grip for the full conversation context?"


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `navigate`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "navigate", run, about)
    parser.add_argument("words", nargs="+", metavar="QUERY", help="a question; it may name a time (yesterday, in january)")
    parser.add_argument("--verbose", action="store_true", help="counters, bounds, window and longer quotations too")
    parser.add_argument("--limit", type=int, default=EVIDENCE.default, metavar="N", help=f"most segments ({EVIDENCE.default})")
    parser.add_argument("--node", default="", metavar="ID", help="where to start (default: the root)")
    parser.add_argument("--as-of", default="", metavar="TIME", help="now, for time words in the question")
    add_bounds(parser)
    add_who(parser)
    add_times(parser)
    add_scope(parser)


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """Add an argument for each of the six bounds, such as --max-depth, a whole number or None."""
    for bound in BOUNDS:
        parser.add_argument(f"--{bound.replace('_', '-')}", type=int, metavar="N", help=f"setting retrieval.bounds.{bound}")


def run(args: argparse.Namespace) -> int:
    """Walk the time tree to the evidence for a question, print the path with its reasons and the citations, and return 0."""
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.walk import Navigate

    request = Navigate(
        words_of(args),
        args.node,
        args.limit,
        as_of=args.as_of,
        since=args.since or "",
        until=args.until or "",
        role=args.role,
        speaker=args.speaker,
        bounds=Bounds(**{bound: getattr(args, bound) for bound in BOUNDS}),
    )
    data = ask(args, request, hint=True)
    return print_result(args, data, path_lines(data, args.verbose), recalled=True)


def path_lines(data: dict[str, Any], verbose: bool = False) -> Iterator[str]:
    """Yield the path and the evidence as Markdown; `data` is the response to Navigate.

    `verbose`: with counters, bounds and quotations of up to 1200 characters, else 300.
    """
    yield "## Search Path"
    yield ""
    yield f'Query: "{data["query"]}"'
    yield ""
    yield from step_lines(data["path"])
    yield from _notice_lines(data)
    if verbose:
        yield from _counter_lines(data)
    yield "## Evidence"
    yield ""
    yield from _evidence_lines(data["results"], _QUOTE_VERBOSE if verbose else _QUOTE)


def step_lines(path: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the steps of a path as a numbered list: the node, how many were searched, the best match, and what was decided.

    `path` is that of the response to Navigate. After each step comes an empty line.
    """
    for number, step in enumerate(path, 1):
        searched = render.plural(step["searched"], f"{step.get('searched_level', '')} node".strip())
        yield f"{number}. **{_place(step, path[number:])}** - Searched {searched}"
        if "matched" in step:
            yield f'   - Matched: "{render.one_line(step["matched"])}" (score: {step["score"]:.2f})'
        yield f"   - {step['decision']}"
        yield ""


def _place(step: dict[str, Any], later: Sequence[dict[str, Any]]) -> str:
    """Return the label of a step's node; for a step over the years, of the year it chose.

    `later` are the steps behind it, of which the first may be that year.
    """
    if step.get("searched_level") == "year" and later and later[0]["node_id"].startswith("toc:year:"):
        return str(later[0]["label"])
    return str(step["label"])


def _notice_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield the time that the question names, if any, and the notices of the response; then an empty line if there was one."""
    window, notices = data.get("window", {}), data.get("notices", ())
    if "words" in window:
        yield f'Time: "{window["words"]}" is {_span(window)}'
    yield from note_lines(data)
    if "words" in window or notices:
        yield ""


def _counter_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield scope, window and each bound with how much of it was used, and whether it was reached."""
    bounds = data["bounds"]
    yield "## Bounds"
    yield ""
    yield f"- scope: {data['scope']}, beam_width: {bounds['beam_width']['limit']}"
    yield f"- window: {_span(data.get('window', {}))}"
    for name, bound in bounds.items():
        if "used" in bound:
            yield f"- {name}: {bound['used']} of {bound['limit']}{' (reached)' if name in data['bounds_hit'] else ''}"
    yield ""


def _span(window: dict[str, str]) -> str:
    """Return a window as "since A until B", with the sides that it has; "all time" without any."""
    return " ".join(f"{side} {window[side]}" for side in ("since", "until") if side in window) or "all time"


def _evidence_lines(results: Sequence[dict[str, Any]], width: int) -> Iterator[str]:
    """Yield each result with its time, title, quotation (cut to `width` characters) and citations, then how to go on.

    The last line is the command for the first citation. Without results one line that says so.
    """
    if not results:
        yield "Nothing relevant was found. Try other words, --all, or a wider time."
        return
    for result in results:
        place = f"Segment: {result['id']}" if result["kind"] == "segment" else f"Not yet filed in the tree: {result['id']}"
        yield f"**{place}**"
        about = [render.minute(result["when"]), result.get("project"), render.gist(result.get("title", ""))]
        yield f"- {' - '.join(a for a in about if a)}"
        first, *others = result["grip_ids"] or [""]
        yield f'- "{render.one_line(result["quote"], width)}" [{first}]'
        for grip in others:
            yield f"- also [{grip}]"
        yield ""
    yield OFFER
    grip = next((r["grip_ids"][0] for r in results if r.get("grip_ids")), "")
    yield f"`memory-mcp query expand-grip {grip}`"
