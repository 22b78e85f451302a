"""`search`: search_node and search_children on the command line."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, add_scope, as_json, hint_when_empty, leaf, opened, scope_of, words_of
from memory_mcp.errors import InvalidQuery

if TYPE_CHECKING:
    from memory_mcp.app import App

_GRIPS_SHOWN = 2


def add(parsers: Subparsers) -> None:
    """Arguments of `search`."""
    parser = leaf(
        parsers,
        "search",
        run,
        "search the nodes of the time tree for words",
        "Without --node, --parent or --level every segment is searched.",
    )
    parser.add_argument("words", nargs="*", metavar="WORDS", help="what to look for (or --query)")
    parser.add_argument("--query", metavar="WORDS", help="what to look for")
    parser.add_argument("--level", metavar="LEVEL", help="year, month, week, day or segment")
    parser.add_argument("--node", metavar="ID", help="search within this node's own text")
    parser.add_argument("--parent", metavar="ID", help="search the children of this node")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="most results (10)")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="leave out so many, to page on")
    parser.add_argument("--fields", metavar="F,F", help="only these: title, summary, bullets, keywords")
    add_scope(parser)


def run(args: argparse.Namespace) -> int:
    """Search one node or a level."""
    query = words_of(args)
    fields = [f.strip() for f in args.fields.split(",") if f.strip()] if args.fields else None
    if args.node and (args.parent or args.level):
        raise InvalidQuery("--node searches one node: it goes without --parent and --level", "See: memory-mcp search --help")
    if args.offset < 0:
        raise InvalidQuery(f"offset must not be negative: {args.offset}")
    with opened(args) as app:
        project = scope_of(app, args, from_here=True)
        data = _node(app, args, query, fields, project) if args.node else _children(app, args, query, fields, project)
        hint_when_empty(app)
    lines = _node_lines(data) if args.node else _children_lines(data, args)
    render.emit(as_json(args), data, lines, recalled=True)
    return 0


def _node(app: "App", args: argparse.Namespace, query: str, fields: list[str] | None, project: str | None) -> dict[str, Any]:
    from memory_mcp.cli.commands import shapes
    from memory_mcp.model.ids import parse_node_id

    node, matches = app.agentic.nodes.search_node(parse_node_id(args.node), query, fields, args.limit, project)
    return {
        "query": query,
        "matched": bool(matches),
        "matches": [shapes.match(m) for m in matches],
        "node_id": node.node_id,
        "level": node.level.value,
        "title": node.title,
    }


def _children(app: "App", args: argparse.Namespace, query: str, fields: list[str] | None, project: str | None) -> dict[str, Any]:
    from memory_mcp.cli.commands import shapes
    from memory_mcp.model.calendar import TocLevel, parse_level
    from memory_mcp.model.ids import parse_node_id

    level = parse_level(args.level) if args.level else None if args.parent else TocLevel.SEGMENT
    parent = parse_node_id(args.parent or "")
    found = app.agentic.nodes.search_children(parent, query, level, fields, args.limit, project, args.offset)
    results = [
        {
            "node_id": r.node.node_id,
            "title": r.node.title,
            "level": r.node.level.value,
            "matches": [shapes.match(m) for m in r.matches],
            "relevance_score": r.relevance,
        }
        for r in found.results
    ]
    page = {"results": results, "has_more": found.next_offset is not None}
    if found.next_offset is not None:
        page["next_offset"] = found.next_offset
    return {"query": query, "searched": found.compared, **page}


def _node_lines(data: dict[str, Any]) -> Iterator[str]:
    yield f"{data['node_id']}  {data['title']}"
    if not data["matched"]:
        yield f'  Nothing in this node\'s own text matches "{data["query"]}".'
        yield f"  Below it: memory-mcp search --parent {data['node_id']} --query ..."
    yield from _match_lines(data["matches"])


def _children_lines(data: dict[str, Any], args: argparse.Namespace) -> Iterator[str]:
    if not data["results"]:
        yield f'Nothing matches "{data["query"]}" ({render.plural(data["searched"], "node")} searched).'
    for result in data["results"]:
        yield f"{result['node_id']}  (relevance: {result['relevance_score']:.2f})"
        yield f"  {result['title']}"
        yield from _match_lines(result["matches"])
    if data["has_more"]:
        yield f"More with --offset {data['next_offset']} (or a larger --limit than {args.limit})."


def _match_lines(matches: list[dict[str, Any]]) -> Iterator[str]:
    for match in matches:
        grips = "".join(f" [{g}]" for g in match["grip_ids"][:_GRIPS_SHOWN])
        more = len(match["grip_ids"]) - _GRIPS_SHOWN
        others = f" and {render.plural(more, 'more grip')}" if more > 0 else ""
        yield f'  - {match["field"]}: "{render.one_line(match["text"])}" (score: {match["score"]:.2f}){grips}{others}'
