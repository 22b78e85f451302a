"""A message's text in, the places of its sentences out, and the cleaning that makes one readable.

Invariants
1. Every span lies inside the text it was cut from; spans do not overlap and come in reading order.
2. Code, tables, diffs, logs and stack traces give no sentence; an error line in any of them gives one.
3. Cleaning only leaves characters out (and closes white space): it adds no word.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

#: Of a longer message only this much of its head and tail is read: what people say is said there.
HEAD = 12_000
TAIL = 4_000
#: A sentence without an end is cut here, at white space.
MAX_SENTENCE = 480
#: Error lines taken from one message.
MAX_ERRORS = 3


class Shape(Enum):
    """What kind of place a span is."""

    PROSE = auto()
    ITEM = auto()
    HEADING = auto()
    ERROR = auto()
    #: A line that announces what follows: it ends in a colon.
    LEAD = auto()


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of a message."""

    start: int
    end: int
    shape: Shape


_FENCE = ("```", "~~~")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+|\s*\*\*(?=[^*]+\*\*:?\s*$)")
_ITEM = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_TAG_LINE = re.compile(r"\s*</?[A-Za-z][\w:.\-]*(?:\s[^<>]*)?/?>\s*$")
_BLOCK_TAG = re.compile(r"\s*<([A-Za-z][\w:.\-]*)[^<>]*>")
# Lines that begin as output, diffs, listings and traces do.
_NOISE = re.compile(
    r"[|┌├└│╭╰⎿⏺✓✗✔✖→{}()\[\];]|diff --git |index [0-9a-f]{5,}|@@ |\+\+\+ |--- |[-=*_]{3,}$|at \S+[(:]|File \"|\$ |❯ |> ?\w+ -|"
    r"\d{4}-\d\d-\d\d[T ]\d|\d\d:\d\d:\d\d|\d+[→|:\t]|//|/\*|\* @|-\S+$|#include|[\w.\-]+@[\w.\-]+[: ]\S* ?[%$#] "
)
_NOISE_STARTS = frozenset("|┌├└│╭╰⎿⏺✓✗✔✖→{}()[];@+-=*_$❯>/#0123456789") | frozenset("diaF")
_STATEMENT = re.compile(
    r"(?:import|from|def|class|func|const|let|var|return|package|public|private|async|export|fn|use|elif|else|SELECT|INSERT|if|for|while|switch|"
    r"case|type|struct|try|with)\b"
)
_BRACKETS = frozenset("=()[]{}")
_CODE_END = ("{", ";", "=>", "&&", "||", "\\", "(", "},", "),", "[")
# A stop, an optional closing mark, white space, and a beginning. CJK stops need no white space.
_END = re.compile(r"[.!?…؟।][.!?…]*[\"'”’)\]*_`]*\s+(?=\S)")
_END_ANY = re.compile(_END.pattern + r"|[。！？｡]+[」』）”\"]*")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|mr|mrs|ms|dr|prof|st|no|fig|approx|inc|[A-Za-z])\.$", re.I)
_ERROR = re.compile(
    r"\W*(?:(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?::.*|$)|(?i:error|fatal|panic|critical|npm err!)(?:\[\w+\])?: .{6,}|"
    r"(?:FAIL(?:ED|URE)?|ERR!?|ERROR|FATAL)\b[:\[ ].{6,}|E  +\S.{6,}|"
    r"\S+:\d+(?::\d+)?:? (?:error|undefined|cannot|invalid|unused|syntax error)\b.*)"
)
_ERROR_HINT = re.compile(r"rror|xception|FAIL|fatal|panic|ERR|E   |undefined|cannot|invalid")
_EMPTY_FAILURE = re.compile(r"(?:\b0 (?:errors?|failed|failures)|no errors?)\b", re.I)


def spans(text: str) -> list[Span]:
    """The sentences, headings, list items and error lines of a message, in reading order."""
    if len(text) <= HEAD + TAIL:
        return _Reader(text, 0, len(text)).read()
    head_end = text.rfind("\n", HEAD // 2, HEAD) + 1 or HEAD
    tail_start = text.find("\n", len(text) - TAIL, len(text) - TAIL // 2) + 1 or len(text) - TAIL
    return [*_Reader(text, 0, head_end).read(), *_Reader(text, tail_start, len(text)).read()]


def error_spans(text: str) -> list[Span]:
    """Only the error lines of an output: its last ones, where tools say what went wrong."""
    start = max(0, len(text) - TAIL)
    found: list[Span] = []
    if _ERROR_HINT.search(text, start):
        place = start
        for line in text[start:].split("\n"):
            if (span := _error_line(line, place)) is not None:
                found.append(span)
            place += len(line) + 1
    return found[-MAX_ERRORS:]


def _error_line(line: str, place: int) -> Span | None:
    if len(line) < 8 or not _ERROR_HINT.search(line, 0, 400) or not _ERROR.match(line[:400]) or _EMPTY_FAILURE.search(line[:400]):
        return None
    start = place + len(line) - len(line.lstrip())
    return Span(start, min(place + len(line.rstrip()), start + MAX_SENTENCE), Shape.ERROR)


class _Reader:
    """Walks the lines once; a block is a run of prose lines that belong together."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.place = start
        self.end = end
        self.block = -1
        self.block_end = -1
        self.shape = Shape.PROSE
        self.errors = 0
        self.found: list[Span] = []
        self.stops = _END if text.isascii() else _END_ANY

    def read(self) -> list[Span]:
        fence, closing, place = "", "", self.place
        for line in self.text[place : self.end].split("\n"):
            bare = line.strip()
            if fence or closing:
                if (fence and bare.startswith(fence)) or (closing and closing in bare):
                    fence = closing = ""
                else:
                    self._error(line, place)
            elif not bare:
                self._flush()
            elif bare.startswith(_FENCE):
                self._flush()
                fence = bare[:3]
            elif bare[0] == "<" and _BLOCK_TAG.match(bare):
                self._flush()
                closing = self._tag(bare, place)
            elif self._noise(line, bare):
                self._flush()
                self._error(line, place)
            else:
                self._prose(line, place, bare)
            place += len(line) + 1
        self._flush()
        return self.found

    def _tag(self, bare: str, place: int) -> str:
        """The closing tag to wait for when a tagged block of several lines opens here."""
        match = _BLOCK_TAG.match(bare)
        closing = f"</{match[1]}>" if match else ""
        if closing in bare or (not _TAG_LINE.match(bare) and len(bare) > 200):
            return ""
        return closing if self.text.find(closing, place, self.end) >= 0 else ""

    def _noise(self, line: str, bare: str) -> bool:
        first = bare[0]
        if first in _NOISE_STARTS or "@" in bare:
            if _ITEM.match(line):
                return False
            if _NOISE.match(bare):
                return True
        if line[0] in " \t" and self.block < 0:
            return line.startswith(("    ", "\t"))
        if bare.endswith(_CODE_END):
            return True
        if bare[-1] in ":)" and _STATEMENT.match(bare) and not _BRACKETS.isdisjoint(bare) and bare.count(" ") < 8:
            return True
        symbols = sum(map(bare.count, "{}()[];=<>$|&"))
        return symbols * 8 > len(bare)

    def _error(self, line: str, place: int) -> None:
        if self.errors < MAX_ERRORS and (span := _error_line(line, place)) is not None:
            self.errors += 1
            self.found.append(span)

    def _prose(self, line: str, place: int, bare: str) -> None:
        end = place + len(line.rstrip())
        first = bare[0]
        if first in "#*" and (match := _HEADING.match(line)):
            self._flush()
            if place + match.end() < end:
                self.found.append(Span(place + match.end(), end, Shape.HEADING))
            return
        match = _ITEM.match(line) if first in "-*+•–" or first.isdigit() else None
        if match:
            self._flush()
            self.block, self.shape = place + match.end(), Shape.ITEM
        elif self.block < 0:
            self.block, self.shape = place + len(line) - len(line.lstrip(" \t>")), Shape.PROSE
        self.block_end = end
        if bare[-1] in ":：":
            self._flush(lead=True)

    def _flush(self, lead: bool = False) -> None:
        start, end = self.block, self.block_end
        if start < 0:
            return
        self.block = -1
        for match in self.stops.finditer(self.text, start, end):
            stop = match.start()
            if self.text[stop] == "." and _ABBREVIATION.search(self.text, max(start, stop - 8), stop + 1):
                continue
            self._cut(start, match.end(), self.shape)
            start = match.end()
        self._cut(start, end, Shape.LEAD if lead else self.shape)

    def _cut(self, start: int, end: int, shape: Shape) -> None:
        piece = self.text[start:end]
        bare = piece.strip()
        if not bare:
            return
        start += piece.find(bare[0])
        end = start + len(bare)
        if end - start > MAX_SENTENCE:
            gap = self.text.rfind(" ", start + MAX_SENTENCE // 2, start + MAX_SENTENCE)
            end = gap if gap > 0 else start + MAX_SENTENCE
        self.found.append(Span(start, end, shape))


_IMAGE = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()]*\))*\)")
_HTML = re.compile(
    r"</?(?:[abipsu]|em|strong|code|br|span|div|img|[uo]l|li|h[1-6]|details|summary|kbd|su[bp]|t[drh]|pre|hr)(?:\s[^<>]*)?/?>"
)
_MARKUP = re.compile(r"[*_~`#>\[\]\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff</\\]|^\s*[-+•]")
_MARKS = re.compile(r"\*{1,3}(?=\S)|(?<=\S)\*{1,3}|(?<!\w)_{1,2}(?=\S)|(?<=\S)_{1,2}(?!\w)|~~|`+|^\s*(?:#{1,6}\s|>\s?|[-*+•]\s)+")
_MARK = re.compile(r"(?<!\S)\{[a-z]+\}(?!\S)")
_HOME = re.compile(r"(?<![\w.:/])(?:~|/|[A-Za-z]:\\)(?:[\w.@\-+]+[/\\]){2,}(?=[\w.\-])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\x1b\[[\d;]*m")


def without_marks(text: str) -> str:
    """A transcript with its marks ({laugh}, {pause}) blanked, so that every other character keeps its place."""
    return _MARK.sub(lambda match: " " * len(match[0]), text) if "{" in text else text


def clean(text: str) -> str:
    """One line without markdown, tags, transcription marks, control characters and the folders of absolute paths."""
    text = without_marks(text)
    if not _MARKUP.search(text):
        return " ".join(text.split())
    if "\x1b" in text:
        text = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", text)
    if "](" in text:
        text = _IMAGE.sub(r"\1", text)
    if "<" in text:
        text = _HTML.sub("", text)
    text = _MARKS.sub("", text)
    if "/" in text or "\\" in text:
        text = _HOME.sub("", text)
    return " ".join(_CONTROL.sub(" ", text).split())


def shorten(text: str, width: int) -> str:
    """At most `width` characters, cut between words, an ellipsis where something was left out."""
    if len(text) <= width:
        return text
    gap = text.rfind(" ", width // 2, width - 1)
    return text[: gap if gap > 0 else width - 1].rstrip(" ,;:-–—(") + "…"
