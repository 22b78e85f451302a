"""How often titles alone lead to the right child: ours, the first sentence, and chance, on judged queries.

Events are built from the shared corpora, cut into segments, and rolled up into days, weeks, months and years, as the
tree does. A parent with several children is a question: a judged query whose gold lies below exactly one of them, and
their titles. A child's score is the sum, over the query's terms in its title, of their IDF among the siblings' titles;
k children that tie for the best are worth 1/k. Titles carry no date here, so a date cannot help.

Queries are halved by a hash of their id: weights were chosen by the figures of "tune". Both halves ask about the same
texts, and titles of these texts were read while the rules were written: "held" shows what was fitted to the queries, not
what was fitted to the corpora.

    python bench/titles.py --data DIR [--nodes 80] [--show 20]
"""

import argparse
import datetime as dt
import hashlib
import json
import math
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp.base.text import query_terms, terms
from memory_mcp.model.calendar import Calendar, TocLevel, level_of, parents_of, source_level
from memory_mcp.model.event import DEFAULT_TYPES, Event, Role, Trust
from memory_mcp.model.ids import GripId, NodeId, day_id, event_id, segment_id, segment_key
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.tree.summarize.extractive import ExtractiveSummarizer

CORPORA = ("locomo", "commits")
GAP_MS = 30 * 60 * 1000
SEGMENT_TOKENS = 4_000
#: Queries asked at one node at most, so that a year does not outvote the days.
QUERIES_PER_NODE = 16
UTC = Calendar("UTC")


@dataclass(slots=True)
class Place:
    """One node of the tree: its node as the summarizer gives it, the first-sentence title, and what lies below."""

    node: TocNode
    first: str
    children: list[NodeId] = field(default_factory=list)
    units: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Question:
    """One query at one parent."""

    corpus: str
    level: TocLevel
    query: str
    half: str
    titles: dict[str, list[str]]
    right: int


def main() -> int:
    """Print the table; exit 0 also when there is no data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=80)
    parser.add_argument("--show", type=int, default=0, help="print this many of our titles per corpus")
    options = parser.parse_args()
    if not all((options.data / corpus / "units.jsonl").exists() for corpus in CORPORA):
        print(f"skipped: no corpora {', '.join(CORPORA)} in {options.data}")
        return 0
    asked: list[tuple[str, list[Question]]] = []
    for corpus in CORPORA:
        for name, units in _by_corpus(options.data / corpus / "units.jsonl").items():
            tree = grow(name, units)
            queries = [q for q in _lines(options.data / corpus / "queries.jsonl") if q["corpus"] == name]
            asked.extend(_questions(corpus, name, tree, queries, units))
            _show(corpus, tree, options.show)
    report(_choose(asked, options.nodes))
    return 0


def grow(corpus: str, units: Sequence[dict[str, Any]]) -> dict[NodeId, Place]:
    """All nodes of one corpus, segments and periods; prints nothing, but the time it took goes to stderr."""
    summarizer, tree = ExtractiveSummarizer(), dict[NodeId, Place]()
    started, count = time.perf_counter(), 0
    for stretch in segments(corpus, units):
        events = [event for event, _ in stretch]
        summary = summarizer.summarize(events)
        day = UTC.day_of(events[0].timestamp)
        node_id = segment_id(day, segment_key(events[0].event_id))
        bullets = tuple(TocBullet(b.text, (GripId(b.sources[0].event_id),), b.kind) for b in summary.bullets)
        node = _node(node_id, events[0].timestamp, summary.title, summary.summary, bullets, summary.keywords)
        tree[node_id] = Place(node, first_sentence(events), units={unit for _, unit in stretch})
        count += len(events)
    for node_id in sorted(tree):
        _add_parents(tree, node_id)
    for level in (TocLevel.DAY, TocLevel.WEEK, TocLevel.MONTH, TocLevel.YEAR):
        for node_id in sorted(n for n in tree if level_of(n) is level):
            _roll_up(summarizer, tree, node_id)
    print(f"{corpus}: {count} events, {len(tree)} nodes in {time.perf_counter() - started:.2f} s", file=sys.stderr)
    return tree


def segments(corpus: str, units: Sequence[dict[str, Any]]) -> Iterator[list[tuple[Event, str]]]:
    """Stretches of each session, cut where half an hour passes or 4,000 tokens are full."""
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for unit in units:
        sessions[str(unit["session"])].append(unit)
    for session in sessions.values():
        stretch: list[tuple[Event, str]] = []
        tokens = 0
        for event, unit_id in sorted(((_event(corpus, u), str(u["id"])) for u in session), key=lambda pair: pair[0].order):
            size = estimate_tokens(event.text)
            if stretch and (event.timestamp - stretch[-1][0].timestamp > GAP_MS or tokens + size > SEGMENT_TOKENS):
                yield stretch
                stretch, tokens = [], 0
            stretch.append((event, unit_id))
            tokens += size
        yield stretch


def first_sentence(events: Sequence[Event]) -> str:
    """The rival: the first sentence of the first user message, at most 120 characters."""
    first = next((event for event in events if event.role is Role.USER), events[0])
    line = " ".join(first.text.split())
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0][:120]


def report(questions: Sequence[Question]) -> None:
    """Accuracy in per cent by corpus, level and half."""
    rows: dict[tuple[str, str], list[Question]] = defaultdict(list)
    for question in questions:
        for row in ("all", question.corpus, f"{question.corpus}/{question.level}"):
            rows[row, question.half].append(question)
            rows[row, "both"].append(question)
    print(f"{'':20}{'half':8}{'asked':>6}{'ours':>8}{'first':>8}{'chance':>8}{'gain':>8}")
    for (row, half), members in sorted(rows.items()):
        ours, first = (100 * sum(_right(q, who) for q in members) / len(members) for who in ("ours", "first"))
        chance = 100 * sum(1 / len(q.titles["ours"]) for q in members) / len(members)
        print(f"{row:20}{half:8}{len(members):6}{ours:8.1f}{first:8.1f}{chance:8.1f}{ours - first:+8.1f}")


def _right(question: Question, who: str) -> float:
    titles = [set(terms(title)) for title in question.titles[who]]
    scores = []
    for title in titles:
        score = 0.0
        for term in query_terms(question.query):
            if term in title:
                holding = sum(term in other for other in titles)
                score += math.log(1 + (len(titles) - holding + 0.5) / (holding + 0.5))
        scores.append(round(score, 9))
    best = max(scores)
    return 1 / scores.count(best) if scores[question.right] == best else 0.0


def _questions(
    corpus: str, name: str, tree: dict[NodeId, Place], queries: Iterable[dict[str, Any]], units: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, list[Question]]]:
    by_session: dict[str, set[str]] = defaultdict(set)
    for unit in units:
        by_session[str(unit["session"])].add(str(unit["id"]))
    gold_of = [(q, set(q["gold"]) or set().union(*(by_session[s] for s in q["gold_sessions"]))) for q in queries]
    for node_id, place in tree.items():
        if len(place.children) < 2:
            continue
        asked = []
        for query, gold in gold_of:
            holders = [i for i, child in enumerate(place.children) if tree[child].units & gold]
            if len(holders) == 1 and gold:
                titles = {
                    "ours": [tree[child].node.title for child in place.children],
                    "first": [tree[child].first for child in place.children],
                }
                half = "tune" if _hash(str(query["id"])) % 2 else "held"
                asked.append(
                    (
                        _hash(f"{node_id}{query['id']}"),
                        Question(corpus, level_of(node_id), query["query"], half, titles, holders[0]),
                    )
                )
        if asked:
            yield (
                f"{corpus}/{level_of(node_id)}/{name}/{node_id}",
                [q for _, q in sorted(asked, key=lambda a: a[0])[:QUERIES_PER_NODE]],
            )


def _choose(asked: list[tuple[str, list[Question]]], nodes: int) -> list[Question]:
    """The questions of `nodes` parents, taken in turn from every corpus and level."""
    groups: dict[str, list[tuple[str, list[Question]]]] = defaultdict(list)
    for key, questions in asked:
        groups["/".join(key.split("/", 2)[:2])].append((key, questions))
    turns = [sorted(group, key=lambda item: _hash(item[0])) for _, group in sorted(groups.items())]
    chosen: list[list[Question]] = []
    while len(chosen) < nodes and any(turns):
        for turn in turns:
            if turn and len(chosen) < nodes:
                chosen.append(turn.pop(0)[1])
    print(f"{len(chosen)} parents, {sum(map(len, chosen))} questions")
    return [question for questions in chosen for question in questions]


def _add_parents(tree: dict[NodeId, Place], node_id: NodeId) -> None:
    for parent in parents_of(node_id):
        if parent == "toc:root":
            continue
        if parent not in tree:
            tree[parent] = Place(_node(parent, 0, "", "", (), ()), "")
            _add_parents(tree, parent)
        if node_id not in tree[parent].children:
            tree[parent].children.append(node_id)


def _roll_up(summarizer: ExtractiveSummarizer, tree: dict[NodeId, Place], node_id: NodeId) -> None:
    place = tree[node_id]
    place.children.sort(key=lambda child: (tree[child].node.start_ms, child))
    window = UTC.node_window(node_id)
    level = source_level(node_id)
    sources = [
        tree[n]
        for n in sorted(tree, key=lambda n: (tree[n].node.start_ms, n))
        if level_of(n) is level
        and (window.contains(tree[n].node.start_ms))
        and (level is not TocLevel.SEGMENT or day_id(n.split(":")[2]) == node_id)
    ]
    rolled = summarizer.roll_up([source.node for source in sources])
    place.node = _node(node_id, window.start_ms, rolled.title, rolled.summary, rolled.bullets, rolled.keywords)
    place.first = sources[0].first
    place.units = set().union(*(source.units for source in sources))


def _node(
    node_id: NodeId, start: int, title: str, summary: str, bullets: tuple[TocBullet, ...], keywords: tuple[str, ...]
) -> TocNode:
    return TocNode(node_id, level_of(node_id), start, start, title, summary, bullets, keywords)


def _event(corpus: str, unit: dict[str, Any]) -> Event:
    said = dt.datetime.fromisoformat(str(unit["ts"]))
    ms = round((said if said.tzinfo else said.replace(tzinfo=dt.UTC)).timestamp() * 1000)
    label = str(unit["role"])
    role = Role.ASSISTANT if label == "assistant" else Role.USER
    speaker = "" if label.split("/", maxsplit=1)[0] in ("user", "assistant") else label
    ident = event_id(ms, "bench", corpus, str(unit["id"]))
    return Event(
        ident, str(unit["session"]), ms, DEFAULT_TYPES[role], role, Trust.IMPORTED, str(unit["text"]), "bench", speaker=speaker
    )


def _by_corpus(path: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for unit in _lines(path):
        found[str(unit["corpus"])].append(unit)
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _show(corpus: str, tree: dict[NodeId, Place], count: int) -> None:
    for level in (TocLevel.SEGMENT, TocLevel.DAY, TocLevel.WEEK, TocLevel.MONTH):
        nodes = sorted((n for n in tree if level_of(n) is level), key=_hash)[:count]
        for node_id in nodes:
            print(f"{corpus} {level}: {tree[node_id].node.title}\n      first: {tree[node_id].first}")


if __name__ == "__main__":
    sys.exit(main())
