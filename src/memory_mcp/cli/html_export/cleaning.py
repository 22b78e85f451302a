"""Cleans stored text for a page: without secrets, control characters, or text that spells a tag of ours.

Invariants
1. Every text passes the gate again, as in any export.
2. No text in a page closes the fence that stands around it, alone or together with its neighbours.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from memory_mcp.cli import render
from memory_mcp.ingest.base import ImportReport
from memory_mcp.ingest.frames import unpack
from memory_mcp.ingest.gate import Gate
from memory_mcp.model.event import DEFAULT_TYPES, EventType, Role
from memory_mcp.model.fencing import neutralize_json

#: Characters above which a message is folded, and of its first line that stays.
_LONG, _FIRST = 3000, 140
#: Characters of a tool's output that are indexed.
_TOOL_INDEXED = 4000
_BREAKS = re.compile(r"\r\n?")
#: Who says something, as people call it.
_WHO = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.SYSTEM: "note", Role.TOOL: "tool"}


class Cleaner:
    """Cleans responses of the memory, and counts what was removed."""

    def __init__(self) -> None:
        """Begin with a gate of the rules of today, and nothing counted."""
        self._gate = Gate()
        self.left_out: Counter[str] = Counter()
        self.redacted: Counter[str] = Counter()

    def period(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"title", "summary", "bullets"} of a period as they may be shown, the title without its date.

        Each bullet keeps its other fields. Nothing is counted.
        """
        bullets = [{**b, "text": self._words(b["text"])} for b in told["bullets"]]
        clean: dict[str, Any] = neutralize_json(
            {"title": render.gist(self._words(told["title"])), "summary": self._words(told["summary"]), "bullets": bullets}
        )
        return clean

    def segment(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return a segment, or the next part of its conversation, as it may be shown.

        Keys: title, summary, keywords, project, agent, session, bullets (each with its quotes: grip, text, when, who),
        messages (as `_messages` yields them), when and until. Quotations without words left are dropped; so are messages
        that the gate drops, which are counted.
        """
        quotes = {}
        for grip, q in told["quotes"].items():
            if (text := self._words(q["text"])).strip():
                who = self._name(q["speaker"]) or _WHO[Role(q["role"])]
                quotes[grip] = {"grip": grip, "text": text, "when": q["when"], "who": who}
        bullets = []
        for bullet in told["bullets"]:
            cleaned = {name: self._words(bullet[name]) for name in ("text", "why")}
            bullets.append({**bullet, **cleaned, "quotes": [quotes[grip] for grip in bullet["grips"] if grip in quotes]})
        clean: dict[str, Any] = neutralize_json(
            {
                "title": render.gist(self._words(told["title"])),
                "summary": self._words(told["summary"]),
                "keywords": [self._words(word) for word in told["keywords"]],
                "project": self._name(told["project"]),
                "agent": self._name(told["agent"]),
                "session": self._name(told["session"]),
                "bullets": bullets,
                "messages": list(self._messages(told)),
            }
        )
        # Nothing of these was written by anybody.
        return clean | {"when": told["when"], "until": told["until"]}

    def _messages(self, told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the messages of a conversation that pass the gate, as the page shows them.

        Each has when, who, role, kind (tool and type, "" for an ordinary message), text, is_tool, folded (a tool's, or more
        than 3000 characters), first (line, at most 140 characters and an ellipsis) and lines (how many). What is dropped and
        redacted is counted once all are yielded.
        """
        report = ImportReport()
        for draft, when in zip(unpack(told["rows"]), told["times"], strict=True):
            clean = self._gate.clean(draft, report)
            if clean is not None:
                text = shown(clean.text)
                is_tool = clean.role is Role.TOOL or clean.type in (EventType.TOOL_CALL, EventType.TOOL_RESULT)
                kind = "" if clean.type is DEFAULT_TYPES[clean.role] else clean.type.value.replace("_", " ")
                tool = shown(clean.metadata.get("tool_name", "") or clean.metadata.get("tool", ""))
                first = next((line.strip() for line in text.split("\n") if line.strip()), "")
                yield {
                    "when": when,
                    "who": shown(clean.speaker) or _WHO[clean.role],
                    "role": clean.role.value,
                    "kind": " ".join(filter(None, (tool if is_tool else "", kind))),
                    "text": text,
                    "is_tool": is_tool,
                    "folded": is_tool or len(text) > _LONG,
                    "first": first[:_FIRST] + ("…" if len(first) > _FIRST else ""),
                    "lines": text.count("\n") + 1,
                }
        self.left_out.update(report.dropped)
        self.redacted.update(report.redacted)

    def _words(self, text: str) -> str:
        """Return a text cleaned as for storage, with control characters replaced; "" for "", and where nothing is left of it."""
        return shown(self._gate.words(text)) if text else ""

    def _name(self, text: str) -> str:
        """Return a name cleaned as for storage, at most 500 characters on one line, no control characters in it; "" for ""."""
        return shown(self._gate.name(text)).replace("\n", " ") if text else ""


def shown(text: str) -> str:
    """Return a text with control characters and those that turn the direction of writing replaced, line ends as line feeds."""
    return render.safe(_BREAKS.sub("\n", text))


def indexed(segment: Mapping[str, Any], begins: bool) -> Iterator[str]:
    """Yield the texts of a segment that a search finds; of a tool's message its first 4000 characters.

    Title, summary, names and statements only where the segment `begins` with this part.
    """
    if begins:
        yield segment["title"]
        yield segment["summary"]
        yield " ".join([segment["project"], segment["agent"], *segment["keywords"]])
        for bullet in segment["bullets"]:
            yield bullet["text"]
            yield from (quote["text"] for quote in bullet["quotes"])
    for message in segment["messages"]:
        yield message["who"]
        yield message["text"][:_TOOL_INDEXED] if message["is_tool"] else message["text"]
