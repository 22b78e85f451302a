"""`teleport` and `retrieval`: the indexes by themselves, and what the policy would do with a question."""

import argparse
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    add_flags,
    add_scope,
    add_words,
    answer_request,
    as_json,
    ask,
    family,
    leaf,
    note_lines,
    open_memory,
    print_result,
    read_request,
    words_of,
)

if TYPE_CHECKING:
    from memory_mcp.app import App


_BM25, _VECTOR = "bm25", "vector"
_WORDS = {_BM25: "keyword", _VECTOR: "vector"}
#: The scores of the indexes.
_RAW = ("bm25_score", "similarity")
#: Characters of a quotation that are shown as text.
_QUOTED = 300
#: Work on an index that takes longer than this shows its progress (seconds).
_LONG = 1.0


#: The layers in the order they are printed, and what is counted of each.
_ORDER = ("bm25", "vector", "hybrid", "topics", "agentic")
_UNITS = {"bm25": "docs", "vector": "vectors", "hybrid": "docs", "topics": "topics"}


def add_teleport(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.teleport import HybridSearch, TeleportSearch, VectorTeleport

    inner = family(parsers, "teleport", about)
    for name, request, text in (
        ("search", TeleportSearch, "jump by exact keywords (BM25)"),
        ("vector", VectorTeleport, "jump by meaning"),
        ("hybrid", HybridSearch, "jump by keywords and by meaning at once"),
    ):
        parser = leaf(inner, name, run_teleport, text)
        add_words(parser)
        add_flags(parser, request, "keywords doc_type level limit since until")
        add_scope(parser)
        add_flags(parser, request, "include_current agent role speaker detail kind")
        add_flags(parser, request)
        parser.set_defaults(request=request)
    leaf(inner, "status", run_status, "show whether the indexes can be used, and what they hold")


def run_teleport(args: argparse.Namespace) -> int:
    """Search one index or both; print one page of results.

    JSON is what the tool of the same kind returns. Raises what the request raises where the index cannot be used.
    """
    detail = args.detail or ("lean" if as_json(args) else "full")
    request = read_request(args, args.request, query=words_of(args), detail=detail)
    indexes = {"search": [_BM25], "vector": [_VECTOR]}.get(args.teleport_command, [_BM25, _VECTOR])
    data = ask(args, request, hint=True, prepare=lambda app: settle(app, *indexes))
    return print_result(args, data, _lines(data), recalled=True)


def settle(app: "App", *names: str) -> None:
    """Bring the named indexes up to date.

    Nothing in a daemon, which does so itself, and for an index that cannot be used. Over a second is reported on stderr.
    """
    if SESSION.get() is not None:
        return
    for name in names:
        searcher = app.accelerators.find_searcher(name)
        if searcher is None:
            continue
        notice = threading.Timer(_LONG, render.err, [f"bringing the {_WORDS[name]} index up to date ..."])
        notice.daemon = True
        notice.start()
        try:
            searcher.keeper.catch_up()
        finally:
            notice.cancel()


def _lines(data: dict[str, Any]) -> Iterator[str]:
    result_count, took = len(data["results"]), data["search_time_ms"]
    of = f" of {data['total_hits']:,}" if "total_hits" in data else ""
    yield f"Results ({result_count:,}{of} found, {took:.1f} ms)"
    for number, result in enumerate(data["results"], start=1):
        name = result.get("id") or result.get("grip") or result.get("node", "")
        score = f" (score: {result['score']:.2f})" if "score" in result else ""
        yield f"  {number}. {name}{score}"
        raw = next((f" ({score.replace('_', ' ')}: {result[score]:.2f})" for score in _RAW if score in result), "")
        yield f"     Type: {'grip' if name.startswith('grip:') else 'toc_node'}{raw}"
        if "level" in result and result.get("kind") != "grip":
            yield f"     Level: {result['level']}"
        if "keywords" in result:
            yield f"     Keywords: {', '.join(result['keywords'])}"
        who = [result[k] for k in ("who", "speaker", "role") if k in result]
        who += [render.project_name(result["project"])] if "project" in result else []
        yield f"     Date: {', '.join([render.minute(result['when']), *who])}"
        yield f"     Title: {render.one_line(result.get('title', ''), render.WIDTH)}"
        if "quote" in result:
            yield f'     > "{render.one_line(result["quote"], _QUOTED)}"'
        if grips := [f"[{g}]" for g in result.get("grip_ids", ()) if g != name]:
            yield f"     {' '.join(grips)}"
    yield from note_lines(data)


def run_status(args: argparse.Namespace) -> int:
    from memory_mcp.requests.indexes import GetTeleportStatus
    from memory_mcp.requests.status import GetStatus

    with open_memory(args) as app:
        settle(app, _BM25, _VECTOR)
        data = answer_request(app, GetTeleportStatus())
        reasons = {layer["name"]: layer.get("reason", "") for layer in answer_request(app, GetStatus())["layers"]}
    lines: list[str] = []
    for name in (_BM25, _VECTOR):
        lines.append(f"{name}: {state(data[f'{name}_enabled'], data[f'{name}_healthy'], reasons[name])}")
        detail = data.get("indexes", {}).get(name)
        lines += detail_lines(detail) if detail is not None else ()
    return print_result(args, data, lines)


def state(enabled: bool, healthy: bool, reason: str) -> str:
    """Return how an index is in words."""
    if healthy:
        return f"enabled, partial: {reason}" if reason else "enabled, healthy"
    return f"{'enabled' if enabled else 'not enabled'}, {reason or 'not healthy'}"


def detail_lines(detail: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each number of an index."""

    def counts(name: str) -> str:
        return ", ".join(f"{count:,} {kind}" for kind, count in detail.get(name, {}).items())

    facts = {
        "documents": counts("documents"),
        "size": render.size(detail.get("size_bytes", 0)),
        "generation": f"{detail['generation']:,} in {render.plural(detail['parts'], 'part')}" if detail.get("generation") else "",
        "last commit": render.second(detail.get("last_commit_at", "")),
        "last prune": render.second(detail.get("last_prune_at", "")),
        "pruned": counts("pruned"),
        "behind": render.plural(detail["behind"], "change") if detail.get("behind") else "",
        "being built": render.plural(detail["building"], "document") if detail.get("building") is not None else "",
        "last error": detail.get("error", ""),
    }
    yield from (f"  {name + ':':<13} {value}" for name, value in facts.items() if value)


def add_retrieval(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.search import ClassifyQuery, PlanQuery
    from memory_mcp.requests.status import GetStatus

    inner = family(parsers, "retrieval", about)
    status = leaf(inner, "status", run_retrieval, "show tier and layers")
    add_flags(status, GetStatus)
    plan = leaf(inner, "plan", run_plan, "show what would be done with a question, and do nothing")
    plan.add_argument("words", nargs="+", metavar="QUERY", help="a question")
    add_flags(plan, PlanQuery, "without intent mode")
    add_flags(plan, Bounds, "min_confidence")
    add_flags(plan, Bounds)
    add_flags(plan, PlanQuery)
    classify = leaf(inner, "classify", run_classify, "show what a question is taken for, and the signs of it")
    classify.add_argument("words", nargs="+", metavar="QUERY", help="a question")
    add_flags(classify, ClassifyQuery)


def run_retrieval(args: argparse.Namespace) -> int:
    from memory_mcp.requests.status import GetStatus

    data = ask(args, read_request(args, GetStatus), catch_up=False)
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
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.search import PlanQuery

    request = read_request(args, PlanQuery, query=words_of(args), bounds=read_request(args, Bounds))
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
    from memory_mcp.requests.search import ClassifyQuery

    data = ask(args, read_request(args, ClassifyQuery, query=words_of(args)), catch_up=False)
    return print_result(args, data, _understood_lines(data))


def _understood_lines(data: dict[str, Any]) -> Iterator[str]:
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
