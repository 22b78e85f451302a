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
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.capture.respelling import JOINS_WORDS, NormalizedText, count_runs, normalize_key, normalize_text, replace_spans
from memory_mcp.capture.restating import RestatementIndex, Sketch, WindowHasher
from memory_mcp.capture.tombstone_file import KEY_BYTES, TombstoneFile, find_old_values
from memory_mcp.importers.decoding import LAYERS, decode_layer, decode_layers, iter_encoded
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
_SHORTEST_TELLING = 24
#: Windows of this many characters are looked for first; values that are shorter than the longer one have the shorter.
_GRAMS = (JOINS_WORDS, SHORTEST, _SHORTEST_HAN)
#: Bits kept of a window's hash: enough to skip all but 1 of 1,000 places with 1,000 values, too few to reveal it.
_BITS = 20
#: Longest text whose result is cached (characters), and number of cached texts.
_LONGEST_CACHED, _CACHED_TEXTS = 200, 2000
_HASH_BYTES = 16
#: Fields of an event that are cleaned beside its text and metadata.
NAMES = ("session_id", "source_id", "agent", "project", "thread", "speaker")


@dataclass(frozen=True, slots=True)
class TimeRange:
    """What was said in a time span (UTC ms, inclusive).

    `session` or `project` None: all of them.
    """

    since: int
    until: int
    session: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class TextCut:
    """Forgotten parts of one text of an event, by their places."""

    event: Event
    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class ForgetRequest:
    """What to forget, in clear text: never written to disk."""

    values: Sequence[str] = ()
    events: Sequence[Event] = ()
    ranges: Sequence[TimeRange] = ()
    cuts: Sequence[TextCut] = ()
    #: Of texts whose restatements are refused from now on.
    sketches: Sequence[Sketch] = ()


@dataclass(slots=True)
class _TombstoneIndex:
    #: Of each window length its values: by what is kept of the window's hash, lengths and hashes.
    values: dict[int, dict[int, set[tuple[int, int, str]]]] = field(default_factory=lambda: {gram: {} for gram in _GRAMS})
    marks: set[str] = field(default_factory=set)
    #: By the hash of a text which parts of it are forgotten, and marks of events whose own text that was.
    cuts: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    partial_sources: set[str] = field(default_factory=set)
    #: Since and until by hash of session and project.
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    filters: "dict[int, np.ndarray]" = field(default_factory=dict)
    #: Hashes of sessions and projects, and what short texts are cleaned to: names and fields come again and again.
    scopes: dict[tuple[str | None, str | None], str] = field(default_factory=dict)
    short_texts: dict[str, str] = field(default_factory=dict)
    restatements: RestatementIndex = field(default_factory=RestatementIndex)

    @property
    def has_values(self) -> bool:
        return bool(self.cuts) or any(self.values.values())


class Tombstones:
    """The tombstones of one memory. Any thread may ask."""

    def __init__(self, directory: Path | None, log: "TombstoneLog | None" = None) -> None:
        """Keep them in a log, or in files of the data directory."""
        self._log: TombstoneLog | None = log or (TombstoneFile(directory) if directory else None)
        self._key = b""
        self._stamp: object = None
        self._index = _TombstoneIndex()
        self._hasher: WindowHasher | None = None

    @classmethod
    def preview(cls, request: ForgetRequest) -> Self:
        """Return tombstones of a dry run; InvalidQuery for short values."""
        tombstones = cls(None)
        tombstones._key = secrets.token_bytes(KEY_BYTES)
        for line in tombstones._iter_lines(request):
            _add_line(tombstones._index, line)
        return tombstones

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever forgotten here, by any process."""
        self._reload()
        return not (self._index.marks or self._index.ranges or self._index.has_values)

    def add(self, request: ForgetRequest) -> None:
        """Remember what to forget; it is on disk at return.

        Raises InvalidQuery, and adds nothing, for too short a value.
        """
        assert self._log is not None
        self._reload()
        self._key = self._key or self._log.load_key()
        self._log.add_lines([json.dumps(line) for line in self._iter_lines(request)])

    def lift_old_lines(self, named_count: int) -> int:
        """Take back values noted by earlier versions; return their number."""
        if self.is_empty or self._log is None:
            return 0
        lifted = find_old_values(self._log.read_lines(), named_count)
        if lifted:
            self._log.add_lines([json.dumps({"lifted": lifted})])
        return len(lifted)

    def refuses_draft(self, draft: EventDraft) -> bool:
        """Return whether a draft was forgotten, or restates what was."""
        return not self.is_empty and (self._covers_event(draft) or self.restates_forgotten(draft.text))

    def restates_forgotten(self, text: str) -> bool:
        """Return whether a text repeats most of a forgotten one."""
        self._reload()
        restatements = self._index.restatements
        return bool(restatements) and restatements.matches_hashes(self.hasher().hash_text(text))

    def hasher(self) -> WindowHasher:
        """Return the hasher of word windows; makes a missing key."""
        if self._log is not None:
            self._key = self._key or self._log.load_key()
        if self._hasher is None or self._hasher.key != self._key:
            self._hasher = WindowHasher(self._key)
        return self._hasher

    def covers_event(self, what: EventDraft | Event) -> bool:
        """Return whether an event was forgotten as a whole.

        By its id, its source's id, its words in its session, or its time. Also if parts of its text were forgotten which
        cannot be found in this form of it.
        """
        return not self.is_empty and self._covers_event(what)

    def _covers_event(self, what: EventDraft | Event) -> bool:
        index = self._index
        if (index.marks and not index.marks.isdisjoint(self._event_hashes(what))) or self._in_range(what):
            return True
        # Its text in another form: the forgotten part cannot be found.
        return (
            bool(index.partial_sources)
            and self._source_hash(what) in index.partial_sources
            and MARK not in self._clean_text(what.text)
        )

    def clean_text(self, text: str) -> str:
        """Return `text` with `MARK` in place of what was forgotten.

        Also where it is written otherwise or encoded.
        """
        return self._clean_text(text) if not self.is_empty and self._index.has_values else text

    def _clean_text(self, text: str) -> str:
        if len(text) > _LONGEST_CACHED:
            return self._replace_parts(text)
        short = self._index.short_texts
        if (clean := short.get(text)) is None:
            if len(short) >= _CACHED_TEXTS:
                short.clear()
            clean = short[text] = self._replace_parts(text)
        return clean

    def _replace_parts(self, text: str) -> str:
        cuts = self._index.cuts
        for start, end in reversed(cuts.get(self._hash_parts("cut", text), ()) if cuts else ()):
            text = text[:start] + MARK + text[end:]
        # Marks of forgotten values are not searched.
        return MARK.join(map(self._replace_values, text.split(MARK)))

    def _replace_values(self, text: str) -> str:
        """Base64 or hexadecimal that holds a value goes whole."""
        if spans := self._find_spans(normalize_key(text)):
            text = replace_spans(text, normalize_text(text), spans, MARK)
        text = self._replace_encoded(text)
        for start, end, content in reversed(list(iter_encoded(text))):
            if spans := self._find_spans(normalize_key(content)):
                is_part = replace_spans(content, normalize_text(content), spans, MARK) == content
                text = text if is_part else text[:start] + MARK + text[end:]
        return text

    def _replace_encoded(self, text: str) -> str:
        plain = text
        for layers in range(1, LAYERS + 1):
            wrapped, plain = plain, decode_layer(plain)
            if plain == wrapped:
                break
            if spans := self._find_spans(normalize_key(plain)):
                inner = decode_layers(text, layers)
                inner_key = normalize_text(inner.text)
                places = NormalizedText(inner_key.key, tuple(inner.begins[i] for i in inner_key.positions), inner_key.words)
                ends = tuple(inner.ends[i] for i in inner_key.positions)
                clean = replace_spans(text, places, spans, MARK, ends)
                if clean != text:
                    return self._replace_encoded(clean)
        return text

    def _find_spans(self, key: str) -> list[tuple[int, int, int]]:
        """Return (start, end, number of words), which may overlap."""
        return [span for gram in _GRAMS for span in self._iter_values(key, gram)]

    def clean_event(self, event: Event) -> Event | None:
        """Return an event without forgotten text; None if nothing remains."""
        if self.is_empty:
            return event
        if self._covers_event(event):
            return None
        if not self._index.has_values:
            return event
        text = self._clean_text(event.text)
        if text != event.text and not normalize_key(text.replace(MARK, "")):
            return None
        metadata = {self._clean_text(k): self._clean_text(v) for k, v in event.metadata.items()}
        names: dict[str, Any] = {name: self._clean_text(getattr(event, name)) for name in NAMES}
        clean = replace(event, text=text, metadata=metadata, **names)
        return event if clean == event else clean

    def _iter_values(self, key: str, gram: int) -> Iterable[tuple[int, int, int]]:
        values = self._index.values[gram]
        if not values or len(key) < gram:
            return
        hashes = self._hash_grams(key, gram)
        has_value = self._index.filters.get(gram)
        if has_value is None:
            import numpy as np

            has_value = np.zeros(1 << _BITS, dtype=np.bool_)
            has_value[list(self._index.values[gram])] = True
            self._index.filters[gram] = has_value
        for start in has_value[hashes].nonzero()[0].tolist():
            for length, tokens, value_hash in values[int(hashes[start])]:
                if start + length <= len(key) and self._hash_parts("value", key[start : start + length]) == value_hash:
                    yield start, start + length, tokens

    def _hash_grams(self, key: str, gram: int) -> "np.ndarray":
        """Return window hashes: `(len(key) - gram + 1,) int64`."""
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

    def _hash_parts(self, *parts: str) -> str:
        """How the texts are split counts."""
        raw = [part.encode("utf-8", "surrogatepass") for part in parts]
        data = b"".join(len(part).to_bytes(4, "big") + part for part in raw)
        return hashlib.blake2b(data, key=self._key, digest_size=_HASH_BYTES).hexdigest()

    def _event_hashes(self, what: EventDraft | Event) -> list[str]:
        marks = [self._hash_parts("id", what.event_id)] if isinstance(what, Event) else []
        marks += filter(None, [self._source_hash(what)])
        words = normalize_key(what.text)
        if len(words) >= _SHORTEST_TELLING:
            marks.append(self._hash_parts("said", what.session_id, words))
        elif not what.source_id:
            marks.append(self._hash_parts("said", what.session_id, words, what.role, str(what.timestamp)))
        if what.timestamp is not None and states_time(what.metadata):
            marks.append(self._hash_parts("copied", words, what.role, str(what.timestamp)))
        return marks

    def _source_hash(self, what: EventDraft | Event) -> str:
        return self._hash_parts("source", what.session_id, what.source_id) if what.source_id else ""

    def _in_range(self, what: EventDraft | Event) -> bool:
        if not self._index.ranges:
            return False
        recorded = what.recorded_project if isinstance(what, Event) and what.recorded_project is not None else what.project
        for session in (None, what.session_id):
            for project in dict.fromkeys((None, recorded, what.project)):
                for since, until in self._index.ranges.get(self._scope_hash(session, project), ()):
                    # What has no time of its own belongs to its session or project, and to no time.
                    if bool(session or project) if what.timestamp is None else since <= what.timestamp <= until:
                        return True
        return False

    def _scope_hash(self, session: str | None, project: str | None) -> str:
        scopes = self._index.scopes
        if (scope_hash := scopes.get((session, project))) is None:
            if len(scopes) >= _CACHED_TEXTS:
                scopes.clear()
            parts = ("*" if part is None else f"={part}" for part in (session, project))
            scope_hash = scopes[session, project] = self._hash_parts("scope", *parts)
        return scope_hash

    def _iter_lines(self, request: ForgetRequest) -> Iterable[dict[str, Any]]:
        """Raises InvalidQuery for a value under 4 letters (Chinese: 2)."""
        for value in request.values:
            key, length = normalize_key(value), len(normalize_key(value))
            is_han = all("\u3400" <= character <= "\u9fff" for character in key)
            if length < (_SHORTEST_HAN if is_han else SHORTEST):
                hint = "A shorter value stands inside other words: forget the events that hold it."
                raise InvalidQuery(f"a value to forget needs at least {SHORTEST} letters or digits", hint)
            gram = next(g for g in _GRAMS if length >= g)
            start = int(self._hash_grams(key[:gram], gram)[0])
            yield {"value": self._hash_parts("value", key), "length": length, "tokens": count_runs(value), "gram": [gram, start]}
        for event in request.events:
            # Earlier versions wrote values, the lines of its text, before it.
            yield {"event": self._event_hashes(event), "v": 2}
        for cut in request.cuts:
            partly = self._source_hash(cut.event) if cut.text == cut.event.text else ""
            yield {"cut": self._hash_parts("cut", cut.text), "spans": cut.spans, "partly": partly}
        for span in request.ranges:
            yield {"scope": self._scope_hash(span.session, span.project), "since": span.since, "until": span.until}
        for sketch in request.sketches:
            yield {"windows": sketch.encode()}

    def _reload(self) -> None:
        if self._log is None:
            return
        stamp = self._log.get_stamp()
        if stamp == self._stamp:
            return
        index = _TombstoneIndex()
        lines = self._log.read_lines()
        if lines:
            self._key = self._log.load_key()
        for raw in lines:
            # A crash may have cut a line in two: what it was for was never said to be forgotten.
            with suppress(ValueError, KeyError, TypeError):
                _add_line(index, json.loads(raw))
        self._index, self._stamp = index, stamp


def _add_line(index: _TombstoneIndex, line: dict[str, Any]) -> None:
    """Raises KeyError, ValueError or TypeError for a line of another form."""
    if "value" in line:
        gram, start = line["gram"]
        index.values[gram].setdefault(int(start), set()).add((int(line["length"]), int(line["tokens"]), str(line["value"])))
    elif "event" in line:
        index.marks.update(line["event"])
    elif "cut" in line:
        index.cuts[line["cut"]] = [(int(start), int(end)) for start, end in line["spans"]]
        index.partial_sources.update({line["partly"]} - {""})
    elif "windows" in line:
        index.restatements.add_sketch(Sketch.decode(*line["windows"]))
    elif "lifted" in line:
        for gram, start, length, tokens, value in line["lifted"]:
            index.values[gram].get(start, set()).discard((length, tokens, value))
    else:
        index.ranges.setdefault(line["scope"], []).append((int(line["since"]), int(line["until"])))
