"""Renders templates to HTML; stored text never becomes markup or a script, nor changes the direction of text around it.

Invariants
1. Every value is escaped, and control characters and those that turn the direction of writing are replaced, in all templates.
2. What a browser lets a page do is said by `visits.HEADERS`.
"""

import datetime as dt
import re
import secrets
from collections.abc import Iterator, Set
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChainableUndefined, Environment, PackageLoader, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from memory_mcp import __version__
from memory_mcp.base.text import placed_terms, query_terms, term_set
from memory_mcp.model.fencing import neutralize
from memory_mcp.model.toc import MemoryKind
from memory_mcp.web.visits import Visit

#: Control characters but line breaks and tabs, what turns the direction of writing, and halves of characters, which no
#: response can carry.
_CONTROLS = {
    c: "\ufffd"
    for c in (
        *(*range(32), *range(127, 160), 0x061C, 0x200E, 0x200F),
        *(*range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)),
    )
    if chr(c) not in "\n\t"
}

#: Behind a theme in the summary of a period (`summarize/themes.py`).
_SHARE = re.compile(r" \(\d{1,3} %\)(?=;|$)")
_WORD = re.compile(r"\w+")
#: What a quotation is searched for at most: a page marks the words that are looked for first.
_MOST = 200


def plain(text: str) -> str:
    """Return a text without what steers a page or writing.

    Controls but line feeds and tabs, and what turns the direction of text, become U+FFFD. What could pass for the fence around
    an answer is made harmless too. Markup is not escaped here.
    """
    return neutralize(text.translate(_CONTROLS))


def _finalize(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else "" if value is None else value


def when(iso: str, seconds: bool = False) -> Markup:
    """Return a moment as a time element: "Mon 05 Jan 2026, 09:30".

    In the zone that the text has; a text that is not an ISO moment is escaped.
    """
    try:
        moment = dt.datetime.fromisoformat(str(iso))
    except ValueError:
        return Markup("{}").format(plain(iso))
    moment_text = moment.strftime("%a %d %b %Y, %H:%M:%S" if seconds else "%a %d %b %Y, %H:%M")
    return Markup('<time datetime="{}">{}</time>').format(iso, moment_text)


def period(node_id: str) -> str:
    """Return a node's name, such as "January 2026", else its id."""
    kind, _, date_part = node_id.removeprefix("toc:").partition(":")
    try:
        if kind == "month":
            return dt.date.fromisoformat(f"{date_part}-01").strftime("%B %Y")
        if kind == "day":
            return dt.date.fromisoformat(date_part).strftime("%a %d %b %Y")
    except ValueError:
        return node_id
    if kind == "week":
        year, _, week = date_part.partition("-W")
        return f"Week {week.lstrip('0')} of {year}"
    return date_part if kind == "year" else "All years" if kind == "root" else node_id


def next_second(iso: str) -> str:
    """Return the ISO moment one second later, to include an end."""
    try:
        return (dt.datetime.fromisoformat(str(iso)) + dt.timedelta(seconds=1)).isoformat()
    except ValueError:
        return ""


@pass_context
def short(context: Context, project: str) -> str:
    """Return the shortest unambiguous name of a project."""
    return str(context.get("project_names", {}).get(project, project))


def without_shares(summary: str) -> str:
    """Return a period's summary without the percentages of themes."""
    return _SHARE.sub("", summary)


def cut_at_word(text: str, width: int) -> str:
    """Return a text in one line, cut after a word."""
    line = " ".join(text[: 4 * width].split())
    if len(line) <= width:
        return line
    space = line.rfind(" ", width // 2, width)
    # Writing without spaces is cut anywhere.
    return line[: space if space > 0 else width - 1].rstrip(" ,;:") + "…"


def count(quantity: int | None, noun: str = "") -> str:
    """Return a number with its noun; None counts as 0."""
    number = quantity or 0
    return f"{number:,}" if not noun else f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    """Return bytes as people read them, in steps of 1000."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def duration(seconds: float) -> str:
    """Return seconds in their two largest units: "2 h 5 min"."""
    days, remainder = divmod(int(seconds), 86400)
    hours, remainder = divmod(remainder, 3600)
    minutes, remainder = divmod(remainder, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (remainder, "s")]
    first = next((index for index, (number, _) in enumerate(parts) if number), 3)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number) or "0 s"


@cache
def template_environment() -> Environment:
    """Return the environment of the templates, made once."""
    templates = Environment(
        loader=PackageLoader("memory_mcp.web"),
        autoescape=True,
        undefined=ChainableUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters |= {
        filter_function.__name__: filter_function
        for filter_function in (when, short, count, size, plain, duration, next_second, period, without_shares)
    }
    templates.globals |= {"version": __version__, "new_key": lambda: secrets.token_urlsafe(12), "kinds": [*MemoryKind]}
    return templates


def page_address(visit: Visit, page: str, /, **query: object) -> str:
    """Return the path of a page; arguments "" and None are left out."""
    arguments = urlencode({name: value for name, value in query.items() if value not in ("", None)})
    return f"{visit.base}/{quote(page, safe='/:')}{'?' if arguments else ''}{arguments}"


def terms_to_mark(question: str, but: str = "") -> frozenset[str]:
    """Return the first 200 terms of a question, without `but`'s."""
    return frozenset(query_terms(question)[:_MOST]) - (term_set(but) if but else set())


def mark_terms(text: str, terms: Set[str]) -> Markup:
    """Return a text as markup with each word of the terms marked."""
    # What steers a page is replaced first: between two elements it would not be known again.
    text = plain(text)
    # Those that overlap or touch are one.
    joined = list[tuple[int, int]]()
    for start, end in sorted(_iter_marked_spans(text, terms)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    pieces, at = [], 0
    for start, end in joined:
        pieces += [Markup.escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*pieces, Markup.escape(text[at:])])


def _iter_marked_spans(text: str, terms: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield spans; of a path or dotted name only the words that are terms."""
    for start, end in {(start, end) for start, end, term in placed_terms(text) if term in terms}:
        words = [(start + word.start(), start + word.end()) for word in _WORD.finditer(text[start:end])]
        yield from [span for span in words if not term_set(text[slice(*span)]).isdisjoint(terms)] or words
