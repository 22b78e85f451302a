"""Renders a tool's answer as readable Markdown, for people and for clients that show text only. Pure.

Invariants
1. A recorded text begins no line: behind what names it, it stands on one line; a quotation's lines carry their marks.
2. No recorded text passes for a citation or for the head of a result; but for that its words stay as they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_mcp.model.fencing import break_citations
from memory_mcp.model.sentinel import FORGOTTEN

Shape = Mapping[str, Any]

#: Said by the fence already, or by the headings.
_UNSAID = frozenset({"origin"})
#: Fields that name a thing in a list, the first one present.
_NAMES = ("node_id", "topic_id", "name", "layer", "id", "event_id", "grip_id")


def markdown(answer: Shape) -> str:
    """Return an answer as Markdown.

    Searches and topics are lists of quotations, a citation is a transcript, any other answer its fields.
    """
    fields = {name: value for name, value in answer.items() if name not in _UNSAID}
    if "excerpt_events" in fields:
        lines = _iter_transcript(fields)
    elif "topics" in fields:
        lines = _iter_topics(fields)
    elif "results" in fields and all("when" in hit for hit in fields["results"]):
        lines = _iter_search(fields)
    else:
        lines = _iter_fields(fields)
    return "\n".join(lines).strip()


def _iter_search(answer: Shape) -> Iterator[str]:
    for project in answer.get("projects", ()):
        yield from _iter_project(project)
    for number, hit in enumerate(answer["results"], 1):
        yield from _iter_result(number, hit)
    if not answer["results"] and not answer.get("projects"):
        yield "No results."
    if answer.get("also"):
        yield "Further, shortened:"
        yield from (_format_line(hit) for hit in answer["also"])
        yield ""
    other_fields = {name: value for name, value in answer.items() if name not in ("projects", "results", "also", "explanation")}
    yield from _iter_fields(other_fields)
    yield from _iter_fields(answer.get("explanation") or {})


def _format_line(line: str) -> str:
    grip, _, words = line.partition(" ")
    return f"- {_format_inline(words)} [{grip}]"


def _iter_project(project: Shape) -> Iterator[str]:
    yield f"**{_bold_name(project['project'])}** · {project['when'].replace('/', ' to ')} · sessions: {project['sessions']}"
    for part in ("asked", "done", "decided", "open"):
        for statement in project.get(part, ()):
            why = f" ({statement['why']})" if statement.get("why") else ""
            yield f"- {part}{why}: {_format_inline(statement['text'])} [{statement['grip']}]"
    yield ""


def _iter_result(number: int, hit: Shape) -> Iterator[str]:
    who = _bold_name(hit.get("who") or hit.get("speaker") or hit.get("role", ""))
    origin = [_bold_name(hit[name]) for name in ("title", "session_id", "project") if hit.get(name)]
    outside = ["outside the time named"] if hit.get("outside") or hit.get("outside_window") else []
    head = " · ".join([hit["when"][:16].replace("T", " "), *([who] if who else []), *outside, *origin])
    used_names = {"when", "who", "speaker", "role", "title", "session_id", "project", "outside", "outside_window", "quote"}
    lines = [] if hit.get("grip_ids") else hit.get("also", ())
    used_names |= {"also"} if lines else set()
    yield f"**{number}. {head}** {_format_others(hit, used_names)}".rstrip()
    if hit.get("quote"):
        yield from _quote_lines(hit["quote"], "> ")
        yield from ("",) if lines else ()
    yield from map(_format_line, lines)
    # A line right behind a quotation would belong to it.
    yield ""


def _format_others(fields: Shape, used_names: set[str]) -> str:
    return ", ".join(
        f"{_spell_label(name)}: {_format_inline(value)}"
        for name, value in fields.items()
        if name not in used_names and _is_filled(value)
    )


def _iter_topics(answer: Shape) -> Iterator[str]:
    for number, topic in enumerate(answer["topics"], 1):
        used_names = {"label", "topic_id", "nodes", "related"}
        yield f"**{number}. {_bold_name(topic['label'])}** {topic['topic_id']} {_format_others(topic, used_names)}"
        for node in topic.get("nodes", ()):
            cited = ", ".join(str(node[name]) for name in ("grip", "node_id") if name in node)
            yield f"- {node['when'].replace('T', ' ')} {_format_inline(node['title'])} ({node['relevance']}) [{cited}]"
            yield from _quote_lines(node.get("text", ""), "  > ")
        for other in topic.get("related", ()):
            yield f"- {_spell_label(other['kind'])} ({other['strength']}): {_format_inline(other['label'])} {other['topic_id']}"
        yield ""
    if not answer["topics"]:
        yield "No topics."
    yield from _iter_fields({name: value for name, value in answer.items() if name != "topics"})


def _iter_transcript(answer: Shape) -> Iterator[str]:
    grip = answer["grip"]
    verdict = "verified" if answer["verified"] else "CUT" if FORGOTTEN in grip["quote"] else "NOT verified"
    yield f"**{grip['grip_id']}** · {grip['when'].replace('T', ' ')} · {verdict}"
    yield from _quote_lines(grip["quote"], "> ")
    used_names = {"grip_id", "when", "quote"}
    yield from _iter_fields({name: value for name, value in grip.items() if name not in used_names})
    yield from _iter_fields(
        {name: answer[name] for name in ("superseded_by", "why_superseded", "since", "flag") if name in answer}
    )
    for name in ("events_before", "excerpt_events", "events_after"):
        if answer[name]:
            yield from ("", f"**{_spell_label(name)}**", "")
        for event in answer[name]:
            who = _bold_name(event.get("speaker") or event["role"])
            head = f"- {event.get('when', '')[:16].replace('T', ' ')} {who}:".replace("-  ", "- ")
            text = event.get("text", "")
            if "\n" in text or not text:
                yield head
                yield from _quote_lines(text, "  > ")
            else:
                yield f"{head} {_format_inline(text)}"
    if "more" in answer:
        yield from ("", f"Shortened; everything with {_format_inline(answer['more'])}.")


def _iter_fields(answer: Shape, indent: str = "") -> Iterator[str]:
    for name, value in answer.items():
        if isinstance(value, dict):
            yield f"{indent}- {_spell_label(name)}:"
            yield from _iter_fields(value, indent + "  ")
        elif isinstance(value, list) and any(isinstance(member, dict) for member in value):
            yield f"{indent}- {_spell_label(name)}:"
            yield from _iter_items(value, indent + "  ")
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}- {_spell_label(name)}:"
            yield from _quote_lines(value, f"{indent}  > ")
        elif _is_filled(value):
            yield f"{indent}- {_spell_label(name)}: {_format_inline(value)}"


def _iter_items(values: Sequence[Any], indent: str) -> Iterator[str]:
    for member in values:
        if not isinstance(member, dict):
            yield f"{indent}- {_format_inline(member)}"
            continue
        key = next((name for name in _NAMES if name in member), next(iter(member), ""))
        yield f"{indent}- **{_bold_name(member.get(key, ''))}**"
        yield from _iter_fields({name: value for name, value in member.items() if name != key}, indent + "  ")


def _quote_lines(text: str, mark: str) -> Iterator[str]:
    """Yield a text's lines after `mark`, without anything like a citation."""
    yield from (f"{mark}{line}" for line in break_citations(text).splitlines())


def _bold_name(value: Any) -> str:
    name = _format_inline(value)
    return re.sub(r"\*{2,}", "*", name) if "**" in name else name


def _spell_label(name: str) -> str:
    return name.replace("_", " ")


def _is_filled(value: Any) -> bool:
    return not (value is None or value == "" or value == [] or value == {})


def _format_inline(value: Any) -> str:
    """Return a value on one line.

    White space runs as one space, true as yes, members of lists and objects after commas. An object's members are written "name
    value". A recorded text that would pass for a citation is changed so that it does not.
    """
    if isinstance(value, str):
        return break_citations(" ".join(value.split()))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_format_inline, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_inline(member)}" for name, member in value.items())
    return break_citations(" ".join(str(value).split()))
