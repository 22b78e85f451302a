"""`teleport`: jump to nodes and grips by an index: by words, by meaning, or by both; and how the indexes are."""

import argparse
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    add_scope,
    add_times,
    as_json,
    check_limit,
    family,
    hint_when_empty,
    leaf,
    opened,
    scope_of,
    window_of,
    words_of,
)
from memory_mcp.errors import InvalidQuery

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.indexes.base import Filters
    from memory_mcp.layers.base import Hit
    from memory_mcp.layers.teleport import Teleported
    from memory_mcp.model.calendar import Calendar

#: What each command asks, and the indexes behind it.
Ask = Callable[["App", argparse.Namespace, str, "Filters"], "Teleported"]
_BM25, _VECTOR = "bm25", "vector"
_WORDS = {_BM25: "keyword", _VECTOR: "vector"}
#: The engine's own score by the name its tool gives it; the fused one has no name of its own.
_RAW = {"search": "bm25_score", "vector": "similarity"}
_MOST = 1000
#: Characters of a quotation and keywords of a node that are shown as text.
_QUOTED, _KEYWORDS = 300, 8
#: Work on an index that takes longer than this is told (seconds).
_LONG = 1.0


def add(parsers: Subparsers) -> None:
    """Arguments of `teleport`."""
    inner = family(parsers, "teleport", "jump to what was said by the keyword and vector indexes")
    for name, run, text in (
        ("search", run_search, "jump by exact keywords (BM25)"),
        ("vector", run_vector, "jump by meaning"),
        ("hybrid", run_hybrid, "jump by keywords and by meaning at once"),
    ):
        parser = leaf(inner, name, run, text)
        _add_filters(parser)
        if name == "vector":
            parser.add_argument("--min-similarity", type=float, default=0.0, metavar="X", help="leave out what is less similar")
    leaf(inner, "status", run_status, "show whether the indexes can be used, and what they hold")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORDS", help="what to look for (or --query)")
    parser.add_argument("--query", metavar="WORDS", help="what to look for")
    parser.add_argument("--type", metavar="TYPE", help="toc_node or grip")
    parser.add_argument("--level", metavar="LEVEL", help="only nodes of it: year, month, week, day or segment")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="most results (10)")
    add_times(parser)
    add_scope(parser)
    parser.add_argument("--agent", metavar="A", help="only this agent's sessions")
    parser.add_argument("--speaker", metavar="S", help="only what this person said")
    parser.add_argument("--kind", metavar="KIND", help="procedure, constraint, definition, preference or observation")


def run_search(args: argparse.Namespace) -> int:
    """By keywords."""

    def ask(app: "App", args: argparse.Namespace, query: str, filters: "Filters") -> "Teleported":
        from memory_mcp.layers.base import LayerName

        return app.teleport(LayerName.BM25).teleport(query, filters, args.limit)

    return _run(args, ask, "search", (_BM25,))


def run_vector(args: argparse.Namespace) -> int:
    """By meaning."""
    if not 0 <= args.min_similarity <= 1:
        raise InvalidQuery(f"min-similarity must be 0 to 1, not {args.min_similarity}")

    def ask(app: "App", args: argparse.Namespace, query: str, filters: "Filters") -> "Teleported":
        from memory_mcp.layers.base import LayerName

        return app.teleport(LayerName.VECTOR).teleport(query, filters, args.limit, args.min_similarity)

    return _run(args, ask, "vector", (_VECTOR,))


def run_hybrid(args: argparse.Namespace) -> int:
    """By both."""

    def ask(app: "App", args: argparse.Namespace, query: str, filters: "Filters") -> "Teleported":
        return app.hybrid().teleport(query, filters, args.limit)

    return _run(args, ask, "hybrid", (_BM25, _VECTOR))


def _run(args: argparse.Namespace, ask: Ask, name: str, indexes: tuple[str, ...]) -> int:
    query = words_of(args)
    check_limit(args.limit, _MOST)
    with opened(args) as app:
        filters = _filters(app, args)
        settle(app, *indexes)
        found = ask(app, args, query, filters)
        results = [_result(h, app.calendar, _RAW.get(name, "")) for h in found.hits]
        hint_when_empty(app)
    data: dict[str, Any] = {"query": query, "results": results}
    if name == "hybrid":
        data["partial"] = found.partial
    data |= {"search_time_ms": round(found.took_ms, 3), "total_hits": found.total, "notices": list(found.notices)}
    render.emit(as_json(args), data, _lines(data), recalled=True)
    return 0


def settle(app: "App", *names: str) -> None:
    """Have indexes loaded, built when missing, and up to date; a daemon sees to that itself."""
    if SESSION.get() is not None:
        return
    for name in names:
        searcher = app.accelerators.searcher(name)
        if searcher is None:
            continue
        told = threading.Timer(_LONG, render.err, [f"bringing the {_WORDS[name]} index up to date ..."])
        told.daemon = True
        told.start()
        try:
            searcher.keeper.settle()
        finally:
            told.cancel()


def _filters(app: "App", args: argparse.Namespace) -> "Filters":
    from memory_mcp.indexes.base import DocType, Filters
    from memory_mcp.model.calendar import parse_level
    from memory_mcp.model.toc import MemoryKind

    return Filters(
        doc_type=_one_of(DocType, "type", args.type),
        level=parse_level(args.level) if args.level else None,
        window=window_of(app, args),
        project=scope_of(app, args, from_here=True),
        agent=args.agent or None,
        speaker=args.speaker or None,
        kind=_one_of(MemoryKind, "kind", args.kind),
    )


def _one_of(values: Any, name: str, given: str | None) -> Any:
    if not given:
        return None
    try:
        return values(given)
    except ValueError:
        raise InvalidQuery(f"unknown {name}: {given!r}", f"One of {', '.join(values)}.") from None


def _result(hit: "Hit", calendar: "Calendar", raw: str) -> dict[str, Any]:
    from memory_mcp.cli.commands.shapes import dropping_empty

    shape = {
        raw: round(hit.raw, 4) if raw and hit.raw is not None else None,
        "level": str(hit.level) if hit.node_id and not hit.grip_id else "",
        "title": hit.title,
        "quote": hit.quote,
        "when": calendar.iso(hit.timestamp),
        "session_id": hit.session_id,
        "project": hit.project,
        "agent": hit.agent,
        "role": hit.role,
        "speaker": hit.speaker,
        "keywords": [] if hit.grip_id else list(hit.keywords),
        "grip_ids": list(hit.grip_ids),
    }
    head = {"doc_id": hit.grip_id or hit.node_id, "doc_type": "grip" if hit.grip_id else "toc_node", "score": round(hit.score, 4)}
    return head | dropping_empty(shape)


def _lines(data: dict[str, Any]) -> Iterator[str]:
    shown, took = len(data["results"]), data["search_time_ms"]
    yield f"Results ({shown:,} of {data['total_hits']:,} found, {took:.1f} ms)"
    for place, result in enumerate(data["results"], start=1):
        yield f"  {place}. {result['doc_id']} (score: {result['score']:.2f})"
        yield from _block(result)
    for notice in data["notices"]:
        yield f"Note: {notice}"


def _block(result: dict[str, Any]) -> Iterator[str]:
    raw = next((f" ({name.replace('_', ' ')}: {result[name]:.2f})" for name in _RAW.values() if name in result), "")
    yield f"     Type: {result['doc_type']}{raw}"
    if "level" in result:
        yield f"     Level: {result['level']}"
    if "keywords" in result:
        yield f"     Keywords: {', '.join(result['keywords'][:_KEYWORDS])}"
    whose = [result[k] for k in ("speaker", "role", "project") if k in result]
    yield f"     Date: {', '.join([result['when'][:16].replace('T', ' '), *whose])}"
    yield f"     Title: {render.one_line(result['title'], render.WIDTH)}"
    if "quote" in result:
        yield f'     > "{render.one_line(result["quote"], _QUOTED)}"'
    grips = [g for g in result.get("grip_ids", ()) if g != result["doc_id"]]
    if grips:
        yield f"     {' '.join(f'[{g}]' for g in grips)}"


def run_status(args: argparse.Namespace) -> int:
    """Both indexes, by the names the tool gives."""
    from memory_mcp.server.tools.indexes import teleport_status

    with opened(args) as app:
        settle(app, _BM25, _VECTOR)
        data = teleport_status(app).model_dump(mode="json")
        reasons = {s.name.value: s.reason for s in app.engine.statuses()}
    data |= {f"{name}_reason": reasons[name] for name in (_BM25, _VECTOR) if reasons[name]}
    render.emit(as_json(args), data, _status_lines(data))
    return 0


def _status_lines(data: dict[str, Any]) -> Iterator[str]:
    for name in (_BM25, _VECTOR):
        yield f"{name}: {state(data[f'{name}_enabled'], data[f'{name}_healthy'], data.get(f'{name}_reason', ''))}"
        detail = data.get("indexes", {}).get(name)
        if detail is not None:
            yield from detail_lines(detail)


def state(enabled: bool, healthy: bool, reason: str) -> str:
    """An index in a few words."""
    if healthy:
        return "enabled, healthy"
    return f"{'enabled' if enabled else 'not enabled'}, {reason or 'not healthy'}"


def detail_lines(detail: dict[str, Any]) -> Iterator[str]:
    """One index in numbers; what has nothing to say is left out."""

    def counts(name: str) -> str:
        return ", ".join(f"{count:,} {kind}" for kind, count in detail.get(name, {}).items())

    facts = {
        "documents": counts("documents"),
        "size": render.size(detail["size_bytes"]),
        "generation": f"{detail['generation']:,} in {render.plural(detail['parts'], 'part')}" if detail["generation"] else "",
        "last commit": detail.get("last_commit_at", "")[:19].replace("T", " "),
        "last prune": detail.get("last_prune_at", "")[:19].replace("T", " "),
        "pruned": counts("pruned"),
        "behind": render.plural(detail["behind"], "change") if detail["behind"] else "",
        "being built": render.plural(detail["building"], "document") if detail.get("building") is not None else "",
        "last error": detail.get("error", ""),
    }
    yield from (f"  {name + ':':<13} {value}" for name, value in facts.items() if value)
