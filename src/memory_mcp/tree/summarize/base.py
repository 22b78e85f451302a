"""The contract of a summarizer and the values it returns."""

from collections.abc import Sequence
from typing import Protocol

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId
from memory_mcp.model.toc import MemoryKind, TocBullet, TocNode


@dataclass(frozen=True, slots=True)
class Source:
    """Place of a bullet's words: characters `start` to `end` of an event's text."""

    event_id: EventId
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BulletDraft:
    """A statement and its sources; the tree turns sources into grips."""

    text: str
    kind: MemoryKind
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a stretch of events; the tree puts the date before its title."""

    title: str
    summary: str
    bullets: tuple[BulletDraft, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RollUp:
    """Summary of a period, with bullets and grips of its children."""

    title: str
    summary: str
    bullets: tuple[TocBullet, ...]
    keywords: tuple[str, ...]


class Summarizer(Protocol):
    """Summarizes stretches and periods.

    Both methods are pure (same input, same output, in any process) and never raise for odd text.
    """

    name: str

    def summarize(self, events: Sequence[Event], recap: Event | None = None, repeated: frozenset[int] = frozenset()) -> Summary:
        """Return the summary of a stretch of events.

        The title has at most 120 characters; at most 8 bullets with at least one source each, at most 12 keywords. Of events
        without words the title says what happened ("3 tool calls: Read, Bash"). `recap` is a client's own summary of these events
        and earlier ones; bullets may cite it. `repeated` are hashes of openings that many other stretches have too: such a
        sentence names none of them.
        """
        ...

    def roll_up(self, children: Sequence[TocNode], limit: int = 10) -> RollUp:
        """Return the summary of a period from its children.

        Without children the title says that there was nothing of substance.
        """
        ...
