"""Read the records of a JSON file one by one: lines, objects spread over several lines, or one large array.

Invariants
1. Memory holds one record and a window around it, never the file; no record is longer than `MAX_RECORD`.
2. What is not finished waits: a last line without its line feed that is no object yet, and an array or object still
   open at the end of the file, yield nothing more and are read again from their start.
3. Broken text costs its own record only: zeros that a crash left are passed over, records that were written after a half
   one, on the same line, are read, and so is what a document that breaks off holds before that.
"""

import codecs
import datetime as dt
import json
import math
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.salvage import find_glued, salvage_object
from memory_mcp.importers.window import MAX_RECORD, NOT_JSON, TOO_LONG, TextWindow, count_line_feeds

#: Records read to recognise the kind of a file: some clients keep their books before the first message.
FIRST = 10_000
_CHUNK = 1024 * 1024
#: How much of a line is read before it is known whether it opens an array.
_PEEK = 64 * 1024
#: Number of lines with an unclosed bracket that led to no object after which further lines are no longer joined.
_PATIENCE = 200
_QUOTED = 1024
BOM = codecs.BOM_UTF8

NOT_AN_OBJECT = "not a JSON object"
CUT = "breaks off before its end"

#: What comes before a record and says nothing: white space, and zeros of a crash.
BLANKS = b"\0 \t\r\n"
#: Lines at the head of a file and after a broken line that show what its records look like.
_HEAD_LINES, _NEXT_LINES = 20, 3
#: What may become an array of objects; `[1, 2]`, `[INFO]` and nested arrays are no records in any case.
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?[\s\0]*\[[\s\0]*(?:\{|\Z)")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a file, or why there is none."""

    #: The object; empty when `error` says why.
    value: dict[str, object]
    #: Number of the line on which it begins, from 1; inside an array, of the array's line.
    line: int
    #: Where reading may continue once this record is done.
    offset: int
    #: The beginning of its text, to be quoted.
    quote: str
    error: str = ""
    #: About how many bytes of the file are read with it, inside an array too; never more than there are.
    bytes_read: int = 0


def iter_records(file: Path, offset: int = 0) -> Iterator[Record]:
    """Yield the records of `file` from a byte offset on.

    Broken ones have their error; of a document (`.json`) that breaks off, what is whole in it, and then the error. Raises
    OSError when the file cannot be read.
    """
    with foreign_files.open_file(file) as stream:
        reader = _RecordReader(stream, offset, count_line_feeds(stream, 0, offset))
        if file.suffix != ".json":
            yield from reader.iter_records()
            return
        number = 0
        for number, record in enumerate(reader.iter_records(), 1):
            if number == 1 and record.error == NOT_JSON and (value := salvage_object(stream, offset)):
                yield replace(record, value=value, error="")
                yield replace(record, error=CUT)
                return
            yield record
        if reader.unfinished is not None:
            stream.seek(reader.unfinished[0])
            quote = stream.read(_QUOTED).decode("utf-8", "replace")
            cut = Record({}, reader.unfinished[1], reader.unfinished[0], quote, CUT)
            if value := salvage_object(stream, offset) if not number else {}:
                yield replace(cut, value=value, error="")
            yield cut


@lru_cache(maxsize=1)
def first_values(beginning: bytes) -> Sequence[Mapping[str, object]]:
    """Return the first `FIRST` whole objects of a beginning."""
    records = _RecordReader(BytesIO(beginning), 0, 0).iter_records()
    return tuple(record.value for record in islice(records, FIRST) if not record.error)


def iter_tail(file: Path, offset: int, width: int) -> Iterator[Record]:
    """Yield whole records from `width` bytes before an offset on.

    Line numbers are not true. Raises OSError.
    """
    with foreign_files.open_file(file) as stream:
        stream.seek(max(0, offset - width))
        if offset > width:
            stream.readline()
        yield from _RecordReader(stream, stream.tell(), 0).iter_records()


@dataclass(slots=True)
class _Line:
    raw: bytes
    start: int
    end: int
    number: int
    #: Longer than `MAX_RECORD`; `raw` is its beginning.
    is_too_long: bool
    #: Opens an array of objects, as it seems; `raw` may be its beginning.
    opens_array: bool

    @property
    def is_complete(self) -> bool:
        return self.is_too_long or self.raw.endswith(b"\n")

    def decode_text(self) -> str:
        raw = self.raw.removeprefix(BOM) if self.start == 0 else self.raw
        return raw.strip(BLANKS).decode("utf-8", "replace").strip()

    def error_record(self, reason: str, offset: int | None = None) -> Record:
        """Return an error; reading continues at `offset` or after the line."""
        quote = self.raw[:_QUOTED].decode("utf-8", "replace")
        return Record({}, self.number, self.end if offset is None else offset, quote, reason)


class _RecordReader:
    """Reads lines, and further ones while brackets are open."""

    def __init__(self, stream: BinaryIO, offset: int, number: int) -> None:
        self._stream = stream
        self._line_number = number
        self._offset = offset
        self._failures = 0
        #: Objects on the first lines of the file, once a line is broken; None before.
        self._head_objects: list[dict[str, object]] | None = None
        #: Offset and line number of a record that the file ends in; None for none.
        self.unfinished: tuple[int, int] | None = None
        stream.seek(offset)

    def iter_records(self) -> Iterator[Record]:
        """Yield records up to the end or an unfinished one."""
        while line := self._next_line():
            text = line.decode_text()
            if line.is_too_long:
                yield line.error_record(TOO_LONG)
            elif line.opens_array:
                if not (yield from self._iter_array(line)):
                    self.unfinished = line.start, line.number
                    return
            elif text:
                record = self._read_object(line, text)
                if record is None and line.is_complete and (self._is_of_lines() or find_glued(text, [])):
                    # No longer record begins here: every line of the file is one.
                    self._go_to(line.end, line.number)
                    record = line.error_record(NOT_JSON)
                if record is None:
                    self.unfinished = line.start, line.number
                    return
                yield record
                if record.error == NOT_JSON and record.offset == line.end and '{"' in text[1:]:
                    yield from self._iter_glued(line, text)

    def _next_line(self) -> _Line | None:
        """Return the next line, its beginning if too long or an array."""
        start = self._offset
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
        self._offset, self._line_number = end, self._line_number + 1
        return _Line(raw, start, end, self._line_number, too_long, array)

    def _read_object(self, line: _Line, text: str) -> Record | None:
        """Return the object on a line, or an error; None while incomplete."""
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            # Open structure, or a second value after the first; a string cannot go on after a line feed.
            opens = error.pos >= len(text) or error.msg.startswith("Extra data")
            if text.startswith("{") and opens and line.is_complete and self._failures < _PATIENCE:
                return self._read_spread_object(line)
            return line.error_record(NOT_JSON) if line.is_complete else None
        except (ValueError, RecursionError):
            return line.error_record(NOT_JSON) if line.is_complete else None
        if isinstance(value, dict):
            return Record(value, line.number, line.end, text[:_QUOTED])
        return line.error_record(NOT_AN_OBJECT) if line.is_complete else None

    def _read_spread_object(self, line: _Line) -> Record | None:
        """Return an object that continues in further lines, or an error."""
        window = TextWindow(self._stream, line.start)
        outcome = window.parse_value(window.skip_to("{"))
        if outcome is None:
            return None
        if isinstance(outcome, str):
            self._failures += 1
            self._go_to(line.end, line.number)
            return line.error_record(outcome)
        value, end = outcome
        self._go_to(window.offset_of(end), line.number + window.text.count("\n", 0, end) - 1)
        if isinstance(value, dict):
            return Record(value, line.number, self._offset, window.text[:_QUOTED])
        return Record({}, line.number, self._offset, window.text[:_QUOTED], NOT_AN_OBJECT)

    def _iter_glued(self, line: _Line, text: str) -> Iterator[Record]:
        """Yield the records after half a one on a broken line."""
        values = find_glued(text, [*self._head_values(), *self._values_at(line.end, _NEXT_LINES)])
        self._go_to(line.end, line.number)
        for value in values:
            yield Record(value, line.number, line.end, json.dumps(value, ensure_ascii=False)[:_QUOTED])

    def _is_of_lines(self) -> bool:
        return 2 * len(self._head_values()) > min(_HEAD_LINES, count_line_feeds(self._stream, 0, self._offset))

    def _head_values(self) -> list[dict[str, object]]:
        """Return the first lines' objects; the caller sets the position again."""
        if self._head_objects is None:
            self._head_objects = self._values_at(0, _HEAD_LINES)
        return self._head_objects

    def _values_at(self, offset: int, count: int) -> list[dict[str, object]]:
        self._stream.seek(offset)
        values = []
        for raw in islice(iter(partial(self._stream.readline, _PEEK), b""), count):
            with suppress(ValueError, RecursionError):
                value = json.loads(raw.strip(BLANKS))
                if isinstance(value, dict):
                    values.append(value)
        return values

    def _iter_array(self, line: _Line) -> Generator[Record, None, bool]:
        """Yield the objects of an array; return whether reading continues after it.

        It does not while the array is still open. Broken or empty arrays, and items that are not objects, give one error.
        """
        window = TextWindow(self._stream, line.start)
        good = at = window.skip_to("[") + 1
        objects, non_objects, error = 0, 0, ""
        while not error:
            at = window.skip_space(at)
            if objects + non_objects and window.text.startswith(",", at):
                at = window.skip_space(at + 1)
            elif objects + non_objects and at < len(window.text) and window.text[at] != "]":
                error = NOT_JSON
            if error or window.text.startswith("]", at):
                break
            outcome = NOT_JSON if window.text.startswith("[", at) else window.parse_value(at)
            if outcome is None:
                return False
            if isinstance(outcome, str):
                error = outcome
                break
            value, end = outcome
            if isinstance(value, dict):
                objects += 1
                quote, reached = window.text[at : at + _QUOTED], window.estimate_offset(end)
                yield Record(value, line.number, line.start, quote, bytes_read=reached)
            else:
                non_objects += 1
            good = at = window.drop_before(end)
        self._failures += bool(error)
        offset = self._next_feed(window.offset_of(good)) if error else window.offset_of(at + 1)
        self._go_to(offset, line.number - 1 + count_line_feeds(self._stream, line.start, offset))
        if error or non_objects or not objects:
            yield line.error_record(error or NOT_AN_OBJECT, self._offset)
        return True

    def _go_to(self, offset: int, number: int) -> None:
        self._offset, self._line_number = offset, number
        self._stream.seek(offset)

    def _next_feed(self, offset: int) -> int:
        self._stream.seek(offset)
        while piece := self._stream.readline(_CHUNK):
            offset += len(piece)
            if piece.endswith(b"\n"):
                break
        return offset


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)
#: Smaller numbers are seconds: as milliseconds they would be before March 1973, as seconds after the year 5000.
_SECONDS_BELOW = 100_000_000_000


def parse_time(value: object) -> int | None:
    """Return the UTC ms of ISO 8601 or an epoch number.

    Also one as a text of 9 to 16 digits; None for anything else. A number under 100,000,000,000 is seconds, any other
    milliseconds. A text without zone is UTC: the zone it was written in is unknown here.
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            return parse_time(int(text)) if text.isascii() and text.isdigit() and 9 <= len(text) <= 16 else None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        try:
            return (moment - _EPOCH) // _MILLISECOND
        except OverflowError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value * 1000) if abs(value) < _SECONDS_BELOW else int(value)
