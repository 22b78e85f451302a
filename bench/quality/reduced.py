"""Stores with the evidence taken out: questions asked where the sessions that answer them are absent.

A copy for each question would take hours. Each store has a few copies, each without some of the sessions that answer; a question
is asked of a copy that lacks all of its own. The copies follow from all questions of the chosen corpora, whichever half is asked.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.quality.corpora import Corpora, Kind, Message, Question

#: Largest share of a store's sessions that one copy lacks: the others still tell of the same things.
LARGEST_SHARE = 0.25
#: Copies of a store, and of one with more messages than this, which takes minutes to build.
COPIES, COPIES_OF_LARGE, LARGE = 4, 2, 2_000


@dataclass(slots=True)
class Copy:
    """One copy of a store: the sessions that it lacks, and the questions they answer."""

    lacks: set[str] = field(default_factory=set)
    questions: list[Question] = field(default_factory=list)


def with_evidence_taken_out(corpora: Corpora) -> Corpora:
    """The corpora with reduced copies of their stores, and the answerable questions asked of these again."""
    stores: dict[str, Sequence[Message]] = dict(corpora.stores)
    questions = list(corpora.questions)
    for name, messages in corpora.stores.items():
        for number, copy in enumerate(copies_of(messages, (q for q in corpora.questions if q.store == name)), 1):
            reduced = f"{name}-less-{number}"
            stores[reduced] = [message for message in messages if message.session not in copy.lacks]
            questions += [taken_out(question, reduced) for question in copy.questions]
    return replace(corpora, stores=stores, questions=questions)


def copies_of(messages: Sequence[Message], questions: Iterable[Question]) -> list[Copy]:
    """Copies of one store, filled in the order of a hash; a question that fits none is left out."""
    most = LARGEST_SHARE * len({message.session for message in messages})
    copies = [Copy() for _ in range(COPIES if len(messages) <= LARGE else COPIES_OF_LARGE)]
    answerable = [q for q in questions if q.kind is Kind.ANSWERABLE and q.sessions]
    for question in sorted(answerable, key=lambda q: (zlib.crc32(q.id.encode()), q.id)):
        growth: Mapping[int, int] = {at: len(question.sessions - copy.lacks) for at, copy in enumerate(copies)}
        fitting = [at for at, more in growth.items() if not more or len(copies[at].lacks) + more <= most]
        if fitting:
            copy = copies[min(fitting, key=lambda at: (growth[at], len(copies[at].lacks)))]
            copy.lacks |= question.sessions
            copy.questions.append(question)
    return [copy for copy in copies if copy.questions]


def taken_out(question: Question, store: str) -> Question:
    """A question as it is asked of a store without its evidence."""
    nothing: frozenset[str] = frozenset()
    name = f"{question.id} taken out"
    return replace(question, id=name, store=store, kind=Kind.TAKEN_OUT, sessions=nothing, messages=nothing)
