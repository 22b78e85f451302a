"""The pieces of a page, from Jinja2 templates with autoescape.

Invariants
1. No element and no attribute's name comes from stored text; ids and links are made of letters, digits and hyphens.
2. The policy in the page's head allows the page's own script and style by their hashes, and nothing else.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from memory_mcp.model.sentinel import CLOSE, OPEN

_ROOM = "memory_mcp.cli.html_export"


class Page:
    """Renders the pieces of one page."""

    def __init__(self) -> None:
        """Prepare the packaged templates, which escape what is put into them."""
        self._pieces = Environment(
            loader=PackageLoader(_ROOM), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._pieces.globals.update(open=OPEN, close=CLOSE, anchor=anchor)

    def head(self, told: Mapping[str, Any]) -> str:
        """Return everything before the tree: the head with its policy and style, and what `told` says about the export.

        `told` has the keys of `HtmlExport._head`; a missing one raises UndefinedError.
        """
        style, script = _static("page.css"), _script()
        policy = (
            f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        return self._pieces.get_template("head.html").render(told, policy=policy, style=Markup(style))

    def open_period(self, told: Mapping[str, Any]) -> str:
        """Return the beginning of a year, month, week or day, as a part that folds; `told` is made by `HtmlExport._period`."""
        return self._pieces.get_template("period.html").render(told)

    def close_period(self) -> str:
        """Return the end tag of a period, of any level."""
        return "</details>\n"

    def open_segment(self, told: Mapping[str, Any]) -> str:
        """Return the beginning of a segment, up to where its messages go; `told` is that of `Cleaner.segment` with its id."""
        return self._pieces.get_template("segment.html").render(told)

    def messages(self, messages: list[dict[str, Any]]) -> str:
        """Return messages of a conversation, as `Cleaner.segment` gives them, as HTML."""
        return self._pieces.get_template("messages.html").render(messages=messages)

    def close_segment(self) -> str:
        """Return the end of a conversation and of its segment as HTML."""
        return self._pieces.get_template("close.html").render()

    def tail(self) -> tuple[str, str]:
        """Return (what comes before the index, what comes after it) at the end of the page; the script is in the latter."""
        before, after = self._pieces.get_template("tail.html").render(index="\0", script=Markup(_script())).split("\0")
        return before, after


def anchor(node_id: str) -> str:
    """Return an id as the id of an element: what is neither ASCII letter nor digit becomes one hyphen."""
    return re.sub(r"[^A-Za-z0-9]+", "-", node_id)


def _digest(text: str) -> str:
    """Return the SHA-256 of a text in base64, without the prefix `sha256-` of a content policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _static(name: str) -> str:
    """Return the text of a packaged style sheet or script, read once."""
    return files(_ROOM).joinpath("static", name).read_text(encoding="utf-8")


def _script() -> str:
    """Return the script of the page: words.js and search.js."""
    return _static("words.js") + _static("search.js")
