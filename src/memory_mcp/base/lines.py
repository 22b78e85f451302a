"""Splits a stream of JSON-RPC into lines of bounded length, and reads each line, or answers one that cannot be read.

Standard library only: every client's relay uses it.

Invariants
1. A byte is looked at a fixed number of times, however the stream is cut into chunks and however long a line is.
2. What cannot be passed on is answered with an error that carries the message's id where it can be told, else null.

Change here: what a client may send on a line, and what it is told of the rest.
"""

import json
import math
import re
from typing import Any

from memory_mcp.base.dataclass import dataclass

#: Longest line of a client (bytes): ten megabytes of text, escaped.
LONGEST = 64 * 1024 * 1024
#: Levels of lists and objects in one message. The SDK's parser ends at 200, and its models below that.
DEEPEST = 100
_DEEP = f"the message is nested deeper than {DEEPEST} levels"
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
#: Of a line that is not read, so much of both ends is kept to find its id (bytes).
_KEPT = 4096
#: What some systems put in front of the first line of UTF-8.
_MARK = b"\xef\xbb\xbf"
_LONE = re.compile("[\ud800-\udfff]")
_ID = rb'"id"\s*:\s*(-?[0-9]{1,18}(?:\.[0-9]{1,18})?|"(?:[^"\\]|\\.){0,200}")'
_OTHER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,100}"'
#: The id among the first or the last members of a message: clients write it at either end. Before the message may stand what
#: makes it unreadable. An answer of the client's is none to answer: its id is one of ours.
_FIRST = re.compile(rb"[^\[{\"]{0,64}\{\s*(?:" + _OTHER + rb"\s*,\s*){0,2}" + _ID + rb"\s*(?:\}|,(?!\s*\"(?:result|error)\"))")
_LAST = re.compile(rb"[}\]]\s*,\s*(?:" + _OTHER + rb"\s*,\s*){0,2}" + _ID + rb"(?:\s*,\s*" + _OTHER + rb"){0,2}\s*\}\s*\Z")


@dataclass(frozen=True, slots=True)
class Cut:
    """The two ends of a line too long to be kept."""

    head: bytes
    tail: bytes


class Splitter:
    """Splits a stream into lines, without their ends."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        # Not a list of chunks: a client that writes byte by byte would cost eight times the line.
        self._line = bytearray()
        #: The ends of the line that is being skipped.
        self._cut: Cut | None = None

    def feed(self, got: bytes) -> list[bytes | Cut]:
        """Return the lines that end in this chunk, empty ones too.

        A `Cut` stands for one that was too long. What follows the last line end is kept for the next chunk or `end`.
        """
        *ended, tail = (got.replace(b"\r", b"\n") if b"\r" in got else got).split(b"\n")
        complete = []
        for part in ended:
            self._append_part(part)
            complete.append(self.end())
        self._append_part(tail)
        return complete

    def end(self) -> bytes | Cut:
        """Return what came since the last line, and begin another.

        A `Cut` where it was too long; b"" for nothing.
        """
        line: bytes | Cut = bytes(self._line) if self._cut is None else self._cut
        self._line, self._cut = bytearray(), None
        return line

    def _append_part(self, part: bytes) -> None:
        """Append bytes to the line.

        Of one that becomes too long only `_KEPT` bytes of both ends are kept.
        """
        if self._cut is not None:
            self._cut = Cut(self._cut.head, (self._cut.tail + part)[-_KEPT:])
            return
        self._line += part
        if len(self._line) > self._longest:
            self._cut = Cut(bytes(self._line[:_KEPT]), bytes(self._line[-_KEPT:]))
            self._line = bytearray()


@dataclass(frozen=True, slots=True)
class Read:
    """A line to be passed on, or an answer to it."""

    line: bytes = b""
    message: dict[str, Any] | None = None
    answer: bytes = b""


def read_line(line: bytes | Cut) -> Read:
    """Read a client's line: a message, or an error's answer.

    Answered are lines that are too long, no UTF-8, no JSON, nested too deep, or no message of the protocol, each with the id
    where it can be found. Lone surrogates, which no UTF-8 can carry, become U+FFFD; a byte order mark is dropped.
    """
    if isinstance(line, Cut):
        return Read(answer=too_long(_find_id(line.head, line.tail)))
    line = line.removeprefix(_MARK)
    if not line.strip():
        return Read()
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return _refuse_line(line, PARSE_ERROR, f"INVALID_ARGUMENT: the line is no UTF-8: byte {error.start} cannot be read")
    try:
        message = json.loads(text)
    except RecursionError:
        return _refuse_line(line, INVALID_REQUEST, f"INVALID_ARGUMENT: {_DEEP}")
    except ValueError as error:
        # The parser repeats nothing of the line, but for a number of thousands of digits it names a Python function.
        why = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else "a number is too long"
        return _refuse_line(line, PARSE_ERROR, f"INVALID_ARGUMENT: the line is no JSON: {why}")
    if line.count(b"{") + line.count(b"[") > DEEPEST and _depth(message) > DEEPEST:
        return Read(answer=refuse_message(message, _DEEP))
    if "\\ud" in text or "\\uD" in text:
        plain = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        mended, count = _LONE.subn("\ufffd", plain)
        if count and _LONE.search(str(_read_id(message))):
            # Mended, it would be another id than the client waits for.
            return Read(answer=refuse_message(message, "the id has half a character in it"))
        if count:
            line, message = mended.encode(), json.loads(mended)
    why = _find_fault(message)
    return Read(answer=refuse_message(message, why)) if why else Read(line + b"\n", message)


def _find_fault(message: object) -> str:
    """Return why a JSON value is no message of the protocol."""
    if isinstance(message, list):
        return "batches are not supported; send one message per line"
    if not isinstance(message, dict):
        return "a message is a JSON object"
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if "id" in message and _read_id(message) is None:
        return "id must be a text or a number"
    if "method" not in message:
        if "id" not in message or not ("result" in message or "error" in message):
            return "method is missing"
        if "result" in message:
            return "" if isinstance(message["result"], dict) else "result must be an object"
        error = message["error"]
        is_error = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
        return "" if is_error else "error must be an object with a code and a message"
    if not isinstance(message["method"], str):
        return "method must be a text"
    return "" if isinstance(message.get("params"), dict | None) else "params must be an object"


def _read_id(message: object) -> str | float | None:
    """Return the id of a message."""
    value = message.get("id") if isinstance(message, dict) else None
    # Infinity, as 1e999 is read, is no JSON.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != math.inf and value == value
    return value if is_number or isinstance(value, str) else None


def _depth(message: object) -> int:
    levels, layer = 0, [message]
    while layer := [value for value in layer if isinstance(value, dict | list)]:
        levels += 1
        layer = [inner for value in layer for inner in (value.values() if isinstance(value, dict) else value)]
    return levels


def too_long(number: str | float | None) -> bytes:
    """Return the error line for a message that is too long."""
    why = f"RESOURCE_EXHAUSTED: the message is longer than {LONGEST} bytes. Send less at once"
    return _make_error(number, INVALID_REQUEST, why)


def _refuse_line(line: bytes, code: int, why: str) -> Read:
    return Read(answer=_make_error(_find_id(line[:_KEPT], line[-_KEPT:]), code, why))


def refuse_message(message: object, why: str) -> bytes:
    """Return the error line (INVALID_REQUEST) for a JSON message.

    It has the message's id, null for none and for an answer to one of ours.
    """
    # What answers one of ours has our id, which may be that of a call of the client's, too.
    answers = isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)
    return _make_error(None if answers else _read_id(message), INVALID_REQUEST, f"INVALID_ARGUMENT: {why}")


def _find_id(head: bytes, tail: bytes) -> str | float | None:
    """Return the id of a message that cannot be read."""
    match = _FIRST.match(head) or _LAST.search(tail)
    try:
        return _read_id({"id": json.loads(match[1].decode())}) if match else None
    except ValueError:
        return None


def _make_error(number: str | float | None, code: int, why: str) -> bytes:
    """Return the line of an error that no retry helps."""
    text = f"{why}. A retry of the same call will not help."
    answer = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"
