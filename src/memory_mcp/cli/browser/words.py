"""Turns responses into what the browser shows: labels of the tree, cards of results, pages of entries. Pure.

Invariants
1. Stored text is plain text: it is never read as markup, and characters that steer a terminal are replaced.
2. An entry is short enough to be seen whole; longer texts are several entries.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple

from rich.text import Text
from textual.content import Content, Span

from memory_mcp.cli import chart, render
from memory_mcp.model.calendar import TocLevel, level_of, parents
from memory_mcp.model.grip import JOINT
from memory_mcp.model.ids import ROOT, NodeId, month_id
from memory_mcp.model.orders import CUT
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.requests.plain import unknown_line

#: Characters and lines of one entry, and characters of a quotation on a card.
_LONGEST, _LINES, _CARD = 480, 8, 140
#: Characters of the line that stands for what is folded, and lines of a tool call that need no folding.
_FOLDED, _SHORT = 100, 2
#: Events before and after a quotation that can be asked for.
_MOST_AROUND = 48
_MARKED = "bold"
_FAINT = "dim"
_TOOLS = ("tool_call", "tool_result")
#: What a node's name has that the nodes above it say already.
_SAID_ABOVE = {
    TocLevel.MONTH: re.compile(r" \d{4}$"),
    TocLevel.WEEK: re.compile(r"^\d{4}-"),
    TocLevel.DAY: re.compile(r" \d{4}$"),
    TocLevel.SEGMENT: re.compile(r"^\d{4}-\d\d-\d\d (?=\d)"),
}
_TOO_LONG = 40
#: What stands before the keywords of a title.
_KEYWORDS = " — "


class Kind(Enum):
    """What an entry opens."""

    #: A node's page.
    NODE = "node"
    #: What was said in a segment.
    WORDS = "words"
    #: A quotation in its conversation.
    GRIP = "grip"
    #: What goes on behind the entry, by a cursor.
    MORE = "more"


class Target(NamedTuple):
    """A page to open: of what kind, of what, and how much of it."""

    kind: Kind
    name: str
    #: Of a quotation: events before and after it, and tokens of all of it.
    around: int = 3
    tokens: int = 12_000
    #: Of a segment: where its conversation goes on.
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line or card of a list."""

    text: Content
    opens: Target | None = None
    #: The id that is copied.
    name: str = ""
    #: What is shown below it once it is unfolded.
    below: "tuple[Entry, ...]" = ()
    #: Whether a reader begins here, and not at the top.
    is_start: bool = False


def clean(text: str) -> str:
    """Return stored text with control characters and lone surrogates replaced, and tabs as blanks up to columns of four."""
    return render.safe(text).encode("utf-8", "replace").decode().expandtabs(4)


def line(text: str, width: int = 0) -> str:
    """Return stored text cleaned and on one line, cut to `width` characters; 0: not cut."""
    return render.one_line(clean(text), width)


def name_of(title: str, level: str) -> tuple[str, str]:
    """Return (a node's name as its parent's child, its keywords) from a title such as "January 2026 · words".

    A name leaves out what the levels above say, as the year of a month. A title that begins with no short date is all
    keywords, with the name ""; one without " · " has the keywords "".
    """
    head, dot, gist = line(title).partition(" · ")
    if len(head) > _TOO_LONG or not any(c.isdigit() for c in head):
        return "", line(title)
    said = next((pattern for known, pattern in _SAID_ABOVE.items() if known == level), None)
    return (said.sub("", head) if said else head), (gist if dot else "")


def label(child: Mapping[str, Any], most: int) -> Text:
    """Return a line of the tree: a bar of one character for its events relative to `most`, the name, and the keywords.

    `child` has title, and level and events where known.
    """
    name, gist = name_of(child["title"], child.get("level", ""))
    events = child.get("events", 0)
    # Of two counts the larger one is the measure.
    mark = chart.spark((events, most), blocks=True)[0]
    parts = [(mark, "green"), (" ", ""), (name, "bold"), (" " if name else "", ""), (gist, "")]
    return Text.assemble(*(part for part in parts if part[0]), no_wrap=True)


def path_to(node_id: str) -> list[str]:
    """Return the ids from a year down to a node, itself last; a week is put below the month that holds the path's day."""
    path = [NodeId(node_id)]
    while above := [p for p in parents(path[0]) if p != ROOT]:
        days = [n for n in path if level_of(n) is TocLevel.DAY]
        wanted = month_id(*map(int, days[0].split(":")[2].split("-")[:2])) if days else above[-1]
        path.insert(0, wanted if wanted in above else above[-1])
    return [str(node) for node in path]


def second_after(iso: str) -> str:
    """Return the ISO moment one second later, in the zone that it has; raise ValueError for a text that is none."""
    return (dt.datetime.fromisoformat(iso) + dt.timedelta(seconds=1)).isoformat()


# pages


def node_page(data: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the page of a node: title, counts and names (four projects and agents at most), summary, statements and keywords.

    `data` is the response to get_node. Statements of a kind come first. A segment also has entries for its conversation
    and its session.
    """
    node, context = data["node"], data.get("context", {})
    level = node.get("level", "")
    counts = [render.plural(node[key], key[:-1]) for key in ("events", "sessions") if node.get(key)]
    names = [render.project_name(p) for p in islice(node.get("projects", ()), 4)] + [
        line(a) for a in islice(node.get("agents", ()), 4)
    ]
    title = line(node["title"]).partition(_KEYWORDS)[0]
    told = [(title, _MARKED), ("\n" + ", ".join(counts) + (" · " if names else "") + ", ".join(names), _FAINT)]
    yield Entry(Content.assemble(*told), name=node["node_id"])
    if node.get("summary"):
        for text in _pieces(Content(clean(node["summary"]))):
            yield Entry(text, name=node["node_id"])
    bullets = node.get("bullets", ())
    if bullets:
        yield Entry(_heading("Statements (Enter shows the words that prove one)"))
    # What was decided and found out comes before what was only said.
    for bullet in sorted(bullets, key=lambda one: not one.get("kind")):
        yield _statement(bullet)
    if level == TocLevel.SEGMENT:
        text = Content.assemble(("▸ ", "$success"), "the whole conversation")
        yield Entry(text, Target(Kind.WORDS, node["node_id"]), node["node_id"])
        if context.get("session_id"):
            yield Entry(Content.styled(f"session {line(context['session_id'])}", _FAINT), name=context["session_id"])
    if keywords := node.get("keywords", ()):
        yield Entry(Content.styled("about: " + line(", ".join(keywords)), _FAINT), name=node["node_id"])


def _statement(bullet: Mapping[str, Any]) -> Entry:
    """Return the entry of a statement with its kind before it, which opens its first citation; without one it opens nothing.

    A kind that the text itself begins with is not said twice; one that is superseded says so.
    """
    grip = next(iter(bullet["grip_ids"]), "")
    kind = f"{bullet['kind']}: " if bullet.get("kind") else ""
    said = line(bullet["text"])
    if kind and said.casefold().startswith(kind.casefold()):
        said = said[len(kind) :]
    over = "  (superseded)" if bullet.get("superseded_by") else ""
    text = Content.assemble(("• ", "$success"), (line(kind) + " " if kind else "", _MARKED), said, (over, "$warning"))
    return Entry(text, Target(Kind.GRIP, grip) if grip else None, grip)


def words_page(node: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield a page of a segment's conversation: its title, the entries of the events found, and an entry for more, if any.

    `node` has node_id and title; `found` is a response of get_events.
    """
    yield Entry(Content.styled(line(node["title"]).partition(_KEYWORDS)[0], _MARKED), name=node["node_id"])
    for event in found["events"]:
        yield from _event(event)
    if found.get("next_cursor"):
        yield Entry(Content.styled("▸ it goes on", "$success"), Target(Kind.MORE, node["node_id"], cursor=found["next_cursor"]))


def grip_page(data: Mapping[str, Any], target: Target) -> Iterator[Entry]:
    """Yield a quotation in its conversation: its marks, the events before, its own, those after, and ways on.

    Marks say whether it is verified, what superseded it, and that it gives orders. The quoted words are where the
    reader begins.
    """
    grip = data["grip"]
    differs = f"✗ {CUT}" if FORGOTTEN in grip["quote"] else "✗ NOT VERIFIED: the stored event differs"
    proved = "✓ these words are stored exactly so" if data["verified"] else differs
    where = f" · {render.project_name(grip['project'])}" if grip.get("project") else ""
    when = render.minute(grip["when"])
    marks = ((f"{when}{where}", _MARKED), ("\n" + proved, "$success" if data["verified"] else "$error"))
    yield Entry(Content.assemble(*marks), name=grip["grip_id"])
    if data.get("superseded_by"):
        why = f": {line(data['why_superseded'])}" if data.get("why_superseded") else ""
        newer = Target(Kind.GRIP, data["superseded_by"]) if data["superseded_by"].startswith("grip:") else None
        yield Entry(Content.styled(f"superseded{why}" + (" (Enter shows by what)" if newer else ""), "$warning"), newer)
    if data.get("flag"):
        yield Entry(Content.styled(line(data["flag"]), "$warning"))
    for event in data["events_before"]:
        yield from _event(event, name=grip["grip_id"])
    yield Entry(_heading("The quoted words"), name=grip["grip_id"], is_start=True)
    quote, events = clean(grip["quote"]), data["excerpt_events"]
    parts = quote.split(JOINT) if len(events) > 1 else [quote]
    if not any(part and part in clean(e.get("text", "")) for part in parts for e in events):
        # None of the events contains it.
        yield from (Entry(text, name=grip["grip_id"]) for text in _pieces(Content.styled(quote, _MARKED)))
    for event in events:
        yield from _event(event, parts, grip["grip_id"])
    if data["events_after"]:
        yield Entry(_heading("After it"), name=grip["grip_id"])
    for event in data["events_after"]:
        yield from _event(event, name=grip["grip_id"])
    yield from _ways_on(data, target)


def _ways_on(data: Mapping[str, Any], target: Target) -> Iterator[Entry]:
    """Yield an entry that shows more of the conversation, and one for the quotation's segment.

    The first shows everything of a shortened answer, else four times as many events around, up to 48; none where 48
    are shown. The second is left out where the segment is not known.
    """
    if data.get("more"):
        more = target._replace(tokens=data["more"]["token_budget"])
        yield Entry(Content.styled("▸ shortened; Enter shows everything", "$success"), more)
    elif target.around < _MOST_AROUND:
        more = target._replace(around=min(target.around * 4, _MOST_AROUND))
        yield Entry(Content.styled("▸ more of the conversation around it", "$success"), more)
    if data["grip"].get("node_id"):
        node = data["grip"]["node_id"]
        yield Entry(Content.styled("▸ the segment it lies in", "$success"), Target(Kind.NODE, node), node)


def _event(event: Mapping[str, Any], quotes: Sequence[str] = (), name: str = "") -> Iterator[Entry]:
    """Yield the entries of an event, in pieces, with the quoted words marked; `name` is their id, else the event's.

    A tool's text of three or more lines is one folded entry unless it is quoted.
    """
    who, text = line(event.get("speaker") or event["role"]), clean(event.get("text", ""))
    head = Content.assemble((event["when"][11:16], "$secondary"), " ", (who, _MARKED if event["role"] == "user" else ""))
    name = name or event.get("event_id", "")
    spans = [Span(at, at + len(quote), _MARKED) for quote in quotes if quote and (at := text.find(quote)) >= 0]
    pieces = list(_pieces(Content(text, spans)))
    is_tool = event["role"] == "tool" or event.get("type") in _TOOLS
    if is_tool and not spans and text.count("\n") >= _SHORT:
        first = line(text.strip().partition("\n")[0], _FOLDED)
        more = f" (+{render.plural(text.strip().count(chr(10)), 'line')})"
        below = tuple(Entry(piece, name=name) for piece in pieces)
        yield Entry(Content.assemble(head, "  ▸ ", first, (more, _FAINT)), name=name, below=below)
        return
    for number, piece in enumerate(pieces):
        yield Entry(Content.assemble(head, "\n", piece) if number == 0 else piece, name=name)


def _pieces(text: Content) -> Iterator[Content]:
    """Yield a text in pieces of at most 480 characters and eight line breaks, cut at line ends or between words.

    A word is cut where there is neither in the second half of a piece.
    """
    plain, start = text.plain.rstrip(), 0
    while start < len(plain):
        end = min(start + _LONGEST, len(plain))
        breaks = [at for at in range(start + 1, end) if plain[at] == "\n"]
        if len(breaks) >= _LINES:
            end = breaks[_LINES - 1]
        elif end < len(plain):
            cut = max(breaks[-1] if breaks else 0, plain.rfind(" ", start, end))
            end = cut if cut > start + _LONGEST // 2 else end
        yield text[start:end]
        start = end + (end < len(plain) and plain[end] in "\n ")


def _heading(text: str) -> Content:
    """Return a faint heading within a page: the text after "── "."""
    return Content.styled(f"── {text}", _FAINT)


# results


def cards(data: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield what a search found: themes, a card for each result, an entry for more, and how it was searched.

    `data` is the response to intelligent_search in full detail. The last entry, how it was searched, is always there.
    """
    for theme in data.get("themes", ()):
        when = theme["when"].replace("/", " to ")
        head = ((line(theme["theme"]), _MARKED), (f"  {when}, {render.plural(theme['segments'], 'segment')}", "$secondary"))
        quote = f"\n{line(theme['quote'], _CARD)}" if theme.get("quote") else ""
        grip = theme.get("grip", "")
        yield Entry(Content.assemble(*head, quote), Target(Kind.GRIP, grip) if grip else None, grip or theme["topic"])
    for result in data["results"]:
        who = line(result.get("speaker") or result.get("role") or result.get("level", ""))
        when, project = render.minute(result["when"]), render.project_name(result.get("project", ""))
        said = line(result.get("quote") or result.get("title", ""), _CARD)
        marks = [mark for key, mark in (("superseded_by", "superseded"), ("flag", "gives orders")) if result.get(key)]
        marks += ["outside that time"] if result.get("outside_window") else []
        card = ((when, "$secondary"), " ", (who, _MARKED), (f" · {project}" if project else "", "$primary"))
        text = Content.assemble(*card, "\n", said, (f"\n({', '.join(marks)})" if marks else "", "$warning"))
        grip = next(iter(result.get("grip_ids", ())), "")
        node = Target(Kind.NODE, result["id"]) if result.get("level") else None
        yield Entry(text, Target(Kind.GRIP, grip) if grip else node, grip or result["id"])
    if data.get("next_cursor"):
        yield Entry(Content.styled("▸ more results", "$success"), Target(Kind.MORE, "", cursor=data["next_cursor"]))
    why = data["explanation"]
    nothing = "" if data["results"] or data.get("themes") else "Nothing found. "
    window = line(why.get("window", {}).get("words", ""))
    understood = f"Understood as {why['intent']}{f', {window}' if window else ''}; answered by {why['method_used']}"
    skipped = [s["layer"] for s in why.get("skipped", ())] if why["fallback_occurred"] else []
    left = f" Without {', '.join(skipped)} (memory-mcp doctor says why)." if skipped else ""
    notices = "".join(f" {line(n)}." for n in (*why.get("notices", ()), *data.get("notices", ())))
    unknown = f" {line(found)}." if (found := unknown_line(data)) else ""
    told = f"{nothing}{understood}; confidence {data['confidence']}.{unknown}{left}{notices}"
    yield Entry(Content.styled(told, _FAINT))


def projects(found: Iterable[Mapping[str, Any]], yours: str, typed: str) -> Iterator[Entry]:
    """Yield the projects whose names contain `typed` in any case, but those without a name; `yours` is marked as here.

    The choice of all projects comes first, only while nothing is typed; its name is "". `found` are the projects of the
    response to list_projects, whose order stays.
    """
    if not typed:
        yield Entry(Content.styled("all projects", _MARKED))
    for one in found:
        name = line(one["project"])
        if typed.casefold() not in name.casefold() or one["project"] == "(none)":
            continue
        here = " (here)" if one["project"] == yours else ""
        counts = f"{render.plural(one['events'], 'event')}, {render.days(one['first'], one['last'])}"
        yield Entry(Content.assemble(name, (here, "$success"), (f"\n{counts}", _FAINT)), name=one["project"])
