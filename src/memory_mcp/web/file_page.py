"""The pieces of an export as one HTML file, from the explorer's templates and its style sheet.

Invariants
1. No element and no attribute's name comes from stored text; ids and links are made of letters, digits and hyphens.
2. The policy in the page's head allows the page's own script and style by their hashes, and nothing else.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from memory_mcp.model.sentinel import CLOSE, OPEN
from memory_mcp.web.pages import talk
from memory_mcp.web.rendering import template_environment

#: Of the page's script, in this order.
_SCRIPTS = ("file_words.js", "file_search.js")


class FilePage:
    """Renders the pieces of one file."""

    def __init__(self, quoted: Mapping[str, str]) -> None:
        """`quoted` has the id of the element that shows a quotation, by its grip; it may still be filled."""
        self._quoted = quoted
        marks = {"open": Markup.escape(OPEN), "close": Markup.escape(CLOSE)}
        self._pieces: Any = (
            template_environment().get_template("file.html").make_module({**marks, "link": self._link, "is_file": True})
        )
        self._style, self._script = _read_static("style.css"), "".join(map(_read_static, _SCRIPTS))

    def _link(self, page: str, **_: object) -> str:
        """Only pages of quotations that the file has are linked."""
        return f"#{self._quoted[page.removeprefix('grip/')]}"

    def render_head(self, values: Mapping[str, Any]) -> str:
        """Return everything before the tree.

        `values`: name, facts, about (pairs), now and months (anchor, label).
        """
        policy = (
            f"default-src 'none'; script-src 'sha256-{_digest(self._script)}'; style-src 'sha256-{_digest(self._style)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        return str(self._pieces.head(values, policy, Markup(self._style)))

    def open_period(self, values: Mapping[str, Any]) -> str:
        """Return the beginning of a year, month, week or day."""
        statements = [self._statement(bullet, linked=True) for bullet in values["bullets"]]
        return str(self._pieces.open_period({**values, "statements": statements}))

    def close_period(self) -> str:
        """Return the end of a period of any level."""
        return str(self._pieces.close_period())

    def open_segment(self, values: Mapping[str, Any]) -> str:
        """Return the beginning of a segment, up to its messages."""
        chips = {"projects": list(filter(None, [values["project"]])), "agents": list(filter(None, [values["agent"]]))}
        statements = [self._statement(bullet) for bullet in values["bullets"]]
        return str(self._pieces.open_segment({**values, **chips, "statements": statements, "anchor": anchor(values["id"])}))

    def render_messages(self, events: Iterable[Mapping[str, Any]]) -> str:
        """Return messages of a conversation.

        Events have when, role, type, speaker, text and metadata.
        """
        return str(self._pieces.messages([talk.describe_event({**event, "size": len(event["text"])}) for event in events]))

    def close_segment(self) -> str:
        """Return the end of a conversation and of its segment."""
        return str(self._pieces.close_segment())

    def render_tail(self) -> Sequence[str]:
        """Return (what comes before the index, what comes after it)."""
        return str(self._pieces.tail(Markup("\0"), Markup(self._script))).split("\0")

    def _statement(self, bullet: Mapping[str, Any], linked: bool = False) -> dict[str, Any]:
        """`linked`: to the segment in which its first quotation that the file has is shown."""
        grip_ids = [grip for grip in bullet["grips"] if grip in self._quoted][:1] if linked else []
        over = {"superseded_by": "retracted" if bullet["ended"] else "", "why_superseded": bullet["why"]}
        return {**bullet, **over, "grip_ids": grip_ids}


def anchor(node_id: str) -> str:
    """Return an id as letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", node_id)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read_static(name: str) -> str:
    return files("memory_mcp.web").joinpath("static", name).read_text(encoding="utf-8")
