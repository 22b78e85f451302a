"""Derives questions that a store can answer from the statements of its segments; they depend on the store alone."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_mcp.layers.base import Query
from memory_mcp.text import STOPWORDS, term_hash, terms

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.model.ids import GripId, NodeId
    from memory_mcp.model.toc import TocBullet, TocNode

#: Returns the number of segments that hold a word.
Frequency = Callable[[str], int]
#: What a statement is about, the weight of such a statement, how it is recognised, and how one asks for it.
_FORMS = (
    ("decision", 3.0, r"decision|decided|we (?:chose|go with|went with)|supersedes", "What did we decide about {topic}?"),
    ("choice", 1.7, r"instead of|rather than|switch(?:ed)? to", "How do we handle {topic}, and why?"),
    ("fix", 2.6, r"fix(?:ed|es)?|root cause|culprit|deadlock|caused by|it was|was wrong", "What was wrong with {topic}?"),
    ("rule", 2.3, r"always|never (?:again|do|use)|from now on|prefer|lesson|must(?: not)?", "What is our rule about {topic}?"),
    ("open", 1.8, r"open question|remains open|not discussed|postponed|pending", "What is still open about {topic}?"),
    ("finding", 1.0, r"", "What did we find out about {topic}?"),
)
_PATTERNS = {name: re.compile(rf"\b(?:{pattern})\b" if pattern else "", re.I) for name, _, pattern, _ in _FORMS}
#: Names of code and products: a digit, an underscore, a dot or capitals inside.
_NAMED = re.compile(r"[\d_.]|[a-z][A-Z]|^[A-Z]{2,}$")
_HASH = re.compile(r"^[0-9a-f]{7,}$")
_GOOD_LENGTH = range(40, 220)
#: Longest keyword that reads well in a question.
_LONGEST = 40
#: Most that the words add to a statement's weight: what was decided comes before what is merely well named.
_MOST_WORTH = 1.5
#: Candidates put to the store.
_TRIED = 40


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the segment it was made from."""

    text: str
    node_id: "NodeId"
    session_id: str
    project: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A question, the form of the statement that it was made from, its weight, and that statement's time and citations."""

    question: Question
    form: str
    weight: float
    start_ms: int
    grips: "tuple[GripId, ...]"


def derive_questions(app: "App", count: int = 3) -> list[Question]:
    """Return up to `count` questions, of different sessions and, where possible, projects and kinds of statement.

    The 40 best candidates, at most four of a segment, are put to the store; those that it answers from the right segment come
    first, others fill up. Writes nothing.
    """
    ranked = sorted(_candidates(app), key=lambda c: (-c.weight, -c.start_ms, c.question.text))
    taken: Counter[NodeId] = Counter()
    tried: list[tuple[_Candidate, int]] = []
    for candidate in ranked:
        # At most four of a segment.
        if taken[candidate.question.node_id] < 4 and len(tried) < _TRIED:
            taken[candidate.question.node_id] += 1
            tried.append((candidate, _answered(app, candidate)))
    tried.sort(key=lambda t: -(t[0].weight + t[1]))
    good = [c for c, answered in tried if answered]
    chosen: list[_Candidate] = []
    for strictness, candidates in ((2, good), (1, good), (0, good), (0, ranked)):
        for candidate in candidates:
            if len(chosen) < count and _is_new(candidate, chosen, strictness):
                chosen.append(candidate)
    return [c.question for c in chosen]


def _is_new(candidate: _Candidate, chosen: Sequence[_Candidate], strictness: int) -> bool:
    """Whether a candidate is of another session than all chosen; from strictness 1 also another project, from 2 another form."""
    mine = candidate.question
    return not any(
        mine.session_id == c.question.session_id
        or (strictness > 0 and mine.project == c.question.project)
        or (strictness > 1 and candidate.form == c.form)
        for c in chosen
    )


def _answered(app: "App", candidate: _Candidate) -> int:
    """Return 2 if the store's first hit is the candidate's statement, 1 if another of its segment, else 0."""
    hits = app.ask(Query(candidate.question.text, 1)).hits
    if not hits or hits[0].node_id != candidate.question.node_id or not hits[0].grip_ids:
        return 0
    return 2 if hits[0].grip_ids[0] in candidate.grips else 1


def _candidates(app: "App") -> Iterator[_Candidate]:
    """Yield a question for each topic of each statement that has a citation and is no question, with its weight; in no order.

    Topics that only repeat the form, as "decision", are left out.
    """
    segments = {s.node_id: s for s in app.storage.toc.iter_cuts()}
    frequencies = app.tree.frequencies()

    def frequency(word: str) -> int:
        """Return the number of segments that hold the most frequent term of a word."""
        return max((frequencies.of(term_hash(t), None) for t in terms(word)), default=0)

    for node in app.tree.nodes(list(segments)).values():
        segment = segments[node.node_id]
        for bullet in node.bullets:
            if not bullet.grip_ids or bullet.text.rstrip().endswith("?"):
                continue
            form, weight, pattern, phrase = next(f for f in _FORMS if _PATTERNS[f[0]].search(bullet.text))
            weight += node.salience + (0.5 if len(bullet.text) in _GOOD_LENGTH else 0.0)
            for topic, worth in _topics(node, bullet, frequency):
                if pattern and _PATTERNS[form].search(topic):
                    continue
                question = Question(phrase.format(topic=topic), node.node_id, segment.session_id, segment.project)
                yield _Candidate(question, form, round(weight + min(worth, _MOST_WORTH), 6), node.start_ms, bullet.grip_ids)


def _topics(node: "TocNode", bullet: "TocBullet", frequency: Frequency) -> list[tuple[str, float]]:
    """Return the topics of a statement as (spelling, weight): its best phrase, and that together with the best of other words.

    A phrase is a keyword of the segment that the statement contains, as it spells it. Empty where none reads well.
    """
    phrases: list[tuple[float, str]] = []
    for place, keyword in enumerate(node.keywords):
        written = re.search(rf"(?<!\w){re.escape(keyword)}(?!\w)", bullet.text, re.I)
        if written and _reads_well(keyword):
            # More for names and phrases, for an early place, and for words in at most three segments.
            weight = (0.6 if _NAMED.search(keyword) or " " in keyword else 0.0) + 0.8 / (1 + place)
            weight += 0.4 if 0 < frequency(keyword) <= 3 else 0.0
            phrases.append((round(weight, 6), written.group()))
    if not phrases:
        return []
    (worth, first), *others = sorted(phrases, key=lambda f: (-f[0], f[1]))
    second = next((p for p in others if not set(p[1].lower().split()) & set(first.lower().split())), None)
    return [(first, worth)] + ([(f"{first} and {second[1]}", worth + second[0] / 2)] if second else [])


def _reads_well(phrase: str) -> bool:
    """Whether a keyword can stand in a question.

    It has at most 40 characters and a term of the index, but no stop words, hashes or numbers, and no words below
    four letters but names.
    """
    words = phrase.split()
    return (
        len(phrase) <= _LONGEST
        and bool(terms(phrase))
        and not any(w.lower() in STOPWORDS or w.replace(".", "").isdigit() or _HASH.match(w) for w in words)
        and all(len(w) >= 4 or _NAMED.search(w) for w in words)
    )
