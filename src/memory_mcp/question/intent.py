"""Classify what a query wants: explore, answer, locate or time-boxed, how sure that is, and by which signals. Pure.

Invariants
1. Signals are whole words outside code and quotes; never a part of a word.
2. A deadline, in the query or given beside it, makes a query time-boxed, whatever else it wants.
3. What is quoted and what is code stands in `exact`, whatever the intent: a question about an identifier is a question.
4. Dates and past durations say nothing about the intent.

Change here: add an intent.
"""

import itertools
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import terms
from memory_mcp.question.deadline import Deadline, find_deadline
from memory_mcp.question.exact import FAINT, LiteralPiece, find_literals
from memory_mcp.question.phrases import FoundPhrase, asks_overview, choose_table, find_latest, find_phrases, find_requests
from memory_mcp.question.signal_tables import SignalTable
from memory_mcp.question.words import Word, split_words

#: Most exact pieces that are kept of one query, the first ones: a pasted trace has hundreds.
MOST_EXACT = 16
#: At and below this confidence two intents are nearly as likely as each other.
AMBIGUOUS = 0.65

#: What the default counts for: less than any sure sign of another intent, as much as a weak one.
_DEFAULT = 1.0
#: What code or a quotation counts for, alone and beside words that ask for something.
_LITERAL, _LITERAL_BESIDE, _EACH_MORE = 2.0, 0.5, 0.5
#: What a pasted line counts for: a command with its flags, an error as a program prints it.
_PASTED = 3.0
_SHORT_FLAG = re.compile(r"\s-[A-Za-z]{1,3}(?=\s)")
_ANY_FLAG = re.compile(r"\s--?[A-Za-z]")
#: A program, a kind of failure and a colon.
_ERROR = re.compile(
    r"\s*(?:\S{1,40}\s+){0,3}?[\w.]{0,40}(?:error|exception|panic|fatal|warning|traceback|err!)(?:\[\w+\]|\s\w+){0,2}:\s", re.I
)
_UNSURE, _SURE_OF_DEADLINE, _SURE_OF_HURRY = 0.7, 0.95, 0.8
#: Questions whose words are kept.
_READ = 16
_LEFT_OVER, _RIGHT_OVER = " \t\n,;:.!-–—)>、。，：；）", " \t\n,;:-–—(<、，：；（¿¡"


class Intent(StrEnum):
    """What a query wants (agent-retrieval-policy-prd.md, section 3)."""

    EXPLORE = "explore"
    ANSWER = "answer"
    LOCATE = "locate"
    TIME_BOXED = "time_boxed"


@dataclass(frozen=True, slots=True)
class ClassifiedQuery:
    """What a query wants, and what it says besides."""

    intent: Intent
    #: 0 to 1; low where signals of two intents disagree.
    confidence: float
    #: What was seen, in words: 'explore: "working on"', 'locate: identifier parse_config'.
    signals: tuple[str, ...]
    #: Quotations and code as written, without quotation marks: what a result must literally hold.
    exact: tuple[str, ...]
    #: Time for the answer in ms, as the query or the caller allows it; None: no deadline.
    deadline_ms: int | None
    #: The words to look for: the query without its deadline and without what asks for a search (find, where is, show me).
    rest: str


def classify(text: str, timeout_ms: int | None = None) -> ClassifiedQuery:
    """Return a query's intent, certainty, signals, literals, deadline and words.

    `timeout_ms` is the caller's own deadline; the shorter of two counts, either makes the intent time-boxed. Never raises.
    """
    literal, query = _read_words(text)
    reading = choose_table(query)
    phrases = find_phrases(query, reading)
    hurry = [phrase for phrase in phrases if phrase.phrase.group == "hurry"]
    deadline = find_deadline(text, query, hurry, reading.deadlines)
    limited = range(deadline.start, deadline.end) if deadline else ()
    intent_phrases = [phrase for phrase in phrases if phrase.phrase.group != "hurry" and not any(i in limited for i in phrase.at)]
    # A command line has a flag and no word that only sentences have.
    has_flag = any(piece.kind == "flag" for piece in literal) or bool(_SHORT_FLAG.search(text))
    is_command = has_flag and len(query) > 1 and reading.marks.isdisjoint(word.key for word in query)
    pasted = is_command or ("?" not in text and bool(_ERROR.match(text)))
    scores = _score_intents(intent_phrases, literal, pasted)
    descriptions = [f'{phrase.phrase.group}: "{_quote_words(text, query, phrase.at)}"' for phrase in intent_phrases]
    descriptions += [
        f'locate: quote "{p.text}"' if p.kind == "quote" else f"locate: {p.kind} {p.text}" for p in literal[:MOST_EXACT]
    ]
    signals = tuple(dict.fromkeys(descriptions))
    intent, confidence = _choose_intent(scores)
    limits = [ms for ms in (timeout_ms, deadline.ms if deadline else None) if ms is not None]
    if limits:
        intent = Intent.TIME_BOXED
        confidence = 1.0 if timeout_ms is not None else _SURE_OF_DEADLINE
        if timeout_ms is None and deadline and any(phrase.at[0] == deadline.start for phrase in hurry):
            confidence = _SURE_OF_HURRY
        if deadline:
            words_of = text[query[deadline.start].start : query[deadline.end - 1].end]
            signals = (f'{Intent.TIME_BOXED}: "{words_of}"', *signals)
        if timeout_ms is not None:
            signals = (f"{Intent.TIME_BOXED}: timeout_ms={timeout_ms}", *signals)
    exact = tuple(dict.fromkeys(piece.text for piece in literal))[:MOST_EXACT]
    remaining_text = _remove_spans(text, query, [(deadline.start, deadline.end)]) if deadline else text
    if not pasted:
        remaining_text = _without_requests(text, query, reading, deadline) or remaining_text
    return ClassifiedQuery(intent, confidence, signals, exact, min(limits, default=None), remaining_text)


def last_of(text: str) -> str | None:
    """Return the subject of the latest decision asked for, "" for any, or None."""
    _, query = _read_words(text)
    spans = find_latest(query, choose_table(query))
    if not spans:
        return None
    subject = _remove_spans(text, query, sorted(spans))
    return subject if subject != text else ""


def is_overview(text: str) -> bool:
    """Return whether a query asks only how things stand, whatever its time."""
    return asks_overview(text, _read_words(text)[1])


@lru_cache(maxsize=_READ)
def _read_words(text: str) -> tuple[tuple[LiteralPiece, ...], tuple[Word, ...]]:
    """Return the literal pieces and the words of a text, which one question is asked for several times."""
    literal = find_literals(text)
    return tuple(literal), tuple(split_words(text, literal))


def _score_intents(phrases: Sequence[FoundPhrase], literal: Sequence[LiteralPiece], is_pasted: bool) -> dict[Intent, float]:
    """Return each intent's weight, from phrases and literal pieces.

    Where words ask to explore or answer (a weight of 2 or more), code and quotations count only 0.5, a pasted line nothing.
    """
    scores = {Intent.EXPLORE: 0.0, Intent.ANSWER: 0.0, Intent.LOCATE: 0.0}
    for phrase in phrases:
        scores[Intent(phrase.phrase.group)] += phrase.phrase.weight
    strong = [piece for piece in literal if piece.kind not in FAINT]
    is_asking = scores[Intent.EXPLORE] + scores[Intent.ANSWER] >= _LITERAL
    if is_pasted and not is_asking:
        scores[Intent.LOCATE] += _PASTED
    if strong:
        scores[Intent.LOCATE] += _LITERAL_BESIDE if is_asking else _LITERAL + _EACH_MORE * min(2, len(strong) - 1)
    elif literal:
        scores[Intent.LOCATE] += _LITERAL_BESIDE
    return scores


def _choose_intent(scores: dict[Intent, float]) -> tuple[Intent, float]:
    """Return the intent of most weight and its confidence.

    That is its share of its own and the next weight. Answer, the default, gets 1 more and wins ties, then locate; where all
    weights are 0 the confidence is 0.7.
    """
    ordered_scores = sorted(scores.values(), reverse=True)
    intent = max(Intent.ANSWER, Intent.LOCATE, Intent.EXPLORE, key=lambda i: scores[i] + _DEFAULT * (i is Intent.ANSWER))
    if ordered_scores[0] == 0:
        return intent, _UNSURE
    other = max(score for name, score in scores.items() if name is not intent)
    mine = scores[intent] + _DEFAULT * (intent is Intent.ANSWER)
    return intent, round(mine / (mine + other), 3)


def _quote_words(text: str, query: Sequence[Word], at: Sequence[int]) -> str:
    quoted_text = text[query[at[0]].start : query[at[0]].end]
    for previous, position in itertools.pairwise(at):
        between = text[query[previous].end : query[position].start] if position == previous + 1 else " … "
        quoted_text += between + text[query[position].start : query[position].end]
    return quoted_text


def _without_requests(text: str, query: Sequence[Word], reading: SignalTable, deadline: Deadline | None) -> str:
    """Return "" without a request or searchable word, and for a command line."""
    spans = find_requests(query, reading)
    if not spans or (_ANY_FLAG.search(text) and reading.marks.isdisjoint(word.key for word in query)):
        return ""
    if deadline:
        spans.append((deadline.start, deadline.end))
    remaining_text = _remove_spans(text, query, sorted(spans))
    return remaining_text if any(terms(remaining_text)) else ""


def _remove_spans(text: str, query: Sequence[Word], spans: Sequence[tuple[int, int]]) -> str:
    """Without punctuation around; unchanged if no word would be left."""
    remaining, at = "", 0
    for start, end in spans:
        piece = text[at : query[start].start].rstrip(_RIGHT_OVER)
        remaining, at = f"{remaining} {piece}".strip(), max(at, query[end - 1].end)
        at += len(text[at:]) - len(text[at:].lstrip(_LEFT_OVER))
    right = text[at:]
    remaining = f"{remaining} {right}".strip() if any(c.isalnum() for c in right) else remaining + right.strip()
    return remaining if any(c.isalnum() for c in remaining) else text
