"""What every summarizer must do, as checks to run over the registry."""

import re
from collections.abc import Sequence

from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import DEFAULT_TYPES, Event, EventType, Role, Trust
from memory_mcp.model.ids import GripId, NodeId, event_id
from memory_mcp.model.toc import MemoryKind, TocBullet, TocNode
from memory_mcp.tree.summarize.base import RollUp, Summarizer, Summary

START = 1_772_442_000_000
_WORD = re.compile(r"\w+")


def event(n: int, text: str, role: Role = Role.USER, speaker: str = "", kind: EventType | None = None, **told: str) -> Event:
    """The n-th event of a session, ten seconds after the one before."""
    at = START + n * 10_000
    return Event(
        event_id=event_id(at, "test", str(n)),
        session_id="s1",
        timestamp=at,
        type=kind or DEFAULT_TYPES[role],
        role=role,
        trust=Trust.USER,
        text=text,
        source="test",
        speaker=speaker,
        metadata=told,
    )


def talk(*texts: str) -> list[Event]:
    """User and assistant in turn, the user first."""
    return [event(n, text, Role.ASSISTANT if n % 2 else Role.USER) for n, text in enumerate(texts)]


def dialogue(*turns: tuple[str, str]) -> list[Event]:
    """People who speak by name."""
    return [event(n, text, Role.USER, speaker) for n, (speaker, text) in enumerate(turns)]


def node(n: int, title: str, bullets: Sequence[str] = (), keywords: Sequence[str] = ()) -> TocNode:
    """The n-th segment of a day; every bullet has a grip of its own."""
    made = tuple(
        TocBullet(text, (GripId(f"grip:{n}:{i:016d}"),), MemoryKind.OBSERVATION, "shop") for i, text in enumerate(bullets)
    )
    at = START + n * 3_600_000
    return TocNode(NodeId(f"toc:segment:2026-03-02:{n:012d}"), TocLevel.SEGMENT, at, at, title, title, made, tuple(keywords))


def check_summary(events: Sequence[Event], summary: Summary) -> None:
    """Sizes and provenance."""
    assert 0 < len(summary.title) <= 120
    assert "\n" not in summary.title
    assert 0 < len(summary.summary) <= 300
    assert len(summary.bullets) <= 8
    assert len(summary.keywords) <= 12
    assert len(set(summary.keywords)) == len(summary.keywords)
    assert all(word.strip() for word in summary.keywords)
    texts = {one.event_id: one for one in events}
    for bullet in summary.bullets:
        assert 0 < len(bullet.text) <= 200
        assert bullet.sources
        quoted = ""
        for source in bullet.sources:
            said = texts[source.event_id]
            assert 0 <= source.start < source.end <= len(said.text)
            quoted += f"{said.speaker} {said.text[source.start : source.end]}\n"
        # The last word may be a cut one only where no white space was near.
        assert set(_WORD.findall(bullet.text)[:-1]) <= set(_WORD.findall(quoted))


def check_roll_up(children: Sequence[TocNode], rolled: RollUp, limit: int) -> None:
    """Sizes, and bullets that are the children's own."""
    assert 0 < len(rolled.title) <= 120
    assert 0 < len(rolled.summary) <= 300
    assert len(rolled.keywords) <= 12
    assert len(rolled.bullets) <= limit
    own = {id(bullet) for child in children for bullet in child.bullets}
    assert all(id(bullet) in own for bullet in rolled.bullets)


def check_pure(summarizer: Summarizer, other: Summarizer, events: Sequence[Event]) -> None:
    """The same events give the same summary, from any instance, whatever was summarized in between."""
    first = summarizer.summarize(events)
    other.summarize(talk("Something else entirely about llamas.", "Llamas spit."))
    assert other.summarize(events) == first == summarizer.summarize(list(events))
