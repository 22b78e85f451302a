"""Remove this program's own output from recorded text, so that it is not stored again. Pure.

Invariants
1. Only what has the form of an answer is taken out: a fence whose tags are on lines of their own around what our renderers
   write, or an object that says its origin and holds more. A text that mentions the mark, or both tags, stays whole.
2. An answer is known as it was sent and as it is pasted: escaped as HTML, JSON or inside of other JSON, quoted or numbered line
   by line, cut off at either end.
3. The time is linear in the text: around each mark so many characters are looked at, and each stretch between two is read once.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.sentinel import MARK, opens_own_session

#: Characters looked at before a mark: an escaped bracket, and what is put before a line.
_BRACKET, _LOOK_BACK = 60, 120
#: An object without end is removed if a sign of ours is within this many characters of its beginning.
_LOOK_AHEAD = 2_000
_AMP = r"&(?:amp;){0,4}"
_ESC = r"\\{1,15}"
_LT = rf"(?:\\?<|{_AMP}(?:lt|\#0{{0,9}}60|\#x0{{0,9}}3c);|{_ESC}(?:u003c|x3c))"
_GT = rf"(?:\\?>|{_AMP}(?:gt|\#0{{0,9}}62|\#x0{{0,9}}3e);|{_ESC}(?:u003e|x3e))"
_SLASH = rf"(?:\\{{0,15}}/|{_AMP}(?:sol|\#0{{0,9}}47|\#x0{{0,9}}2f);|{_ESC}(?:u002f|x2f))"
_QUOTE = rf"(?:\\{{0,15}}[\"']|\\{{0,15}}{_AMP}(?:quot|apos|\#0{{0,9}}3[49]|\#x0{{0,9}}2[27]);)"
# A line's end, plain and as escaped in JSON and HTML.
_BREAK = rf"(?:\r?\n|\r|(?<!\\)\\++[nr]|{_AMP}\#(?:0{{0,9}}1[03]|x0{{0,9}}[ad]);|<br ?/?>)"
_BLANK = rf"(?:\s|{_ESC}[nrt])"
# The margin of a line that was quoted, numbered or commented out: no letters.
_MARGIN = rf"(?:[^\S\r\n]|[>|#+*/:.,;)\"'`\u2192\u2502\d-]|\\(?=[\"'])|{_AMP}(?:gt|nbsp|quot|\#\d{{1,4}});){{0,60}}"
_TAG_OPENS, _TAG_CLOSES = lazy_pattern(rf"{_LT}\Z", re.I), lazy_pattern(rf"{_LT}{_SLASH}\Z", re.I)
_TAG_ENDS = lazy_pattern(_GT, re.I)
_BEGINS_LINE = lazy_pattern(rf"{_BREAK}{_MARGIN}\Z", re.I)
_ENDS_LINE = lazy_pattern(rf"[^\S\r\n]{{0,40}}(?:{_BREAK}|\Z)", re.I)
# So much of what is before a line goes with it.
_QUOTED = lazy_pattern(rf"(?:[^\S\r\n]|[>|]|{_AMP}gt;|\d{{1,7}} ?[\u2192:|.)\t])*\Z", re.I)
_LINE_ENDS = lazy_pattern(rf"{_BREAK}++", re.I)
#: Signs of what was recalled: an id, a moment, or what our answers begin with.
_SIGN = lazy_pattern(
    r"(?<!\w)(?:grip:(?:\d{1,15}:|[0-9a-hjkmnp-tv-z]{16}\b)|toc:(?:root\b|year:|month:|week:|day:|segment:)"
    r"|topic:[0-9a-z]{12}\b|[0-3][0-9A-HJKMNP-TV-Z]{25}\b"
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d|No (?:results|topics)\.|From earlier sessions \(|Recorded in earlier sessions"
    r"|- confidence: (?:strong|weak|none)\b|memory-mcp admin acknowledge-loss)"
)
# How a line of an answer begins: a list, a quotation, emphasis, a number, or our own words.
_OWN = (
    rf"(?:[^\S\r\n]|\d{{1,7}} ?[\u2192:|\t]){{0,60}}(?:[>|*\u2022-]|{_AMP}gt;|\\\*|\d{{4}}-\d\d|No (?:results|topics)\."
    r"|Further, shortened:|Shortened; |From earlier sessions|Recorded in earlier|Pinned:|Where we left off|Before that, "
    r"|intelligent_search |expand_grip )"
)
_OWN_LINE, _JOINED = lazy_pattern(_OWN, re.I), lazy_pattern(rf"\s++{_OWN}", re.I)
# Between two members of an object: blanks, and what was put before its lines.
_GAP = rf"(?:{_BLANK}|[>|]|{_AMP}gt;|\d{{1,7}} ?[\u2192:|\t]){{0,60}}"
_FIELD = r"[a-z][a-z_]{1,40}"
_ORIGIN = lazy_pattern(rf"(\{{{_GAP})?({_QUOTE})origin{_QUOTE}{_BLANK}{{0,9}}:{_BLANK}{{0,9}}{_QUOTE}\Z", re.I)
_MORE = lazy_pattern(rf"{_QUOTE}{_BLANK}{{0,9}},{_GAP}{_QUOTE}{_FIELD}{_QUOTE}{_BLANK}{{0,9}}:", re.I)
_YAML_ORIGIN = lazy_pattern(r"[\r\n][^\S\r\n]{0,40}origin: ?[\"']?\Z")
_YAML_MORE = lazy_pattern(rf"[\"']?[^\S\r\n]{{0,9}}\r?\n[^\S\r\n]{{0,40}}{_FIELD}:(?=\s)")
_YAML_LINE = lazy_pattern(rf"\s|- |{_FIELD}:|\Z")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Tag:
    start: int
    end: int
    closes: bool
    #: Whether it is alone on its line, except for a margin.
    begins_line: bool
    ends_line: bool
    #: Whether the beginning or end of an answer is next to it on the same line.
    joined: bool


def is_answer(value: object) -> bool:
    """Return whether a JSON value holds an answer of ours.

    Such an answer is an object, at any depth or as a text, whose `origin` is our mark.
    """
    if isinstance(value, str):
        return MARK in value and is_answer(_json_of(value))
    if isinstance(value, Mapping):
        return value.get("origin") == MARK or any(map(is_answer, value.values()))
    return isinstance(value, list | tuple) and any(map(is_answer, value))


def remove_own_output(text: str) -> str:
    """Return `text` without this program's output; "" if that is all.

    A text without our mark is returned as it is, and so is one that only mentions the mark.
    """
    if MARK not in text:
        return text
    if opens_own_session(text) or is_answer(_json_of(text)):
        return ""
    remaining = _cut_spans(text, _iter_fences(text, list(_iter_tags(text))))
    return _cut_spans(remaining, _iter_answers(remaining))


def _cut_spans(text: str, spans: Iterator[Span]) -> str:
    """Return `text` without ordered spans; "" without letter or digit."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts.append(text[at:start])
        at = end
    if not at:
        return text
    remaining = "".join([*parts, text[at:]]).strip()
    return remaining if any(map(str.isalnum, remaining)) else ""


def _iter_marks(text: str) -> Iterator[int]:
    at = text.find(MARK)
    while at >= 0:
        yield at
        at = text.find(MARK, at + len(MARK))


def _text_before(text: str, at: int, many: int = _LOOK_BACK) -> str:
    """Return the text before a position; a line feed begins the first."""
    return text[at - many : at] if at > many else f"\n{text[:at]}"


def _iter_tags(text: str) -> Iterator[_Tag]:
    for at in _iter_marks(text):
        ends = _TAG_ENDS.match(text, at + len(MARK))
        near = _text_before(text, at, _BRACKET)
        begins = ends and (_TAG_CLOSES.search(near) or _TAG_OPENS.search(near))
        if not ends or not begins:
            continue
        closes, start = len(begins[0]) > 1 and _TAG_CLOSES.match(begins[0]) is not None, at - len(begins[0])
        joined = text[start - 1 : start].isspace() if closes else _JOINED.match(text, ends.end()) is not None
        begins_line = _BEGINS_LINE.search(_text_before(text, start)) is not None
        yield _Tag(start, ends.end(), closes, begins_line, _ENDS_LINE.match(text, ends.end()) is not None, joined)


def _iter_fences(text: str, tags: list[_Tag]) -> Iterator[Span]:
    """Yield the spans of the text that are fenced by us.

    A fence needs a sign of an answer inside, unless it is all of the text; of a fence without one of its ends, the lines that
    are ours.
    """
    if len(tags) == 2 and _is_single_fence(text, *tags):
        yield 0, len(text)
        return
    at = 0
    waiting = zip_longest(tags, tags[1:])
    for tag, following in waiting:
        if tag.closes:
            span = _fence_without_head(text, at, tag)
        elif following is not None and _is_fence(tag, following) and _SIGN.search(text, tag.end, following.start):
            span = _margin_start(text, tag.start), following.end
            next(waiting)
        else:
            span = _fence_without_end(text, tag, following.start if following else len(text))
        if span:
            yield span
        at = max(tag.end, span[1] if span else 0)


def _is_single_fence(text: str, first: _Tag, last: _Tag) -> bool:
    if first.closes or not last.closes or not (first.ends_line and last.begins_line):
        return False
    return not any(map(str.isalnum, text[: _margin_start(text, first.start)])) and not any(map(str.isalnum, text[last.end :]))


def _is_fence(first: _Tag, last: _Tag) -> bool:
    if first.closes or not last.closes:
        return False
    return last.begins_line if first.ends_line else first.begins_line and first.joined and last.joined


def _margin_start(text: str, start: int) -> int:
    near = _text_before(text, start, _BRACKET)
    margin = _QUOTED.search(near) if _BEGINS_LINE.search(near) else None
    return start - len(margin[0]) if margin else start


def _iter_lines(text: str, start: int, end: int) -> Iterator[Span]:
    for line_end in _LINE_ENDS.finditer(text, start, end):
        if text[start : line_end.start()].strip():
            yield start, line_end.start()
        start = line_end.end()
    if text[start:end].strip():
        yield start, end


def _is_own(text: str, line: Span) -> bool:
    # Whether a line goes on does not matter, how it begins does.
    return _OWN_LINE.match(text, line[0], min(line[1], line[0] + _LOOK_BACK)) is not None


def _fence_without_head(text: str, at: int, tag: _Tag) -> Span | None:
    """Return the span of our lines before a closing tag.

    None unless there are two such lines or a sign of ours. A first line that was cut goes too.
    """
    start = run_start = count = 0
    for number, line in enumerate(_iter_lines(text, at, tag.start) if tag.begins_line else ()):
        count = count + 1 if _is_own(text, line) else 0
        if count == 1:
            run_start = line[0]
            start = 0 if number == 1 and not at else run_start
    # The sign may be in what is lost: several such lines right before the tag are no prose either.
    return (start, tag.end) if count > 1 or (count and _SIGN.search(text, run_start, tag.start)) else None


def _fence_without_end(text: str, tag: _Tag, limit: int) -> Span | None:
    """Return the span of our lines after an unclosed opening tag.

    None without a sign of ours there.
    """
    joined = tag.begins_line and tag.joined and not tag.ends_line
    if tag.closes or not (tag.ends_line or joined):
        return None
    end = tag.end
    for number, line in enumerate(_iter_lines(text, tag.end, limit)):
        if not (joined and not number) and not _is_own(text, line):
            break
        end = line[1]
    return (_margin_start(text, tag.start), end) if _SIGN.search(text, tag.end, end) else None


def _iter_answers(text: str) -> Iterator[Span]:
    """Yield the spans of structured answers, without end to the text's.

    JSON, also inside JSON, Python or YAML.
    """
    done = 0
    for at in _iter_marks(text):
        after_mark, near = at + len(MARK), _text_before(text, at)
        origin = _ORIGIN.search(near) if _MORE.match(text, after_mark) else None
        if at < done:
            continue
        if origin:
            start = at - len(origin[0])
            done = end_of_object(text, start, origin[2])
            if not done and not _SIGN.search(text, after_mark, after_mark + _LOOK_AHEAD):
                # None that follows ends either, and looking for each one's end would take long.
                return
            done = done or len(text)
            yield _margin_start(text, start), done
        elif (origin := _YAML_ORIGIN.search(near)) and _YAML_MORE.match(text, after_mark):
            done = after_mark
            for line in _iter_lines(text, after_mark, len(text)):
                if not _YAML_LINE.match(text, line[0]):
                    break
                done = line[1]
            yield at - len(origin[0]) + 1, done


def _json_of(text: str) -> object:
    try:
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def end_of_object(text: str, start: int, quote: str) -> int:
    """Return where the object that begins at `start` ends; 0 if nowhere.

    `quote` is how names are quoted in `text`: a quotation mark or its entity, with as many backslashes before it as the object
    was escaped with.
    """
    level = len(quote) - len(quote.lstrip("\\"))
    sign = quote[level:]
    signs = "[\"']" if len(sign) == 1 else re.escape(sign)
    depth, inside = int(text[start] != "{"), ""
    # A run of backslashes is taken whole, so that a text of nothing else is read once.
    for match in re.finditer(rf"\\++(?:{signs})?|{signs}|[{{}}\[\]]", text[start:]):
        char = match[0].lstrip("\\")
        slashes = len(match[0]) - len(char)
        if not char:
            continue
        if inside:
            # Each backslash of a string is written as twice as many as the quotation mark has, and one more pair.
            if char == inside and slashes >= level and (slashes - level) % (2 * (level + 1)) == 0:
                inside = ""
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
            if not depth:
                return start + match.end()
        elif slashes == level:
            inside = char
    return 0
