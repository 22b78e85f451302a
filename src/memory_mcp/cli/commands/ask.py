"""`ask`: a question answered by the retrieval policy, with what was decided and the commands for more."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_current,
    add_keywords,
    add_scope,
    add_times,
    add_who,
    as_json,
    ask,
    leaf,
    words_of,
)
from memory_mcp.cli.commands.navigate import BOUNDS, add_bounds
from memory_mcp.requests.limits import SEARCHED
from memory_mcp.requests.plain import NOT_HERE, unknown_line

if TYPE_CHECKING:
    from rich.text import Text

#: Characters of a quotation on one line.
_WIDTH = 500


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `ask`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "ask", run, about)
    parser.add_argument("words", nargs="+", metavar="QUERY", help="a question; it may name a time (last week, in january)")
    add_keywords(parser)
    parser.add_argument("--limit", type=int, default=SEARCHED.default, metavar="N", help=f"most results ({SEARCHED.default})")
    parser.add_argument("--explain", action="store_true", help="everything that was decided, and the parts of each score")
    parser.add_argument("--why-not", metavar="ID", help="why this node, grip or event is missing, and what would show it")
    parser.add_argument("--agent", metavar="A", help="only this agent's sessions")
    add_who(parser)
    parser.add_argument("--as-of", metavar="TIME", help="now, for time words in the question")
    parser.add_argument("--tz", metavar="ZONE", help="zone of times, such as Europe/Berlin")
    parser.add_argument("--detail", default="lean", metavar="D", help="lean, or full as with --explain")
    parser.add_argument("--token-budget", type=int, metavar="N", help="most tokens of the answer")
    parser.add_argument("--cursor", metavar="CURSOR", help="next page: next_cursor of the one before")
    add_how(parser)
    add_times(parser)
    add_scope(parser)
    add_current(parser)


def add_how(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how a question is answered: --intent, --mode, --min-confidence and the six bounds."""
    parser.add_argument("--intent", metavar="I", help="take the question for this: explore, answer, locate or time_boxed")
    parser.add_argument("--mode", metavar="M", help="how layers are run: sequential, parallel or hybrid")
    parser.add_argument("--min-confidence", type=float, metavar="X", help="least score of a result; 0 shows the nearest")
    add_bounds(parser)


def bounds_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the six bounds and min_confidence that the arguments give, by these names; those not given are left out."""
    values = {b: getattr(args, b) for b in (*BOUNDS, "min_confidence")}
    return {name: value for name, value in values.items() if value is not None}


def run(args: argparse.Namespace) -> int:
    """Ask the memory the question of the arguments, print one page of results and what was decided, and return 0.

    Where the question has no result, that is printed too. Raises InvalidQuery for an argument that will not do, as an unreadable
    time.
    """
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.search import SearchRequest

    texts = ("intent", "mode", "since", "until", "as_of", "tz", "agent", "role", "speaker", "why_not", "cursor")
    arguments: dict[str, Any] = {name: getattr(args, name) or "" for name in texts}
    arguments |= {"limit": args.limit, "token_budget": args.token_budget, "detail": "full" if args.explain else args.detail}
    arguments["include_current"] = args.include_current
    request = SearchRequest(query=words_of(args), keywords=tuple(args.also), **arguments, bounds=Bounds(**bounds_of(args)))
    data = ask(args, request, hint=True)
    if as_json(args):
        render.out_json(data, recalled=True)
    else:
        render.styled(_lines(data, args.explain or args.detail == "full"), recalled=True)
    return 0


def _lines(data: dict[str, Any], explain: bool) -> Iterator["Text"]:
    """Yield projects or themes, results, further quotations, the cursor, how it was understood, notices, why an item is missing.

    `explain` adds all that was decided. Last the command that shows the first result's context.
    """
    from rich.text import Text

    yield from _project_lines(data.get("projects", ()))
    yield from _theme_lines(data.get("themes", ()))
    if data["confidence"] == "none" and data["results"]:
        yield Text(f"{NOT_HERE}. The nearest:", style="bold")
    yield from _result_lines(data["results"], explain)
    why = data["explanation"]
    if not data["results"] and data.keys().isdisjoint(("projects", "themes")):
        yield Text("No results.", style="bold")
    yield from map(_line, data.get("also", ()))
    if "next_cursor" in data:
        yield Text(f"More with --cursor {data['next_cursor']} (or a larger --limit).", style="dim")
    if unknown := unknown_line(data):
        yield Text(f"{render.safe(unknown)}.", style="yellow")
    yield Text(_summary_line(data), style="dim")
    for notice in why.get("notices", ()):
        yield Text(f"Note: {notice}", style="dim")
    if "why_not" in why:
        missing = why["why_not"]
        change = ", ".join(f"{k}={v!r}" for k, v in missing.get("change", {}).items())
        yield Text.assemble((missing["id"], "cyan"), f": {missing['reason']}", f"; it shows with {change}" if change else "")
    if explain:
        yield from _explained_lines(why)
    grip = next((_grip(r) for r in data["results"] if _grip(r)), "")
    if grip:
        yield Text(f"Its context: memory-mcp show {grip}", style="dim")


def _line(result_line: str) -> "Text":
    """Return a line of an answer: its words, and its citation behind them."""
    from rich.text import Text

    grip, _, words = result_line.partition(" ")
    return Text.assemble(f"   {render.safe(words)}", (f"  [{grip}]", "dim"))


def _alike(result: dict[str, Any]) -> str:
    """Return how often the like was said, and when last, before its line goes on; "" for once."""
    last = f", last on {result['last']}" if "last" in result else ""
    return f"  {result['times']} times{last}" if "times" in result else ""


def _project_lines(projects: Sequence[dict[str, Any]]) -> Iterator["Text"]:
    """Yield each project of an overview with its time and its statements by part, then an empty line; nothing for none."""
    from rich.text import Text

    for project in projects:
        when = project["when"].replace("/", " to ")
        sessions = render.plural(project["sessions"], "session")
        yield Text.assemble((render.safe(project["project"]), "bold magenta"), (f"  {when}, {sessions}", "cyan"))
        for part in ("asked", "done", "decided", "open"):
            for number, statement in enumerate(project.get(part, ())):
                why = f" ({statement['why']})" if "why" in statement else ""
                text = render.safe(render.one_line(statement["text"]))
                yield Text.assemble(f"  {part if number == 0 else '':<9}", text, why, (f"  [{statement['grip']}]", "dim"))
        yield Text("")


def _theme_lines(themes: Sequence[dict[str, Any]]) -> Iterator["Text"]:
    """Yield each theme of a search with its time, what else it is about and a statement, then an empty line; nothing for none."""
    from rich.text import Text

    for theme in themes:
        first, _, last = theme["when"].partition("/")
        when = f"{first} to {last}" if last else first
        segments = f"{theme['segments']} segment{'s' if theme['segments'] > 1 else ''}"
        yield Text.assemble(
            (f"* {render.safe(theme['theme'])}", "bold"), (f"  {when}, {segments}", "cyan"), (f"  {theme['topic']}", "dim")
        )
        if "about" in theme:
            yield Text(f"   about: {render.safe(theme['about'])}", style="dim")
        if "quote" in theme:
            yield Text.assemble(f'   "{render.safe(theme["quote"])}"', (f"  [{theme['grip']}]", "dim"))
    if themes:
        yield Text("")


def _grip(result: dict[str, Any]) -> str:
    """Return the first citation of a result, lean or full; "" where it has none."""
    return str(result.get("grip") or next(iter(result.get("grip_ids", ())), ""))


def _result_lines(results: list[dict[str, Any]], explain: bool) -> Iterator["Text"]:
    """Yield for each result three or four lines and an empty one: when and where, the quotation, a flag, its id and score.

    Results are those of a search's response, lean or full. With `explain` also the parts of the score.
    """
    from rich.text import Text

    for number, result in enumerate(results, 1):
        when = render.minute(result["when"])
        project = render.project_name(result.get("project", ""))
        title = render.safe(render.gist(result.get("title", "")))
        is_outside = result.get("outside") or result.get("outside_window")
        outside = ("  outside the time named", "yellow") if is_outside else ""
        yield Text.assemble(
            (f"{number}. {when}", "bold cyan"), "  ", (project, "magenta"), "  " if project else "", (title, "bold"), outside
        )
        who = result.get("who") or result.get("speaker") or result.get("role", "")
        quote = render.safe(render.one_line(result.get("quote", ""), _WIDTH))
        grip = _grip(result)
        yield Text.assemble("   ", (f"{who}: " if who else "", "green"), f'"{quote}"', (f"  [{grip}]" if grip else "", "dim"))
        if result.get("flag"):
            yield Text(f"   {result['flag']}", style="yellow")
        if "grip" in result:
            yield from map(_line, result.get("also", ()))
        parts = ", ".join(f"{k} {v:.3f}" for k, v in result.get("score_parts", {}).items())
        name, fit = result.get("id") or result.get("node", ""), result.get("fit", "")
        score = f"score {result['score']:.2f}{f' ({parts})' if explain and parts else ''}" if "score" in result else ""
        if about := "  ".join(part for part in (name, fit, _alike(result).strip(), score) if part):
            yield Text(f"   {about}", style="dim")
        yield Text("")


def _summary_line(data: dict[str, Any]) -> str:
    """Return one line: how sure the answer is, and what limits it; in full detail also how it was understood and answered.

    `data` is a search's response. Layers left out are named with the reason only where the policy fell back to another.
    """
    why = data["explanation"]
    words = why.get("window", {}).get("words", "")
    hit = f"; stopped by {', '.join(why['bounds_hit'])}" if why.get("bounds_hit") else ""
    partial = "" if data.get("complete", True) else ", not everything was searched"
    sure = f"Confidence: {data['confidence']}{partial}."
    if "intent" not in why:
        limits = f"{words}{'; ' if words and why.get('scope') else ''}{why.get('scope', '')}"
        return f"{sure}{f' Searched: {limits}{hit}.' if limits or hit else ''}"
    skipped = "; ".join(f"{s['layer']}: {s['reason']}" for s in why.get("skipped", ()))
    fell = f" (fell back: {skipped})" if why["fallback_occurred"] else ""
    return (
        f"Understood as {why['intent']}{f', {words}' if words else ''}. Answered by {why['method_used']} at tier "
        f"{why['tier_used']}{fell} in {why['elapsed_ms']} ms, {why['scope']}{hit}. {sure}"
    )


def _explained_lines(why: dict[str, Any]) -> Iterator["Text"]:
    """Yield intent, mode, layers tried and skipped, merging, scan and bounds of `why`, the explanation in full detail."""
    from rich.text import Text

    signals = "; ".join(why.get("signals", ())) or "no signal"
    yield Text(f"Intent     {why['intent']} ({why['intent_certainty']:.2f}): {signals}")
    yield Text(f"Mode       {why['mode']}: {why['why_mode']}")
    for tried in why.get("tried", ()):
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
    used = ", ".join(f"{k} {v['used']} of {v['limit']}" for k, v in why.get("bounds", {}).items() if v.get("used") is not None)
    yield Text(f"Bounds     {used}")
