"""Find decisions: questions that a person answered, and calls that a person refused with words.

Invariants
1. Question and answer are quoted, shortened; an option named by its number or letter is written out.
2. Mere permission ("shall I go on? yes") is not a decision.
"""

import re
from collections.abc import Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import Event, EventType, Role, is_recap
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.tree.summarize.base import Source
from memory_mcp.tree.summarize.sentences import Shape, Span, clean_text, find_spans, shorten
from memory_mcp.tree.summarize.vocabulary import read_words

#: Most characters shown of a question and an answer, and most characters of an answer.
_MAX_QUESTION, _MAX_ANSWER_SHOWN, _MAX_ANSWER = 118, 78, 240
#: Least telling words of a question with its answer, and the weight above which a word is telling.
_MIN_TELLING_WORDS, _MIN_TELLING_WEIGHT = 3, 0.15
# How a client reports the choice from a list.
_PICKED = lazy_pattern(r'"([^"\n]{4,400})"\s*=\s*"([^"\n]{1,300})"')
#: Tools by which a person chooses from a list.
PICKERS = frozenset({"AskUserQuestion", "ask_user", "ask_question"})
#: How an answer to a tool's question follows it.
_REPLY = lazy_pattern(r"^(?P<question>(?:>[^\n]*\n)+)(?P<answer>[^>\s].*?)(?=\n\n>|\Z)", re.M | re.S)
_OPTION = lazy_pattern(r"(?:option |number |no\.? ?|#|go with |let's do |do |use )?\(?([a-h]|[1-9])\)?(?:[.,;:!)]|\s|$)", re.I)
_ALLOWS = lazy_pattern(
    r"(?:y|yes|yep|yeah|yup|ok|okay|sure|go|go ahead|do it|please|please do|yes please|continue|proceed|sounds good|lgtm|"
    r"thanks|great|perfect|cool|done|both|ja|oui|sí|si|好|好的|可以|はい)"
    r"(?:[ ,]+(?:please|do|go ahead|do it|do that|thanks|let's do it))*",
    re.I,
)
_OFFERS = lazy_pattern(
    r"\b(?:would you like|do you want|shall i|should i (?:go|proceed|continue|commit|push)|want me to|ready to|anything else|"
    r"is there|can you (?:share|try|run|send|paste)|could you (?:share|try|run|send|paste)|how can i|what would you like)\b",
    re.I,
)
_CHOICE = lazy_pattern(
    r"\b(?:or|should|which|prefer|whether|worth|okay? to|want|keep|use|instead|rather)\b|"
    r"\b(?:oder|soll(?:en|te)?|ou|doit|preferimos|debemos)\b"
    r"|还是|哪|要不要|吗|それとも|どちら|べき",
    re.I,
)
_OR = lazy_pattern(r"\bor\b|\boder\b|\bou\b|还是|それとも")
_REFUSES = lazy_pattern(r"(?:no|nope|nah|not|don['’]t|never|nein|non)\b|不|いや|いいえ", re.I)


@dataclass(frozen=True, slots=True)
class Decision:
    """A question with its answer as one statement, and both sources."""

    text: str
    sources: tuple[Source, ...]


def decisions_of(events: Sequence[Event]) -> list[Decision]:
    """Return the decisions in events, which must be in order.

    They are choices from a client's list, what was said while refusing a call, and short answers of the user to the last
    question of the message before; named speakers' messages ask nothing.
    """
    decisions: list[Decision] = []
    question_event: Event | None = None
    calls: dict[str, Event] = {}
    for event in events:
        call_id = event.metadata.get("tool_use_id", "")
        if event.type is EventType.TOOL_CALL and call_id:
            calls[call_id] = event
        if event.type is EventType.TOOL_RESULT and event.metadata.get("tool") in PICKERS:
            for match in _PICKED.finditer(event.text):
                source = Source(event.event_id, *match.span())
                decisions.append(_make_decision(clean_text(match[1]), clean_text(match[2]), (source,)))
        elif event.role is Role.ASSISTANT and event.type is EventType.ASSISTANT_MESSAGE and not event.speaker:
            question_event = event
        elif event.role is Role.USER and event.type is EventType.USER_MESSAGE and call_id:
            decisions += _reply_decisions(event, calls.get(call_id))
        elif event.role is Role.USER and event.type is EventType.USER_MESSAGE and not is_recap(event):
            if question_event is not None and (decision := _answer_decision(question_event, event)) is not None:
                decisions.append(decision)
            question_event = None
    return decisions


def _reply_decisions(event: Event, call: Event | None) -> list[Decision]:
    matches = list(_REPLY.finditer(event.text))
    if not matches and call is not None and event.metadata.get("is_error"):
        line = call.text.partition("\n")[0]
        answered = Source(event.event_id, 0, len(event.text))
        return [_make_decision(clean_text(line), clean_text(event.text), (answered, Source(call.event_id, 0, len(line))))]
    return [
        _make_decision(
            clean_text(match["question"].replace("> ", " ")),
            clean_text(match["answer"]),
            (Source(event.event_id, *match.span()),),
        )
        for match in matches
    ]


def _answer_decision(question_event: Event, answer_event: Event) -> Decision | None:
    """None for mere permissions, unknown options, questions back, and too few names."""
    text = answer_event.text.strip()
    if not text or len(text) > _MAX_ANSWER or text[0] in "/!<[" or "\n\n" in text:
        return None
    tail = question_event.text[-2_000:]
    cut = len(question_event.text) - len(tail)
    question_spans = find_spans(tail)
    questions = [s for s in question_spans[-6:] if tail[s.start : s.end].rstrip("*_`\"') ").endswith(QUESTION_MARKS)]
    if not questions:
        return None
    choices = [s for s in questions if _OR.search(tail[s.start : s.end])]
    question = (choices or questions)[-1]
    if not _CHOICE.search(tail[question.start : question.end]):
        return None
    answer, option = text, _find_named_option(tail, question_spans, text)
    words_of_question = tail[question.start : question.end]
    if option is not None:
        answer = tail[option.start : option.end]
    elif (match := _OPTION.match(text)) and match.end() == len(text):
        # A number or letter of an unknown list means nothing to a reader.
        return None
    elif _ALLOWS.fullmatch(text.rstrip(" .!")) or (_OFFERS.search(words_of_question) and not _REFUSES.match(text)):
        return None
    if text.rstrip().endswith(QUESTION_MARKS):
        return None
    start = answer_event.text.find(text)
    # The answer comes first: the one who gave it decided.
    answered = Source(answer_event.event_id, start, start + len(text))
    sources = (answered, Source(question_event.event_id, cut + question.start, cut + question.end))
    decision = _make_decision(clean_text(words_of_question), clean_text(answer), sources)
    telling_words = {w.key for w in read_words(decision.text) if w.key and w.weight > _MIN_TELLING_WEIGHT}
    return decision if len(telling_words) >= _MIN_TELLING_WORDS else None


def _find_named_option(text: str, question_spans: Sequence[Span], answer: str) -> Span | None:
    """Return the list item named by number or letter."""
    match = _OPTION.match(answer)
    if match is None or len(answer) - match.end() > 12:
        return None
    mark = re.compile(rf"[-*+•\s]*(?:\*\*)?(?:option )?\(?{re.escape(match[1])}[).:]", re.I)
    for span in reversed(question_spans):
        line = text.rfind("\n", 0, span.start) + 1
        if span.shape is Shape.ITEM and mark.match(text, line) and span.start - line < 24:
            return span
    return None


def _make_decision(question: str, answer: str, sources: tuple[Source, ...]) -> Decision:
    return Decision(f"{shorten(question, _MAX_QUESTION)} {shorten(answer, _MAX_ANSWER_SHOWN)}", sources)
