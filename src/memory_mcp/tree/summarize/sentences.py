"""Split a message into sentences by position, and clean a sentence for reading.

Invariants
1. Every span is inside its text; spans do not overlap and come in reading order.
2. Code, tables, diffs, logs and stack traces give no sentence; an error line in any of them gives one.
3. Cleaning only removes characters and collapses white space: it adds no word.
"""

import re
import sys
from enum import Enum, auto
from functools import cached_property
from string import digits
from typing import NamedTuple

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.tree.summarize.lines import (
    CLOSELY_ENDS,
    PLAIN_STARTS,
    is_dense,
    is_log,
    is_output,
    is_tagged,
    safe_length,
    sentence_start,
)

#: Characters read at the start and end of a longer message.
HEAD = 12_000
TAIL = 4_000
#: Most characters of a sentence; longer ones are cut at white space.
MAX_SENTENCE = 480
#: Most error lines of one message.
MAX_ERRORS = 3


class Shape(Enum):
    """The kind of a span."""

    PROSE = auto()
    ITEM = auto()
    HEADING = auto()
    ERROR = auto()
    #: A line that introduces what follows: it ends in a colon.
    LEAD = auto()


# Looking up a member of an enum takes longer than reading a line.
_PROSE, _LISTED, _LEAD = Shape.PROSE, Shape.ITEM, Shape.LEAD


class Span(NamedTuple):
    """Characters `start` to `end` of a message."""

    start: int
    end: int
    shape: Shape


_FENCE = ("```", "~~~")
_HEADING = lazy_pattern(r"\s{0,3}#{1,6}\s+|\s*\*\*(?=[^*]+\*\*:?\s*$)")
_ITEM = lazy_pattern(r"\s*(?:[-*+•–]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_TAG_LINE = lazy_pattern(r"\s*</?[A-Za-z][\w:.\-]*(?:\s[^<>]*)?/?>\s*$")
_BLOCK_TAG = lazy_pattern(r"\s*<([A-Za-z][\w:.\-]*)[^<>]*>")
_ITEM_STARTS = frozenset("-*+" + digits)
# A stop, an optional closing mark, white space, and a beginning. CJK stops need no white space.
_END = lazy_pattern(r"[.!?…؟।][.!?…]*[\"'”’)\]*_`]*\s+(?=\S)")
_END_ANY = lazy_pattern(_END.pattern + r"|[。！？｡]+[」』）”\"]*")
_WIDE_STOPS = ("。", "！", "？", "｡")
#: The last two letters of abbreviations.
_ABBREVIATED_ENDS = frozenset(("tc", "vs", "cf", "mr", "rs", "ms", "dr", "of", "st", "no", "ig", "ox", "nc"))
_ABBREVIATION = lazy_pattern(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|mr|mrs|ms|dr|prof|st|no|fig|approx|inc|[A-Za-z])\.$", re.I)
_ERROR = lazy_pattern(
    r"\W*(?:(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?::.*|$)|(?i:error|fatal|panic|critical|npm err!)(?:\[\w+\])?: .{6,}|"
    r"(?:FAIL(?:ED|URE)?|ERR!?|ERROR|FATAL)\b[:\[ ].{6,}|E  +\S.{6,}|"
    r"\S+:\d+(?::\d+)?:? (?:error|undefined|cannot|invalid|unused|syntax error)\b.*)"
)
# Every error line holds one of these.
_ERROR_HINTS = ("rror", "xception", "FAIL", "fatal", "panic", "ERR", "E   ", "undefined", "cannot", "invalid")
_EMPTY_FAILURE = lazy_pattern(r"(?:\b0 (?:errors?|failed|failures)|no errors?)\b", re.I)


def find_spans(text: str, limit: int = sys.maxsize) -> list[Span]:
    """Return the spans of a message, in order.

    Of a message over 16,000 characters the first 12,000 and the last 4,000 are read.
    """
    if len(text) <= HEAD + TAIL:
        return _SpanReader(text, 0, len(text)).read_spans(limit)
    head_end = text.rfind("\n", HEAD // 2, HEAD) + 1 or HEAD
    tail_start = text.find("\n", len(text) - TAIL, len(text) - TAIL // 2) + 1 or len(text) - TAIL
    head_spans = _SpanReader(text, 0, head_end).read_spans(limit)
    return (
        head_spans
        if len(head_spans) == limit
        else [*head_spans, *_SpanReader(text, tail_start, len(text)).read_spans(limit - len(head_spans))]
    )


def reply_spans(text: str) -> list[Span]:
    """Return a reply's spans without the quoted questions."""
    return [span for span in find_spans(text) if not text.startswith(">", text.rfind("\n", 0, span.start) + 1)]


def error_spans(text: str, most: int = MAX_ERRORS) -> list[Span]:
    """Return the last `most` error lines of an output's last 4,000 characters."""
    offset = max(0, len(text) - TAIL)
    tail = text[offset:]
    if not _hints_at_error(tail):
        return []
    error_lines: list[Span] = []
    for line in tail.split("\n"):
        if (span := _error_line(line, offset)) is not None:
            error_lines.append(span)
        offset += len(line) + 1
    return error_lines[-most:]


def _error_line(line: str, offset: int) -> Span | None:
    head = line[:400]
    if len(line) < 8 or not _hints_at_error(head) or not _ERROR.match(head) or _EMPTY_FAILURE.search(head):
        return None
    start = offset + len(line) - len(line.lstrip())
    return Span(start, min(offset + len(line.rstrip()), start + MAX_SENTENCE), Shape.ERROR)


def _hints_at_error(text: str) -> bool:
    for hint in _ERROR_HINTS:
        if hint in text:
            return True
    return False


def is_bracketed(text: str, start: int, end: int) -> bool:
    """Return whether square brackets enclose the whole of `text[start:end]`."""
    return text[start] == "[" and text.find("]", start, end) >= end - 2


class _SpanReader:
    """Reads the lines once; a block is a run of prose lines."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.start = start
        self.end = end
        self.block = -1
        self.block_end = -1
        self.shape = _PROSE
        self.errors = 0
        self.spans: list[Span] = []
        self.stops = _END if text.isascii() or not any(stop in text for stop in _WIDE_STOPS) else _END_ANY
        #: No line of at least this length is dense: the text has too few symbols.
        self.safe_length = 0
        #: What ends the current fenced or tagged block; "" outside of such blocks.
        self.block_closing = ""

    @cached_property
    def is_log(self) -> bool:
        """Whether several lines begin with the level of a log."""
        return is_log(self.text[self.start : self.end])

    def read_spans(self, limit: int) -> list[Span]:
        offset = self.start
        part = self.text[offset : self.end]
        safe = self.safe_length = safe_length(part)
        for line in part.split("\n"):
            bare = line.strip()
            if self.block_closing:
                if bare.startswith(self.block_closing) if self.block_closing in _FENCE else self.block_closing in bare:
                    self.block_closing = ""
                else:
                    self._add_error(line, offset)
            elif not bare:
                if self.block >= 0:
                    self._end_block()
            elif line[0] not in PLAIN_STARTS or bare[-1] in CLOSELY_ENDS or "@" in bare or (len(bare) < safe and is_dense(bare)):
                self._read_odd_line(line, bare, offset)
            else:
                if self.block < 0:
                    self.block, self.shape = offset, _PROSE
                self.block_end = offset + len(bare)
            if len(self.spans) >= limit:
                break
            offset += len(line) + 1
        else:
            self._end_block()
        return self.spans[:limit]

    def _read_odd_line(self, line: str, bare: str, offset: int) -> None:
        """Read a line that may be no prose."""
        first = bare[0]
        if first in _ITEM_STARTS and (match := _ITEM.match(line)):
            self._end_block()
            self.block, self.shape = offset + match.end(), _LISTED
            self.block_end = offset + len(line.rstrip())
            if bare[-1] in ":：":
                self._end_block(lead=True)
        elif first in "`~" and bare.startswith(_FENCE):
            self._end_block()
            self.block_closing = bare[:3]
        elif first == "<" and self._opens_block(bare, offset):
            self._end_block()
        elif is_tagged(bare):
            start = sentence_start(bare, self.is_log)
            self._end_block()
            if start < 0:
                self._add_error(line, offset)
            else:
                self._add_prose(line, offset, bare, start)
        elif is_output(line, bare, self.block < 0, self.safe_length):
            self._end_block()
            self._add_error(line, offset)
        else:
            self._add_prose(line, offset, bare)

    def _opens_block(self, bare: str, offset: int) -> bool:
        tag = _BLOCK_TAG.match(bare)
        if tag is None:
            return False
        closing = f"</{tag[1]}>"
        opens = closing not in bare and (len(bare) <= 200 or _TAG_LINE.match(bare))
        if opens and self.text.find(closing, offset, self.end) >= 0:
            self.block_closing = closing
        return bool(self.block_closing)

    def _add_error(self, line: str, offset: int) -> None:
        if self.errors < MAX_ERRORS and (span := _error_line(line, offset)) is not None:
            self.errors += 1
            self.spans.append(span)

    def _add_prose(self, line: str, offset: int, bare: str, start: int = 0) -> None:
        end = offset + len(line.rstrip())
        first = bare[start]
        if not start and first in "#*" and (match := _HEADING.match(line)):
            self._end_block()
            if offset + match.end() < end:
                self.spans.append(Span(offset + match.end(), end, Shape.HEADING))
            return
        match = _ITEM.match(line) if not start and (first in "-*+•–" or first.isdigit()) else None
        if match:
            self._end_block()
            self.block, self.shape = offset + match.end(), _LISTED
        elif self.block < 0:
            self.block, self.shape = offset + start + len(line) - len(line.lstrip(" \t>")), _PROSE
        self.block_end = end
        if bare[-1] in ":：":
            self._end_block(lead=True)

    def _end_block(self, lead: bool = False) -> None:
        """`lead`: the last sentence introduces what follows."""
        start, end = self.block, self.block_end
        if start < 0:
            return
        self.block = -1
        text = self.text
        for match in self.stops.finditer(text, start, end):
            stop, after = match.span()
            if text[stop] == ".":
                last = text[stop - 2 : stop].lower()
                doubtful = last in _ABBREVIATED_ENDS or not last[:1].isalpha()
                if doubtful and _ABBREVIATION.search(text, max(start, stop - 8), stop + 1):
                    continue
            self._add_span(start, after, self.shape)
            start = after
        self._add_span(start, end, _LEAD if lead else self.shape)

    def _add_span(self, start: int, end: int, shape: Shape) -> None:
        piece = self.text[start:end]
        bare = piece.strip()
        if not bare:
            return
        if piece[0] != bare[0]:
            start += piece.find(bare[0])
        end = start + len(bare)
        if len(bare) > MAX_SENTENCE:
            gap = self.text.rfind(" ", start + MAX_SENTENCE // 2, start + MAX_SENTENCE)
            end = gap if gap > 0 else start + MAX_SENTENCE
        self.spans.append(Span(start, end, shape))


_IMAGE = lazy_pattern(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()]*\))*\)")
_HTML = lazy_pattern(
    r"</?(?:[abipsu]|em|strong|code|br|span|div|img|[uo]l|li|h[1-6]|details|summary|kbd|su[bp]|t[drh]|pre|hr)(?:\s[^<>]*)?/?>"
)
# Every branch begins with a literal character, so that a search jumps from one to the next.
_MARKS = lazy_pattern(
    r"\*(?:\*{0,2}(?=\S)|(?<=\S\*)\*{0,2})|_(?:(?<!\w_)_?(?=\S)|(?<=\S_)_?(?!\w))|~~|``*",
)
_LEADING_MARKS = lazy_pattern(_MARKS.pattern + r"|^\s*(?:#{1,6}\s|>\s?|[-*+•]\s)+")
_MARK = lazy_pattern(r"(?<!\S)\{[a-z]+\}(?!\S)")
_FOLDERS = r"(?:[\w.@\-+]+[/\\]){2,}(?=[\w.\-])"
_HOME = lazy_pattern(r"[~/](?<![\w.:/][~/])" + _FOLDERS)
_HOME_OR_DRIVE = lazy_pattern(r"(?<![\w.:/])(?:~|/|[A-Za-z]:\\)" + _FOLDERS)
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\x1b\[[\d;]*m")


def without_marks(text: str) -> str:
    """Return a transcript with marks ({laugh}) blanked; positions stay."""
    return _MARK.sub(lambda match: " " * len(match[0]), text) if "{" in text else text


def clean_text(text: str) -> str:
    """Return one line without markup, control characters and folders.

    Folders of absolute paths and targets of links are left out.
    """
    text = without_marks(text)
    if "\x1b" in text:
        text = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", text)
    if "](" in text:
        text = _IMAGE.sub(r"\1", text)
    if "<" in text:
        text = _HTML.sub("", text)
    first = text[:1]
    if first in "#>-+•" or first.isspace() or (first == "*" and text[1:2].isspace()):
        text = _LEADING_MARKS.sub("", text)
    elif "_" in text or "`" in text or "*" in text or "~~" in text:
        text = _MARKS.sub("", text)
    if "/" in text or "\\" in text:
        text = (_HOME_OR_DRIVE if ":\\" in text else _HOME).sub("", text)
    line = " ".join(text.split())
    return line if line.isprintable() else " ".join(_CONTROL.sub(" ", text).split())


def shorten(text: str, width: int) -> str:
    """Cut a text between words, with an ellipsis."""
    if len(text) <= width:
        return text
    gap = text.rfind(" ", width // 2, width - 1)
    return text[: gap if gap > 0 else width - 1].rstrip(" ,;:-–—(") + "…"
