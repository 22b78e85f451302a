"""Events in, a conversation as pages show it out: exchanges, tools in a line each, quoted words marked in place. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from memory_mcp.web.rendering import cut_at_word

#: Characters of a message that a page shows before what follows is asked for, and of one part of a long text.
SHOWN, PART = 1200, 20_000
#: Characters of the line that represents what a tool was given or said, and of the one that represents an exchange.
_LINE, _PROMPT = 110, 160
#: Citations of one event that are linked.
_LINKED = 8
_TOOLS = frozenset({"tool_call", "tool_result"})


def group_exchanges(events: Sequence[Mapping[str, Any]], cited: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return a conversation as prompts with all that followed each.

    Each has prompt (the first words that are no tool's, in one line of at most 160 characters; "" for none), events (as
    `describe_event` gives them, with the words of `cited` marked), and messages and tools, how many events are such. `events` are
    in order, as get_events gives them with full detail.
    """
    exchange_list: list[dict[str, Any]] = []
    for event in events:
        if not exchange_list or event["role"] == "user":
            exchange_list.append({"prompt": "", "events": [], "messages": 0, "tools": 0})
        last, page_event = exchange_list[-1], describe_event(event, cited)
        last["events"].append(page_event)
        last["tools" if page_event["is_tool"] else "messages"] += 1
        if not last["prompt"] and not page_event["is_tool"]:
            last["prompt"] = cut_at_word(page_event["text"], _PROMPT)
    return exchange_list


def describe_event(event: Mapping[str, Any], cited: Collection[str] = ()) -> dict[str, Any]:
    """Return a copy of an event with what a page shows.

    Added: is_tool, tool (its name or ""), failed, files (at most 8), who (speaker, else role), line (at most 110 characters),
    pieces (as `pieces`, the words of `cited` marked), grips (at most 8 other quotes), left (characters after it) and next (its
    offset).
    """
    metadata: Mapping[str, str] = event.get("metadata", {})
    start, text = event.get("offset", 0), event["text"]
    if event.get("size", 0) > start + len(text):
        text = _to_a_word(text)
    failed = metadata.get("is_error") == "true" or metadata.get("exit_status", "0") != "0"
    quotes = event.get("quotes", ())
    return {
        **event,
        "text": text,
        "is_tool": event["type"] in _TOOLS,
        "tool": metadata.get("tool", ""),
        "failed": failed,
        "files": [name for name in (metadata.get("files") or metadata.get("file", "")).splitlines() if name][:_LINKED],
        "who": event.get("speaker") or event["role"],
        "line": cut_at_word(text, _LINE),
        "pieces": split_at_quotes(text, start, [q for q in quotes if q["grip_id"] in cited]),
        "grips": [q for q in quotes if q["grip_id"] not in cited][:_LINKED],
        "left": max(event.get("size", 0) - start - len(text), 0),
        "next": start + len(text),
    }


def _to_a_word(text: str) -> str:
    """Not cut back where the last word begins before the last fifth."""
    spaces = [space.end() for space in re.finditer(r"\s", text)]
    return text[: spaces[-1]] if spaces and spaces[-1] > 0.8 * len(text) else text


def split_at_quotes(text: str, offset: int, quotes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return a text in pieces (text, citation that quotes it or "").

    `offset` is where the text begins in the event, whose offsets the quotes have; what overlaps belongs to the first.
    """
    parts, at = [], 0
    for quote in sorted(quotes, key=lambda q: (q["start"], -q["end"])):
        start, end = max(quote["start"] - offset, at), min(quote["end"] - offset, len(text))
        if start >= end:
            continue
        parts += [(text[at:start], ""), (text[start:end], quote["grip_id"])]
        at = end
    parts.append((text[at:], ""))
    return [piece for piece in parts if piece[0]]
