"""Questions that a store cannot answer, though it holds their words or is asked about such things: made by rule, seeds fixed."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bench.quality.corpora import LANGUAGES, Kind, Message, Question
from bench.quality.reduced import taken_out
from memory_mcp.base.text import cjk_runs, term_set

#: Most recombined questions and most foreign ones of a store; messages and questions of a small store.
RECOMBINED, FOREIGN, MESSAGES, ASKED = 40, 40, 60, 12
_SEED = 11
_WORD = re.compile(r"[\w'’-]+")
#: Words of a question that are exchanged for another's: the rarest.
_EXCHANGED = 2
_NOTHING: frozenset[str] = frozenset()


def unanswerable(question: Question, text: str, name: str) -> Question:
    """A question of another text that its store does not answer."""
    return replace(question, id=name, text=text, kind=Kind.UNANSWERABLE, sessions=_NOTHING, messages=_NOTHING)


def recombined(questions: Sequence[Question]) -> list[Question]:
    """Questions about what was never said together: the rarest words of one in the place of those of another."""
    chance = random.Random(_SEED)
    pool = [question for question in questions if question.kind is Kind.ANSWERABLE]
    frequencies = Counter(term for question in pool for term in term_set(question.text))
    made = []
    for question in chance.sample(pool, min(RECOMBINED, len(pool))):
        others = [other for other in pool if not other.sessions & question.sessions]
        if others:
            other = chance.choice(others)
            text = _exchanged(question.text, other.text, frequencies)
            if text != question.text:
                made.append(unanswerable(question, text, f"{question.id} with words of {other.id}"))
    return made


def _exchanged(text: str, other: str, frequencies: Counter[str]) -> str:
    """A question with its rarest words replaced by another's; of ideographs its first half and the other's second."""
    if cjk_runs(text):
        return text[: len(text) // 2] + other[len(other) // 2 :]
    for word, substitute in zip(_rarest(text, frequencies), _rarest(other, frequencies), strict=False):
        text = re.sub(rf"\b{re.escape(word)}\b", substitute, text)
    return text


def _rarest(text: str, frequencies: Counter[str]) -> list[str]:
    """The rarest words of a question, the longest of equal ones first."""
    words = [word for word in dict.fromkeys(_WORD.findall(text)) if term_set(word)]
    return sorted(words, key=lambda word: (min(frequencies[term] for term in term_set(word)), -len(word)))[:_EXCHANGED]


def foreign(asked: Question, questions: Iterable[Question]) -> list[Question]:
    """Questions of other corpora in the same language, asked of a store that answers `asked`."""
    pool = [q for q in questions if q.kind is Kind.ANSWERABLE and q.store != asked.store and _language(q) == _language(asked)]
    apart = [q for q in pool if q.corpus != asked.corpus] or pool
    chosen = random.Random(_SEED).sample(apart, min(FOREIGN, len(apart)))
    return [replace(unanswerable(asked, q.text, f"{q.id} of {asked.store}"), half=q.half) for q in chosen]


def _language(question: Question) -> str:
    """The language of a corpus by its name."""
    ending = question.corpus.rpartition("-")[2]
    return ending if ending in (*LANGUAGES, "zh") else "en"


def small_stores(
    name: str, messages: Sequence[Message], questions: Sequence[Question]
) -> Iterator[tuple[str, list[Message], list[Question]]]:
    """Yield stores of a few sessions of a large one, with questions that they answer and as many that they do not."""
    chance = random.Random(_SEED)
    answerable = [question for question in questions if question.kind is Kind.ANSWERABLE and len(question.sessions) == 1]
    for number in range(2):
        if not answerable:
            return
        kept: set[str] = set()
        for question in chance.sample(answerable, len(answerable)):
            size = sum(message.session in kept | question.sessions for message in messages)
            if size <= MESSAGES or not kept:
                kept |= question.sessions
        held = [question for question in answerable if question.sessions <= kept][:ASKED]
        lost = [question for question in answerable if not question.sessions & kept][:ASKED]
        store = f"{name}-small-{number}"
        asked = [replace(question, store=store) for question in held]
        names = [f"{question.id} of {store}" for question in lost]
        asked += [replace(taken_out(q, store), id=name) for q, name in zip(lost, names, strict=True)]
        yield store, [message for message in messages if message.session in kept], asked
