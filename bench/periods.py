"""Whether periods' own words lead to the right one: title, summary, bullets and keywords of days, weeks and months.

Questions with the days, weeks and months that answer them are in `labels/periods`. All nodes of one level of one store are
ranked by BM25 over their own text, without term sets and without indexes; places that tie share what they are worth. Beside
it: the same over all that the segments below say, which is what no choice of words can exceed by much; how many segments a
day has, and how many of them say nothing.

With `--mixed` several corpora are in one store, and the answerable questions of `bench.quality`, 40 of each corpus at most, ask
for the years, months, weeks and days of the messages that answer them, each by the first place.

    python -m bench.periods --data DIR [--folder DIR] [--show 5] [--half tune|held] [--mixed locomo commits de ...]
"""

import argparse
import datetime as dt
import hashlib
import json
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.quality.corpora import CORPORA as ALL
from bench.quality.corpora import LABELS, Half, Kind, Message, corpora_in, half_of
from bench.quality.plain import Bm25
from bench.quality.stores import Stores
from memory_mcp.app import App
from memory_mcp.model.calendar import PERIODS, TocLevel, level_of, rollup_targets
from memory_mcp.model.ids import NodeId
from memory_mcp.model.toc import TocNode

_MIXED, _OF_A_CORPUS = "mixed", 40
CORPORA = ("commits", "lifebench-en", "lifebench-zh")
#: Levels with the key of a question that names the right ones, and how many of the first places count.
LEVELS = {TocLevel.DAY: ("days", 3), TocLevel.WEEK: ("weeks", 1), TocLevel.MONTH: ("months", 1)}


@dataclass(frozen=True, slots=True)
class Question:
    """One question and the periods that answer it, by level."""

    store: str
    id: str
    text: str
    weight: str
    right: Mapping[TocLevel, frozenset[str]]

    @property
    def half(self) -> Half:
        """The half it belongs to."""
        return half_of(self.id)


def questions() -> list[Question]:
    """All of them."""
    found = []
    for file in sorted((LABELS / "periods").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            right = {level: frozenset(f"toc:{level.value}:{name}" for name in told[key]) for level, (key, _) in LEVELS.items()}
            found.append(Question(told.get("corpus", "commits"), told["id"], told["query"], told["weight"], right))
    return found


def mixed(data: Path, names: Sequence[str]) -> tuple[list[Message], list[Question]]:
    """The messages of some corpora, each in sessions of its own, and their answerable questions."""
    corpora = corpora_in(data, names)
    messages: list[Message] = []
    days: dict[tuple[str, str], set[str]] = defaultdict(set)
    for store, several in corpora.stores.items():
        for m in several:
            recorded_in = f"{store}/{m.recorded_in}" if m.recorded_in else ""
            messages.append(replace(m, id=f"{store}/{m.id}", session=f"{store}/{m.session}", recorded_in=recorded_in))
            day = m.at.astimezone(dt.UTC).date().isoformat()
            days[store, m.id].add(day)
            days[store, f"session {m.session}"].add(day)
    questions = []
    count: Counter[tuple[str, Half]] = Counter()
    for q in sorted(corpora.questions, key=lambda q: hashlib.sha256(q.id.encode()).digest()):
        places = q.messages or [f"session {name}" for name in q.sessions]
        if q.kind is Kind.ANSWERABLE and places and count[q.corpus, q.half] < _OF_A_CORPUS:
            count[q.corpus, q.half] += 1
            periods = {p for place in places for day in days[q.store, place] for p in rollup_targets(day)}
            right = {level: frozenset(p for p in periods if level_of(p) is level) for level in PERIODS}
            questions.append(Question(_MIXED, q.id, q.text, q.corpus, right))
    return messages, questions


class Ranking:
    """Nodes of one level by their own words."""

    def __init__(self, texts: Mapping[NodeId, str]) -> None:
        self._ids = list(texts)
        self._words = Bm25(list(texts.values()))

    def share(self, text: str, right: frozenset[str], places: int) -> float:
        """How likely one of the right ones is among the first places, when equals are in any order."""
        scores = self._words.scores(text).tolist()
        best = max((s for s, i in zip(scores, self._ids, strict=True) if i in right), default=0.0)
        if best <= 0:
            return 0.0
        before = sum(s > best for s in scores)
        equal = sum(s == best for s in scores)
        good = sum(s == best and i in right for s, i in zip(scores, self._ids, strict=True))
        drawn = min(max(places - before, 0), equal)
        return 1 - math.comb(equal - good, drawn) / math.comb(equal, drawn) if drawn else 0.0


def own_text(node: TocNode) -> str:
    """What a reader sees of a node."""
    return "\n".join([node.title, node.summary, *(b.text for b in node.bullets), *node.keywords])


def nodes_of(app: App) -> dict[TocLevel, list[TocNode]]:
    """All nodes by level, with everything they say."""
    found: dict[TocLevel, list[TocNode]] = defaultdict(list)
    for node in app.storage.toc.iter_nodes():
        found[node.level].append(node)
    return found


def below(nodes: Sequence[TocNode], segments: Sequence[tuple[str, TocNode]]) -> dict[NodeId, str]:
    """Everything that the segments of each period say; `segments` with their days."""
    texts: dict[NodeId, list[str]] = {n.node_id: [] for n in nodes}
    for day, segment in segments:
        for period in texts.keys() & set(rollup_targets(day)):
            texts[period].append(own_text(segment))
    return {node_id: "\n".join(several) for node_id, several in texts.items()}


def shape(nodes: Mapping[TocLevel, Sequence[TocNode]]) -> dict[str, float]:
    """How the tree looks."""
    segments = nodes[TocLevel.SEGMENT]
    of_tools = sum(" tool call" in n.title or " tool result" in n.title for n in segments)
    sizes = [len(own_text(n).encode()) / 4 for level in (TocLevel.DAY, TocLevel.WEEK, TocLevel.MONTH) for n in nodes[level]]
    return {
        "segments": len(segments),
        "a day": len(segments) / max(len(nodes[TocLevel.DAY]), 1),
        "without a bullet, %": 100 * sum(not n.bullets for n in segments) / max(len(segments), 1),
        "titled by tools, %": 100 * of_tools / max(len(segments), 1),
        "tokens a period": sum(sizes) / max(len(sizes), 1),
    }


def report_mixed(stores: Stores, questions: Sequence[Question], half: Half | None) -> None:
    """Print how often the right period comes first by its own words, and what these cost."""
    with stores.opened(_MIXED, 5, {}) as app:
        nodes = nodes_of(app)
    chosen = [q for q in questions if half in (None, q.half)]
    print(", ".join(f"{key} {value:,.1f}" for key, value in shape(nodes).items()))
    for level in PERIODS[::-1]:
        for name, text_of in (("own words", own_text), ("title", lambda node: node.title)):
            ranking = Ranking({n.node_id: text_of(n) for n in nodes[level]})
            share = sum(ranking.share(q.text, q.right[level], 1) for q in chosen) / max(len(chosen), 1)
            print(f"{level.value:6} of {len(nodes[level]):4} by {name:10} {len(chosen):4} questions: first {100 * share:.1f} %")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "memory-mcp-bench")
    parser.add_argument("--half", type=Half, choices=list(Half))
    parser.add_argument("--show", type=int, default=0, help="so many days, weeks and months as they read")
    parser.add_argument("--mixed", nargs="+", choices=ALL, default=(), metavar="CORPUS", help="these corpora in one store")
    arguments = parser.parse_args()
    if arguments.mixed:
        messages, several = mixed(arguments.data, arguments.mixed)
        report_mixed(Stores(arguments.folder, {_MIXED: messages}), several, arguments.half)
        return
    asked = [q for q in questions() if arguments.half in (None, q.half)]
    held = corpora_in(arguments.data, CORPORA).stores
    stores = Stores(arguments.folder, held)
    reached: dict[tuple[str, str], dict[TocLevel, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in sorted({q.store for q in asked} & set(held)):
        with stores.opened(name, 5, {}) as app:
            nodes = nodes_of(app)
            days = {c.node_id: c.day for c in app.storage.toc.iter_cuts()}
        print(name, ", ".join(f"{key} {value:,.1f}" for key, value in shape(nodes).items()))
        for level, (_, places) in LEVELS.items():
            own = Ranking({n.node_id: own_text(n) for n in nodes[level]})
            whole = Ranking(below(nodes[level], [(days[n.node_id], n) for n in nodes[TocLevel.SEGMENT]]))
            for question in (q for q in asked if q.store == name):
                share = own.share(question.text, question.right[level], places)
                for group in ("all", question.weight):
                    reached[name, group][level].append(share)
                reached[name, "below"][level].append(whole.share(question.text, question.right[level], places))
            for node in nodes[level][:: max(1, len(nodes[level]) // max(arguments.show, 1))][: arguments.show]:
                print(f"  {node.title}\n      {node.summary}\n      {', '.join(node.keywords)}")
                print("".join(f"      - [{b.kind.value}] {b.text}\n" for b in node.bullets))
    for (name, group), levels in reached.items():
        told = ", ".join(f"{level.value}@{LEVELS[level][1]} {100 * sum(s) / len(s):.1f} %" for level, s in levels.items())
        print(f"{name:16} {group:7} {len(levels[TocLevel.DAY]):4} questions: {told}")
    if not reached:
        print(f"skipped: {arguments.data} has none of {', '.join(CORPORA)}")


if __name__ == "__main__":
    main()
