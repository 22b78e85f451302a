"""Write days of an export as Markdown, escaped so that they can be read back exactly. Pure.

A day is front matter, a heading and statements for each segment, its quotations as blocks of their own (`^grip-...`), and
after them every message: a comment with its other fields, and its text in a fence longer than any it holds.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

#: Key of the front matter that only an export has.
KEY = "memory-mcp-export"
MARK = f"---\n{KEY}: 1\n"
_HEAD = re.compile(r"<!-- memory-mcp (\{.*\}) -->\Z")
_FENCE = re.compile(r"(`{3,})text\Z")
#: Characters with a meaning in Markdown, HTML, or a notes program.
_MEANS = re.compile(r"([\\`*_{}\[\]()#|~$%^!=&@:])")
_LIST = re.compile(r"([-+]|\d+[.)])(?=\s|\Z)")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def is_exported(beginning: str) -> bool:
    """Return whether a day of an export begins so."""
    return beginning.removeprefix("\ufeff").replace("\r\n", "\n").startswith(MARK)


def day_page(day: str, previous_page: str, next_page: str, events: Sequence[Sequence[Any]], details: Mapping[str, Any]) -> str:
    """Return the page of a day as Markdown.

    `previous_page` and `next_page` name other days' pages, "" for none; `events` are (form of an event, local time, project);
    `details` has "segments" (time, title, project, agent, bullets as (text, grip ids)) and "quotes", the quotations by grip id.
    """
    projects = sorted({e[2] for e in events} - {""})
    agents = sorted({e[0].get("agent", "") for e in events} - {""})
    links = [(name, other) for name, other in (("previous", previous_page), ("next", next_page)) if other]
    page = [
        f"{MARK}date: {day}\nprojects: {_yaml_list(projects)}\nagents: {_yaml_list(agents)}\nevents: {len(events)}\n",
        *(f'{name}: "[[{other}]]"\n' for name, other in links),
        f"---\n# {day}\n\n",
    ]
    if links:
        page.append(" · ".join(f"{name} [[{other}]]" for name, other in links) + "\n\n")
    written_grips: set[str] = set()
    for segment in details["segments"]:
        page += _iter_segment(segment, details["quotes"], written_grips)
    page.append("## Messages\n\n")
    for form, time, project in events:
        text = str(form["text"])
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        head = json.dumps({name: value for name, value in form.items() if name != "text"})
        # In a comment nothing may look like its end.
        head = head.replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
        who = " ".join(escape_line(str(w)) for w in (form["role"], form.get("speaker", ""), project and f"in {project}") if w)
        page.append(f"#### {time} {who}\n<!-- memory-mcp {head} -->\n{fence}text\n{text}\n{fence}\n\n")
    return "".join(page)


def _iter_segment(segment: Mapping[str, Any], quotes: Mapping[str, str], written_grips: set[str]) -> Iterator[str]:
    of = ", ".join(escape_line(name) for name in (segment["project"], segment["agent"]) if name)
    yield f"## {segment['time']} {escape_line(segment['title'])}\n\n" + (f"{of}\n\n" if of else "")
    quoted_grips = [grip for _, grips in segment["bullets"] for grip in grips if grip in quotes]
    for text, grips in segment["bullets"]:
        links = "".join(f" [[#^{_block_name(grip)}|{n}]]" for n, grip in enumerate(grips, 1) if grip in quotes)
        yield f"- {escape_line(text)}{links}\n"
    yield "\n"
    for grip in dict.fromkeys(quoted_grips):
        # A block's name is written once per file.
        if grip not in written_grips:
            written_grips.add(grip)
            yield f"> {escape_line(quotes[grip])}\n\n^{_block_name(grip)}\n\n"


def _block_name(grip: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", grip)


def _yaml_list(names: Iterable[str]) -> str:
    return "[" + ", ".join(json.dumps(name) for name in names) + "]"


def escape_line(text: str) -> str:
    """Return one line of Markdown that shows `text` literally."""
    line = " ".join(_UNSEEN.sub(" ", text).split())
    line = _MEANS.sub(r"\\\1", line).replace("<", "&lt;").replace(">", "&gt;")
    return _LIST.sub(lambda match: match[1][:-1] + "\\" + match[1][-1], line, count=1) if _LIST.match(line) else line


def iter_messages(lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any] | None, str]]:
    """Yield (line number, form or None if broken, line) of each message.

    A form is the object in the message's comment, with its text under "text". Lines must end with their line feed alone.
    Everything else in the page is the reader's own and is passed over.
    """
    numbered_lines = enumerate(lines, 1)
    for number, line in numbered_lines:
        head = _HEAD.match(line.rstrip("\r\n"))
        if head is None:
            continue
        opening = _FENCE.match(next(numbered_lines, (0, ""))[1].rstrip("\r\n"))
        text_lines: list[str] = []
        is_whole = False
        for _, below in numbered_lines if opening else ():
            if below.rstrip("\r\n") == (opening[1] if opening else ""):
                is_whole = True
                break
            text_lines.append(below)
        form = None
        with suppress(ValueError):
            fields = json.loads(head[1]) if is_whole else None
            form = {**fields, "text": "".join(text_lines).removesuffix("\n")} if isinstance(fields, dict) else None
        yield number, form, line
