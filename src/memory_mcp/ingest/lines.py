"""Read the records of a JSON file one by one: lines, objects spread over several lines, or one large array.

Invariants
1. Memory holds one record and a window around it, never the file; no record is longer than `MAX_RECORD`.
2. What is not finished waits: a last line without its line feed that is no object yet, and an array or object still
   open at the end of the file, yield nothing more and are read again from their start.
3. Broken text costs its own record only: zeros that a crash left are passed over, and a record that was written behind a
   half one, on the same line, is read.
"""

import codecs
import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from memory_mcp import foreign_files

#: Longest record that is read, bytes.
MAX_RECORD = 64 * 1024 * 1024
#: Records read to recognise the kind of a file: some clients keep their books before the first message.
FIRST = 1000
_CHUNK = 1024 * 1024
#: How much of a line is read before it is known whether it opens an array.
_PEEK = 64 * 1024
#: First look behind a line that opens something; it doubles, so that a file of broken lines stays cheap.
_WINDOW = 512
#: Number of lines with an unclosed bracket that led to no object after which further lines are no longer joined.
_PATIENCE = 200
_QUOTED = 1024
_BOM = codecs.BOM_UTF8

NOT_JSON = "not JSON"
NOT_AN_OBJECT = "not a JSON object"
TOO_LONG = "record longer than 64 MiB"

#: What stands before a record and says nothing: white space, and zeros of a crash.
_BLANKS = b"\0 \t\r\n"
#: Bytes of a string that recognising a file needs, a part of a string, and an escape that is cut in two.
_STRING = 1024
_STRING_PART, _CUT_ESCAPE = re.compile(rb'(?:[^"\\\n]|\\[^\n])++'), re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
#: Places of a broken line where a record is looked for, and the characters read there in all.
_RESTARTS, _REREAD = 1000, 8 * MAX_RECORD
#: What may become an array of objects; `[1, 2]`, `[INFO]` and nested arrays are no records in any case.
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?:\{|\Z)")
_SPACE = re.compile(r"\s*")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a file, or the reason why there is none here."""

    #: The object; empty when `error` says why.
    value: dict[str, object]
    #: Number of the line on which it begins, from 1; inside an array, of the array's line.
    line: int
    #: Where reading may go on once this record is done.
    offset: int
    #: The beginning of its text, to be quoted.
    quote: str
    error: str = ""
    #: About how many bytes of the file are read with it, inside an array too; never more than there are.
    reached: int = 0


def iter_records(file: Path, offset: int = 0) -> Iterator[Record]:
    """Yield the records of `file` from a byte offset on, broken ones with their error; raises OSError when it cannot be read."""
    with foreign_files.open_file(file) as stream:
        yield from _Reader(stream, offset, _line_feeds(stream, 0, offset)).records()


@lru_cache(maxsize=1)
def first_values(beginning: bytes) -> Sequence[Mapping[str, object]]:
    """Return the first `FIRST` whole objects of the beginning of a file: lines, spread over lines, or items of an array."""
    records = _Reader(BytesIO(beginning), 0, 0).records()
    return tuple(record.value for record in islice(records, FIRST) if not record.error)


def read_beginning(stream: BinaryIO, size: int) -> bytes:
    """Return what the kind of a file is recognised by: its first `size` bytes, of JSON those without the ends of long strings.

    So a pasted image before the first message hides nothing. At most four times `MAX_RECORD` bytes are read.
    """
    chunk = stream.read(size)
    if not chunk.removeprefix(_BOM).lstrip(_BLANKS).startswith((b"{", b"[")):
        return chunk
    beginning, inside, room, unread = bytearray(), False, 0, 4 * MAX_RECORD
    while chunk and len(beginning) < size and unread > 0:
        position = 0
        while position < len(chunk):
            if not inside:
                end = chunk.find(b'"', position) + 1 or len(chunk)
                beginning += chunk[position:end]
                inside, room = chunk.endswith(b'"', position, end), _STRING
            elif match := _STRING_PART.match(chunk, position):
                end = match.end()
                piece = chunk[position:end]
                beginning += piece if len(piece) <= room else _CUT_ESCAPE.sub(b"", piece[:room])
                room = max(0, room - len(piece))
            else:
                # The string's end, a line that breaks off inside it, or an escape that goes on in the next chunk.
                end = position + 1
                if chunk[position:end] == b"\\":
                    break
                beginning += chunk[position:end]
                inside = False
            position = end
        following = stream.read(_CHUNK)
        unread -= len(following)
        chunk = chunk[position:] + following if following else b""
    return bytes(beginning)


def iter_tail(file: Path, offset: int, width: int) -> Iterator[Record]:
    """Yield the whole records from `width` bytes before an offset on, line numbers not true; raises OSError."""
    with foreign_files.open_file(file) as stream:
        stream.seek(max(0, offset - width))
        if offset > width:
            stream.readline()
        yield from _Reader(stream, stream.tell(), 0).records()


@dataclass(slots=True)
class _Line:
    raw: bytes
    start: int
    end: int
    number: int
    #: Longer than `MAX_RECORD`; `raw` is its beginning.
    too_long: bool
    #: Opens an array of objects, as it seems; `raw` may be its beginning.
    array: bool

    @property
    def complete(self) -> bool:
        """Whether the line is finished: it ends in a line feed, or is too long to be read."""
        return self.too_long or self.raw.endswith(b"\n")

    def text(self) -> str:
        """Return the line as text, without a byte order mark at the file's beginning and blanks around it."""
        raw = self.raw.removeprefix(_BOM) if self.start == 0 else self.raw
        return raw.strip(_BLANKS).decode("utf-8", "replace").strip()

    def bad(self, reason: str, offset: int | None = None) -> Record:
        """Return a record for a line that is none, with the reason; reading goes on at `offset`, by default behind the line."""
        quote = self.raw[:_QUOTED].decode("utf-8", "replace")
        return Record({}, self.number, self.end if offset is None else offset, quote, reason)


class _Reader:
    """Reads lines, and further lines until brackets that a line opens are closed."""

    def __init__(self, stream: BinaryIO, offset: int, number: int) -> None:
        """Read from a byte offset on; `number` is how many lines come before it."""
        self._stream = stream
        self._number = number
        self._at = offset
        self._failures = 0
        #: Names of fields of the records so far.
        self._fields: set[str] = set()
        stream.seek(offset)

    def records(self) -> Iterator[Record]:
        """Yield the records from the offset on, unreadable ones with their error, up to the end or one that is not finished."""
        while line := self._next_line():
            text = line.text()
            if line.too_long:
                yield line.bad(TOO_LONG)
            elif line.array:
                if not (yield from self._array(line)):
                    return
            elif text:
                record = self._object(line, text)
                if record is None:
                    return
                self._fields |= record.value.keys()
                yield record
                if record.error == NOT_JSON and record.offset == line.end and (glued := self._glued(line, text)):
                    yield glued

    def _next_line(self) -> _Line | None:
        """Return the next line and go on behind it; of an array's or too long one only the beginning. None at the file's end."""
        start = self._at
        raw = self._stream.readline(_PEEK)
        if not raw:
            return None
        too_long = False
        array = self._failures < _PATIENCE and _ARRAY.match(raw) is not None
        # An array may hold the whole file in one line: its elements are read one by one instead.
        if len(raw) == _PEEK and not array:
            raw += self._stream.readline(MAX_RECORD)
            too_long = len(raw) > MAX_RECORD and not raw.endswith(b"\n")
        end = start + len(raw)
        if too_long:
            raw, end = raw[:_QUOTED], self._next_feed(end)
        self._at, self._number = end, self._number + 1
        return _Line(raw, start, end, self._number, too_long, array)

    def _object(self, line: _Line, text: str) -> Record | None:
        """Return the object that begins on `line`, which may go on in further lines, or an error. None while it is incomplete."""
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            # Open structure, or a second value behind the first; a string cannot go on behind a line feed.
            opens = error.pos >= len(text) or error.msg.startswith("Extra data")
            if text.startswith("{") and opens and line.complete and self._failures < _PATIENCE:
                return self._spread(line)
            return line.bad(NOT_JSON) if line.complete else None
        except (ValueError, RecursionError):
            return line.bad(NOT_JSON) if line.complete else None
        if isinstance(value, dict):
            return Record(value, line.number, line.end, text[:_QUOTED])
        return line.bad(NOT_AN_OBJECT) if line.complete else None

    def _spread(self, line: _Line) -> Record | None:
        """Return an object that goes on in further lines, or an error, after which the next line is read; None if incomplete."""
        window = _Window(self._stream, line.start)
        outcome = window.value(window.skip_to("{"))
        if outcome is None:
            return None
        if isinstance(outcome, str):
            self._failures += 1
            self._go_to(line.end, line.number)
            return line.bad(outcome)
        value, end = outcome
        self._go_to(window.offset(end), line.number + window.text.count("\n", 0, end) - 1)
        if isinstance(value, dict):
            return Record(value, line.number, self._at, window.text[:_QUOTED])
        return Record({}, line.number, self._at, window.text[:_QUOTED], NOT_AN_OBJECT)

    def _glued(self, line: _Line, text: str) -> Record | None:
        """Return the record that was written behind a half one and reaches the end of a broken line; None if there is none.

        Where an object may also be a value of the half one, most of its fields must be those of records.
        """
        at, unread = 0, _REREAD
        for _ in range(_RESTARTS):
            at = text.find('{"', at + 1)
            if at < 0 or unread < 0:
                return None
            try:
                value, end = _decode(text, at)
            except json.JSONDecodeError as error:
                unread -= error.pos - at
                continue
            except (ValueError, RecursionError):
                unread -= len(text) - at
                continue
            if end == len(text):
                is_value = text[:at].rstrip().endswith((":", ",", "["))
                whole = not is_value or 2 * len(value.keys() & self._fields) > len(value)
                return Record(value, line.number, line.end, text[at : at + _QUOTED]) if whole else None
        return None

    def _array(self, line: _Line) -> Generator[Record, None, bool]:
        """Yield the objects of an array that begins on `line`; return whether reading goes on behind it.

        It does not while the array is still open. Broken or empty arrays, and items that are no objects, give one error.
        """
        window = _Window(self._stream, line.start)
        good = at = window.skip_to("[") + 1
        objects, others, error = 0, 0, ""
        while not error:
            at = window.skip_space(at)
            if objects + others and window.text.startswith(",", at):
                at = window.skip_space(at + 1)
            elif objects + others and at < len(window.text) and window.text[at] != "]":
                error = NOT_JSON
            if error or window.text.startswith("]", at):
                break
            outcome = NOT_JSON if window.text.startswith("[", at) else window.value(at)
            if outcome is None:
                return False
            if isinstance(outcome, str):
                error = outcome
                break
            value, end = outcome
            if isinstance(value, dict):
                objects += 1
                quote, reached = window.text[at : at + _QUOTED], window.reached(end)
                yield Record(value, line.number, line.start, quote, reached=reached)
            else:
                others += 1
            good = at = window.drop(end)
        self._failures += bool(error)
        offset = self._next_feed(window.offset(good)) if error else window.offset(at + 1)
        self._go_to(offset, line.number - 1 + _line_feeds(self._stream, line.start, offset))
        if error or others or not objects:
            yield line.bad(error or NOT_AN_OBJECT, self._at)
        return True

    def _go_to(self, offset: int, number: int) -> None:
        """Go on reading at a byte offset, with that number of lines before it."""
        self._at, self._number = offset, number
        self._stream.seek(offset)

    def _next_feed(self, offset: int) -> int:
        """Return the offset behind the next line feed, or the end of the file."""
        self._stream.seek(offset)
        while rest := self._stream.readline(_CHUNK):
            offset += len(rest)
            if rest.endswith(b"\n"):
                break
        return offset


class _Window:
    """Text of a file from a byte offset on, read further as values ask for it."""

    def __init__(self, stream: BinaryIO, start: int) -> None:
        """Begin at a byte offset, and read the first part."""
        # Invalid bytes survive as lone surrogates, so that text can be measured in bytes again.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._stream = stream
        self._start = start
        self._ended = False
        self.text = ""
        stream.seek(start)
        self._more()

    def offset(self, at: int) -> int:
        """Return the byte offset of a place in `text`."""
        return self._start + len(self.text[:at].encode("utf-8", "surrogateescape"))

    def reached(self, at: int) -> int:
        """Return about the byte offset of a place in `text`: too small where a character takes several bytes."""
        return self._start + at

    def drop(self, at: int) -> int:
        """Discard the text before `at` once it is a megabyte long; return the new place of `at`."""
        if at < _CHUNK:
            return at
        self._start = self.offset(at)
        self.text = self.text[at:]
        return 0

    def skip_to(self, opening: str) -> int:
        """Return the place of the first `opening`, reading further as needed; 0 if there is none."""
        while (at := self.text.find(opening)) < 0 and self._more():
            pass
        return max(at, 0)

    def skip_space(self, at: int) -> int:
        """Return the next place without white space, reading further as needed, or the end of the text."""
        while True:
            match = _SPACE.match(self.text, at)
            at = match.end() if match else at
            if at < len(self.text) or not self._more():
                return at

    def value(self, at: int) -> tuple[object, int] | str | None:
        """Return (value, end) of the JSON at a place, or why not; None if the file ends first. Reads `MAX_RECORD` at most."""
        while True:
            try:
                value, end = _decode(self.text, at)
                # A number at the end of the window may go on behind it.
                if end == len(self.text) and isinstance(value, int | float) and self._more():
                    continue
                return value, end
            except json.JSONDecodeError as error:
                slack = 0 if self._ended else 16
                open_end = error.msg.startswith("Unterminated") or error.pos >= len(self.text.rstrip()) - slack
                if not open_end:
                    return NOT_JSON
            except (ValueError, RecursionError):
                return NOT_JSON
            if len(self.text) - at > MAX_RECORD:
                return TOO_LONG
            if not self._more():
                return None

    def _more(self) -> bool:
        """Read more of the file, as much again as there is, at least 512 bytes; return False at its end."""
        raw = self._stream.read(max(_WINDOW, len(self.text)))
        self._ended = not raw
        self.text += self._decoder.decode(raw, final=not raw)
        return bool(raw)


def _line_feeds(stream: BinaryIO, start: int, end: int) -> int:
    """Return the number of line feeds between two byte offsets."""
    stream.seek(start)
    count = 0
    while start < end and (raw := stream.read(min(_CHUNK, end - start))):
        count += raw.count(b"\n")
        start += len(raw)
    return count
