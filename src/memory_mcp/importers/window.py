"""Text of a file of JSON from a byte offset on, read further only as its values ask for it."""

import codecs
import json
import re
from typing import BinaryIO

#: Longest record that is read, bytes.
MAX_RECORD = 64 * 1024 * 1024
#: First look behind a line that opens something; it doubles, so that a file of broken lines stays cheap.
_WINDOW = 512
_CHUNK = 1024 * 1024

NOT_JSON = "not JSON"
TOO_LONG = "record longer than 64 MiB"

#: White space, and zeros of a crash.
_SPACE = re.compile(r"[\s\0]*")
_decode = json.JSONDecoder().raw_decode


class TextWindow:
    """Decoded text of a file from a byte offset on.

    It grows while a value is not complete.
    """

    def __init__(self, stream: BinaryIO, start: int) -> None:
        """Begin at a byte offset, and read the first part."""
        # Invalid bytes survive as lone surrogates, so that text can be measured in bytes again.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._stream = stream
        self._start = start
        self._ended = False
        self.text = ""
        stream.seek(start)
        self._read_more()

    def offset_of(self, at: int) -> int:
        """Return the byte offset of a place in `text`."""
        return self._start + len(self.text[:at].encode("utf-8", "surrogateescape"))

    def estimate_offset(self, at: int) -> int:
        """Return about the byte offset of a place in `text`.

        Too small where a character takes several bytes.
        """
        return self._start + at

    def drop_before(self, at: int) -> int:
        """Discard a megabyte of text before `at`; return `at` in the rest."""
        if at < _CHUNK:
            return at
        self._start = self.offset_of(at)
        self.text = self.text[at:]
        return 0

    def skip_to(self, opening: str) -> int:
        """Return the place of the first `opening`; 0 if there is none."""
        while (at := self.text.find(opening)) < 0 and self._read_more():
            pass
        return max(at, 0)

    def skip_space(self, at: int) -> int:
        """Return the next place without white space, or the text's end."""
        while True:
            match = _SPACE.match(self.text, at)
            at = match.end() if match else at
            if at < len(self.text) or not self._read_more():
                return at

    def parse_value(self, at: int) -> tuple[object, int] | str | None:
        """Return (value, end) of the JSON at a place, or why not.

        None if the file ends first. Reads `MAX_RECORD` at most.
        """
        while True:
            try:
                value, end = _decode(self.text, at)
                # A number at the end of the window may go on behind it.
                if end == len(self.text) and isinstance(value, int | float) and self._read_more():
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
            if not self._read_more():
                return None

    def _read_more(self) -> bool:
        """Read as much again as there is; return False at the end."""
        raw = self._stream.read(max(_WINDOW, len(self.text)))
        self._ended = not raw
        self.text += self._decoder.decode(raw, final=not raw)
        return bool(raw)


def count_line_feeds(stream: BinaryIO, start: int, end: int) -> int:
    """Return the number of line feeds between two byte offsets."""
    stream.seek(start)
    count = 0
    while start < end and (raw := stream.read(min(_CHUNK, end - start))):
        count += raw.count(b"\n")
        start += len(raw)
    return count
