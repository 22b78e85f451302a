"""export_shown: what a page shows as a file, a node, a session, a quotation or the answer to a question; Markdown or JSON.

Invariants
1. Every text has passed the gate again, and the whole carries the mark of our own output: it is never stored as a memory.
"""

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.fencing import fence_text, neutralize_json
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.requests.entry import answers
from memory_mcp.requests.events import GetEvents, get_events
from memory_mcp.requests.expand import ExpandRequest, expand_grip
from memory_mcp.requests.limits import AROUND, NEIGHBOURS, SEARCHED, TOKENS, Detail, Range, parse_choice
from memory_mcp.requests.nodes import GetNode, get_node
from memory_mcp.requests.plain import NOT_HERE, as_json, unknown_line
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest, search

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Children of a node, or events of a segment or a session, on a page.
ROWS = Range(60, most=1000)
#: Fields with ids and times, which stay as they are so that links still work.
_IDS = frozenset(
    {"origin", "node_id", "grip_id", "grip_ids", "grip", "node", "event_id", "event_id_start", "event_id_end", "superseded_by"}
    | {"next_cursor", "folded_cursor", "parents", "previous", "next", "when", "start", "end", "level", "kind", "role", "type"}
)
_ODD = re.compile(r"[^a-z0-9]+")
#: Characters of the part of a file's name that says what is in it.
_NAME = 50


class FileForm(StrEnum):
    """Kinds of files."""

    MARKDOWN = "markdown"
    JSON = "json"


#: Ending and media type.
_KINDS = {FileForm.MARKDOWN: ("md", "text/markdown; charset=utf-8"), FileForm.JSON: ("json", "application/json")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportShown:
    """Request for a file; exactly one of node, session, grip and query is named, as its page was asked for."""

    form: str = FileForm.MARKDOWN
    node: str = ""
    session: str = ""
    grip: str = ""
    query: str = ""
    since: str = ""
    until: str = ""
    agent: str = ""
    role: str = ""
    speaker: str = ""
    limit: int = 0
    cursor: str = ""
    #: Of a session: an event that its page begins with, or one that it ends with.
    start: str = ""
    end: str = ""
    before: int = AROUND.default
    after: int = AROUND.default
    project: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile(Recalled):
    """A file: its name, what kind it is, and its text."""

    name: str
    media_type: str
    text: str


@answers("export_shown", ExportShown)
def export_shown(app: "App", request: ExportShown, caller: Caller) -> ShownFile:
    """Return what a page shows as a file.

    Every text of it has passed the gate once more. Raises InvalidQuery when not exactly one thing is named, and what its page
    raises, such as NotFound.
    """
    form = parse_choice(FileForm, "form", request.form) or FileForm.MARKDOWN
    named_kinds = [name for name in ("node", "session", "grip", "query") if getattr(request, name)]
    if len(named_kinds) != 1:
        raise InvalidQuery("name one of node, session, grip and query", "Use the links of a page.")
    [what] = named_kinds
    content = _clean(app, as_json(_get_content(app, what, request, caller)))
    ending, media_type = _KINDS[form]
    if form is FileForm.JSON:
        text = json.dumps(neutralize_json(content), ensure_ascii=False, indent=1) + "\n"
    else:
        title, lines = _title(app, what, request, content), _LINES[what](content)
        text = fence_text("\n".join([f"# {title}", "", *lines]).rstrip()) + "\n"
    subject = {"node": request.node.removeprefix("toc:"), "query": "search " + request.query}.get(
        what, f"{what} {request.session}"
    )
    # Lower-case letters, digits and hyphens, which no shell reads as anything else.
    slug = _ODD.sub("-", subject.lower()).strip("-")[:_NAME].strip("-")
    return ShownFile(name=f"memory-{slug or what}.{ending}", media_type=media_type, text=text)


def _node(app: "App", request: ExportShown, caller: Caller) -> object:
    """Return, as JSON values, a node with a page of children.

    Of a segment also its events, a page of `limit`. Of a day's first page: up to `ROWS.most` of its events, and `is_cut`,
    whether it has more. Raises NotFound for an unknown node, InvalidQuery for an invalid argument.
    """
    limit = ROWS.check(request.limit or ROWS.default)
    node_request = GetNode(request.node, request.project, request.scope, limit, request.cursor, Detail.FULL)
    node_response = as_json(get_node(app, node_request, caller))
    if node_response["node"]["level"] == TocLevel.SEGMENT:
        segment_page: dict[str, Any] = {"node_id": node_response["node"]["node_id"], "limit": limit, "token_budget": TOKENS.most}
        events_response = as_json(
            get_events(app, GetEvents(**segment_page, project=request.project, scope=request.scope), caller)
        )
        node_response |= {name: events_response[name] for name in ("events", "next_cursor") if name in events_response}
    if node_response["node"]["level"] == TocLevel.DAY and not request.cursor:
        day = node_response["node"]["node_id"].rpartition(":")[2]
        time: dict[str, Any] = {"since": day, "until": day, "limit": ROWS.most, "token_budget": TOKENS.most}
        events_response = as_json(get_events(app, GetEvents(**time, project=request.project, scope=request.scope), caller))
        node_response |= {"events": events_response["events"], "is_cut": "next_cursor" in events_response}
    return node_response


def _session(app: "App", request: ExportShown, caller: Caller) -> object:
    """Return a page of a session's events, or those around one.

    As many from the event `start` on or, without that, up to the event `end`. Around an event at most `NEIGHBOURS.most`. Raises
    NotFound for an unknown event, InvalidQuery for an invalid argument.
    """
    limit = ROWS.check(request.limit or ROWS.default)
    if request.start or request.end:
        near = min(limit, NEIGHBOURS.most)
        before_count, after_count = (0, near) if request.start else (near, 0)
        events_request = GetEvents(
            event_id=request.start or request.end, before=before_count, after=after_count, token_budget=TOKENS.most
        )
    else:
        events_request = GetEvents(session_id=request.session, limit=limit, cursor=request.cursor, token_budget=TOKENS.most)
    return get_events(app, events_request, caller)


def _get_content(app: "App", what: str, request: ExportShown, caller: Caller) -> object:
    """Raises NotFound for what is unknown, InvalidQuery for an invalid argument."""
    if what == "node":
        return _node(app, request, caller)
    if what == "session":
        return _session(app, request, caller)
    if what == "grip":
        cited = ExpandRequest(grip_id=request.grip, before=request.before, after=request.after, token_budget=TOKENS.most)
        return expand_grip(app, cited, caller)
    search_request = SearchRequest(
        query=request.query,
        limit=request.limit or SEARCHED.default,
        since=request.since,
        until=request.until,
        project=request.project,
        agent=request.agent,
        role=request.role,
        speaker=request.speaker,
        scope=request.scope,
        cursor=request.cursor,
        with_agents=True,
    )
    return search(app, search_request, caller)


def _clean(app: "App", value: Any, name: str = "") -> Any:
    """Those in the fields `_IDS` stay as they are."""
    if isinstance(value, str):
        return value if name in _IDS else app.gate.clean_text(value)
    if isinstance(value, Mapping):
        return {key: _clean(app, element, key) for key, element in value.items()}
    return [_clean(app, element, name) for element in value] if isinstance(value, list) else value


def _title(app: "App", what: str, request: ExportShown, content: Mapping[str, Any]) -> str:
    """Return the heading of a Markdown file.

    It is the node's title ("The time tree" for none), the query cleaned of secrets, "Session ID" or "Quotation of TIME".
    """
    if what == "node":
        return str(content["node"]["title"] or "The time tree")
    if what == "query":
        return app.gate.clean_text(" ".join(request.query.split()))
    return f"Session {request.session}" if what == "session" else f"Quotation of {content['grip']['when']}"


def _node_lines(content: Mapping[str, Any]) -> Iterator[str]:
    node = content["node"]
    if node.get("start"):
        yield f"{node['start'][:16].replace('T', ' ')} to {node['end'][:16].replace('T', ' ')}, {node['events']} events"
    if node.get("summary"):
        yield from ("", node["summary"])
    if node.get("bullets"):
        yield from ("", "## Statements", "")
    for bullet in node.get("bullets", ()):
        kind = f"{bullet['kind']}: " if bullet.get("kind") else ""
        over = " (holds no more)" if bullet.get("superseded_by") else ""
        over += f" (since: {_line(bullet['since'])})" if bullet.get("since") else ""
        yield f"- {kind}{_line(bullet['text'])}{over} [{', '.join(bullet['grip_ids'])}]"
    if content.get("children"):
        yield from ("", "## Within", "")
    for child in content.get("children", ()):
        more = f": {_line(child['summary'])}" if child.get("summary") else ""
        yield f"- {_line(child['title'])}{more} [{child['node_id']}]"
    if content.get("events"):
        yield from ("", "## Conversation", "")
    for event in content.get("events", ()):
        yield from _event_lines(event)
    if content.get("next_cursor") or content.get("is_cut"):
        yield from (
            "",
            "More follows on the next page." if content.get("next_cursor") else "More was said on this day than fits here.",
        )


def _session_lines(content: Mapping[str, Any]) -> Iterator[str]:
    for event in content.get("events", ()):
        yield from _event_lines(event)
    if content.get("next_cursor"):
        yield "More follows on the next page."


def _grip_lines(content: Mapping[str, Any]) -> Iterator[str]:
    yield from (*_quote_lines(content["grip"]["quote"]), "", f"[{content['grip']['grip_id']}]")
    if not content["verified"]:
        is_cut = FORGOTTEN in content["grip"]["quote"]
        yield f"Something was forgotten at {FORGOTTEN}." if is_cut else "The stored event holds other words now."
    if content.get("superseded_by"):
        yield f"It holds no more. {content.get('why_superseded', '')} [{content['superseded_by']}]"
    if content.get("since"):
        yield f"Since: {_line(content['since'])}"
    yield from ("", "## In its place", "")
    for event in (*content.get("events_before", ()), *content.get("excerpt_events", ()), *content.get("events_after", ())):
        yield from _event_lines(event)


def _answer_lines(content: Mapping[str, Any]) -> Iterator[str]:
    yield f"Confidence: {content['confidence']}."
    if content["confidence"] == "none" and content.get("results"):
        yield f"{NOT_HERE}. The nearest:"
    if unknown := unknown_line(content):
        yield f"{unknown}."
    for result in content.get("results", ()):
        heading_parts = [result["when"], result.get("who"), result.get("title"), result.get("session"), result.get("project")]
        over = " It holds no more." if result.get("superseded_by") else ""
        over += f" Since: {_line(result['since'])}." if result.get("since") else ""
        yield from ("", f"**{' · '.join(_line(str(part)) for part in heading_parts if part)}**{over}", "")
        yield from _quote_lines(result.get("quote", ""))
        yield f"[{result.get('grip') or result.get('node', '')}]"
    if content.get("also"):
        yield ""
    for brief in content.get("also", ()):
        yield f"- {brief['when']}: {_line(brief['quote'])} [{brief['grip']}]"


_LINES = {"node": _node_lines, "session": _session_lines, "grip": _grip_lines, "query": _answer_lines}


def _event_lines(event: Mapping[str, Any]) -> Iterator[str]:
    who = event.get("speaker") or event["role"]
    yield from (f"**{event['when'][:16].replace('T', ' ')} {_line(who)}**", "", *_quote_lines(event.get("text", "")), "")


def _quote_lines(text: str) -> list[str]:
    """Return a text's lines after "> ", so none is a heading."""
    return [f"> {line}".rstrip() for line in text.splitlines()]


def _line(text: str) -> str:
    return " ".join(text.split())
