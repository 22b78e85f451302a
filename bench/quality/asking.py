"""A store asked through its server's own tools, in this process, and what its results stand for.

Calls go through `MemoryServer.call_tool`, which every client's call passes: arguments are checked, errors made and results
shaped as for a client. What is left out is the protocol's transport, so that times are those of the answer.
"""

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.types import CallToolResult, TextContent

from memory_mcp.app import App
from memory_mcp.model.ids import parse_span_grip
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.server.build import build_server

#: Fields whose text says what a quotation is, and is none itself; those that name another statement.
_LABELS = frozenset("when who role speaker title session session_id project agent node id origin fit last kind level".split())
_OTHERS = frozenset({"superseded_by", "why_superseded"})
#: With or without its time.
_GRIP = re.compile(r"grip:(?:\d{1,15}:)?[0-9a-hjkmnp-tv-z]{16}(?:-\d+-\d+)?")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered."""

    structured: Mapping[str, Any]
    text: str
    ms: float

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        """The list of results, best first."""
        found: Sequence[Mapping[str, Any]] = self.structured.get("results", [])
        return found

    @property
    def explanation(self) -> Mapping[str, Any]:
        """How it was found; empty where a tool does not tell."""
        found: Mapping[str, Any] = self.structured.get("explanation", {})
        return found

    @property
    def confidence(self) -> str:
        """The answer's own word; where it gives none, an answer without results is none and any other strong."""
        for holder in (self.structured, self.explanation):
            if holder.get("confidence") in ("strong", "weak", "none"):
                return str(holder["confidence"])
        return "strong" if self.results else "none"

    @property
    def probability(self) -> float | None:
        """How likely one of its results holds the answer, by its own account; None where it does not say."""
        for holder in (self.structured, self.explanation):
            if isinstance(holder.get("probability"), int | float):
                return float(holder["probability"])
        return None

    @property
    def method(self) -> str:
        """The layer that answered."""
        return str(self.explanation.get("method_used", ""))

    @property
    def tokens(self) -> int:
        """What a model reads: its client shows it either the text or the structured answer; the larger counts."""
        compact = json.dumps(self.structured, ensure_ascii=False, separators=(",", ":"))
        return max(estimate_tokens(self.text), estimate_tokens(compact))

    @property
    def quoted_grips(self) -> Sequence[str]:
        """Grips that are shown with a text, in whichever field, each once."""
        return list(dict.fromkeys(_quoted_grips(self.structured)))

    @property
    def shown(self) -> str:
        """Every word that is shown."""
        return "\n".join((*_strings(self.structured), self.text))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _quoted_grips(value: object) -> Iterator[str]:
    """Grips of every object that holds a text beside them, and those inside of a text."""
    if isinstance(value, Mapping):
        yield from _grips_of(value)
        for part in value.values():
            yield from _quoted_grips(part)
    elif isinstance(value, list):
        for part in value:
            yield from _quoted_grips(part)
            if isinstance(part, str):
                yield from _grips_in(part)


def _grips_of(fields: Mapping[str, object]) -> Iterator[str]:
    """The grips of one object, if it shows a text with them."""
    strings = {name: value for name, value in fields.items() if isinstance(value, str) and value and name not in _OTHERS}
    texts = [value for name, value in strings.items() if name not in _LABELS and not _GRIP.fullmatch(value)]
    if texts:
        yield from (value for value in strings.values() if _GRIP.fullmatch(value))
    for text in texts:
        yield from _grips_in(text)


def _grips_in(text: str) -> Iterator[str]:
    """The grips inside of a text that says more than them."""
    if not _GRIP.fullmatch(text):
        yield from _GRIP.findall(text)


class Server:
    """The tools of one open store."""

    def __init__(self, app: App) -> None:
        self._server = build_server(app, "")
        self._arguments: dict[str, Collection[str]] = {}

    async def takes(self, name: str, argument: str) -> bool:
        """Whether a tool has an argument of this name."""
        if not self._arguments:
            tools = await self._server.list_tools()
            self._arguments = {tool.name: tool.input_schema.get("properties", {}) for tool in tools}
        return argument in self._arguments.get(name, ())

    async def call(self, tool: str, arguments: Mapping[str, object]) -> Answer:
        """Call a tool; RuntimeError with its message when it fails."""
        began = time.perf_counter()
        result = await self._server.call_tool(tool, dict(arguments))
        took = 1000 * (time.perf_counter() - began)
        assert isinstance(result, CallToolResult)
        text = "\n".join(c.text for c in result.content if isinstance(c, TextContent))
        if result.is_error:
            raise RuntimeError(f"{tool} {dict(arguments)}: {text}")
        return Answer(result.structured_content or {}, text, took)


@dataclass(frozen=True, slots=True)
class Place:
    """What a result stands for: its session, and the messages that it quotes or names."""

    session: str
    messages: tuple[str, ...]


class Places:
    """From results to the corpus's own ids, whichever of its ids a result carries."""

    def __init__(self, app: App, sessions: Mapping[str, str] | None = None) -> None:
        """`sessions`: the corpus's sessions by message, where they are not those that the messages are recorded in."""
        self._app = app
        events = (stored.event for batch in app.storage.events.iter_all() for stored in batch)
        self._events: dict[str, tuple[str, str]] = {
            event.event_id: ((sessions or {}).get(event.source_id, event.session_id), event.source_id) for event in events
        }

    def of(self, result: Mapping[str, Any]) -> Place:
        """The place of a result, lean or full."""
        quotes = [quote for quote in result.get("also") or () if isinstance(quote, Mapping)]
        further = [quote.get("grip_id") or quote.get("grip") for quote in quotes]
        named = [result.get("event_id"), result.get("grip"), result.get("id"), *(result.get("grip_ids") or ()), *further]
        events = [event for name in named if name for event in self._named(str(name))]
        found = [self._events[event] for event in dict.fromkeys(events)]
        session = found[0][0] if found else result.get("session_id") or result.get("session", "")
        return Place(session, tuple(dict.fromkeys(message for _, message in found)))

    def quoted(self, answer: Answer) -> frozenset[str]:
        """The messages that an answer quotes in any form: results, further quotations, lines and neighbours."""
        events = [event for grip in answer.quoted_grips for event in self._named(grip)]
        return frozenset(self._events[event][1] for event in events)

    def _named(self, name: str) -> list[str]:
        """The events behind an id of an event or a grip; none for other ids."""
        if name in self._events:
            return [name]
        span = parse_span_grip(name)
        if span is not None:
            return [span[0]]
        grip = self._app.storage.grips.find_grip(name) if name.startswith("grip:") else None
        return [grip.event_id_start, grip.event_id_end] if grip is not None else []
