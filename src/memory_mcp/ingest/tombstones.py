"""Keyed hashes of what was forgotten: a text is recognised by them, wherever it comes from.

Invariants
1. Lines hold lengths, times and keyed hashes; the key lies beside them. Both are in files of the data directory, or in the
   database where several processes have it open; a backup has both, so that what was forgotten does not come back to a store
   that was restored elsewhere.
2. Lines are only added, and are on disk when `add` returns.
3. A value is known again inside other text, in other case, white space, punctuation, look-alikes, with invisible characters
   between, and in escapes, entities and base64; said in other words or letters (rot13, leet, backwards) it is not.
4. Every reader sees what was added by any process with its next question; with nothing forgotten a question costs a look
   for the file.

Who has the key and the lines can try values out: both are as private as the memory itself.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.ingest.decoding import LAYERS, decode_layer, decode_layers, iter_encoded
from memory_mcp.ingest.respelling import JOINS_WORDS, Spelled, key_of, replace_spans, runs, spelled
from memory_mcp.ingest.restating import Restatements, Sketch, WindowHasher
from memory_mcp.ingest.tombstone_file import KEY_BYTES, TombstoneFile, find_line_values
from memory_mcp.model.event import Event, EventDraft, states_time
from memory_mcp.model.sentinel import FORGOTTEN

if TYPE_CHECKING:
    import numpy as np

    from memory_mcp.storage.records import TombstoneLog

#: The text in place of a forgotten value.
MARK = FORGOTTEN
#: Letters and digits that a value needs at least: a shorter one occurs inside unrelated words.
SHORTEST = 4
#: As many characters of Chinese are a name.
_SHORTEST_HAN = 2
#: A text of fewer letters and digits says nothing by itself, such as "yes, go on".
_SAYS_SOMETHING = 24
#: Windows of this many characters are looked for first; values that are shorter than the longer one have the shorter.
_GRAMS = (JOINS_WORDS, SHORTEST, _SHORTEST_HAN)
#: Bits kept of a window's hash: enough to skip all but 1 of 1,000 places with 1,000 values, too few to reveal it.
_BITS = 20
#: Longest text whose result is cached (characters), and number of cached texts.
_SHORT, _REMEMBERED = 200, 2000
_HASH_BYTES = 16
#: Fields of an event that are cleaned beside its text and metadata.
NAMES = ("session_id", "source_id", "agent", "project", "thread", "speaker")


@dataclass(frozen=True, slots=True)
class Range:
    """Everything said in a time span in a session, a project or all of them; UTC ms, both ends included."""

    since: int
    until: int
    session: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Parts of one text of an event, its own or one beside it; where they begin and end in it."""

    event: Event
    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Wanted:
    """What to forget, in clear text: never written to disk."""

    values: Sequence[str] = ()
    events: Sequence[Event] = ()
    ranges: Sequence[Range] = ()
    cuts: Sequence[Cut] = ()
    #: Of texts whose restatements are refused from now on.
    sketches: Sequence[Sketch] = ()


@dataclass(slots=True)
class _Known:
    """The parsed lines of the file."""

    #: Of each window length its values: by what is kept of the window's hash, lengths and hashes.
    values: dict[int, dict[int, set[tuple[int, int, str]]]] = field(default_factory=lambda: {gram: {} for gram in _GRAMS})
    marks: set[str] = field(default_factory=set)
    #: By the hash of a text which parts of it are forgotten, and marks of events whose own text that was.
    cuts: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    partly: set[str] = field(default_factory=set)
    #: Since and until by hash of session and project.
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    filters: "dict[int, np.ndarray]" = field(default_factory=dict)
    #: Hashes of sessions and projects, and what short texts are cleaned to: names and fields come again and again.
    scopes: dict[tuple[str | None, str | None], str] = field(default_factory=dict)
    short: dict[str, str] = field(default_factory=dict)
    restatements: Restatements = field(default_factory=Restatements)

    @property
    def has_values(self) -> bool:
        """Whether any text could hold a forgotten value."""
        return bool(self.cuts) or any(self.values.values())


class Tombstones:
    """The tombstones of one memory. Any thread may ask."""

    def __init__(self, directory: Path | None, log: "TombstoneLog | None" = None) -> None:
        """Keep them in a log, or in files of the data directory; with neither nothing was ever forgotten."""
        self._log: TombstoneLog | None = log or (TombstoneFile(directory) if directory else None)
        self._key = b""
        self._stamp: object = None
        self._known = _Known()
        self._hasher: WindowHasher | None = None

    @classmethod
    def tried(cls, request: Wanted) -> Self:
        """Return the tombstones of a dry run, with a random key, nothing written. Raises InvalidQuery for too short a value."""
        tombstones = cls(None)
        tombstones._key = secrets.token_bytes(KEY_BYTES)
        for line in tombstones._lines(request):
            _take(tombstones._known, line)
        return tombstones

    @property
    def empty(self) -> bool:
        """Whether nothing was ever forgotten here, by any process."""
        self._reread()
        return not (self._known.marks or self._known.ranges or self._known.has_values)

    def add(self, request: Wanted) -> None:
        """Remember what to forget, on disk when this returns; raises InvalidQuery, and adds nothing, for too short a value."""
        assert self._log is not None
        self._reread()
        self._key = self._key or self._log.load_key()
        self._log.add_lines([json.dumps(line) for line in self._lines(request)])

    def lift_lines(self, named_count: int) -> int:
        """Take back values that earlier versions noted for lines of events; return how many. `named_count`: by a person, ever."""
        if self.empty or self._log is None:
            return 0
        lifted = find_line_values(self._log.read_lines(), named_count)
        if lifted:
            self._log.add_lines([json.dumps({"lifted": lifted})])
        return len(lifted)

    def refuses(self, draft: EventDraft) -> bool:
        """Return whether what arrives may not be stored: it was forgotten as a whole, or restates what was."""
        return not self.empty and (self._covers(draft) or self.restates(draft.text))

    def restates(self, text: str) -> bool:
        """Return whether a text says again the greater part of a forgotten one."""
        self._reread()
        restatements = self._known.restatements
        return bool(restatements) and restatements.matches(self.hasher().hashes(text))

    def hasher(self) -> WindowHasher:
        """Return what hashes windows of words under the key, which is made where there is none."""
        if self._log is not None:
            self._key = self._key or self._log.load_key()
        if self._hasher is None or self._hasher.key != self._key:
            self._hasher = WindowHasher(self._key)
        return self._hasher

    def covers(self, what: EventDraft | Event) -> bool:
        """Return whether an event was forgotten as a whole: by its id, its source's id, its words in its session, or its time.

        Also if parts of its text were forgotten which cannot be found in this form of it.
        """
        return not self.empty and self._covers(what)

    def _covers(self, what: EventDraft | Event) -> bool:
        """Return whether an event was forgotten as a whole, by the lines as last read; as `covers`."""
        index = self._known
        if (index.marks and not index.marks.isdisjoint(self._marks(what))) or self._in_range(what):
            return True
        # Its text in another form: the forgotten part cannot be found.
        return bool(index.partly) and self._source(what) in index.partly and MARK not in self._clean(what.text)

    def clean_text(self, text: str) -> str:
        """Return `text` with `MARK` in place of every forgotten value and part; also where it is written otherwise or encoded."""
        return self._clean(text) if not self.empty and self._known.has_values else text

    def _clean(self, text: str) -> str:
        """Return a text with `MARK` for what was forgotten, by the lines as last read; up to 200 characters are cached."""
        if len(text) > _SHORT:
            return self._marked(text)
        short = self._known.short
        if (clean := short.get(text)) is None:
            if len(short) >= _REMEMBERED:
                short.clear()
            clean = short[text] = self._marked(text)
        return clean

    def _marked(self, text: str) -> str:
        """Return a text with `MARK` in place of forgotten parts and values; marks that are in it already stay."""
        cuts = self._known.cuts
        for start, end in reversed(cuts.get(self._hash("cut", text), ()) if cuts else ()):
            text = text[:start] + MARK + text[end:]
        # Marks of forgotten values are not searched.
        return MARK.join(map(self._cleaned, text.split(MARK)))

    def _cleaned(self, text: str) -> str:
        """Return a text without forgotten values, plain or encoded; base64 or hexadecimal that holds one goes whole."""
        if spans := self._spans(key_of(text)):
            text = replace_spans(text, spelled(text), spans, MARK)
        text = self._unwrapped(text)
        for start, end, content in reversed(list(iter_encoded(text))):
            if spans := self._spans(key_of(content)):
                is_part = replace_spans(content, spelled(content), spans, MARK) == content
                text = text if is_part else text[:start] + MARK + text[end:]
        return text

    def _unwrapped(self, text: str) -> str:
        """Return a text without forgotten values that are written in entities, escapes and the like, up to 3 layers deep."""
        plain = text
        for layers in range(1, LAYERS + 1):
            wrapped, plain = plain, decode_layer(plain)
            if plain == wrapped:
                break
            if spans := self._spans(key_of(plain)):
                inner = decode_layers(text, layers)
                inner_key = spelled(inner.text)
                places = Spelled(inner_key.key, tuple(inner.begins[i] for i in inner_key.places), inner_key.words)
                ends = tuple(inner.ends[i] for i in inner_key.places)
                clean = replace_spans(text, places, spans, MARK, ends)
                if clean != text:
                    return self._unwrapped(clean)
        return text

    def _spans(self, key: str) -> list[tuple[int, int, int]]:
        """Return (start, end, number of words) of each forgotten value in a normalized text; they may overlap."""
        return [span for gram in _GRAMS for span in self._found(key, gram)]

    def clean_event(self, event: Event) -> Event | None:
        """Return an event without forgotten text, itself if unchanged; None if it was forgotten whole or no letter is left."""
        if self.empty:
            return event
        if self._covers(event):
            return None
        if not self._known.has_values:
            return event
        text = self._clean(event.text)
        if text != event.text and not key_of(text.replace(MARK, "")):
            return None
        metadata = {self._clean(k): self._clean(v) for k, v in event.metadata.items()}
        names: dict[str, Any] = {name: self._clean(getattr(event, name)) for name in NAMES}
        clean = replace(event, text=text, metadata=metadata, **names)
        return event if clean == event else clean

    def _found(self, key: str, gram: int) -> Iterable[tuple[int, int, int]]:
        """Yield (start, end, number of words) of each forgotten value in `key` whose windows have `gram` characters."""
        values = self._known.values[gram]
        if not values or len(key) < gram:
            return
        hashes = self._grams(key, gram)
        has_value = self._known.filters.get(gram)
        if has_value is None:
            import numpy as np

            has_value = np.zeros(1 << _BITS, dtype=np.bool_)
            has_value[list(self._known.values[gram])] = True
            self._known.filters[gram] = has_value
        for start in has_value[hashes].nonzero()[0].tolist():
            for length, tokens, value_hash in values[int(hashes[start])]:
                if start + length <= len(key) and self._hash("value", key[start : start + length]) == value_hash:
                    yield start, start + length, tokens

    def _grams(self, key: str, gram: int) -> "np.ndarray":
        """Return the kept bits of the keyed hash of each window of `gram` characters: `(len(key) - gram + 1,) int64`."""
        import numpy as np

        codes = np.frombuffer(key.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
        base = int.from_bytes(hashlib.blake2b(b"gram", key=self._key, digest_size=8).digest(), "big") | 1
        # A window's hash is that of its first part times a power of the base, and that of its second part: in few steps.
        total, length, two, power = codes[:0], 0, codes * np.uint64(base), 1
        bits = gram
        while True:
            if bits & 1:
                head = np.uint64(pow(base, length, 1 << 64))
                total = two[: len(codes) - length - power + 1] * head + total[power:] if length else two
                length += power
            if not (bits := bits >> 1):
                return (total[: len(codes) - gram + 1] >> np.uint64(64 - _BITS)).astype(np.int64)
            two = two[:-power] * np.uint64(pow(base, power, 1 << 64)) + two[power:]
            power *= 2

    def _hash(self, *parts: str) -> str:
        """Return the keyed hash of several texts, 32 hexadecimal digits; how they are split counts."""
        raw = [part.encode("utf-8", "surrogatepass") for part in parts]
        data = b"".join(len(part).to_bytes(4, "big") + part for part in raw)
        return hashlib.blake2b(data, key=self._key, digest_size=_HASH_BYTES).hexdigest()

    def _marks(self, what: EventDraft | Event) -> list[str]:
        """Return two to four keyed hashes of an event: of its id, its source's id, its words in its session, and at its time."""
        marks = [self._hash("id", what.event_id)] if isinstance(what, Event) else []
        marks += filter(None, [self._source(what)])
        words = key_of(what.text)
        if len(words) >= _SAYS_SOMETHING:
            marks.append(self._hash("said", what.session_id, words))
        elif not what.source_id:
            marks.append(self._hash("said", what.session_id, words, what.role, str(what.timestamp)))
        if what.timestamp is not None and states_time(what.metadata):
            marks.append(self._hash("copied", words, what.role, str(what.timestamp)))
        return marks

    def _source(self, what: EventDraft | Event) -> str:
        """Return the hash of an event's own id at its source; "" where it has none."""
        return self._hash("source", what.session_id, what.source_id) if what.source_id else ""

    def _in_range(self, what: EventDraft | Event) -> bool:
        """Return whether an event is in a forgotten span of time of its session, its project or all.

        One without a time is in every span of its session or project.
        """
        if not self._known.ranges:
            return False
        recorded = what.recorded_project if isinstance(what, Event) and what.recorded_project is not None else what.project
        for session in (None, what.session_id):
            for project in dict.fromkeys((None, recorded, what.project)):
                for since, until in self._known.ranges.get(self._scope(session, project), ()):
                    # What has no time of its own belongs to its session or project, and to no time.
                    if bool(session or project) if what.timestamp is None else since <= what.timestamp <= until:
                        return True
        return False

    def _scope(self, session: str | None, project: str | None) -> str:
        """Return the keyed hash of a session and a project, cached; None means all."""
        scopes = self._known.scopes
        if (scope_hash := scopes.get((session, project))) is None:
            if len(scopes) >= _REMEMBERED:
                scopes.clear()
            parts = ("*" if part is None else f"={part}" for part in (session, project))
            scope_hash = scopes[session, project] = self._hash("scope", *parts)
        return scope_hash

    def _lines(self, request: Wanted) -> Iterable[dict[str, Any]]:
        """Yield the lines to write as dicts. Raises InvalidQuery for a value under 4 letters or digits (2 if all are Chinese)."""
        for value in request.values:
            key, length = key_of(value), len(key_of(value))
            is_han = all("\u3400" <= character <= "\u9fff" for character in key)
            if length < (_SHORTEST_HAN if is_han else SHORTEST):
                hint = "A shorter value stands inside other words: forget the events that hold it."
                raise InvalidQuery(f"a value to forget needs at least {SHORTEST} letters or digits", hint)
            gram = next(g for g in _GRAMS if length >= g)
            start = int(self._grams(key[:gram], gram)[0])
            yield {"value": self._hash("value", key), "length": length, "tokens": runs(value), "gram": [gram, start]}
        for event in request.events:
            # Earlier versions wrote values, the lines of its text, before it.
            yield {"event": self._marks(event), "v": 2}
        for cut in request.cuts:
            partly = self._source(cut.event) if cut.text == cut.event.text else ""
            yield {"cut": self._hash("cut", cut.text), "spans": cut.spans, "partly": partly}
        for span in request.ranges:
            yield {"scope": self._scope(span.session, span.project), "since": span.since, "until": span.until}
        for sketch in request.sketches:
            yield {"windows": sketch.encode()}

    def _reread(self) -> None:
        """Read the lines anew if they have changed since they were last read; those that cannot be understood are passed over."""
        if self._log is None:
            return
        stamp = self._log.get_stamp()
        if stamp == self._stamp:
            return
        index = _Known()
        lines = self._log.read_lines()
        if lines:
            self._key = self._log.load_key()
        for raw in lines:
            # A crash may have cut a line in two: what it was for was never said to be forgotten.
            with suppress(ValueError, KeyError, TypeError):
                _take(index, json.loads(raw))
        self._known, self._stamp = index, stamp


def _take(index: _Known, line: dict[str, Any]) -> None:
    """Add a line, as `_lines` makes it, to what is known. Raises KeyError, ValueError or TypeError for one of another form."""
    if "value" in line:
        gram, start = line["gram"]
        index.values[gram].setdefault(int(start), set()).add((int(line["length"]), int(line["tokens"]), str(line["value"])))
    elif "event" in line:
        index.marks.update(line["event"])
    elif "cut" in line:
        index.cuts[line["cut"]] = [(int(start), int(end)) for start, end in line["spans"]]
        index.partly.update({line["partly"]} - {""})
    elif "windows" in line:
        index.restatements.add(Sketch.decode(*line["windows"]))
    elif "lifted" in line:
        for gram, start, length, tokens, value in line["lifted"]:
            index.values[gram].get(start, set()).discard((length, tokens, value))
    else:
        index.ranges.setdefault(line["scope"], []).append((int(line["since"]), int(line["until"])))
