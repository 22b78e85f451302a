"""Classify the messages of an exchange: which ask, reply, or ask the memory. Pure.

An exchange is a prompt with all that follows it.

Invariants
1. Only a person's message to an assistant asks: one with a speaker's name is a dialogue between people, and never does.
2. It is decided by structure (who speaks, what follows, which tool was called, how sentences end), not by words.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntFlag
from itertools import zip_longest

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import HOOK, Event, EventType, Role
from memory_mcp.model.ids import EventId

#: A sentence with its end. Consecutive matches cover a text.
_SENTENCE = lazy_pattern(r"[^.!?。！？؟\n]*(?:[.!?。！？؟\n]|\Z)")
#: What ends a question, in any language that marks it.
QUESTION_MARKS = ("?", "？", "؟")
#: Share of a message's characters in questions from which it only asks: a greeting or a closing word is no statement.
_QUESTION_ONLY_SHARE = 0.9
#: Least size of a question that tells something as well, and of its clauses before the last: some 86 % of the messages
#: of BEAM that answer and end in a question have them, questions of six other corpora hardly ever, of LifeBench 15 to 24 %.
_TELLS, _TELLING = 110, 60
#: Where a clause ends within a sentence.
_CLAUSE = lazy_pattern(r"[,;:]\s|[，、；：—]|\s[-–]\s")
#: Ideographs and kana: a word has one or two of them.
_CHARACTER_WORD = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
#: Longest prompt without any reply that is taken for a request, characters: a longer one tells something.
_LONGEST_REQUEST = 2000
#: Longest reply that only says what comes next, characters: of 86 messages that answer 5 are such, of 293 first hits 53.
_LONGEST_ANNOUNCEMENT = 200
#: Most that all replies to a prompt add to its words where they tell nothing: "I don't know; I could not find anything about
#: that" adds 38, "OK, I'll remember that" 19. Size of distinct words.
_LEAST_ADDED = 48
_WORD = lazy_pattern(rf"{_CHARACTER_WORD.pattern}|(?:(?!{_CHARACTER_WORD.pattern})[^\W_])+")
#: A hook written by hand: what it tells may be statements, as in any file of events.
_PLAIN_HOOK = f"{HOOK}json"
#: Our tools that ask the memory, by names that nobody else has.
ASKING_TOOLS = frozenset(
    "intelligent_search recall_for continue_session teleport_search vector_teleport hybrid_search search_children browse_toc "
    "topics_by_query expand_grip get_toc_root get_toc_nodes_for_topic get_related_topics get_top_topics".split()
)
#: Our tools that ask, by names that other servers have too: they count with `_SERVER` before them.
SHARED_NAMES = frozenset({"navigate", "get_node", "get_events", "search_node", "handoff"})
_SERVER = "memory"
#: A client puts the server's name before a tool's: mcp__memory-mcp__navigate, memory-mcp_navigate, memory-mcp.navigate.
_TOOL = lazy_pattern(
    rf"(?:\A|(?P<server>.*)[^a-z0-9])(?P<tool>{'|'.join(sorted({*ASKING_TOOLS, *SHARED_NAMES}, key=len, reverse=True))})\Z", re.S
)
#: A tool call without metadata begins with the tool's name.
_NAME = lazy_pattern(r"[\w.:/-]+")
_COMMAND = lazy_pattern(
    r"(?:\A|[;&|(\n`]|\b(?:uvx|run|exec|time|env)\s)\s*(?:\w+=\S+\s+)*[\"']?(?:\S*/)?memory-mcp(?:\.exe)?[\"']?\s"
    r"(?:[^|;&\n]*?\s)?(?:ask|search|navigate|teleport|topics|query|timeline|fix|how|why|handoff)\b"
)
#: Tools that change files, in lower case: the request was a task, whatever the agent looked up for it.
_EDITS = frozenset("edit multiedit write notebookedit apply_patch patch write_file replace edit_file create_file".split())


class TurnKind(IntFlag):
    """Role of a message in its exchange. On disk: only append."""

    #: A statement, or anything else.
    PLAIN = 0
    #: A person's message to an assistant that only asks.
    ASKS = 1
    #: A request to which nothing was said in return.
    UNANSWERED = 2
    #: A question to this memory, or a call of it with its result: no evidence.
    TO_MEMORY = 4
    #: What an assistant said in return.
    REPLY = 8
    #: A short reply with which its turn did not end: it says what will be done next.
    ANNOUNCES = 16
    #: A reply to a message that only asks: what is near it says nothing of it.
    TO_QUESTION = 32
    #: A client's prompt that came to nothing, and what was said in return: a request or a note, structure does not tell which.
    DOUBTFUL = 64


#: Turns that are listed after everything else.
LISTED_LAST = TurnKind.ASKS | TurnKind.UNANSWERED


@dataclass(slots=True)
class _Exchange:
    prompt: Event | None
    followers: list[Event]


def question_share(text: str) -> float:
    """Return the share of characters in sentences that ask, 0..1."""
    if not _has_question_mark(text):
        return 0.0
    asking = sum(len(sentence) for sentence in _SENTENCE.findall(text) if _is_question(sentence))
    return asking / len(text)


def _has_question_mark(text: str) -> bool:
    return "?" in text or "\uff1f" in text or "\u061f" in text


def _is_question(sentence: str) -> bool:
    """Return whether a sentence asks, and says little before it does."""
    if not sentence.endswith(QUESTION_MARKS):
        return False
    size = _measure_text(sentence.strip())
    return size < _TELLS or size - _measure_text(_CLAUSE.split(sentence)[-1]) < _TELLING


def _measure_text(text: str) -> int:
    """Return a text's characters, three for each of a spaceless script."""
    return len(text) + 2 * len(_CHARACTER_WORD.findall(text))


def strip_questions(text: str) -> str:
    """Return the sentences of a text that do not only ask."""
    if not _has_question_mark(text):
        return text
    return "".join(sentence for sentence in _SENTENCE.findall(text) if not _is_question(sentence))


def only_asks(text: str) -> bool:
    """Return whether a text consists of questions, except a few words."""
    return question_share(text.strip()) >= _QUESTION_ONLY_SHARE


def asks_memory(event: Event) -> bool:
    """Return whether an event calls an asking tool of ours, or answers it."""
    if not _is_of_tool(event):
        return False
    name = event.metadata.get("tool", "")
    if not name and event.type is EventType.TOOL_CALL and (first := _NAME.match(event.text)):
        name = first[0].rstrip(":")
    match = _TOOL.match(name.lower())
    if match:
        return match["tool"] in ASKING_TOOLS or _SERVER in (match["server"] or "")
    return event.type is EventType.TOOL_CALL and _COMMAND.search(event.metadata.get("command", "")) is not None


def classify_turns(events: Sequence[Event], is_begin: bool = False) -> dict[EventId, TurnKind]:
    """Return the turns of a stretch of a stream, without plain ones.

    `is_begin`: nothing was said in the stream before, so that a prompt of a client without any reply is a request.
    """
    turns: dict[EventId, TurnKind] = {}
    ours: set[str] = set()
    unheard = is_begin and not any(_is_reply(e) for e in events)
    exchanges = list(_split_exchanges(events))
    for exchange in exchanges:
        prompt, to_memory = exchange.prompt, False
        reply = TurnKind.REPLY
        if prompt and not prompt.speaker and only_asks(prompt.text):
            reply |= TurnKind.TO_QUESTION
        for event, after, is_ours in _iter_followers(exchange, ours):
            if is_ours:
                turns[event.event_id], to_memory = TurnKind.TO_MEMORY, True
            elif _is_reply(event) and not (prompt or event).speaker:
                turns[event.event_id] = reply | (TurnKind.ANNOUNCES if _announces(event, after) else TurnKind.PLAIN)
        if prompt is not None and (turn := _classify_prompt(exchange, prompt, to_memory, unheard)):
            turns[prompt.event_id] = turn
    for prompt, replies in _iter_doubtful(exchanges) if is_begin else ():
        if not turns.get(prompt.event_id, TurnKind.PLAIN) & (LISTED_LAST | TurnKind.TO_MEMORY):
            turns |= {e.event_id: turns.get(e.event_id, TurnKind.PLAIN) | TurnKind.DOUBTFUL for e in (prompt, *replies)}
    return turns


def find_announcements(events: Sequence[Event]) -> set[EventId]:
    """Return the replies of a stretch of a stream that `classify_turns` finds to announce what comes next."""
    ours: set[str] = set()
    return {
        event.event_id
        for exchange in _split_exchanges(events)
        for event, after, is_ours in _iter_followers(exchange, ours)
        if not is_ours and _announces(event, after) and _is_reply(event) and not (exchange.prompt or event).speaker
    }


def _iter_followers(exchange: _Exchange, ours: set[str]) -> Iterator[tuple[Event, Event | None, bool]]:
    """Yield what follows a prompt with what follows that, and whether it asks the memory; `ours` are the calls that do."""
    for event, after in zip_longest(exchange.followers, exchange.followers[1:]):
        use = event.metadata.get("tool_use_id", "")
        is_ours = asks_memory(event) or (use != "" and use in ours)
        if is_ours:
            ours.add(use)
        yield event, after, is_ours


def _iter_doubtful(exchanges: Sequence[_Exchange]) -> Iterator[tuple[Event, list[Event]]]:
    """Yield prompt and replies of exchanges that came to nothing.

    Only those before anything was said or done in a session: almost nothing was replied to a client's prompt, and files were
    changed neither after it nor after the next one.
    """
    for exchange, after in zip(exchanges, [*exchanges[1:], _Exchange(None, [])], strict=True):
        prompt, replies = exchange.prompt, [e for e in exchange.followers if _is_reply(e)]
        if any(_changes_files(e) for e in (*exchange.followers, *after.followers)) or not _adds_nothing(prompt, replies):
            return
        if prompt is not None and replies and not prompt.speaker and _is_by_client(prompt):
            yield prompt, replies


def _adds_nothing(prompt: Event | None, replies: Sequence[Event]) -> bool:
    words = {word for reply in replies for word in _WORD.findall(reply.text[:_LONGEST_REQUEST].lower())}
    return sum(map(_measure_text, words.difference(_WORD.findall(prompt.text.lower()) if prompt else ()))) <= _LEAST_ADDED


def without_questions(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events without questions to the memory and its calls.

    All of them if nothing else was said.
    """
    if not any(map(asks_memory, events)):
        return events
    turns = classify_turns(events)
    remaining = [e for e in events if not turns.get(e.event_id, TurnKind.PLAIN) & TurnKind.TO_MEMORY]
    return remaining if len(remaining) < len(events) and any(is_message(e) for e in remaining) else events


def lacks_reply(events: Sequence[Event]) -> bool:
    """Return whether the last prompt has no reply yet."""
    messages = [e for e in events if is_message(e)]
    return bool(messages) and is_prompt(messages[-1]) and not messages[-1].speaker


def only_requests(events: Sequence[Event], is_begin: bool = False, after: Sequence[Event] = ()) -> bool:
    """Return whether only requests were said: to the memory, or unanswered.

    `after` are the events that follow in their stream.
    """
    messages = [e for e in events if is_message(e)]
    if not messages or not all(map(is_prompt, messages)):
        return False
    turns = classify_turns((*events, *after), is_begin)
    return all(turns.get(e.event_id, TurnKind.PLAIN) & (LISTED_LAST | TurnKind.TO_MEMORY) for e in messages)


def _split_exchanges(events: Sequence[Event]) -> Iterator[_Exchange]:
    """Yield exchanges in order; the first may lack its prompt."""
    current = _Exchange(None, [])
    for event in events:
        if is_prompt(event):
            yield current
            current = _Exchange(event, [])
        else:
            current.followers.append(event)
    yield current


def _classify_prompt(exchange: _Exchange, prompt: Event, to_memory: bool, unheard: bool) -> TurnKind:
    """Return the turn of a prompt.

    `to_memory`: the memory was asked after it; `unheard`: its session has no reply at all.
    """
    if prompt.speaker:
        return TurnKind.PLAIN
    if to_memory and not any(_changes_files(e) for e in exchange.followers):
        return TurnKind.TO_MEMORY
    asks = TurnKind.ASKS if only_asks(prompt.text) else TurnKind.PLAIN
    if any(_is_reply(e) for e in exchange.followers):
        return asks
    alone = unheard and _is_by_client(prompt) and len(prompt.text) <= _LONGEST_REQUEST
    return asks | TurnKind.UNANSWERED if asks or alone else TurnKind.PLAIN


def _announces(reply: Event, after: Event | None) -> bool:
    goes_on = after is not None and (_is_of_tool(after) or _is_reply(after))
    return goes_on and len(reply.text) <= _LONGEST_ANNOUNCEMENT


def is_prompt(event: Event) -> bool:
    """Return whether a person wrote an event."""
    return event.role is Role.USER and event.type is EventType.USER_MESSAGE


def _is_by_client(event: Event) -> bool:
    by_hook = event.source.startswith(HOOK) and event.source != _PLAIN_HOOK
    return by_hook or bool(event.agent and event.source == event.agent)


def _is_reply(event: Event) -> bool:
    # By identity: members of an enum are hashed in Python.
    replies = event.type is EventType.ASSISTANT_MESSAGE or event.type is EventType.ASSISTANT_STOP
    return replies and event.role is Role.ASSISTANT and any(map(str.isalnum, event.text))


def _is_of_tool(event: Event) -> bool:
    return event.type is EventType.TOOL_CALL or event.type is EventType.TOOL_RESULT


def is_message(event: Event) -> bool:
    """Return whether an event is a person's or an assistant's message."""
    return is_prompt(event) or _is_reply(event)


def _changes_files(event: Event) -> bool:
    return event.type is EventType.TOOL_CALL and event.metadata.get("tool", "").lower() in _EDITS
