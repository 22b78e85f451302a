"""Events in, title, summary, bullets and keywords out: the default summarizer, without a model.

Invariants
1. A pure function of its input: no clock, no store, no statistics beyond the table that ships with the package.
2. Every bullet is a sentence of an event, shortened; its source is where that sentence stands.
"""

from collections.abc import Sequence

from memory_mcp.model.event import Event, Role
from memory_mcp.model.toc import TocNode
from memory_mcp.summarize.base import BulletDraft, RollUp, Source, Summary
from memory_mcp.summarize.keywords import keywords
from memory_mcp.summarize.kinds import kind_of
from memory_mcp.summarize.rollup import roll_up
from memory_mcp.summarize.select import bullets_of, headlines_of
from memory_mcp.summarize.sentences import clean, shorten
from memory_mcp.summarize.stretch import Sentence, Stretch, Voice, read
from memory_mcp.summarize.titles import MAX_TITLE, headline, join

MAX_BULLET = 200
MAX_SUMMARY = 300
#: Of a command that failed this much stands before its error.
MAX_COMMAND = 80


class ExtractiveSummarizer:
    """Chooses sentences; invents none."""

    name = "extractive"

    def summarize(self, events: Sequence[Event]) -> Summary:
        """See `Summarizer.summarize`."""
        stretch = read(events)
        terms = keywords(stretch)
        heads = headlines_of(stretch)
        bullets = tuple(_bullet(stretch, sentence) for sentence in bullets_of(stretch))
        title = join(_headline(heads[0]) if heads else _plain_title(events, stretch), terms)
        return Summary(
            title=shorten(title, MAX_TITLE),
            summary=_summary(heads) or shorten(_plain_title(events, stretch), MAX_SUMMARY),
            bullets=bullets,
            keywords=terms,
        )

    def roll_up(self, children: Sequence[TocNode], limit: int = 10) -> RollUp:
        """See `Summarizer.roll_up`."""
        return roll_up(children, limit)


def _headline(sentence: Sentence) -> str:
    """With the name of whoever said it: "Ann: I moved to Oslo" is a fact about Ann."""
    name = shorten(sentence.speaker, 20)
    return f"{name}: {headline(sentence.text)}" if name else headline(sentence.text)


def _bullet(stretch: Stretch, sentence: Sentence) -> BulletDraft:
    name = shorten(sentence.speaker, 40)
    text = f"{name}: {sentence.text}" if name else sentence.text
    sources: tuple[Source, ...] = (Source(sentence.event.event_id, sentence.start, sentence.end),)
    call = stretch.commands.get(sentence.event.metadata.get("tool_use_id", "")) if sentence.voice is Voice.TOOL else None
    if call is not None:
        command = call.metadata["command"].strip().split("\n", 1)[0][:MAX_COMMAND]
        start = call.text.find(command)
        if start >= 0 and command:
            text = f"{clean(command)}: {text}"
            sources = (Source(call.event_id, start, start + len(command)), *sources)
    return BulletDraft(shorten(text, MAX_BULLET), kind_of(sentence.text, sentence.cues), sources)


def _summary(heads: list[Sentence]) -> str:
    chosen = heads[:2]
    text = ""
    for sentence in chosen:
        name = sentence.speaker
        said = f"{name}: {sentence.text}" if name else sentence.text
        said = shorten(said, MAX_SUMMARY // len(chosen) - 1)
        text += (" " if text else "") + said
    return shorten(text, MAX_SUMMARY)


def _plain_title(events: Sequence[Event], stretch: Stretch) -> str:
    """What happened, where nothing was said."""
    if stretch.tools:
        count = sum(stretch.tools.values())
        names = sorted(stretch.tools, key=lambda name: (-stretch.tools[name], name))
        return shorten(f"{count} tool call{'s' if count != 1 else ''}: {', '.join(names[:6])}", MAX_TITLE)
    spoken = [event for event in events if event.text.strip()]
    if not spoken:
        return f"{len(events)} event{'s' if len(events) != 1 else ''} without text" if events else "No events"
    results = sum(event.role is Role.TOOL for event in spoken)
    if results == len(spoken):
        return f"{results} tool result{'s' if results != 1 else ''}"
    return f"{len(spoken)} message{'s' if len(spoken) != 1 else ''}"
