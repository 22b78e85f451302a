"""Chooses questions that a memory answers from its own words, to show a person what it does; nothing is written.

Invariants
1. Each question was put to the memory, whose first answer is of the session that the question was made from.
2. A question is one that a person asked, whose reply shares words with it; else one about a name or a phrase of a statement;
   else one about the newest day. It is never a list of words.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import STOPWORDS, cjk_runs, terms
from memory_mcp.model.event import Event, Role, is_recap
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.model.ids import EventId, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.requests.limits import Detail
from memory_mcp.requests.results import FullResult
from memory_mcp.requests.scope import Caller, ScopeName
from memory_mcp.requests.search import SearchRequest, search

#: What a statement is about, how it is recognised, and how one asks for it; a phrase of the statement is put in.
_FORMS = (
    (r"decision|decided|we (?:chose|go with|went with)|supersedes|instead of|rather than", "What did we decide about {topic}?"),
    (r"fix(?:ed|es)?|root cause|culprit|deadlock|caused by|was wrong", "What was wrong with {topic}?"),
    (r"always|never (?:again|do|use)|from now on|prefer|lesson|must(?: not)?", "What is our rule about {topic}?"),
    (r"open question|remains open|not discussed|postponed|pending", "What is still open about {topic}?"),
    (r"", "What did we find out about {topic}?"),
)
_PATTERNS = tuple((lazy_pattern(rf"\b(?:{pattern})\b" if pattern else "", re.I), phrase) for pattern, phrase in _FORMS)
#: Names of code and products: a digit, an underscore, a dot or capitals inside.
_NAMED = lazy_pattern(r"[\d_.]|[a-z][A-Z]|^[A-Z]{2,}$")
_HASH = lazy_pattern(r"^[0-9a-f]{7,}$")
#: Ends of sentences.
_SENTENCE = lazy_pattern(r"(?<=[.!?;:])\s+|(?<=[。！？；])|\n+")
#: Signs of code, addresses and quotations: no question that a stranger would read at ease.
_CODE = lazy_pattern(r"[`<>{}\\|=]|://|\"")
#: Characters of a question, and its fewest words: shorter ones read as a list.
_LENGTHS, _FEWEST_WORDS = range(8, 111), 5
#: Terms that a question and its reply share at least, so that the reply is about it.
_SHARED = 2
#: Longest phrase that reads well in a question.
_LONGEST = 40
#: Newest segments that are looked at, and questions of each kind that are put to the memory.
_SEGMENTS, _TRIED = 200, 20


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the segment that it was made from."""

    text: str
    segment: Segment
    #: The event that asked it; None for one that was made from a statement.
    event: Event | None = None
    #: The name or phrase of a statement that it is about; "" for none.
    topic: str = ""


def first_questions(app: App, count: int = 1) -> list[Question]:
    """Return up to `count` questions of different sessions, newest first."""
    segments = _newest_segments(app)
    nodes = app.tree.nodes([segment.node_id for segment in segments])
    kinds = (
        _asked_questions(app, segments),
        _statement_questions(segments, nodes),
        _day_questions(segments),
    )
    selected: list[Question] = []
    for questions in kinds:
        attempts = 0
        for question in questions:
            if len(selected) >= count or attempts >= _TRIED:
                break
            if any(question.segment.session_id == other.segment.session_id for other in selected):
                continue
            attempts += 1
            if _is_answered(app, question):
                selected.append(question)
    return selected


def questions(app: App, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"questions": texts} of `first_questions`, as many as `count`; for commands."""
    return {"questions": [question.text for question in first_questions(app, int(params.get("count", 1)))]}


#: By the names that the daemon gives them.
METHODS = (questions,)


def _newest_segments(app: App) -> list[Segment]:
    """Return the newest segments: main threads, one of each project first."""
    newest = sorted(app.storage.toc.iter_cuts(), key=lambda cut: (not cut.thread, cut.end), reverse=True)[:_SEGMENTS]
    places: Counter[str] = Counter()
    ranks = {}
    for segment in newest:
        ranks[segment.key] = places[segment.project]
        places[segment.project] += 1
    return sorted(newest, key=lambda segment: (bool(segment.thread), ranks[segment.key]))


def _asked_questions(app: App, segments: Sequence[Segment]) -> Iterator[Question]:
    for segment in segments:
        for event in app.storage.events.segment_events(segment):
            if event.role is Role.USER and not is_recap(event):
                for sentence in filter(_reads_as_question, map(str.strip, _SENTENCE.split(event.text))):
                    yield Question(sentence, segment, event=event)


def _reads_as_question(sentence: str) -> bool:
    plain = sentence.endswith(QUESTION_MARKS) and len(sentence) in _LENGTHS and sentence[0].isalnum()
    words = len(sentence.split()) >= _FEWEST_WORDS or bool(cjk_runs(sentence))
    return plain and words and not _CODE.search(sentence) and len(set(terms(sentence))) >= _SHARED


def _statement_questions(segments: Sequence[Segment], nodes: Mapping[NodeId, TocNode]) -> Iterator[Question]:
    for segment in segments:
        node = nodes.get(segment.node_id)
        for bullet in node.bullets if node else ():
            if not bullet.grip_ids or bullet.text.rstrip().endswith(QUESTION_MARKS):
                continue
            pattern, phrase = next((pattern, phrase) for pattern, phrase in _PATTERNS if pattern.search(bullet.text))
            topic = next(_topics(node, bullet), "") if node else ""
            if topic and not (pattern.pattern and pattern.search(topic)):
                yield Question(phrase.format(topic=topic), segment, topic=topic)


def _topics(node: TocNode, bullet: TocBullet) -> Iterator[str]:
    """A phrase of several words has its article."""
    for keyword in filter(_reads_well, node.keywords):
        article = "(?:(?:the|our) )?" if " " in keyword else ""
        match = re.search(rf"(?<!\w){article}{re.escape(keyword)}(?!\w)", bullet.text, re.I)
        if match and (" " in keyword or _NAMED.search(match.group())):
            yield match.group()


def _reads_well(phrase: str) -> bool:
    """Whether a keyword can stand in a question.

    It has at most 40 characters and a term of the index, but no stop words, hashes or numbers, and no words below
    four letters but names of three.
    """
    words = phrase.split()
    return (
        len(phrase) <= _LONGEST
        and bool(terms(phrase))
        and not any(w.lower() in STOPWORDS or w.replace(".", "").isdigit() or _HASH.match(w) for w in words)
        and all(len(w) >= 4 or (len(w) == 3 and _NAMED.search(w)) for w in words)
    )


def _day_questions(segments: Sequence[Segment]) -> Iterator[Question]:
    for segment in sorted(segments, key=lambda candidate: candidate.end, reverse=True):
        day = dt.date.fromisoformat(segment.day)
        yield Question(f"What did we do on {day.day} {day:%B} {day.year}?", segment)


def _is_answered(app: App, question: Question) -> bool:
    """Whether the memory's first answer is the question's own source."""
    request = SearchRequest(query=question.text, limit=1, scope=ScopeName.ALL.value, detail=Detail.FULL)
    result = next(islice(search(app, request, Caller()).results, 1), None)
    if not isinstance(result, FullResult) or not result.grip_ids or result.superseded_by:
        return False
    if question.event is None and not question.topic:
        return result.when[:10] == question.segment.day
    if result.session_id != question.segment.session_id:
        return False
    if question.event is None:
        return question.topic.casefold() in result.quote.casefold()
    return _is_reply(app, question, result)


def _is_reply(app: App, question: Question, result: FullResult) -> bool:
    """Whether a result replies to a question without repeating it."""
    assert question.event is not None
    reply = app.storage.events.find_event(EventId(result.event_id)) if result.event_id else None
    if reply is None or reply.role is not Role.ASSISTANT or reply.order <= question.event.order:
        return False
    shared_terms = set(terms(question.text)) & set(terms(result.quote))
    return len(shared_terms) >= _SHARED and question.text.casefold() not in " ".join(result.quote.split()).casefold()
