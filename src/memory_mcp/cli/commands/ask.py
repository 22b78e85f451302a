"""`ask` and `navigate`: questions answered by the policy, or by walking the time tree."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_flags,
    add_scope,
    as_json,
    ask,
    leaf,
    note_lines,
    print_result,
    read_request,
    words_of,
)
from memory_mcp.requests.plain import NOT_HERE, unknown_line

if TYPE_CHECKING:
    from rich.text import Text


#: Characters of a quotation on one line.
_WIDTH = 500


#: Characters shown of a quotation, and with --verbose.
_QUOTE, _QUOTE_VERBOSE = 300, 1200
#: Shown below the evidence.
OFFER = "Would you like me to expand a grip for the full conversation context?"


def add_ask(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.search import SearchRequest

    parser = leaf(parsers, "ask", run_ask, about)
    parser.add_argument("words", nargs="+", metavar="QUERY", help="a question; it may name a time (last week, in january)")
    add_flags(parser, SearchRequest, "keywords limit")
    parser.add_argument("--explain", action="store_true", help="everything that was decided, and the parts of each score")
    add_flags(parser, SearchRequest, "why_not agent role speaker as_of tz detail token_budget cursor intent mode")
    add_flags(parser, Bounds, "min_confidence")
    add_flags(parser, Bounds)
    add_flags(parser, SearchRequest, "since until")
    add_scope(parser)
    add_flags(parser, SearchRequest)


def run_ask(args: argparse.Namespace) -> int:
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.search import SearchRequest

    values = {"query": words_of(args), "bounds": read_request(args, Bounds), **({"detail": "full"} if args.explain else {})}
    request = read_request(args, SearchRequest, **values)
    data = ask(args, request, hint=True)
    if as_json(args):
        render.out_json(data, recalled=True)
    else:
        render.print_styled(_lines(data, args.explain or args.detail == "full"))
    return 0


def _lines(data: dict[str, Any], explain: bool) -> Iterator["Text"]:
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
    from rich.text import Text

    grip, _, words = result_line.partition(" ")
    return Text.assemble(f"   {render.safe(words)}", (f"  [{grip}]", "dim"))


def _alike(result: dict[str, Any]) -> str:
    last = f", last on {result['last']}" if "last" in result else ""
    return f"  {result['times']} times{last}" if "times" in result else ""


def _project_lines(projects: Sequence[dict[str, Any]]) -> Iterator["Text"]:
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
    return str(result.get("grip") or next(iter(result.get("grip_ids", ())), ""))


def _result_lines(results: list[dict[str, Any]], explain: bool) -> Iterator["Text"]:
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
        if result.get("since"):
            yield Text(f"   since: {render.safe(result['since'])}", style="yellow")
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
    """Layers left out are named with the reason only where the policy fell back to another."""
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


def add_navigate(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.limits import BOUNDS, Bounds
    from memory_mcp.requests.walk import Navigate

    parser = leaf(parsers, "navigate", run_navigate, about)
    parser.add_argument("words", nargs="+", metavar="QUERY", help="a question; it may name a time (yesterday, in january)")
    parser.add_argument("--verbose", action="store_true", help="counters, bounds, window and longer quotations too")
    add_flags(parser, Navigate, "limit node_id as_of")
    add_flags(parser, Bounds, " ".join(BOUNDS))
    add_flags(parser, Navigate, "role speaker since until")
    add_scope(parser)
    add_flags(parser, Navigate)


def run_navigate(args: argparse.Namespace) -> int:
    from memory_mcp.requests.limits import Bounds
    from memory_mcp.requests.walk import Navigate

    request = read_request(args, Navigate, query=words_of(args), bounds=read_request(args, Bounds))
    data = ask(args, request, hint=True)
    return print_result(args, data, path_lines(data, args.verbose), recalled=True)


def path_lines(data: dict[str, Any], verbose: bool = False) -> Iterator[str]:
    """Yield the path and the evidence as Markdown.

    `verbose`: with counters, bounds and quotations of up to 1200 characters, else 300.
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
