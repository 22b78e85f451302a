"""`navigate`: walk the time tree to the evidence for a question, and print the path and the citations as Markdown."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_current,
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
    add_current(parser)


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
        include_current=args.include_current,
    )
    data = ask(args, request, hint=True)
    return print_result(args, data, path_lines(data, args.verbose), recalled=True)


def path_lines(data: dict[str, Any], verbose: bool = False) -> Iterator[str]:
    """Yield the path as a numbered list, and the evidence, as Markdown; `data` is the response to Navigate.

    A step has its node, how many were searched, the best match and what was decided. `verbose`: with counters, bounds and
    quotations of up to 1200 characters, else 300.
    """
    window = data.get("window", {})
    span = " ".join(f"{side} {window[side]}" for side in ("since", "until") if side in window) or "all time"
    yield from ("## Search Path", "", f'Query: "{data["query"]}"', "")
    for number, step in enumerate(data["path"], 1):
        searched = render.plural(step["searched"], f"{step.get('searched_level', '')} node".strip())
        after = data["path"][number] if number < len(data["path"]) else {}
        # A step over the years is called by the year that it chose.
        chose = step.get("searched_level") == "year" and after.get("node_id", "").startswith("toc:year:")
        yield f"{number}. **{after['label'] if chose else step['label']}** - Searched {searched}"
        if "matched" in step:
            yield f'   - Matched: "{render.one_line(step["matched"])}" (score: {step["score"]:.2f})'
        yield from (f"   - {step['decision']}", "")
    if "words" in window:
        yield f'Time: "{window["words"]}" is {span}'
    yield from note_lines(data)
    if "words" in window or data.get("notices"):
        yield ""
    if verbose:
        bounds = data["bounds"]
        yield from ("## Bounds", "", f"- scope: {data['scope']}, beam_width: {bounds['beam_width']['limit']}")
        yield f"- window: {span}"
        for name, bound in bounds.items():
            if "used" in bound:
                yield f"- {name}: {bound['used']} of {bound['limit']}{' (reached)' if name in data['bounds_hit'] else ''}"
        yield ""
    yield from ("## Evidence", "")
    yield from _evidence_lines(data["results"], _QUOTE_VERBOSE if verbose else _QUOTE)


def _evidence_lines(results: Sequence[dict[str, Any]], width: int) -> Iterator[str]:
    """Yield each result with its time, title, quotation (cut to `width` characters) and citations, then how to go on.

    The last line is the command for the first citation. Without results one line that says so.
    """
    if not results:
        yield "Nothing relevant was found. Try other words, --all, or a wider time."
        return
    for result in results:
        heading = f"Segment: {result['id']}" if result["kind"] == "segment" else f"Not yet filed in the tree: {result['id']}"
        yield f"**{heading}**"
        about = [
            render.minute(result["when"]),
            render.project_name(result.get("project", "")),
            render.gist(result.get("title", "")),
        ]
        yield f"- {' - '.join(a for a in about if a)}"
        first, *other_grips = result["grip_ids"] or [""]
        yield f'- "{render.one_line(result["quote"], width)}" [{first}]'
        for grip in other_grips:
            yield f"- also [{grip}]"
        yield ""
    yield OFFER
    grip = next((r["grip_ids"][0] for r in results if r.get("grip_ids")), "")
    yield f"`memory-mcp query expand-grip {grip}`"
