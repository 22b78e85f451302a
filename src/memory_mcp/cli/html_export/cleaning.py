"""Cleans stored text for an HTML file: without secrets, or text that spells a tag of ours.

Invariants
1. Every text passes the gate again, as in any export.
2. No text in a page closes the fence around it, alone or together with its neighbours.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from memory_mcp.capture.gate import Gate
from memory_mcp.cli import render
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.draft_rows import unpack_drafts
from memory_mcp.model.event import Role
from memory_mcp.model.fencing import neutralize_json

#: Characters of a tool's output that are indexed.
_TOOL_INDEXED = 4000
_BREAKS = re.compile(r"\r\n?")
#: Who says something, as people call it.
_WHO = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.SYSTEM: "note", Role.TOOL: "tool"}


class Cleaner:
    """Cleans responses of the memory, and counts what was removed."""

    def __init__(self) -> None:
        self._gate = Gate()
        self.left_out: Counter[str] = Counter()
        self.redacted: Counter[str] = Counter()

    def clean_period(self, period: Mapping[str, Any]) -> dict[str, Any]:
        """Return title, summary and bullets of a period."""
        texts = {"title": render.gist(self._clean_text(period["title"])), "summary": self._clean_text(period["summary"])}
        bullets = [self._clean_bullet(bullet) for bullet in period["bullets"]]
        clean: dict[str, Any] = neutralize_json({**texts, "bullets": bullets})
        return clean

    def clean_segment(self, segment: Mapping[str, Any]) -> dict[str, Any]:
        """Return a segment, or the next part of its conversation.

        Keys: title, summary, keywords, project, agent, session, bullets (each with its quotes: grip, text, when, who),
        events (when, role, type, speaker, text, metadata), when and until. Quotations without
        words left are dropped; so are events that the gate drops, which are counted.
        """
        quotes = {}
        for grip, quote in segment["quotes"].items():
            if (text := self._clean_text(quote["text"])).strip():
                who = self._clean_name(quote["speaker"]) or _WHO[Role(quote["role"])]
                quotes[grip] = {"grip": grip, "text": text, "when": quote["when"], "who": who}
        bullets = [
            {**self._clean_bullet(bullet), "quotes": [quotes[grip] for grip in bullet["grips"] if grip in quotes]}
            for bullet in segment["bullets"]
        ]
        clean: dict[str, Any] = neutralize_json(
            {
                "title": render.gist(self._clean_text(segment["title"])),
                "summary": self._clean_text(segment["summary"]),
                "keywords": [self._clean_text(word) for word in segment["keywords"]],
                "project": self._clean_name(segment["project"]),
                "agent": self._clean_name(segment["agent"]),
                "session": self._clean_name(segment["session"]),
                "bullets": bullets,
                "events": list(self._clean_events(segment)),
            }
        )
        # No text of a user is in these.
        return clean | {"when": segment["when"], "until": segment["until"]}

    def _clean_events(self, segment: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What is dropped and redacted is counted once all are yielded."""
        report = ImportReport()
        for draft, when in zip(unpack_drafts(segment["rows"]), segment["times"], strict=True):
            clean = self._gate.clean_draft(draft, report)
            if clean is not None:
                metadata = clean.metadata
                yield {
                    "when": when,
                    "role": clean.role.value,
                    "type": clean.type.value,
                    "speaker": clean.speaker,
                    "text": _BREAKS.sub("\n", clean.text),
                    "metadata": {**metadata, "tool": metadata.get("tool_name", "") or metadata.get("tool", "")},
                }
        self.left_out.update(report.dropped)
        self.redacted.update(report.redacted)

    def _clean_bullet(self, bullet: Mapping[str, Any]) -> dict[str, Any]:
        return {**bullet, "text": self._clean_text(bullet["text"]), "why": self._clean_text(bullet["why"])}

    def _clean_text(self, text: str) -> str:
        return _BREAKS.sub("\n", self._gate.clean_text(text)) if text else ""

    def _clean_name(self, text: str) -> str:
        return " ".join(self._gate.clean_name(text).splitlines()) if text else ""


def searched_texts(segment: Mapping[str, Any], is_beginning: bool) -> Iterator[str]:
    """Yield the texts of a cleaned segment that a search finds.

    Of a tool's message its first 4000 characters; title, summary, names and statements only where this part is the beginning.
    """
    if is_beginning:
        yield segment["title"]
        yield segment["summary"]
        yield " ".join([segment["project"], segment["agent"], *segment["keywords"]])
        for bullet in segment["bullets"]:
            yield bullet["text"]
            yield from (quote["text"] for quote in bullet["quotes"])
    for event in segment["events"]:
        yield event["speaker"] or event["role"]
        yield event["text"][:_TOOL_INDEXED] if event["type"] in ("tool_call", "tool_result") else event["text"]
