"""What was forgotten, without a word of it: by which a text is known again, whatever door it comes back through.

Invariants
1. The file holds lengths, times and keyed hashes; the key lies beside it. Neither goes into the database; a backup has both,
   so that what was forgotten does not come back to a store that was restored elsewhere.
2. Lines are only added, and are on disk when `add` returns.
3. A value is known again inside other text, in other case, white space, punctuation, look-alikes and with invisible
   characters between; said in other words it is not.
4. Every reader sees what was added by any process with its next question; with nothing forgotten a question costs a look
   for the file.

Who has the key and the file can try values out: both are as private as the memory itself.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from memory_mcp import machine, paths
from memory_mcp.errors import InvalidQuery
from memory_mcp.ingest.respelling import key_of, spelled
from memory_mcp.model.event import Event, EventDraft

if TYPE_CHECKING:
    import numpy as np

#: What stands in the place of a forgotten value.
MARK = "[forgotten]"
#: Letters and digits that a value needs at least: a shorter one stands inside words that have nothing to do with it.
SHORTEST = 4
#: A text of fewer letters and digits says nothing by itself, such as "yes, go on".
_SAYS_SOMETHING = 24
#: Windows of this many characters are looked for first; values that are shorter than the longer one have the shorter.
_GRAMS = (12, SHORTEST)
#: Bits that are kept of a window's hash: enough to pass over all but 1 of 1,000 places with 1,000 values, too few to tell it.
_BITS = 20
_KEY_BYTES, _HASH_BYTES = 32, 16


@dataclass(frozen=True, slots=True)
class Range:
    """Everything of a session, of a project or of all of them that was said in a time; UTC ms, both ends included."""

    since: int
    until: int
    session: str | None = None
    project: str | None = None


@dataclass(slots=True)
class Wanted:
    """What is to be forgotten, in clear: never written anywhere."""

    values: Sequence[str] = ()
    events: Sequence[Event] = ()
    ranges: Sequence[Range] = ()


@dataclass(slots=True)
class _Known:
    """The file's content."""

    #: Of each window length its values: by what is kept of the window's hash, lengths and hashes.
    values: dict[int, dict[int, set[tuple[int, int, str]]]] = field(default_factory=lambda: {gram: {} for gram in _GRAMS})
    marks: set[str] = field(default_factory=set)
    #: Since and until by hash of session and project.
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    filters: "dict[int, np.ndarray]" = field(default_factory=dict)


class Tombstones:
    """The tombstones of one data directory; None has none. Any thread may ask."""

    def __init__(self, directory: Path | None) -> None:
        self._file = directory / paths.TOMBSTONES if directory else None
        self._key_file = directory / paths.TOMBSTONES_KEY if directory else None
        self._key = b""
        self._stamp: tuple[int, int, int] | None = None
        self._known = _Known()

    @classmethod
    def tried(cls, wanted: Wanted) -> Self:
        """Tombstones of a dry run: nothing is written."""
        made = cls(None)
        made._key = secrets.token_bytes(_KEY_BYTES)
        for line in made._lines(wanted):
            _take(made._known, line)
        return made

    @property
    def empty(self) -> bool:
        """Whether nothing was ever forgotten here."""
        self._reread()
        return not (self._known.marks or self._known.ranges or any(self._known.values.values()))

    def add(self, wanted: Wanted) -> None:
        """Remember what is to be forgotten; on disk when this returns. InvalidQuery for a value that is too short."""
        assert self._file is not None
        self._reread()
        self._key = self._key or self._own_key()
        lines = "".join(json.dumps(line) + "\n" for line in self._lines(wanted))
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | machine.PRIVATE, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            # A line that a crash cut in two must not take the next one with it.
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (("\n" if torn else "") + lines).encode("ascii"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync(self._file.parent)

    def covers(self, what: EventDraft | Event) -> bool:
        """Whether an event was forgotten as a whole, under its id or another."""
        if self.empty:
            return False
        known = self._known
        return bool(known.marks and not known.marks.isdisjoint(self._marks(what))) or self._in_range(what)

    def clean(self, text: str) -> str:
        """`text` with a mark in the place of every forgotten value."""
        if self.empty or not any(self._known.values.values()):
            return text
        # What stands there for a value already is no text.
        return MARK.join(map(self._cleaned, text.split(MARK)))

    def _cleaned(self, text: str) -> str:
        key = key_of(text)
        found = [span for gram in _GRAMS for span in self._found(key, gram)]
        return _replaced(text, found) if found else text

    def cleaned(self, event: Event) -> Event | None:
        """A stored event without what was forgotten: itself where it holds nothing of that, None where nothing of it is left."""
        if self.empty:
            return event
        if self.covers(event):
            return None
        text = self.clean(event.text)
        if text != event.text and not key_of(text.replace(MARK, "")):
            return None
        metadata = {self.clean(k): self.clean(v) for k, v in event.metadata.items()}
        told = replace(
            event,
            text=text,
            metadata=metadata,
            session_id=self.clean(event.session_id),
            source_id=self.clean(event.source_id),
            agent=self.clean(event.agent),
            project=self.clean(event.project),
            thread=self.clean(event.thread),
            speaker=self.clean(event.speaker),
        )
        return event if told == event else told

    def _found(self, key: str, gram: int) -> Iterable[tuple[int, int, int]]:
        """Start, end and tokens of each value that stands in `key`."""
        values = self._known.values[gram]
        if not values or len(key) < gram:
            return
        hashes = self._grams(key, gram)
        for start in self._filter(gram)[hashes].nonzero()[0].tolist():
            for length, tokens, wanted in values[int(hashes[start])]:
                if start + length <= len(key) and self._hash("value", key[start : start + length]) == wanted:
                    yield start, start + length, tokens

    def _grams(self, key: str, gram: int) -> "np.ndarray":
        """What is kept of the hash of each window of `gram` characters."""
        import numpy as np

        codes = np.frombuffer(key.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
        base = int.from_bytes(hashlib.blake2b(b"gram", key=self._key, digest_size=8).digest(), "big") | 1
        count = len(codes) - gram + 1
        total = np.zeros(count, dtype=np.uint64)
        factor = np.uint64(base)
        with np.errstate(over="ignore"):
            for place in range(gram):
                total = (total + codes[place : place + count]) * factor
        return (total >> np.uint64(64 - _BITS)).astype(np.int64)

    def _filter(self, gram: int) -> "np.ndarray":
        found = self._known.filters.get(gram)
        if found is None:
            import numpy as np

            found = np.zeros(1 << _BITS, dtype=np.bool_)
            found[list(self._known.values[gram])] = True
            self._known.filters[gram] = found
        return found

    def _hash(self, *parts: str) -> str:
        raw = [part.encode("utf-8", "surrogatepass") for part in parts]
        data = b"".join(len(part).to_bytes(4, "big") + part for part in raw)
        return hashlib.blake2b(data, key=self._key, digest_size=_HASH_BYTES).hexdigest()

    def _marks(self, what: EventDraft | Event) -> list[str]:
        """Everything by which an event is known again: its id, its source's id, what was said in which session."""
        marks = [self._hash("id", what.event_id)] if isinstance(what, Event) else []
        if what.source_id:
            marks.append(self._hash("source", what.session_id, what.source_id))
        said = key_of(what.text)
        if len(said) >= _SAYS_SOMETHING:
            marks.append(self._hash("said", what.session_id, said))
        elif not what.source_id:
            marks.append(self._hash("said", what.session_id, said, what.role, str(what.timestamp)))
        return marks

    def _in_range(self, what: EventDraft | Event) -> bool:
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
        return self._hash("scope", *("*" if part is None else f"={part}" for part in (session, project)))

    def _lines(self, wanted: Wanted) -> Iterable[dict[str, Any]]:
        for value in wanted.values:
            key, length = key_of(value), len(key_of(value))
            if length < SHORTEST:
                hint = "A shorter value stands inside other words: forget the events that hold it."
                raise InvalidQuery(f"a value to forget needs at least {SHORTEST} letters or digits", hint)
            gram = next(g for g in _GRAMS if length >= g)
            start = int(self._grams(key[:gram], gram)[0])
            yield {"value": self._hash("value", key), "length": length, "tokens": _tokens(value), "gram": [gram, start]}
        for event in wanted.events:
            yield {"event": self._marks(event)}
        for span in wanted.ranges:
            yield {"scope": self._scope(span.session, span.project), "since": span.since, "until": span.until}

    def _own_key(self) -> bytes:
        """The key, made when it is missing; of two processes that make one, the first is believed."""
        assert self._key_file is not None
        with suppress(FileExistsError):
            descriptor = os.open(self._key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | machine.PRIVATE, 0o600)
            try:
                os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return self._key_file.read_bytes()

    def _reread(self) -> None:
        if self._file is None:
            return
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp == self._stamp:
            return
        known = _Known()
        self._key = self._own_key()
        for raw in self._file.read_bytes().splitlines():
            # A crash may have cut a line in two: what it was for was never said to be forgotten.
            with suppress(ValueError, KeyError, TypeError):
                _take(known, json.loads(raw))
        self._known, self._stamp = known, stamp


def _take(known: _Known, line: dict[str, Any]) -> None:
    if "value" in line:
        gram, start = line["gram"]
        known.values[gram].setdefault(int(start), set()).add((int(line["length"]), int(line["tokens"]), str(line["value"])))
    elif "event" in line:
        known.marks.update(line["event"])
    else:
        known.ranges.setdefault(line["scope"], []).append((int(line["since"]), int(line["until"])))


def _tokens(text: str) -> int:
    """Runs of letters and digits, in the text as it is."""
    words = spelled(text).words
    return words[-1] + 1 if words else 0


def _replaced(text: str, found: Iterable[tuple[int, int, int]]) -> str:
    """The spans of a text's key replaced; one that joins parts of words is no mention of the value."""
    whole = spelled(text)
    places, words = whole.places, whole.words
    spans: list[tuple[int, int]] = []
    for start, end, tokens in sorted(found):
        first, last = places[start], places[end - 1]
        begins = start == 0 or words[start - 1] != words[start]
        ends = end == len(words) or words[end] != words[end - 1]
        if words[end - 1] - words[start] + 1 != tokens and not (begins and ends):
            continue
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last + 1))
        else:
            spans.append((first, last + 1))
    out: list[str] = []
    at = 0
    for first, end in spans:
        out += text[at:first], MARK
        at = end
    return "".join([*out, text[at:]])


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
