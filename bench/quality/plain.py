"""Plain search as a yardstick: BM25 over sessions, over messages, and a mix of message, window and session scores."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bench.quality.corpora import Kind, Message, Question
from bench.quality.rows import TEN, Row
from memory_mcp.base.text import query_terms, terms

#: Of Robertson's formula.
K1, B = 0.9, 0.4
#: Messages of a window: one, and its neighbours on either side.
_NEIGHBOURS = 1

Scores = npt.NDArray[np.float64]


class Bm25:
    """BM25 over some texts, by the package's own tokenizer."""

    def __init__(self, texts: Sequence[str]) -> None:
        counted = [Counter(terms(text)) for text in texts]
        lengths = np.array([c.total() for c in counted], dtype=np.float64)
        self._norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1e-9))
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, counts in enumerate(counted):
            for term, count in counts.items():
                postings[term].append((place, count))
        self._postings = {term: np.array(pairs, dtype=np.int64) for term, pairs in postings.items()}

    def scores(self, query: str) -> Scores:
        """The score of every text: `(n,) float64`."""
        found = np.zeros(len(self._norms))
        for term in query_terms(query):
            pairs = self._postings.get(term)
            if pairs is not None:
                places, counts = pairs[:, 0], pairs[:, 1]
                rarity = math.log(1 + (len(found) - len(pairs) + 0.5) / (len(pairs) + 0.5))
                found[places] += rarity * counts * (K1 + 1) / (counts + self._norms[places])
        return found


class Plain:
    """The plain systems over one store's messages; each gives pairs of session and message, best first."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        sessions: dict[str, list[int]] = defaultdict(list)
        for place, message in enumerate(messages):
            sessions[message.session].append(place)
        self._sessions = list(sessions)
        number = {name: at for at, name in enumerate(self._sessions)}
        self._session_of = np.array([number[m.session] for m in messages])
        self._by_session = Bm25([" ".join(messages[p].text for p in places) for places in sessions.values()])
        self._by_message = Bm25([m.text for m in messages])
        windows = [""] * len(messages)
        for places in sessions.values():
            for at, place in enumerate(places):
                near = places[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]
                windows[place] = " ".join(messages[p].text for p in near)
        self._by_window = Bm25(windows)

    def sessions(self, query: str) -> list[tuple[str, str]]:
        """Whole sessions."""
        return [(self._sessions[at], "") for at in _best(self._by_session.scores(query))]

    def messages(self, query: str) -> list[tuple[str, str]]:
        """Single messages."""
        return self._named(self._by_message.scores(query))

    def mix(self, query: str) -> list[tuple[str, str]]:
        """Messages by their own score, their window's and their session's, each as a share of the query's best."""
        parts = (
            self._by_message.scores(query),
            self._by_window.scores(query),
            self._by_session.scores(query)[self._session_of],
        )
        return self._named(sum((p / max(p.max(), 1e-9) for p in parts), np.zeros(len(self._messages))))

    def _named(self, scores: Scores) -> list[tuple[str, str]]:
        return [(self._messages[at].session, self._messages[at].id) for at in _best(scores)]


def _best(scores: Scores) -> list[int]:
    """Places of the ten best scores above 0."""
    order = np.argsort(-scores, kind="stable")[:TEN]
    return [int(at) for at in order if scores[at] > 0]


SESSIONS, MESSAGES, MIX = "plain BM25 sessions", "plain BM25 messages", "score mix"
#: By name: how a plain system is asked.
PLAIN: Mapping[str, Callable[[Plain, str], list[tuple[str, str]]]] = {
    SESSIONS: Plain.sessions,
    MESSAGES: Plain.messages,
    MIX: Plain.mix,
}


def ask_plain(messages: Sequence[Message], questions: Sequence[Question]) -> list[Row]:
    """Ask the plain systems of one store what it answers."""
    plain = Plain(messages)
    asked = [q for q in questions if q.kind is Kind.ANSWERABLE]
    return [_row(name, ask, plain, question) for question in asked for name, ask in PLAIN.items()]


def _row(name: str, ask: Callable[[Plain, str], list[tuple[str, str]]], plain: Plain, question: Question) -> Row:
    began = time.perf_counter()
    found = ask(plain, question.text)
    took = 1000 * (time.perf_counter() - began)
    named = {message for _, message in found}
    return Row(
        corpus=question.corpus,
        system=name,
        half=question.half,
        question=question.id,
        kind=question.kind,
        session_rank=next((at for at, (session, _) in enumerate(found, 1) if session in question.sessions), 0),
        gold=len(question.messages) if name != SESSIONS else 0,
        found=len(question.messages & named),
        results=len(found),
        confidence="strong" if found else "none",
        ms=round(took, 2),
    )
