"""`search`: find the nodes of the time tree that hold some words."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_cursor,
    add_keywords,
    add_scope,
    add_words,
    ask,
    leaf,
    note_lines,
    print_result,
    words_of,
)
from memory_mcp.requests.limits import RESULTS

#: Citations shown of each match.
_GRIPS_SHOWN = 2


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `search`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "search", run, about, "Without --node, --parent or --level every segment is searched.")
    add_words(parser)
    add_keywords(parser)
    parser.add_argument("--level", metavar="LEVEL", help="year, month, week, day or segment")
    parser.add_argument("--node", metavar="ID", help="search within this node's own text")
    parser.add_argument("--parent", metavar="ID", help="search the children of this node")
    parser.add_argument("--limit", type=int, default=RESULTS.default, metavar="N", help=f"most results ({RESULTS.default})")
    add_cursor(parser)
    parser.add_argument("--token-budget", type=int, default=0, metavar="N", help="most tokens of all results together")
    parser.add_argument("--fields", metavar="F,F", help="only these: title, summary, bullets, keywords")
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Search one node (--node), or the children of one (--parent) or nodes of a level, print what matches, and return 0.

    Without any of them every segment is searched. Raises InvalidQuery where --node is given with --parent, --level or --cursor,
    there is no query, or an argument is invalid, and NotFound for an unknown node.
    """
    from memory_mcp.model.calendar import TocLevel
    from memory_mcp.requests.words import SearchChildren, SearchNode

    if args.node and (args.parent or args.level):
        raise InvalidQuery("--node searches one node: it goes without --parent and --level", "See: memory-mcp search --help")
    if args.node and args.cursor:
        raise InvalidQuery("--node has one page: it goes without --cursor", "Give a larger --limit.")
    query = words_of(args)
    fields = [f.strip() for f in args.fields.split(",") if f.strip()] if args.fields else None
    keywords = tuple(args.also)
    if args.node:
        inside = SearchNode(args.node, query, fields, args.limit, args.token_budget, keywords=keywords)
        data = ask(args, inside, hint=True)
        lines = [data["node_id"]]
        if not data["matched"]:
            lines.append(f'  Nothing in this node\'s own text matches "{query}".')
            lines.append(f"  Below it: memory-mcp search --parent {data['node_id']} --query ...")
        return print_result(args, data, [*lines, *_match_lines(data["matches"])], recalled=True)
    level = args.level or ("" if args.parent else TocLevel.SEGMENT.value)
    parent = args.parent or ""
    request = SearchChildren(query, parent, level, fields, args.limit, args.token_budget, args.cursor, keywords=keywords)
    data = ask(args, request, hint=True)
    lines = [] if data["results"] or data.get("pending") else [f'Nothing matches "{query}".']
    for result in data["results"]:
        lines.append(f"{result['node_id']}  (relevance: {result['relevance_score']:.2f})")
        lines += [f"  {result['title']}", *_match_lines(result["matches"])]
    for event in data.get("pending", ()):
        lines += [f"not filed yet  (score: {event['score']:.2f})", f'  "{event["text"]}" [{event["grip_id"]}]']
    lines += note_lines(data)
    if "next_cursor" in data:
        lines.append(f"More with --cursor {data['next_cursor']}, or a larger --limit.")
    return print_result(args, data, lines, recalled=True)


def _match_lines(matches: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each match: field, text, score, its first two grips, if it has grip_ids, and how many more."""
    for match in matches:
        grips = "".join(f" [{g}]" for g in match.get("grip_ids", [])[:_GRIPS_SHOWN])
        more = len(match.get("grip_ids", [])) - _GRIPS_SHOWN
        more_grips = f" and {render.plural(more, 'more grip')}" if more > 0 else ""
        yield f'  - {match["field"]}: "{render.one_line(match["text"])}" (score: {match["score"]:.2f}){grips}{more_grips}'
