"""Events in, the material of a summary out: their sentences, and how often each word stands in them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter

from memory_mcp.model.event import Event, EventType, Role, is_recap
from memory_mcp.summarize.kinds import MAY_BE_CHATTER, MAY_NOTIFY, OPENERS, is_chatter
from memory_mcp.summarize.recap import statements_of
from memory_mcp.summarize.sentences import HEAD, TAIL, Shape, Span, clean, error_spans, spans, without_marks
from memory_mcp.summarize.vocabulary import Word, cjk_runs, has_cjk, learn, tokens_of, words

#: A stretch is 4,000 tokens, except where one message is longer; more sentences than this are not weighed.
MAX_SENTENCES = 1_500
#: Records of a client that somebody wrote; what others say (that room was made, that a limit was reached) is the client's own.
_TELLING = frozenset({"thinking", "summary", "title", "plan", "pull request"})
#: Those in which a client, its model or its user named the session.
NAMES = frozenset({"summary", "title"})
#: Characters of a tool call that name the tool, its files and its command.
CALL_HEAD = 300


#: Tools whose calls say in words what is to be done, and how many of these words' sentences are read.
_PLANS = frozenset({"TaskCreate", "TodoWrite", "ExitPlanMode", "update_plan"})
_MAX_PLANNED, _PLAN_HEAD = 12, 1
_ENTRY = re.compile(r"^\[[x~ ]\] (\S.{5,300})$", re.M)


class Voice(IntEnum):
    """Who a sentence comes from."""

    TOOL = 0
    AGENT = 1
    USER = 2


_TOOL, _AGENT, _USER = Voice
#: How much one occurrence of a word counts, by voice: what the user names is what the stretch is about.
_COUNTS = {Voice.TOOL: 0.3, Voice.AGENT: 1.0, Voice.USER: 2.0}
#: Narration and greetings count this much of it.
_CHATTER_COUNTS = 0.3
#: A sentence of so few words is an exclamation: its words count as chatter's do, and so do a transcriber's, in brackets.
MAX_ASIDE = 3
_ANYWHERE = MAY_BE_CHATTER | MAY_NOTIFY
_KEY = attrgetter("key")
_ORDER = attrgetter("timestamp", "event_id")
_FILE = re.compile(r"(?:[\w.@\-+]*[/\\])*[\w\-+@.]*\w\.[A-Za-z]\w{0,7}(?![\w/(])")


@dataclass(slots=True)
class Sentence:
    """One sentence of one event; `start` and `end` place its original words."""

    event: Event
    start: int
    end: int
    shape: Shape
    voice: Voice
    words: list[Word]
    #: Its message's place among those of its voice, from 0, and its own place in the message.
    message: int
    place: int
    chatter: bool
    #: How much its telling words say for its length, set when the whole stretch is read.
    information: float = 0.0
    cues: int = 0
    _text: str | None = None

    @property
    def text(self) -> str:
        """Cleaned for reading; made when first asked for, since most sentences never are."""
        if self._text is None:
            self._text = clean(self.event.text[self.start : self.end])
        return self._text

    @property
    def keys(self) -> set[str]:
        """The keys of its words, of those that count."""
        found = {word.key for word in self.words}
        found.discard("")
        return found

    @property
    def speaker(self) -> str:
        """The name of whoever said it, where the source has names."""
        return " ".join(self.event.speaker.split())


@dataclass(slots=True)
class Stretch:
    """A read stretch."""

    sentences: list[Sentence] = field(default_factory=list)
    #: All words in reading order, by what one occurrence is worth.
    tally: dict[float, list[Word]] = field(default_factory=dict)
    #: Names of people who speak.
    speakers: list[str] = field(default_factory=list)
    tools: dict[str, int] = field(default_factory=dict)
    #: Whether a client named the session here.
    named: bool = False
    #: The calls that ran a command, by the id their result names.
    commands: dict[str, Event] = field(default_factory=dict)
    messages: dict[Voice, int] = field(default_factory=dict)
    #: The last call of each tool that says what is planned, and each call that says one task of it.
    plans: dict[str, Event] = field(default_factory=dict)
    # What follows is set by `_weigh`.
    #: Worth of all occurrences of a key, and the word that shows it: lower case where it was ever written so.
    counts: dict[str, float] = field(default_factory=dict)
    shown: dict[str, Word] = field(default_factory=dict)
    #: The words that may announce something.
    cued: set[Word] = field(default_factory=set)
    #: How much each key tells about this stretch.
    salience: dict[str, float] = field(default_factory=dict)

    @property
    def is_dialogue(self) -> bool:
        """People talk with each other: their names matter, and nobody is the user."""
        return bool(self.speakers)


def read(events: Sequence[Event]) -> Stretch:
    """Everything the summary is made of, in the order of the events' times."""
    events = sorted(events, key=_ORDER)
    stretch = Stretch(speakers=list(dict.fromkeys(" ".join(e.speaker.split()) for e in events if e.speaker.strip())))
    spoken = any(e.text and not is_recap(e) and "record" not in e.metadata for e in events)
    present = {e.source_id.partition("#")[0] for e in events}
    for event in events:
        # Clients file a session's summary with whatever session comes next: it tells of the message it names.
        if event.metadata.get("leaf", "") and event.metadata["leaf"] not in present:
            continue
        if (spoken and is_recap(event)) or event.metadata.get("record", "thinking") not in _TELLING:
            continue
        stretch.named |= event.metadata.get("record") in NAMES
        voice = _voice(event)
        if event.type is EventType.TOOL_CALL:
            _read_call(event, stretch)
        elif event.text and len(stretch.sentences) < MAX_SENTENCES:
            message = stretch.messages.get(voice, 0)
            stretch.messages[voice] = message + 1
            found = _spans(event, voice)
            _read_spans(event, voice, message, found, stretch)
    for event in stretch.plans.values():
        _read_spans(event, _AGENT, stretch.messages.get(_AGENT, 0), _planned(event.text), stretch)
    _weigh(stretch)
    return stretch


def _planned(text: str) -> list[Span]:
    """What a call plans: the entries of a list of things to do, a task's subject, the first lines of a plan."""
    entries = [Span(*match.span(1), Shape.ITEM) for match in _ENTRY.finditer(text)]
    if entries:
        return entries[:_MAX_PLANNED]
    start = text.find(":") + 1
    start += len(text) - start - len(text[start:].lstrip())
    return [Span(s.start + start, s.end + start, Shape.ITEM) for s in spans(text[start:].split("\n", 1)[0])[:_PLAN_HEAD]]


def _spans(event: Event, voice: Voice) -> list[Span]:
    if voice is _TOOL:
        return error_spans(event.text)
    if is_recap(event):
        return [Span(s.start, s.end, Shape.ITEM) for s in statements_of(event.text)]
    return spans(event.text)


def _voice(event: Event) -> Voice:
    if event.role is Role.TOOL or event.type in (EventType.TOOL_CALL, EventType.TOOL_RESULT):
        return _TOOL
    # What somebody noted counts as a user's words; what a client filed as a record does not.
    if event.role is Role.USER or (event.type is EventType.NOTE and "record" not in event.metadata):
        return _USER
    return _AGENT


def _read_spans(event: Event, voice: Voice, message: int, found: list[Span], stretch: Stretch) -> None:
    narrates = voice is _AGENT and not event.speaker
    text, worth, tally, sentences = without_marks(event.text), _COUNTS[voice], stretch.tally, stretch.sentences
    cjk = has_cjk(text if len(text) <= HEAD + TAIL else text[:HEAD] + text[-TAIL:])
    for place, (start, end, shape) in enumerate(found):
        tokens = tokens_of(text[start:end])
        if cjk:
            tokens += cjk_runs(text[start:end])
        held = list(map(learn, tokens))
        may_be = OPENERS[tokens[0]] if tokens else MAY_BE_CHATTER
        chatter = bool(may_be & _ANYWHERE or (may_be and place == 0)) and is_chatter(text, start, end, narrates, place == 0)
        aside = chatter or (len(tokens) <= MAX_ASIDE and not cjk) or text[start] == "["
        tally.setdefault(worth * _CHATTER_COUNTS if aside else worth, []).extend(held)
        sentences.append(Sentence(event, start, end, shape, voice, held, message, place, chatter))


def _read_call(event: Event, stretch: Stretch) -> None:
    """A call gives its tool's name and the files it names."""
    told = event.metadata
    name = told.get("tool") or re.split(r"[\s(:{]", event.text.strip()[:60], maxsplit=1)[0]
    name = clean(name)[:40] or "tool"
    stretch.tools[name] = stretch.tools.get(name, 0) + 1
    if told.get("command") and told.get("tool_use_id"):
        stretch.commands[told["tool_use_id"]] = event
    if name in _PLANS:
        # A list is called anew when it changes; a task is called once.
        stretch.plans[event.event_id if name == "TaskCreate" else name] = event
    for path in _FILE.findall(f"{told.get('files', '')[:CALL_HEAD]} {event.text[:CALL_HEAD]}")[:8]:
        stretch.tally.setdefault(_COUNTS[_TOOL], []).extend(words(path))


def _names(stretch: Stretch) -> list[str]:
    """Keys of the speakers' names and of their short forms: they tell who speaks, not of what."""
    full = {word.key for name in stretch.speakers for word in words(name) if word.key}
    if not full:
        return []
    return [key for key in stretch.counts if any(key == name or (len(key) >= 3 and name.startswith(key)) for name in full)]


#: How sharply repetition counts (chosen on the tuning half of bench/titles.py).
REPETITION = 0.7


def _weigh(stretch: Stretch) -> None:
    counts, shown, cued = stretch.counts, stretch.shown, stretch.cued
    for worth, held in stretch.tally.items():
        for word, times in Counter(held).items():
            if word.cues:
                cued.add(word)
            if not (key := word.key):
                continue
            if key not in counts:
                counts[key] = times * worth
                shown[key] = word
                continue
            counts[key] += times * worth
            if shown[key].capital and not word.capital:
                shown[key] = word
    salience = stretch.salience = {key: shown[key].rarity * count**REPETITION for key, count in counts.items()}
    for key in _names(stretch):
        salience[key] = 0.0
    # Words that must not be counted are many: it is cheaper to add nothing for them than to leave them out.
    salience[""] = 0.0
    tells = salience.__getitem__
    for s in stretch.sentences:
        # Added up in reading order: a set's order changes from process to process, and with it the last bit of the sum.
        s.information = sum(map(tells, dict.fromkeys(map(_KEY, s.words)))) / (6.0 + len(s.words)) ** 0.75
    del salience[""]
