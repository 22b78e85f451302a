"""What a summarizer is asked and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId
from memory_mcp.model.toc import MemoryKind, TocBullet, TocNode


@dataclass(frozen=True, slots=True)
class Source:
    """Where a bullet's words stand: characters `start` to `end` of one event's text."""

    event_id: EventId
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BulletDraft:
    """A statement and the places that prove it; the tree turns places into grips."""

    text: str
    kind: MemoryKind
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a stretch of events is about. The title carries no date: the tree puts it in front."""

    title: str
    summary: str
    bullets: tuple[BulletDraft, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RollUp:
    """What a period is about; its bullets are its children's own, grips kept."""

    title: str
    summary: str
    bullets: tuple[TocBullet, ...]
    keywords: tuple[str, ...]


class Summarizer(Protocol):
    """Both acts are pure: the same input gives the same output, in any process. Neither ever raises for odd text."""

    name: str

    def summarize(self, events: Sequence[Event], recap: Event | None = None) -> Summary:
        """A title of at most 120 characters, at most 8 bullets, each with at least one source, at most 12 keywords.

        `recap` is a text in which a client's model told of them and of what came before; bullets may rest on its words.
        Any events, also none of substance (then a plain title says what happened: "3 tool calls: Read, Bash").
        """
        ...

    def roll_up(self, children: Sequence[TocNode], limit: int = 10) -> RollUp:
        """The gist of a period from its children: at most `limit` bullets, each with the grips it had."""
        ...
