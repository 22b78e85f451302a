"""What a session left open, from its last events: a request without an outcome, a question without an answer, planned tasks.

Decided by what follows a request, never by its words: an answer after the last tool, a result that succeeded after one that
failed, a person who spoke again. Commands of the client, thanks and confirmations that nobody acted on ask for nothing. Pure.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import RECORD, Event, EventType, Role, mark_of
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.question.phrases import is_idle
from memory_mcp.question.words import split_words
from memory_mcp.tree.outcomes.failures import telling_line
from memory_mcp.tree.outcomes.runs import changes_files
from memory_mcp.tree.summarize.kinds import TRIGGERS, Cue, is_chatter, is_errand
from memory_mcp.tree.summarize.sentences import Shape, Span, clean_text, error_spans, find_spans
from memory_mcp.tree.toc.doings import INTERRUPTED, QuotedSpan, is_prompt, is_telling, request_of
from memory_mcp.tree.toc.statements import QUESTION
from memory_mcp.tree.toc.tasks import is_list_call, is_list_tool, pending_tasks

#: Words of a question that says nothing without what stands before it ("Which approach would you prefer?").
_SHORT_QUESTION = 8
#: Sentences after a question that still let it end a message.
_AFTER_QUESTION = 1
#: Characters of the end of a message that are searched for a question.
_TAIL = 2_000
#: Sentences of a message that may only announce the next act.
_ANNOUNCING = 3
#: Words of a message that nobody acted on, below which it confirms or thanks.
_MIN_REQUEST = 3
_CLOSING_MARKS = "*_`\"')」』） "
_LEADS = (":", "：")
_ASKED_BY_TOOL = re.compile(r'"question": ?"((?:[^"\\]|\\.){4,400})"')
#: What an agent does in a turn.
_ACTS = frozenset({EventType.ASSISTANT_MESSAGE, EventType.ASSISTANT_STOP, EventType.TOOL_CALL})
_RESULTS = frozenset({EventType.TOOL_RESULT, EventType.SUBAGENT_STOP})
_MESSAGES = frozenset({EventType.ASSISTANT_MESSAGE, EventType.ASSISTANT_STOP})


class Cause(StrEnum):
    """Why something is open, as it is shown."""

    UNANSWERED = "asked last, not answered"
    STOPPED = "stopped"
    UNFINISHED = "not finished"
    QUESTION = QUESTION
    FAILED = "failed last"
    PLANNED = "to do"


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """Why something is open, and the words that say what it is."""

    cause: Cause
    words: QuotedSpan


@dataclass(slots=True)
class _Turn:
    """A person's message, and what followed it."""

    prompt: Event
    acts: list[Event]
    is_stopped: bool = False


def open_ends(events: Sequence[Event]) -> tuple[OpenEnd, ...]:
    """Return what a session's end leaves open, next step first.

    `events` are the last of one session's main thread, in order. Conversations between people leave nothing open.
    """
    if any(event.speaker for event in events):
        return ()
    turns = _turns_of(events)
    pending_turns, last = _pending_turns(turns)
    request, tasks = _current_work(turns, last, events)
    for turn in reversed(pending_turns):
        words = request_of(turn.prompt)
        if words is not None and _asks_for_work(words.text) and (last is not None or turn.prompt.project):
            return (OpenEnd(Cause.STOPPED if turn.is_stopped else Cause.UNANSWERED, words), *tasks)
    if last is None:
        return ()
    if (cause := _find_cause(last, events)) is not None:
        tool_question = _asked_by_tool(last.acts[-1]) if last.acts[-1].type is EventType.TOOL_CALL else None
        ends = [OpenEnd(Cause.QUESTION, tool_question)] if tool_question else [OpenEnd(cause, request)] if request else []
        return (*ends, *tasks)
    if (question := _find_question(last.acts[-1])) is not None:
        return (OpenEnd(Cause.QUESTION, question), *tasks)
    if (failed := _find_failure(last.acts)) is not None:
        words = request or _error_words(failed)
        return (OpenEnd(Cause.FAILED, words), *tasks) if words is not None else tuple(tasks)
    return tuple(tasks)


def _current_work(turns: Sequence[_Turn], last: _Turn | None, events: Sequence[Event]) -> tuple[QuotedSpan | None, list[OpenEnd]]:
    """Return the request of the last acts, and unfinished tasks.

    Errands, confirmations and choices belong to the request before them. A list that was not touched since belongs to
    earlier work.
    """
    if last is None:
        return None, []
    number = turns.index(last)
    telling = next((n for n in reversed(range(number + 1)) if _telling_request(turns[n]) is not None), None)
    request = None if telling is None else _telling_request(turns[telling])
    acts = [event for turn in turns[number if telling is None else telling : number + 1] for event in turn.acts]
    tasks = pending_tasks(events) if any(map(is_list_call, acts)) else []
    return request, [OpenEnd(Cause.PLANNED, words) for words in tasks]


def _turns_of(events: Sequence[Event]) -> list[_Turn]:
    turns: list[_Turn] = []
    for event in events:
        if event.text.startswith(INTERRUPTED):
            if turns:
                turns[-1].is_stopped = True
        elif is_prompt(event):
            turns.append(_Turn(event, []))
        elif turns and _is_act(event):
            turns[-1].acts.append(event)
            turns[-1].is_stopped = False
    return turns


def _is_act(event: Event) -> bool:
    if event.type in _RESULTS:
        return True
    return event.role is Role.ASSISTANT and event.type in _ACTS and not mark_of(event, RECORD)


def _pending_turns(turns: Sequence[_Turn]) -> tuple[list[_Turn], _Turn | None]:
    number = next((n for n in reversed(range(len(turns))) if turns[n].acts), -1)
    return list(turns[number + 1 :]), turns[number] if number >= 0 else None


def _asks_for_work(text: str) -> bool:
    if text.startswith(("/", "!")):
        return False
    long_enough = len(text.split()) >= _MIN_REQUEST or (not text.isascii() and len(text) >= 2 * _MIN_REQUEST)
    return is_errand(text, 0, len(text)) or (long_enough and is_telling(text))


def _telling_request(turn: _Turn) -> QuotedSpan | None:
    words = request_of(turn.prompt)
    return words if words is not None and is_telling(words.text) else None


def _find_cause(turn: _Turn, events: Sequence[Event]) -> Cause | None:
    if turn.is_stopped:
        return Cause.STOPPED
    last = turn.acts[-1]
    if last.type not in _MESSAGES:
        # Some sources record no words of the agent: nothing can be told of how their turns end.
        return Cause.UNFINISHED if any(e.type in _MESSAGES for e in events) or sum(map(is_prompt, events)) == 1 else None
    if last.type is EventType.ASSISTANT_STOP:
        return None
    if last.text.rstrip().endswith(_LEADS):
        return Cause.UNFINISHED
    has_tools = any(event.type is EventType.TOOL_CALL for event in events)
    return Cause.UNFINISHED if not has_tools and _announces_next(last.text) else None


def _announces_next(text: str) -> bool:
    sentences = find_spans(text)
    if not sentences or len(sentences) > _ANNOUNCING or text.rstrip().endswith(QUESTION_MARKS):
        return False
    last = sentences[-1]
    addresses = any(TRIGGERS.get(word.key, 0) & Cue.ADDRESS for word in split_words(text[last.start : last.end]))
    return is_chatter(text, last.start, last.end, narrates=True) and not addresses


def _find_question(event: Event) -> QuotedSpan | None:
    offset = max(0, len(event.text) - _TAIL)
    text = event.text[offset:]
    sentences = find_spans(text)
    after = 0
    for number in reversed(range(len(sentences))):
        span = sentences[number]
        if text[span.start : span.end].rstrip(_CLOSING_MARKS).endswith(QUESTION_MARKS):
            is_short = len(text[span.start : span.end].split()) <= _SHORT_QUESTION
            first = sentences[_lead_of(sentences, number, is_short)]
            return None if is_idle(text[first.start : span.end]) else _agent_words(event, first.start + offset, span.end + offset)
        if span.shape is not Shape.ITEM:
            after += 1
        if after > _AFTER_QUESTION:
            break
    return None


def _lead_of(sentences: Sequence[Span], number: int, is_short: bool) -> int:
    """Return the sentence that leads to a question: before its list, or before the choices that a short question is about."""
    first = number - 1 if is_short and number and sentences[number].shape is not Shape.ITEM else number
    while first and sentences[first].shape is Shape.ITEM:
        first -= 1
    return first if first < number and sentences[first].shape is Shape.LEAD else number


def _agent_words(event: Event, start: int, end: int) -> QuotedSpan:
    return QuotedSpan(clean_text(event.text[start:end]), "agent", event, start, end)


def _asked_by_tool(event: Event) -> QuotedSpan | None:
    match = _ASKED_BY_TOOL.search(event.text)
    return QuotedSpan(clean_text(match[1]), "agent", event, *match.span(1)) if match else None


def _find_failure(acts: Sequence[Event]) -> Event | None:
    """Return the last result that failed, None if what failed succeeded later or is not known to matter."""
    calls = {event.metadata.get("tool_use_id", ""): event for event in acts if event.type is EventType.TOOL_CALL}
    changed: set[str] = set()
    failed: Event | None = None
    for event in acts:
        if event.type is not EventType.TOOL_RESULT or is_list_tool(event):
            continue
        status, is_error = event.metadata.get("exit_status", ""), event.metadata.get("is_error") == "true"
        call = calls.get(event.metadata.get("tool_use_id", ""))
        file = _changed_file(call)
        if is_error or status not in ("", "0"):
            if file not in changed if file else error_spans(event.text):
                failed = event
        elif file or status == "0":
            failed = None
            changed.add(file)
    return failed


def _error_words(failed: Event) -> QuotedSpan | None:
    line = telling_line(failed.text)
    start = failed.text.find(line) if line else -1
    return QuotedSpan(clean_text(line), "", failed, start, start + len(line)) if start >= 0 else None


def _changed_file(call: Event | None) -> str:
    if call is None or not changes_files(call):
        return ""
    return call.metadata.get("files", "") or call.metadata.get("file", "") or call.text[:80]
