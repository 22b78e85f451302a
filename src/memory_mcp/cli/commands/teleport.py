"""`teleport`: jump to nodes and grips by an index: by words, by meaning, or by both; and how the indexes are."""

import argparse
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    add_current,
    add_keywords,
    add_scope,
    add_times,
    add_who,
    add_words,
    answered,
    as_json,
    ask,
    family,
    leaf,
    note_lines,
    opened,
    print_result,
    words_of,
)
from memory_mcp.requests.limits import RESULTS

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


def add(parsers: Subparsers, about: str) -> None:
    """Add `teleport` with the subcommands search, vector and hybrid (`run`), and status; `about` is its help text."""
    inner = family(parsers, "teleport", about)
    for name, text in (
        ("search", "jump by exact keywords (BM25)"),
        ("vector", "jump by meaning"),
        ("hybrid", "jump by keywords and by meaning at once"),
    ):
        parser = leaf(inner, name, run, text)
        add_words(parser)
        add_keywords(parser)
        parser.add_argument("--type", metavar="TYPE", help="toc_node or grip")
        parser.add_argument("--level", metavar="LEVEL", help="only nodes of it: year, month, week, day or segment")
        parser.add_argument("--limit", type=int, default=RESULTS.default, metavar="N", help=f"most results ({RESULTS.default})")
        add_times(parser)
        add_scope(parser)
        add_current(parser)
        parser.add_argument("--agent", metavar="A", help="only this agent's sessions")
        add_who(parser)
        parser.add_argument("--detail", metavar="D", help="lean or full; JSON is lean, text full")
        parser.add_argument(
            "--kind", metavar="KIND", help="procedure, decision, constraint, definition, preference or observation"
        )
        if name == "vector":
            parser.add_argument("--min-similarity", type=float, default=0.0, metavar="X", help="leave out what is less similar")
    leaf(inner, "status", run_status, "show whether the indexes can be used, and what they hold")


def run(args: argparse.Namespace) -> int:
    """Search the index that the subcommand names, or both, built up to date first; print one page of results and return 0.

    Text shows all that is known of a result; JSON is what the tool of the same kind returns, unless --detail says
    otherwise. Raises what the request raises where the index cannot be used.
    """
    from memory_mcp.requests.teleport import HybridSearch, TeleportSearch, VectorTeleport

    narrowing = ("level", "since", "until", "agent", "speaker", "role", "kind")
    arguments: dict[str, Any] = {name: getattr(args, name) or "" for name in narrowing}
    arguments |= {"query": words_of(args), "keywords": tuple(args.also), "doc_type": args.type or "", "limit": args.limit}
    arguments["include_current"] = args.include_current
    arguments["detail"] = args.detail or ("lean" if as_json(args) else "full")
    request: HybridSearch | TeleportSearch | VectorTeleport = HybridSearch(**arguments)
    indexes = [_BM25, _VECTOR]
    if args.teleport_command == "search":
        request, indexes = TeleportSearch(**arguments), [_BM25]
    elif args.teleport_command == "vector":
        request, indexes = VectorTeleport(**arguments, min_similarity=args.min_similarity), [_VECTOR]
    data = ask(args, request, hint=True, prepare=lambda app: settle(app, *indexes))
    return print_result(args, data, _lines(data), recalled=True)


def settle(app: "App", *names: str) -> None:
    """Build the named indexes where they are missing and bring them up to date; said on stderr if that takes over a second.

    Nothing in a daemon, which does so itself, and for an index that cannot be used.
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
    """Yield the number of results and the time, the lines of each result, and the notices of the response."""
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
    """Print whether the two indexes can be used, and their numbers, after bringing them up to date; return 0."""
    from memory_mcp.requests.indexes import GetTeleportStatus
    from memory_mcp.requests.status import GetStatus

    with opened(args) as app:
        settle(app, _BM25, _VECTOR)
        data = answered(app, GetTeleportStatus())
        reasons = {layer["name"]: layer.get("reason", "") for layer in answered(app, GetStatus())["layers"]}
    lines: list[str] = []
    for name in (_BM25, _VECTOR):
        lines.append(f"{name}: {state(data[f'{name}_enabled'], data[f'{name}_healthy'], reasons[name])}")
        detail = data.get("indexes", {}).get(name)
        lines += detail_lines(detail) if detail is not None else ()
    return print_result(args, data, lines)


def state(enabled: bool, healthy: bool, reason: str) -> str:
    """Return "enabled, healthy", what a partial index leaves out (`reason`), or why one cannot be used (`reason` as well)."""
    if healthy:
        return f"enabled, partial: {reason}" if reason else "enabled, healthy"
    return f"{'enabled' if enabled else 'not enabled'}, {reason or 'not healthy'}"


def detail_lines(detail: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each number of an index that is not empty; the size always.

    `detail` is one of the `indexes` of GetTeleportStatus's response. The numbers are documents, size, generation, times of
    commits and pruning, changes and documents that wait, and the last error.
    """

    def counts(name: str) -> str:
        """Return the counts by kind under a name, as one text; "" where there are none."""
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
