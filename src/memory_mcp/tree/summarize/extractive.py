"""The default summarizer, without a model: it selects sentences of the events.

Invariants
1. A pure function of its input: no clock, no store, no statistics beyond the tables in the package.
2. Every bullet consists of words of the events, shortened: a sentence, an item of a recap, a question with its answer, or the
message of a commit. Its sources are where these words are.

A recap covers everything since the one before it, ten segments or more: a statement of it belongs to the stretches that name
most of what it names.

Change here: titles, bullets, keywords.
"""

from collections.abc import Sequence
from functools import lru_cache

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import Event, Role, is_recap
from memory_mcp.model.toc import MemoryKind, TocNode
from memory_mcp.tree.summarize.base import BulletDraft, RollUp, Source, Summary
from memory_mcp.tree.summarize.decisions import decisions_of
from memory_mcp.tree.summarize.keywords import choose_keywords
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.outcome import Outcome, deeds_of, outcome_of
from memory_mcp.tree.summarize.recap import RecapSection, Statement, statements_of
from memory_mcp.tree.summarize.rollup import roll_up
from memory_mcp.tree.summarize.select import MAX_BULLETS, bullets_of, drop_repeats, headlines_of
from memory_mcp.tree.summarize.sentences import clean_text, shorten
from memory_mcp.tree.summarize.stretch import Sentence, Stretch, Voice, read_stretch
from memory_mcp.tree.summarize.titles import HEADLINE_WIDTH, MAX_TITLE, REQUEST_WIDTH, join_terms, make_headline
from memory_mcp.tree.summarize.vocabulary import is_vague, keys_of, read_words

#: A word that may be capitalized: not an identifier.
_PLAIN = lazy_pattern(r"[a-z]+(?=[ ,.:;!]|$)")
MAX_BULLET = 200
MAX_SUMMARY = 300
#: Characters of a failed command shown before its error.
MAX_COMMAND = 80
#: Most bullets from a recap, from answered questions and from commits; the rest is for other sentences.
MAX_RECALLED, MAX_DECISIONS, MAX_DEEDS = 4, 3, 3
#: Least share, by rarity, and least number of a statement's telling words that a stretch must hold.
MIN_SHARE, MIN_WORDS = 0.6, 3
#: Least weight of a telling word.
_MIN_TELLING_WEIGHT = 0.3
#: Least share of a statement's words in the sentence cited in addition to the recap.
_MIN_PROOF = 0.4


@dataclass(frozen=True, slots=True)
class RecalledStatement:
    """A recap's statement about the stretch, with its sources.

    They are the recap, and the sentence of the stretch that shares most words.
    """

    statement: Statement
    sources: tuple[Source, ...]


@lru_cache(maxsize=32)
def _weigh_statements(text: str) -> list[tuple[Statement, dict[str, float], float]]:
    """Return statements, their words' rarities and the sums."""
    statements = [
        (s, {w.key: w.rarity for w in read_words(s.text) if w.key and w.weight >= _MIN_TELLING_WEIGHT})
        for s in statements_of(text)
    ]
    return [(statement, rarities, sum(rarities.values())) for statement, rarities in statements]


def recall_statements(stretch: Stretch, recap: Event, is_own_recap: bool) -> list[RecalledStatement]:
    """Return at most 12 statements about the stretch.

    A statement belongs if the stretch holds at least 3 of its telling words and 60 % of their rarity. What was done last
    and what was left open belong only to the stretch that holds the recap: `is_own_recap`.
    """
    ranked = []
    for statement, rarities, total_rarity in _weigh_statements(recap.text):
        last = statement.section in (RecapSection.OPEN, RecapSection.NOW)
        if last and not is_own_recap:
            continue
        shared_keys = [key for key in rarities if key in stretch.counts]
        share = sum(rarities[key] for key in shared_keys) / total_rarity if total_rarity else 0.0
        if not last and (share < MIN_SHARE or len(shared_keys) < MIN_WORDS):
            continue
        about = sum(stretch.salience[key] for key in shared_keys) / (6.0 + len(rarities)) ** 0.75
        ranked.append((-about * share, statement, frozenset(rarities)))
    ranked.sort(key=lambda f: (f[0], f[1].start))
    chosen = []
    sentences = [(sentence, sentence.keys) for sentence in stretch.sentences] if ranked else []
    for _, statement, keys in ranked[:12]:
        sources = [Source(recap.event_id, statement.start, statement.end)]
        # The sentence of the stretch that shares most words is cited too.
        shared = [len(keys & sentence_keys) for _, sentence_keys in sentences]
        if keys and shared and (most := max(shared)) >= _MIN_PROOF * len(keys):
            best, _ = sentences[shared.index(most)]
            sources.append(Source(best.event.event_id, best.start, best.end))
        chosen.append(RecalledStatement(statement, tuple(sources)))
    return chosen


class ExtractiveSummarizer:
    """Selects sentences; makes up none."""

    name = "extractive"

    def summarize(self, events: Sequence[Event], recap: Event | None = None, repeated: frozenset[int] = frozenset()) -> Summary:
        """Return the summary of a stretch, see `Summarizer.summarize`.

        A bullet has at most 200 characters; the summary, the first two statements of the recap or headlines, 300. Without
        `recap` the first recap among the events is used. `repeated` sentences are chatter.
        """
        events = sorted(events, key=lambda e: e.order)
        stretch = read_stretch(events, repeated)
        if repeated and all(s.is_chatter for s in stretch.sentences):
            # What many stretches say names none of them, but where it is all that was said it is not lost.
            stretch = read_stretch(events)
        recap = recap or next(filter(is_recap, events), None)
        recalled = recall_statements(stretch, recap, is_own_recap=recap in events) if recap is not None else []
        terms = choose_keywords(stretch)
        heads = headlines_of(stretch)
        deeds = deeds_of(events)
        outcome = None if stretch.is_dialogue else outcome_of(stretch, events, deeds)
        statements = [t.statement.text for t in recalled]
        statements += [f"{s.speaker}: {s.text}" if s.speaker else s.text for s in heads]
        statements = statements[:2]
        summary = " ".join(shorten(text, MAX_SUMMARY // len(statements) - 1) for text in statements)
        title = _make_title(stretch, heads, recalled, outcome)
        plain = "" if title and summary else _plain_title(events, stretch)
        return Summary(
            title=shorten(join_terms(title or plain, terms), MAX_TITLE),
            summary=shorten(summary or plain, MAX_SUMMARY),
            bullets=_make_bullets(stretch, events, recalled, [*deeds[-MAX_DEEDS:-1], outcome] if outcome else []),
            keywords=terms,
        )

    def roll_up(self, children: Sequence[TocNode], limit: int = 10) -> RollUp:
        """Return the summary of a period from its children alone."""
        return roll_up(children, limit)


def _make_title(
    stretch: Stretch, heads: Sequence[Sentence], recalled: Sequence[RecalledStatement], outcome: Outcome | None
) -> str:
    """A recap's statement replaces a vague request or one that no user made."""
    # An outcome that names nothing ("all tests pass") does not shorten the request.
    width = REQUEST_WIDTH if outcome and outcome.is_specific else HEADLINE_WIDTH
    head = _choose_headline(stretch, heads, width)
    request = _prefix_speaker(head.speaker, make_headline(head.text, width), 20) if head else ""
    deed = next((t.statement.text for t in recalled if t.statement.section is not RecapSection.OPEN), "")
    if deed and (not head or head.voice is not Voice.USER or is_vague(head.words)):
        request = make_headline(deed, width)
    if outcome is None or not request:
        return request or (outcome.short if outcome else "")
    request_keys, outcome_keys = keys_of(request), keys_of(outcome.short)
    if len(request_keys & outcome_keys) * 2 > min(len(request_keys), len(outcome_keys)):
        # One repeats the other: the outcome says more, unless it has fewer words.
        return request if len(outcome_keys) < len(request_keys) else _capitalize_first(outcome.short)
    title = f"{request}{'' if request.endswith(('?', '？')) else ':'} {outcome.short}"
    return title if len(title) <= MAX_TITLE else request


def _choose_headline(stretch: Stretch, heads: Sequence[Sentence], width: int) -> Sentence | None:
    for head in heads:
        if (head.voice is Voice.USER and not head.speaker) or not make_headline(head.text, width).endswith("…"):
            return head
    requests = (
        s for s in stretch.sentences if s.voice is Voice.USER and not s.speaker and not s.is_chatter and s.information > 0
    )
    return next(requests, heads[0]) if heads else None


def _capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:] if _PLAIN.match(text) else text


def _make_bullets(
    stretch: Stretch, events: Sequence[Event], recalled: Sequence[RecalledStatement], outcomes: Sequence[Outcome]
) -> tuple[BulletDraft, ...]:
    """At most 8, no two alike: the recap's, then in order of time."""
    open_tasks = [t for t in recalled if t.statement.section is RecapSection.OPEN][:1]
    done = [t for t in recalled if t not in open_tasks][:MAX_RECALLED]
    drafts = [
        BulletDraft(shorten(t.statement.text, MAX_BULLET), _kind_of_words(t.statement.text), t.sources)
        for t in [*done, *open_tasks]
    ]
    if not stretch.is_dialogue:
        drafts += [BulletDraft(d.text, MemoryKind.DECISION, d.sources) for d in decisions_of(events)[-MAX_DECISIONS:]]
    sentences = [_make_bullet(stretch, sentence) for sentence in bullets_of(stretch)]
    drafts += [b for b in sentences if b.kind is MemoryKind.DECISION]
    drafts += [BulletDraft(shorten(_capitalize_first(o.text), MAX_BULLET), _kind_of_words(o.text), (o.source,)) for o in outcomes]
    drafts += sentences
    bullets = drop_repeats(drafts, lambda bullet: keys_of(bullet.text), MAX_BULLETS)
    recap_bullets = [b for b in bullets if b in drafts[: len(done) + len(open_tasks)]]
    other_bullets = sorted(
        (b for b in bullets if b not in recap_bullets), key=lambda b: (b.sources[0].event_id, b.sources[0].start)
    )
    return (*recap_bullets, *other_bullets)


def _kind_of_words(text: str) -> MemoryKind:
    return kind_of(text, cues_of(text))


def _prefix_speaker(speaker: str, text: str, width: int) -> str:
    return f"{shorten(speaker, width)}: {text}" if speaker else text


def _make_bullet(stretch: Stretch, sentence: Sentence) -> BulletDraft:
    text = _prefix_speaker(sentence.speaker, sentence.text, 40)
    sources: tuple[Source, ...] = (Source(sentence.event.event_id, sentence.start, sentence.end),)
    call = stretch.commands.get(sentence.event.metadata.get("tool_use_id", "")) if sentence.voice is Voice.TOOL else None
    if call is not None:
        command = call.metadata["command"].strip().split("\n", 1)[0][:MAX_COMMAND]
        start = call.text.find(command)
        if start >= 0 and command:
            text = f"{clean_text(command)}: {text}"
            sources = (Source(call.event_id, start, start + len(command)), *sources)
    return BulletDraft(shorten(text, MAX_BULLET), kind_of(sentence.text, sentence.cues), sources)


def _plain_title(events: Sequence[Event], stretch: Stretch) -> str:
    """Return a title such as "3 tool calls: Read, Bash".

    Without calls a person's first sentence in plain words, or anyone's; else "2 tool results" if all texts are a tool's,
    "4 messages", "2 events without text" or "No events".
    """
    if stretch.tools:
        count = sum(stretch.tools.values())
        names = sorted(stretch.tools, key=lambda name: (-stretch.tools[name], name))
        return shorten(f"{count} tool call{'s' if count != 1 else ''}: {', '.join(names[:6])}", MAX_TITLE)
    plain = [s for s in stretch.sentences if s.is_chatter or not any(word.code for word in s.words)]
    if plain:
        first = next((s for s in plain if s.voice is Voice.USER), plain[0])
        return _prefix_speaker(first.speaker, make_headline(first.text), 20)
    spoken = [event for event in events if event.text.strip()]
    if not spoken:
        return f"{len(events)} event{'s' if len(events) != 1 else ''} without text" if events else "No events"
    results = sum(event.role is Role.TOOL for event in spoken)
    if results == len(spoken):
        return f"{results} tool result{'s' if results != 1 else ''}"
    return f"{len(spoken)} message{'s' if len(spoken) != 1 else ''}"
