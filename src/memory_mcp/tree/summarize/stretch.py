"""Read the events of a stretch into sentences and word counts, the material of a summary."""

import re
import sys
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from functools import cached_property
from itertools import islice
from operator import attrgetter

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import term_hash
from memory_mcp.model.event import LEAF, RECORD, Event, EventType, Role, is_recap, mark_of
from memory_mcp.tree.summarize.kinds import MAY_BE_CHATTER, MAY_NOTIFY, OPENERS, is_chatter
from memory_mcp.tree.summarize.recap import statements_of
from memory_mcp.tree.summarize.sentences import (
    HEAD,
    TAIL,
    Shape,
    Span,
    clean_text,
    error_spans,
    find_spans,
    is_bracketed,
    reply_spans,
    without_marks,
)
from memory_mcp.tree.summarize.vocabulary import Word, cjk_runs, has_cjk, lookup_word, read_words, tokens_of

#: Most sentences that are read: a stretch has 4,000 tokens unless one message is longer.
MAX_SENTENCES = 1_500
#: Least weight of a telling word.
MIN_TELLING_WEIGHT = 0.15
#: Sentences of a stretch that are counted for the whole store.
MAX_OPENINGS = 16
#: Kinds of client records with content; others are notices (compaction, limits).
_CONTENT_RECORDS = frozenset({"thinking", "summary", "title", "plan", "pull request"})
#: Kinds of records that name the session.
NAMING_RECORDS = frozenset({"summary", "title"})
#: Characters of a tool call that are read for file names.
CALL_HEAD = 300
#: Tools whose calls state a plan in words, and the most entries and sentences read of one.
_PLANS = frozenset({"TaskCreate", "TodoWrite", "ExitPlanMode", "update_plan"})
_MAX_PLANNED, _PLAN_HEAD = 12, 1
_ENTRY = lazy_pattern(r"^\[[x~ ]\] (\S.{5,300})$", re.M)


class Voice(IntEnum):
    """Who said a sentence."""

    TOOL = 0
    AGENT = 1
    USER = 2


_TOOL, _AGENT, _USER = Voice
#: Weight of one occurrence of a word by voice.
_COUNTS = {Voice.TOOL: 0.3, Voice.AGENT: 1.0, Voice.USER: 2.0}
#: Factor on the weight in narration and greetings.
_CHATTER_COUNTS = 0.3
#: The same in sentences that many stretches have.
_REPEATED_COUNTS = 0.0
#: Most words of an exclamation: its words count as chatter's do, like those in brackets.
MAX_ASIDE = 3
#: Most words of a sentence that opens a message by addressing somebody.
MAX_ADDRESS = 5
_ANYWHERE = MAY_BE_CHATTER | MAY_NOTIFY
_LETTERS = lazy_pattern(r"[^\W\d_]+")
_KEY = attrgetter("key")
_ORDER = attrgetter("timestamp", "event_id")
#: A file's path as the group, or a run of a path's characters without one: none is in a later part of it then.
_FILE = lazy_pattern(r"((?:[\w.@\-+]*+[/\\])*[\w\-+@.]*\w\.[A-Za-z]\w{0,7}(?![\w/(]))|[\w.@\-+/\\]++")


@dataclass(slots=True)
class Sentence:
    """One sentence of one event; `start` and `end` are its original characters."""

    event: Event
    start: int
    end: int
    shape: Shape
    voice: Voice
    words: list[Word]
    #: Number of its message among those of its voice, and of the sentence in the message, from 0.
    message_index: int
    index: int
    is_chatter: bool
    #: Salience of its words relative to its length; set once the whole stretch is read.
    information: float = 0.0
    cues: int = 0
    _text: str | None = None

    @property
    def text(self) -> str:
        """The cleaned text, made on first use."""
        if self._text is None:
            self._text = clean_text(self.event.text[self.start : self.end])
        return self._text

    @property
    def keys(self) -> set[str]:
        """The keys of its words that count."""
        keys = {word.key for word in self.words}
        keys.discard("")
        return keys

    @property
    def speaker(self) -> str:
        """The speaker's name with single blanks."""
        return " ".join(self.event.speaker.split())


@dataclass()
class Stretch:
    """The material of a summary."""

    sentences: list[Sentence] = field(default_factory=list)
    #: All words in reading order, by the weight of one occurrence.
    tally: dict[float, list[Word]] = field(default_factory=dict)
    #: Names of people who speak.
    speakers: list[str] = field(default_factory=list)
    #: Hashes of sentences that other stretches have too (see `sentence_hash`).
    repeated: frozenset[int] = frozenset()
    tools: dict[str, int] = field(default_factory=dict)
    #: Whether a record of the stretch names the session.
    has_session_name: bool = False
    #: Calls that ran a command, by tool use id.
    commands: dict[str, Event] = field(default_factory=dict)
    #: What clients recorded besides messages: the kind of record by event.
    records: dict[str, str] = field(default_factory=dict)
    messages: dict[Voice, int] = field(default_factory=dict)
    #: The last call of each planning tool, and each call that plans one task.
    plans: dict[str, Event] = field(default_factory=dict)
    # The following are set by `_weigh`.
    #: Weight of all occurrences of a key, and the word that shows it: in lower case if it occurs so.
    counts: dict[str, float] = field(default_factory=dict)
    word_of_key: dict[str, Word] = field(default_factory=dict)
    #: The words that can trigger a cue.
    cue_words: set[Word] = field(default_factory=set)
    #: Importance of each key in this stretch.
    salience: dict[str, float] = field(default_factory=dict)

    @cached_property
    def short_names(self) -> frozenset[str]:
        """The speakers' lower-case names and short forms."""
        names = [name for speaker in self.speakers for name in speaker.casefold().split()]
        return frozenset(name[:end] for name in names for end in {*range(3, len(name)), len(name)})

    @property
    def is_dialogue(self) -> bool:
        """Whether named people talk with each other."""
        return bool(self.speakers)


def read_stretch(events: Sequence[Event], repeated: frozenset[int] = frozenset()) -> Stretch:
    """Return the material of a summary in order of time.

    Left out are recaps (unless nothing else is said), a client's notices, and a session's summary that belongs to another
    message; at most 1,500 sentences are read. Sentences with a hash among `repeated` are chatter.
    """
    events = sorted(events, key=_ORDER)
    stretch = _begin_stretch(events, repeated)
    for event, voice, is_read_recap in _iter_messages(events, stretch.records):
        stretch.has_session_name |= stretch.records.get(event.event_id, "") in NAMING_RECORDS
        if event.type is EventType.TOOL_CALL:
            _read_call(event, stretch)
        elif event.text and len(stretch.sentences) < MAX_SENTENCES:
            message = stretch.messages.get(voice, 0)
            stretch.messages[voice] = message + 1
            _read_spans(event, voice, message, _event_spans(event, voice, is_read_recap), stretch)
    for event in stretch.plans.values():
        _read_spans(event, _AGENT, stretch.messages.get(_AGENT, 0), _planned_spans(event.text), stretch)
    _weigh_words(stretch)
    return stretch


def _begin_stretch(events: Sequence[Event], repeated: frozenset[int] = frozenset()) -> Stretch:
    speakers = list(dict.fromkeys(" ".join(e.speaker.split()) for e in events if e.speaker.strip()))
    records: dict[str, str] = {e.event_id: record for e in events if e.metadata and (record := mark_of(e, RECORD))}
    return Stretch(speakers=speakers, repeated=repeated, records=records)


def _iter_messages(events: Sequence[Event], records: Mapping[str, str]) -> Iterator[tuple[Event, Voice, bool]]:
    """Yield (event, voice, whether it is a recap)."""
    recaps = {e.event_id for e in events if e.metadata and is_recap(e)}
    spoken = any(e.text and e.event_id not in recaps and e.event_id not in records for e in events)
    present = {e.source_id.partition("#")[0] for e in events}
    for event in events:
        record = records.get(event.event_id, "")
        # Clients file a session's summary with the next session: it belongs to the message it names.
        if record and (leaf := mark_of(event, LEAF)) and leaf not in present:
            continue
        is_read_recap = event.event_id in recaps
        if not (spoken and is_read_recap) and (not record or record in _CONTENT_RECORDS):
            yield event, _voice_of(event, record), is_read_recap


def _planned_spans(text: str) -> list[Span]:
    entries = [Span(*match.span(1), Shape.ITEM) for match in _ENTRY.finditer(text)]
    if entries:
        return entries[:_MAX_PLANNED]
    start = text.find(":") + 1
    start += len(text) - start - len(text[start:].lstrip())
    return [Span(s.start + start, s.end + start, Shape.ITEM) for s in find_spans(text[start:].split("\n", 1)[0])[:_PLAN_HEAD]]


def _event_spans(event: Event, voice: Voice, is_read_recap: bool, limit: int = sys.maxsize) -> list[Span]:
    if voice is _TOOL:
        return error_spans(event.text)[:limit]
    if is_read_recap:
        return [Span(s.start, s.end, Shape.ITEM) for s in statements_of(event.text)[:limit]]
    return reply_spans(event.text)[:limit] if "tool_use_id" in event.metadata else find_spans(event.text, limit)


def _voice_of(event: Event, record: str) -> Voice:
    if event.role is Role.TOOL or event.type in (EventType.TOOL_CALL, EventType.TOOL_RESULT):
        return _TOOL
    # Notes count as a user's words, a client's records do not.
    if event.role is Role.USER or (event.type is EventType.NOTE and not record):
        return _USER
    return _AGENT


def _read_spans(event: Event, voice: Voice, message: int, spans: list[Span], stretch: Stretch) -> None:
    narrates = voice is _AGENT and not event.speaker
    text, weight, tally, sentences = without_marks(event.text), _COUNTS[voice], stretch.tally, stretch.sentences
    repeated, names, streak = stretch.repeated, stretch.short_names, 0
    cjk = has_cjk(text if len(text) <= HEAD + TAIL else text[:HEAD] + text[-TAIL:])
    for index, (start, end, shape) in enumerate(spans):
        tokens = tokens_of(text[start:end])
        if cjk:
            tokens += cjk_runs(text[start:end])
        spoken_words = list(map(lookup_word, tokens))
        may_be = OPENERS[tokens[0]] if tokens else MAY_BE_CHATTER
        chatter = bool(may_be & _ANYWHERE or (may_be and index == 0)) and is_chatter(text, start, end, narrates, index == 0)
        # What follows in a message of which all that is counted is repeated belongs to the same prompt of a machine.
        is_repeated = streak > 0 and index >= MAX_OPENINGS
        if repeated and not is_repeated and not chatter and _may_name(event, voice, index, spoken_words):
            is_repeated = sentence_hash(text[start:end], names) in repeated
            streak = streak + 1 if is_repeated and streak >= 0 else -1
        # A few words with the name of somebody who takes part are how one begins to speak to them, in any language.
        is_address = (
            bool(names)
            and index == 0
            and len(spans) > 1
            and len(tokens) <= MAX_ADDRESS
            and not names.isdisjoint(_fold_tokens(tokens))
        )
        chatter = chatter or is_repeated or is_address
        aside = chatter or (len(tokens) <= MAX_ASIDE and not cjk) or is_bracketed(text, start, end)
        factor = _REPEATED_COUNTS if is_repeated else _CHATTER_COUNTS if aside else 1.0
        tally.setdefault(weight * factor, []).extend(spoken_words)
        sentences.append(Sentence(event, start, end, shape, voice, spoken_words, message, index, chatter))


def _fold_tokens(tokens: Sequence[str]) -> Iterator[str]:
    for token in tokens:
        yield token.casefold().rstrip(".-/:@+\\#")


def openings_of(events: Sequence[Event]) -> frozenset[int]:
    """Return hashes of sentences that may name a stretch.

    Events may be in any order. Of people's sentences and the first ones of replies 16 are read. They are not fewer when the
    stretch grows.
    """
    events = sorted(events, key=_ORDER)
    stretch = _begin_stretch(events)
    openings: set[int] = set()
    spans_left = MAX_OPENINGS
    for event, voice, is_read_recap in _iter_messages(events, stretch.records):
        if event.text and (event.speaker or (voice is not _TOOL and event.type is not EventType.TOOL_CALL)):
            first = _event_spans(event, voice, is_read_recap, spans_left if voice is _USER or event.speaker else 1)
            _read_spans(event, voice, 0, first, stretch)
            text = without_marks(event.text)
            openings.update(
                sentence_hash(text[s.start : s.end], stretch.short_names)
                for s in stretch.sentences
                if not s.is_chatter and _may_name(event, voice, s.index, s.words)
            )
            stretch.sentences.clear()
            spans_left -= len(first)
            if spans_left <= 0:
                break
    return frozenset(openings)


def _may_name(event: Event, voice: Voice, index: int, spoken_words: Sequence[Word]) -> bool:
    """Return whether a sentence may name its stretch."""
    is_first = voice is _USER or bool(event.speaker) or (voice is _AGENT and index == 0)
    return is_first and len({word for word in spoken_words if word.weight > MIN_TELLING_WEIGHT}) > 1


def sentence_hash(text: str, names: Container[str]) -> int:
    """Return the hash of a sentence without `names`."""
    return term_hash("\0" + " ".join([word for word in _LETTERS.findall(text.casefold()) if word not in names]))


def _read_call(event: Event, stretch: Stretch) -> None:
    metadata = event.metadata
    name = metadata.get("tool") or re.split(r"[\s(:{]", event.text.strip()[:60], maxsplit=1)[0]
    name = clean_text(name)[:40] or "tool"
    stretch.tools[name] = stretch.tools.get(name, 0) + 1
    if metadata.get("command") and metadata.get("tool_use_id"):
        stretch.commands[metadata["tool_use_id"]] = event
    if name in _PLANS:
        # A to-do list is repeated when it changes; a task is created once.
        stretch.plans[event.event_id if name == "TaskCreate" else name] = event
    paths = filter(None, _FILE.findall(f"{metadata.get('files', '')[:CALL_HEAD]} {event.text[:CALL_HEAD]}"))
    for path in islice(paths, 8):
        stretch.tally.setdefault(_COUNTS[_TOOL], []).extend(read_words(path))


#: Share of words that the background table does not know, from which the language is another: of English 0.01, of others 0.4.
_FOREIGN = 0.2
#: Share of all occurrences from which a word is one of its language's commonest; characters of short words and shorter ones.
_OFTEN, _SHORT, _SHORTER = 0.012, 5, 3


def _lower_common_words(counts: Mapping[str, float], words: Mapping[str, Word], salience: dict[str, float]) -> None:
    """In every language these are the words that say least."""
    total = sum(counts.values()) or 1.0
    for key, count in counts.items():
        word = words[key]
        if word.code or word.spelling.isupper():
            continue
        length = len(word.spelling)
        factor = 0.05 if length <= _SHORTER else 0.4 if length < _SHORT else 1.0
        salience[key] *= factor * (0.3 if count >= 4 and count > _OFTEN * total and not word.capital else 1.0)


#: Exponent of the number of occurrences (chosen on the tuning half of bench/titles.py).
REPETITION = 0.7


def _weigh_words(stretch: Stretch) -> None:
    counts, word_of_key, cued = stretch.counts, stretch.word_of_key, stretch.cue_words
    unknown = total = 0
    for worth, spoken_words in stretch.tally.items():
        for word, times in Counter(spoken_words).items():
            if word.cues:
                cued.add(word)
            total += times
            if not (key := word.key):
                continue
            if word.weight == 1.0:
                unknown += times
            if key not in counts:
                counts[key] = times * worth
                word_of_key[key] = word
                continue
            counts[key] += times * worth
            if word_of_key[key].capital and not word.capital:
                word_of_key[key] = word
    salience = stretch.salience = {key: word_of_key[key].rarity * count**REPETITION for key, count in counts.items()}
    if unknown > _FOREIGN * total:
        _lower_common_words(counts, word_of_key, salience)
    name_keys = {word.key for name in stretch.speakers for word in read_words(name) if word.key}
    for key in counts if name_keys else ():
        # A speaker's name, or its short form of 3 letters or more.
        if any(key == name or (len(key) >= 3 and name.startswith(key)) for name in name_keys):
            salience[key] = 0.0
    # Adding 0 for the many words that do not count is cheaper than filtering them.
    salience[""] = 0.0
    tells = salience.__getitem__
    for s in stretch.sentences:
        # Summed in reading order: a set's order, and with it the last bit of the sum, differs between processes.
        s.information = sum(map(tells, dict.fromkeys(map(_KEY, s.words)))) / (6.0 + len(s.words)) ** 0.75
    del salience[""]
