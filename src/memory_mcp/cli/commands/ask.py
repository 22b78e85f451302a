"""`ask`: one question, answered by the retrieval policy, with what it did and where to go on."""

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_scope,
    add_times,
    as_json,
    check_limit,
    hint_when_empty,
    leaf,
    moment,
    opened,
    scope_of,
    window_of,
    words_of,
)
from memory_mcp.cli.commands.navigate import BOUNDS
from memory_mcp.errors import InvalidQuery

if TYPE_CHECKING:
    from rich.text import Text

    from memory_mcp.app import App
    from memory_mcp.layers.base import Query
    from memory_mcp.policy.explain import WhyNot
    from memory_mcp.policy.plan import How

INTENTS = ("explore", "answer", "locate", "time_boxed")
MODES = ("sequential", "parallel", "hybrid")


def add(parsers: Subparsers) -> None:
    """Arguments of `ask`."""
    parser = leaf(parsers, "ask", run, "ask the memory a question; the policy picks the layers and says why")
    parser.add_argument("words", nargs="+", metavar="QUERY", help="a question; it may name a time (last week, in january)")
    parser.add_argument("--limit", type=int, default=5, metavar="N", help="most results (5)")
    parser.add_argument("--explain", action="store_true", help="everything that was decided, and the parts of each score")
    parser.add_argument("--why-not", metavar="ID", help="why this node, grip or event is missing, and what would show it")
    parser.add_argument("--agent", metavar="A", help="only this agent's sessions")
    parser.add_argument("--as-of", metavar="TIME", help="now, for time words in the question")
    add_how(parser)
    add_times(parser)
    add_scope(parser)


def add_how(parser: argparse.ArgumentParser) -> None:
    """What a caller may say about how a question is answered."""
    parser.add_argument("--intent", choices=INTENTS, help="take the question for this, whatever its words say")
    parser.add_argument("--mode", choices=MODES, help="how layers are run")
    parser.add_argument("--min-confidence", type=float, metavar="X", help="least score of a result; 0 shows the nearest")
    for bound in BOUNDS:
        parser.add_argument(f"--{bound.replace('_', '-')}", type=int, metavar="N", help=f"setting retrieval.bounds.{bound}")


def how_of(app: "App", args: argparse.Namespace) -> "How":
    """What the arguments say about the way."""
    from memory_mcp.policy.intent import Intent
    from memory_mcp.policy.plan import How, Mode

    least = args.min_confidence
    if least is not None and not 0 <= least <= 1:
        raise InvalidQuery(f"min-confidence must be 0 to 1, not {least}")
    as_of = getattr(args, "as_of", None)
    return How(
        intent=Intent(args.intent) if args.intent else None,
        mode=Mode(args.mode) if args.mode else None,
        bounds={b: getattr(args, b) for b in BOUNDS},
        min_confidence=least,
        as_of=moment(as_of, app.calendar, app.clock.now_ms(), at_end=False) if as_of else None,
    )


def run(args: argparse.Namespace) -> int:
    """Ask."""
    query = words_of(args)
    check_limit(args.limit, 100)
    with opened(args) as app:
        data = _asked(app, args, query)
        hint_when_empty(app)
    if as_json(args):
        render.out_json(data, recalled=True)
    else:
        render.styled(_lines(data, args.explain), recalled=True)
    return 0


def _asked(app: "App", args: argparse.Namespace, query: str) -> dict[str, Any]:
    from memory_mcp.cli.commands import shapes
    from memory_mcp.layers.base import Query

    asked = Query(query, args.limit, scope_of(app, args, from_here=True), args.agent, window_of(app, args))
    how = how_of(app, args)
    found = app.ask(asked, how)
    data = {
        "query": query,
        "results": [shapes.found(h, app.calendar, args.explain) for h in found.hits],
        "has_more": found.has_more,
        "explanation": shapes.explanation(found.why, app.calendar, args.explain),
    }
    if args.why_not:
        missing = _missing(app, args, asked, how)
        data["why_not"] = {"id": missing.id, "reason": missing.reason, "change": dict(missing.change)}
    return data


def _missing(app: "App", args: argparse.Namespace, asked: "Query", how: "How") -> "WhyNot":
    """Why something is missing; changes are told in the arguments of intelligent_search."""
    from memory_mcp.server.tools.asking import Asked, Trying
    from memory_mcp.server.tools.kit import Scoped

    def scope_of(project: str, scope: str) -> Scoped:
        return Scoped(None if scope == "all" else project or asked.project)

    def shown(other: Asked) -> list[set[str]]:
        return [{h.node_id, h.event_id, h.grip_id, *h.grip_ids} for h in app.ask(other.query, other.how).hits]

    window = asked.window
    bounds = {**how.bounds, "min_confidence": how.min_confidence}
    given = {
        "query": asked.text,
        "limit": asked.limit,
        "intent": how.intent,
        "mode": how.mode,
        "project": asked.project,
        "agent": asked.agent,
        "since": str(window.start_ms) if window and args.since else "",
        "until": str(window.end_ms) if window and args.until else "",
        "as_of": str(how.as_of or ""),
        "bounds": {name: value for name, value in bounds.items() if value is not None},
    }
    told = {name: value for name, value in given.items() if value}
    return app.why_not(args.why_not, told, Trying(app, scope_of, shown, time.monotonic()))


def _lines(data: dict[str, Any], explain: bool) -> Iterator["Text"]:
    from rich.text import Text

    yield from _result_lines(data["results"], explain)
    why = data["explanation"]
    if not data["results"]:
        yield Text("Nothing relevant was found.", style="bold")
    if data["has_more"]:
        yield Text("More with a larger --limit.", style="dim")
    yield Text(_told(why), style="dim")
    for notice in why["notices"]:
        yield Text(f"Note: {notice}", style="dim")
    if "why_not" in data:
        missing = data["why_not"]
        change = ", ".join(f"{k}={v!r}" for k, v in missing["change"].items())
        yield Text.assemble((missing["id"], "cyan"), f": {missing['reason']}", f"; it shows with {change}" if change else "")
    if explain:
        yield from _explained_lines(why)
    grip = next((r["grip_ids"][0] for r in data["results"] if r.get("grip_ids")), "")
    if grip:
        yield Text(f"Its context: memory-mcp query expand-grip {grip}", style="dim")


def _result_lines(results: list[dict[str, Any]], explain: bool) -> Iterator["Text"]:
    from rich.text import Text

    for number, result in enumerate(results, 1):
        when = result["when"][:16].replace("T", " ")
        place = result.get("project", "").rstrip("/").rsplit("/", 1)[-1]
        title = render.safe(render.gist(result.get("title", "")))
        outside = ("  outside the time named", "yellow") if result.get("outside_window") else ""
        yield Text.assemble(
            (f"{number}. {when}", "bold cyan"), "  ", (place, "magenta"), "  " if place else "", (title, "bold"), outside
        )
        who = result.get("speaker") or result.get("role", "")
        grips = f"  [{result['grip_ids'][0]}]" if result.get("grip_ids") else ""
        said = render.safe(render.one_line(result["quote"], 500))
        yield Text.assemble("   ", (f"{who}: " if who else "", "green"), f'"{said}"', (grips, "dim"))
        parts = ", ".join(f"{k} {v:.3f}" for k, v in result.get("score_parts", {}).items())
        yield Text(f"   {result['id']}  score {result['score']:.2f}{f' ({parts})' if explain and parts else ''}", style="dim")
        yield Text("")


def _told(why: dict[str, Any]) -> str:
    """One line: what was understood, who answered, what it cost."""
    window = f", {why['window_words']}" if why.get("window_words") else ""
    left = "; ".join(f"{s['layer']}: {s['reason']}" for s in why["skipped"])
    fell = f" (fell back: {left})" if why["fallback_occurred"] else ""
    hit = f"; stopped by {', '.join(why['bounds_hit'])}" if why["bounds_hit"] else ""
    return (
        f"Understood as {why['intent']}{window}. Answered by {why['method_used']} at tier {why['tier_used']}{fell} in "
        f"{why['elapsed_ms']} ms, {why['scope']}{hit}."
    )


def _explained_lines(why: dict[str, Any]) -> Iterator["Text"]:
    from rich.text import Text

    signals = "; ".join(why["signals"]) or "no signal"
    yield Text(f"Intent     {why['intent']} ({why['confidence']:.2f}): {signals}")
    yield Text(f"Mode       {why['mode']}: {why['why_mode']}")
    for tried in why["tried"]:
        yield Text(
            f"Tried      {tried['layer']}: {tried['outcome']}, {tried['hits']} hits in {tried['ms']} ms; {tried['reason']}"
        )
    for skipped in why["skipped"]:
        yield Text(f"Skipped    {skipped['layer']}: {skipped['reason']}")
    if why.get("arbitration"):
        yield Text(f"Merged     {why['arbitration']}")
    if why.get("scan"):
        scan = why["scan"]
        yield Text(
            f"Scanned    {scan['read']} of {scan['slices']} slices, {scan['events']:,} events in {scan['ms']} ms: {scan['why']}"
        )
    used = ", ".join(f"{k} {v['used']} of {v['limit']}" for k, v in why["bounds"].items() if v.get("used") is not None)
    yield Text(f"Bounds     {used}")
