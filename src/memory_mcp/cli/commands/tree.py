"""`query` and `search`: nodes of the time tree, events and quotations by id, and nodes by words."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_flags,
    add_scope,
    add_words,
    ask,
    family,
    leaf,
    note_lines,
    print_result,
    read_request,
    words_of,
)
from memory_mcp.model.orders import CUT_FLAG
from memory_mcp.model.sentinel import FORGOTTEN

#: Characters shown of a summary or an event in a list, and of an event around a quotation.
_LINE, _CONTEXT = 160, 600


#: Citations shown of each match.
_GRIPS_SHOWN = 2


def add_query(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.events import GetEvents
    from memory_mcp.requests.expand import ExpandRequest
    from memory_mcp.requests.nodes import Browse, GetNode

    inner = family(parsers, "query", about)
    root = leaf(inner, "root", run_root, "show the years, and how much there is")
    add_scope(root)
    node = leaf(inner, "node", run_node, "show a node: its text, its grips, what came before, what lies around")
    node.add_argument("id", metavar="ID", help="such as 2026-01, 2026-W05, 'last week' or toc:segment:<day>:<id>")
    add_flags(node, GetNode)
    add_scope(node)
    browse = leaf(inner, "browse", run_browse, "list the children of a node")
    browse.add_argument("id", nargs="?", default="", metavar="ID", help="node (default: the root)")
    add_flags(browse, Browse)
    add_scope(browse)
    events = leaf(inner, "events", run_events, "list events in the order of time, or show one and its neighbours")
    add_flags(events, GetEvents, "since until session_id node_id event_id before after offset text_limit detail limit")
    add_flags(events, GetEvents)
    add_scope(events)
    grip = leaf(inner, "expand-grip", run_expand, "show a quotation in its conversation, checked against the stored event")
    grip.add_argument("id", metavar="ID", help="grip:<ms>:<id>, or only its last part")
    add_flags(grip, ExpandRequest)


def run_root(args: argparse.Namespace) -> int:
    from memory_mcp.requests.nodes import GetNode

    data = ask(args, GetNode(""), hint=True)
    return print_result(args, data, _browse_lines(data), recalled=True)


def run_browse(args: argparse.Namespace) -> int:
    from memory_mcp.requests.nodes import Browse

    data = ask(args, read_request(args, Browse, node_id=args.id))
    return print_result(args, data, _browse_lines(data), recalled=True)


def run_node(args: argparse.Namespace) -> int:
    from memory_mcp.requests.nodes import GetNode

    data = ask(args, read_request(args, GetNode, node_id=args.id))
    return print_result(args, data, node_lines(data), recalled=True)


def run_events(args: argparse.Namespace) -> int:
    from memory_mcp.requests.events import GetEvents

    request = read_request(args, GetEvents)
    data = ask(args, request, catch_up=False, hint=True)
    return print_result(args, data, events_lines(data), recalled=True)


def run_expand(args: argparse.Namespace) -> int:
    from memory_mcp.requests.expand import ExpandRequest

    data = ask(args, read_request(args, ExpandRequest, grip_id=args.id))
    return print_result(args, data, expanded_lines(data), recalled=True)


def _browse_lines(data: dict[str, Any]) -> Iterator[str]:
    node = data["node"]
    yield f"{node['node_id']}  {node['title']}"
    if node["level"] != "root":
        yield f"  {_counts(node)}"
    for key in ("projects", "agents"):
        if node.get(key):
            yield f"  {key}: {', '.join(map(render.project_name, node[key]))}"
    if node.get("summary"):
        yield from render.wrap_text(node["summary"], "  ")
    yield from _child_lines(data)
    yield from note_lines(data)


def _child_lines(data: dict[str, Any]) -> Iterator[str]:
    for child in data["children"]:
        counts = f" ({_counts(child)})" if child.get("events") else ""
        yield f"- {child['node_id']}  {child['title']}{counts}"
        if child.get("summary"):
            yield f"    {render.one_line(child['summary'], _LINE)}"
    if "folded" in data:
        yield f"- {data['folded']}: --cursor {data['folded_cursor']}"
    if "next_cursor" in data:
        yield f"More with --cursor {data['next_cursor']}"


def _counts(node: dict[str, Any]) -> str:
    below = {"year": "month", "month": "week", "week": "day", "day": "segment"}.get(node.get("level", ""), "child")
    nouns = [("events", "event"), ("sessions", "session"), ("children", below)]
    return ", ".join(render.plural(node[key], noun) for key, noun in nouns if node.get(key))


def node_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield a node's text, statements, parents, children and neighbours."""
    node, context = data["node"], data.get("context", {})
    yield f"{node['node_id']}  {node['title']}"
    if "start" in node:
        yield f"  {render.minute(node['start'])} to {render.minute(node['end'])}"
    counts = [render.plural(node[k], k[:-1]) for k in ("events", "sessions")]
    yield "  " + ", ".join([*counts, *map(render.project_name, node.get("projects", ())), *node.get("agents", ())])
    if node.get("keywords"):
        yield f"  Keywords: {', '.join(node['keywords'])}"
    if node.get("summary"):
        yield ""
        yield from render.wrap_text(node["summary"])
    yield from _section("Bullets", (f"{b['text']} {' '.join(f'[{g}]' for g in b['grip_ids'])}" for b in node.get("bullets", ())))
    above = [f"{n['node_id']}  {n['title']}" for n in context.get("parents", ())] or node.get("parents", [])
    yield from _section("Above", iter(above))
    yield from _section("Before (context only)", (_event_line(e, _LINE) for e in context.get("before", ())))
    below = list(_child_lines(data))
    if below:
        yield from ("", "Below:", *below)
    yield from _section("Beside", (node[k] for k in ("previous", "next") if k in node))


def events_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield one line for each event, and whether there are more."""
    if not data["events"]:
        yield "No events there."
    for event in data["events"]:
        when, who = render.second(event["when"]), event.get("speaker") or event["role"]
        yield f"{when} {who}: {render.one_line(event['text'], _LINE)} [{event['event_id']}]"
    if "truncated" in data:
        yield "(shortened to the token budget)"
    if "next_cursor" in data:
        yield f"More with --cursor {data['next_cursor']}"


def _section(title: str, items: Iterator[str]) -> Iterator[str]:
    lines = [f"- {render.one_line(item)}" for item in items]
    if lines:
        yield from ("", f"{title}:", *lines)


def expanded_lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a citation and the events around it."""
    grip = data["grip"]
    good, bad = "verified: the stored event holds exactly these words", "NOT verified: the stored event differs"
    bad = CUT_FLAG if FORGOTTEN in grip["quote"] else bad
    yield f"{grip['grip_id']}  {render.minute(grip['when'])}"
    yield f"  {good if data['verified'] else bad}"
    if "node_id" in grip:
        yield f"  in {grip['node_id']}"
    for name, key in (("Before", "events_before"), ("Excerpt", "excerpt_events"), ("After", "events_after")):
        if name == "Excerpt":
            yield ""
            yield "Quote:"
            yield from render.wrap_text(grip["quote"], "  > ")
        if data[key]:
            yield ""
            yield f"{name}:"
            # In a line each they name no time where it is the citation's own.
            yield from (f"  {_event_line({'when': grip['when'], **event}, _CONTEXT)}" for event in data[key])
    if "more" in data:
        yield f"(shortened; --token-budget {data['more']['token_budget']} shows everything)"


def _event_line(event: dict[str, Any], width: int) -> str:
    who = event.get("speaker") or event["role"]
    return f"{render.minute(event['when'])} {who}: {render.one_line(event.get('text', ''), width)}"


def add_search(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.words import SearchChildren

    parser = leaf(parsers, "search", run_search, about, "Without --node, --parent or --level every segment is searched.")
    add_words(parser)
    add_flags(parser, SearchChildren, "keywords child_level")
    parser.add_argument("--node", metavar="ID", help="search within this node's own text")
    add_flags(parser, SearchChildren, "parent_id limit cursor token_budget fields")
    add_flags(parser, SearchChildren)
    add_scope(parser)


def run_search(args: argparse.Namespace) -> int:
    from memory_mcp.model.calendar import TocLevel
    from memory_mcp.requests.words import SearchChildren, SearchNode

    if args.node and (args.parent_id or args.child_level):
        raise InvalidQuery("--node searches one node: it goes without --parent and --level", "See: memory-mcp search --help")
    if args.node and args.cursor:
        raise InvalidQuery("--node has one page: it goes without --cursor", "Give a larger --limit.")
    query = words_of(args)
    if args.node:
        data = ask(args, read_request(args, SearchNode, node_id=args.node, query=query, fields=args.fields or ()), hint=True)
        lines = [data["node_id"]]
        if not data["matched"]:
            lines.append(f'  Nothing in this node\'s own text matches "{query}".')
            lines.append(f"  Below it: memory-mcp search --parent {data['node_id']} --query ...")
        return print_result(args, data, [*lines, *_match_lines(data["matches"])], recalled=True)
    level = args.child_level or ("" if args.parent_id else TocLevel.SEGMENT.value)
    request = read_request(args, SearchChildren, query=query, child_level=level)
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
    for match in matches:
        grips = "".join(f" [{g}]" for g in match.get("grip_ids", [])[:_GRIPS_SHOWN])
        more = len(match.get("grip_ids", [])) - _GRIPS_SHOWN
        more_grips = f" and {render.plural(more, 'more grip')}" if more > 0 else ""
        yield f'  - {match["field"]}: "{render.one_line(match["text"])}" (score: {match["score"]:.2f}){grips}{more_grips}'
