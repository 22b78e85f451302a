"""The default summarizer, without a model: it selects sentences of the events.

Invariants
1. A pure function of its input: no clock, no store, no statistics beyond the tables in the package.
2. Every bullet consists of words of the events, shortened: a sentence, an item of a recap, a question with its answer, or the
message of a commit. Its sources are where these words are.
"""

import re
from collections.abc import Sequence

from memory_mcp.model.event import Event, Role, is_recap
from memory_mcp.model.toc import MemoryKind, TocNode
from memory_mcp.summarize.base import BulletDraft, RollUp, Source, Summary
from memory_mcp.summarize.decisions import decisions_of
from memory_mcp.summarize.keywords import keywords
from memory_mcp.summarize.kinds import cues_of, kind_of
from memory_mcp.summarize.outcome import Outcome, deeds_of, outcome_of
from memory_mcp.summarize.recalled import Recalled, recalled
from memory_mcp.summarize.recap import Part
from memory_mcp.summarize.rollup import roll_up
from memory_mcp.summarize.select import MAX_BULLETS, bullets_of, distinct, headlines_of
from memory_mcp.summarize.sentences import clean, shorten
from memory_mcp.summarize.stretch import Sentence, Stretch, Voice, read
from memory_mcp.summarize.titles import ASKED, HEADLINE, MAX_TITLE, headline, join
from memory_mcp.summarize.vocabulary import is_vague, keys_of

#: A word that may be capitalized: not an identifier.
_PLAIN = re.compile(r"[a-z]+(?=[ ,.:;!]|$)")
MAX_BULLET = 200
MAX_SUMMARY = 300
#: Characters of a failed command shown before its error.
MAX_COMMAND = 80
#: Most bullets from a recap, from answered questions and from commits; the rest is for other sentences.
MAX_RECALLED, MAX_DECISIONS, MAX_DEEDS = 4, 3, 3


class ExtractiveSummarizer:
    """Selects sentences; makes up none."""

    name = "extractive"

    def summarize(self, events: Sequence[Event], recap: Event | None = None, repeated: frozenset[int] = frozenset()) -> Summary:
        """Return title, summary, at most 8 bullets and at most 12 keywords of a stretch, whatever the order of `events`.

        The title has at most 120 characters, a bullet 200; the summary, the first two statements of the recap or headlines,
        300. Without `recap` the first recap among the events is used. `repeated` sentences are chatter.
        """
        events = sorted(events, key=lambda e: e.order)
        stretch = read(events, repeated)
        if repeated and all(s.chatter for s in stretch.sentences):
            # What many stretches say names none of them, but where it is all that was said it is not lost.
            stretch = read(events)
        recap = recap or next(filter(is_recap, events), None)
        told = recalled(stretch, recap, own=recap in events) if recap is not None else []
        terms = keywords(stretch)
        heads = headlines_of(stretch)
        deeds = deeds_of(events)
        outcome = None if stretch.is_dialogue else outcome_of(stretch, events, deeds)
        said = [t.statement.text for t in told] + [f"{s.speaker}: {s.text}" if s.speaker else s.text for s in heads]
        said = said[:2]
        summary = " ".join(shorten(text, MAX_SUMMARY // len(said) - 1) for text in said)
        title = _title(stretch, heads, told, outcome)
        plain = "" if title and summary else _plain_title(events, stretch)
        return Summary(
            title=shorten(join(title or plain, terms), MAX_TITLE),
            summary=shorten(summary or plain, MAX_SUMMARY),
            bullets=_bullets(stretch, events, told, [*deeds[-MAX_DEEDS:-1], outcome] if outcome else []),
            keywords=terms,
        )

    def roll_up(self, children: Sequence[TocNode], limit: int = 10) -> RollUp:
        """Return the summary of a period from its children alone, with at most `limit` of their bullets; see `rollup.roll_up`."""
        return roll_up(children, limit)


def _title(stretch: Stretch, heads: Sequence[Sentence], told: Sequence[Recalled], outcome: Outcome | None) -> str:
    """Return the request and its outcome as a title; one of them where the other is missing or says the same; "" for neither.

    A recap's statement replaces a vague request or one that no user made.
    """
    # An outcome that names nothing ("all tests pass") does not shorten the request.
    width = ASKED if outcome and outcome.telling else HEADLINE
    head = _whole(stretch, heads, width)
    asked = _named(head.speaker, headline(head.text, width), 20) if head else ""
    done = next((t.statement.text for t in told if t.statement.part is not Part.OPEN), "")
    if done and (not head or head.voice is not Voice.USER or is_vague(head.words)):
        asked = headline(done, width)
    if outcome is None or not asked:
        return asked or (outcome.short if outcome else "")
    one, other = keys_of(asked), keys_of(outcome.short)
    if len(one & other) * 2 > min(len(one), len(other)):
        # One repeats the other: the outcome says more, unless it has fewer words.
        return asked if len(other) < len(one) else _capital(outcome.short)
    title = f"{asked}{'' if asked.endswith(('?', '？')) else ':'} {outcome.short}"
    return title if len(title) <= MAX_TITLE else asked


def _whole(stretch: Stretch, heads: Sequence[Sentence], width: int) -> Sentence | None:
    """Return the first of the best sentences that is a request or is not cut within a statement, else the first request."""
    for head in heads:
        if (head.voice is Voice.USER and not head.speaker) or not headline(head.text, width).endswith("…"):
            return head
    asked = (s for s in stretch.sentences if s.voice is Voice.USER and not s.speaker and not s.chatter and s.information > 0)
    return next(asked, heads[0]) if heads else None


def _capital(text: str) -> str:
    """Return a text with its first word capitalized, unless that may be code."""
    return text[:1].upper() + text[1:] if _PLAIN.match(text) else text


def _bullets(
    stretch: Stretch, events: Sequence[Event], told: Sequence[Recalled], outcomes: Sequence[Outcome]
) -> tuple[BulletDraft, ...]:
    """Return at most 8 bullets of the recap, decisions, outcomes and the best sentences; no two alike.

    Those of the recap come first, all others in the order of their events' ids, which is that of time.
    """
    left = [t for t in told if t.statement.part is Part.OPEN][:1]
    said = [t for t in told if t not in left][:MAX_RECALLED]
    made = [BulletDraft(shorten(t.statement.text, MAX_BULLET), _kind(t.statement.text), t.sources) for t in [*said, *left]]
    if not stretch.is_dialogue:
        made += [BulletDraft(d.text, MemoryKind.DECISION, d.sources) for d in decisions_of(events)[-MAX_DECISIONS:]]
    sentences = [_bullet(stretch, sentence) for sentence in bullets_of(stretch)]
    made += [b for b in sentences if b.kind is MemoryKind.DECISION]
    made += [BulletDraft(shorten(_capital(o.text), MAX_BULLET), _kind(o.text), (o.source,)) for o in outcomes]
    made += sentences
    kept = distinct(made, lambda bullet: keys_of(bullet.text), MAX_BULLETS)
    first = [b for b in kept if b in made[: len(said) + len(left)]]
    rest = sorted((b for b in kept if b not in first), key=lambda b: (b.sources[0].event_id, b.sources[0].start))
    return (*first, *rest)


def _kind(text: str) -> MemoryKind:
    """Return the kind of memory that a statement's words show; OBSERVATION where they show none."""
    return kind_of(text, cues_of(text))


def _named(speaker: str, text: str, width: int) -> str:
    """Return a text after the speaker's name, cut to `width`, and a colon ("Ann: I moved"); without a speaker the text itself."""
    return f"{shorten(speaker, width)}: {text}" if speaker else text


def _bullet(stretch: Stretch, sentence: Sentence) -> BulletDraft:
    """Return a sentence as a bullet with its kind; an error of a command with the command before it, and both as sources."""
    text = _named(sentence.speaker, sentence.text, 40)
    sources: tuple[Source, ...] = (Source(sentence.event.event_id, sentence.start, sentence.end),)
    call = stretch.commands.get(sentence.event.metadata.get("tool_use_id", "")) if sentence.voice is Voice.TOOL else None
    if call is not None:
        command = call.metadata["command"].strip().split("\n", 1)[0][:MAX_COMMAND]
        start = call.text.find(command)
        if start >= 0 and command:
            text = f"{clean(command)}: {text}"
            sources = (Source(call.event_id, start, start + len(command)), *sources)
    return BulletDraft(shorten(text, MAX_BULLET), kind_of(sentence.text, sentence.cues), sources)


def _plain_title(events: Sequence[Event], stretch: Stretch) -> str:
    """Return a title of events that say little: "3 tool calls: Read, Bash", with up to 6 names, the most frequent first.

    Without calls a person's first sentence in plain words, or anyone's; where there is none "2 tool results" if all
    texts are a tool's, else "4 messages"; "2 events without text" or "No events" where nothing is said.
    """
    if stretch.tools:
        count = sum(stretch.tools.values())
        names = sorted(stretch.tools, key=lambda name: (-stretch.tools[name], name))
        return shorten(f"{count} tool call{'s' if count != 1 else ''}: {', '.join(names[:6])}", MAX_TITLE)
    plain = [s for s in stretch.sentences if s.chatter or not any(word.code for word in s.words)]
    if plain:
        first = next((s for s in plain if s.voice is Voice.USER), plain[0])
        return _named(first.speaker, headline(first.text), 20)
    spoken = [event for event in events if event.text.strip()]
    if not spoken:
        return f"{len(events)} event{'s' if len(events) != 1 else ''} without text" if events else "No events"
    results = sum(event.role is Role.TOOL for event in spoken)
    if results == len(spoken):
        return f"{results} tool result{'s' if results != 1 else ''}"
    return f"{len(spoken)} message{'s' if len(spoken) != 1 else ''}"
