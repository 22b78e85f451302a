"""Every page that links lead to from the first one, some of each kind, with the parts that scripts fetch."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from memory_mcp.web.registry import FIRST, PAGES
from tests.web.visitor import Reply, Visitor

#: Attributes whose value is an address.
ADDRESSES = tuple("href src action formaction data-src data-live data-src-pending xlink:href poster content".split())
#: Those that scripts fetch, as parts.
_PARTS = ("data-src", "data-live", "data-src-pending")
_HOLES = re.compile(r"\{([a-z_]+)(:path)?\}")


@dataclass
class Seen(HTMLParser):
    """A page as a parser reads it: its elements with their attributes, in order, and the text between them."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def read(markup: str) -> Seen:
    """Parse a page."""
    seen = Seen()
    seen.feed(markup)
    seen.close()
    return seen


@dataclass(frozen=True, slots=True)
class Shown:
    """A page, or a part of one, as it was served."""

    #: Below the visit's base, with its query.
    address: str
    is_part: bool
    reply: Reply
    seen: Seen

    @property
    def kind(self) -> str:
        """The line of the registry that serves it."""
        return kind_of(self.address)


def kind_of(address: str) -> str:
    """The line of the registry that serves an address; "" for none."""
    path = address.partition("?")[0].partition("#")[0]
    for pattern in PAGES:
        if re.fullmatch(_HOLES.sub(lambda hole: ".+" if hole[2] else "[^/]+", pattern), path):
            return pattern
    return ""


def walk(visitor: Visitor, most: int = 3, start: tuple[str, ...] = (FIRST,)) -> Iterator[Shown]:
    """Yield pages as links lead to them, at most so many of each kind, each with and without what a query narrows it to."""
    waiting = [(address, False) for address in start]
    known, taken = set(waiting), Counter[tuple[str, bool, bool]]()
    while waiting:
        address, is_part = waiting.pop(0)
        group = (kind_of(address), is_part, "?" in address)
        if taken[group] >= most or address.startswith(("static/", "live", "do/")) or not address:
            continue
        taken[group] += 1
        reply = visitor.get(address, **({"X_Part": "1"} if is_part else {}))
        shown = Shown(address, is_part, reply, read(reply.text) if "html" in reply.headers["content-type"] else Seen())
        yield shown
        for _, attributes in shown.seen.elements:
            for name in (*_PARTS, "href"):
                link = attributes.get(name, "")
                entry = (link.removeprefix(f"{visitor.base}/").partition("#")[0], name in _PARTS)
                if link.startswith(f"{visitor.base}/") and entry not in known:
                    known.add(entry)
                    waiting.append(entry)
