"""An event in, the spans worth quoting out. Pure; per event, so that spans never depend on segments.

Coverage rule: every user and assistant message of substance belongs to at least one grip, long ones to several, cut at
paragraphs, else sentences, else words; tool calls and results give grips for what people look up later.

Change here: what is quoted.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import Event, EventType
from memory_mcp.model.grip import Grip, hash_quote, join_quote, make_grip_id

#: Characters in an excerpt, about.
MAX_EXCERPT = 600
#: Each half of a call with its result.
_HALF = 290
#: A message longer than this many excerpts is a pasted file; its words stay findable, its tail has no grips.
_MAX_PER_EVENT = 200
_ERROR_LINES = 4

_MESSAGES = {
    EventType.USER_MESSAGE,
    EventType.ASSISTANT_MESSAGE,
    EventType.ASSISTANT_STOP,
    EventType.SUBAGENT_START,
    EventType.SUBAGENT_STOP,
    EventType.NOTE,
}
_CHANGES_FILES = {"Edit", "MultiEdit", "Write", "NotebookEdit", "apply_patch"}
_PARAGRAPH = lazy_pattern(r"\n\s*\n")
_SENTENCE = lazy_pattern(r"[.!?。！？][\"')\]]*\s+|[。！？]|\n")
#: Up to the last white space.
_WORDS = lazy_pattern(r".*\s", re.S)
#: What belongs to the character before it: the zero-width joiner, the emoji selector, skin tones.
_JOINERS = frozenset("\u200d\ufe0f") | {chr(c) for c in range(0x1F3FB, 0x1F400)}
_SUBSTANCE = lazy_pattern(r"\w{2,}")
_ERROR = lazy_pattern(
    r"\b(?:error|exception|fail(?:ed|ure)?|fatal|panic|traceback|denied|refused|cannot|unable to|not found|"
    r"undefined|segfault|timed? ?out)\b|(?<=\w\w)(?:Error|Exception)\b|✗|✘",
    re.I,
)


def cut_grips(event: Event, call: Event | None, segment: int) -> list[Grip]:
    """Return the grips of one event; `call` answered by a result.

    Messages with a word of two characters are cut whole; of calls, commands and changes of files get one
    grip; results get those of `_result_grips`; other events none.
    """
    if event.type in _MESSAGES:
        spans = spans_of(event.text) if _SUBSTANCE.search(event.text) else []
        return [_single_grip(event, start, end, segment) for start, end in spans]
    if event.type is EventType.TOOL_CALL:
        is_quotable = "command" in event.metadata or event.metadata.get("tool") in _CHANGES_FILES
        end = _cut_back(event.text, 0, MAX_EXCERPT)
        return [_single_grip(event, 0, end, segment)] if is_quotable and end else []
    if event.type is EventType.TOOL_RESULT:
        return list(_result_grips(event, call, segment))
    return []


def spans_of(text: str) -> list[tuple[int, int]]:
    """Return up to 200 spans of the paragraphs with words.

    Short paragraphs share a span; long ones are cut at sentences, else words.
    """
    spans: list[tuple[int, int]] = []
    gaps = [gap.span() for gap in _PARAGRAPH.finditer(text)]
    ends = [*(start for start, _ in gaps), len(text.rstrip())]
    for start, end in zip([0, *(end for _, end in gaps)], ends, strict=True):
        if not _SUBSTANCE.search(text, start, end):
            continue
        if spans and end - spans[-1][0] <= MAX_EXCERPT:
            spans[-1] = (spans[-1][0], end)
            continue
        at = start
        while end - at > MAX_EXCERPT and len(spans) < _MAX_PER_EVENT:
            cut = _cut_back(text, at, at + MAX_EXCERPT)
            spans.append((at, cut))
            at = cut + (len(text[cut:end]) - len(text[cut:end].lstrip()))
        if at < end:
            spans.append((at, end))
        if len(spans) >= _MAX_PER_EVENT:
            break
    return spans[:_MAX_PER_EVENT]


def _cut_back(text: str, start: int, limit: int) -> int:
    """Return the end of the last sentence, else word, up to `limit`.

    A sentence must end beyond a third of an excerpt. Only a word that fills everything is cut, between characters.
    """
    if len(text) <= limit:
        return len(text.rstrip())
    ends = [m.end() for m in _SENTENCE.finditer(text, start, limit)]
    if ends and ends[-1] - start >= MAX_EXCERPT // 3:
        return start + len(text[start : ends[-1]].rstrip())
    words = _WORDS.match(text, start, limit + 1)
    end = start + len(text[start : words.end()].rstrip()) if words else start
    if end > start:
        return end
    # No accent is parted from its letter, and no emoji from its other half.
    at = limit
    while at > start + 1 and (unicodedata.combining(text[at]) or text[at] in _JOINERS or text[at - 1] == "\u200d"):
        at -= 1
    return at if at > start + 1 else limit


def _result_grips(event: Event, call: Event | None, segment: int) -> Iterator[Grip]:
    failed = event.metadata.get("is_error") == "true" or event.metadata.get("exit_status", "0") not in ("", "0")
    head = _cut_back(event.text, 0, _HALF) if event.text.strip() else 0
    if call is not None and "command" in call.metadata and len(call.text) <= _HALF:
        yield _make_grip(call, event, 0, head, join_quote(call.text, event.text, 0, head), segment)
    elif failed and head:
        yield _single_grip(event, 0, head, segment)
    if failed or "command" in event.metadata or (call is not None and "command" in call.metadata):
        # Marks are searched for and their lines found around them: a line of data may be very long.
        end = -1
        for _ in range(_ERROR_LINES):
            if (match := _ERROR.search(event.text, end + 1)) is None:
                break
            start = event.text.rfind("\n", 0, match.start()) + 1
            end = event.text.find("\n", match.end())
            end = len(event.text) if end < 0 else end
            if end > head:
                yield _single_grip(event, start, _cut_back(event.text[:end], start, start + _HALF), segment)


def _single_grip(event: Event, start: int, end: int, segment: int) -> Grip:
    return _make_grip(event, event, start, end, event.text[start:end], segment)


def _make_grip(first: Event, last: Event, start: int, end: int, quote: str, segment: int) -> Grip:
    return Grip(
        grip_id=make_grip_id(first.timestamp, first.event_id, last.event_id, start, end),
        event_id_start=first.event_id,
        event_id_end=last.event_id,
        span_start=start,
        span_end=end,
        quote_hash=hash_quote(quote),
        timestamp=first.timestamp,
        segment=segment,
    )


def span_grip(event: Event, start: int, end: int, segment: int) -> Grip:
    """Return a grip of an event's span, cut to 600 characters."""
    return _single_grip(event, start, min(end, start + MAX_EXCERPT), segment)


def covering_grips(grips: Sequence[Grip], event: Event, start: int, end: int) -> list[Grip]:
    """Return grips that quote a span, best cover first.

    Those of other events are left out. Of equal covers the shorter grip comes first.
    """
    covers = []
    for grip in grips:
        if grip.event_id_start != grip.event_id_end:
            quoted_range = (grip.span_start, len(event.text)) if grip.event_id_start == event.event_id else (0, grip.span_end)
            quotes_event = event.event_id in (grip.event_id_start, grip.event_id_end)
        else:
            quoted_range, quotes_event = (grip.span_start, grip.span_end), grip.event_id_start == event.event_id
        shared = min(end, quoted_range[1]) - max(start, quoted_range[0])
        if quotes_event and shared > 0:
            covers.append((-shared, quoted_range[1] - quoted_range[0], grip.grip_id, grip))
    return [grip for *_, grip in sorted(covers, key=lambda f: f[:3])]
