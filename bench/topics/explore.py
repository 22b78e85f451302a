"""Whether questions that explore are answered with the themes that a reader named: by topics, and without them.

The questions and their themes were written from the commits of `commits` and the records of `lifebench` before anything of the
program had been seen. A theme is a list of words, any of which shows that an answer names it; matched by substring, which is
kind to words that come everywhere (`chance` in the file says how kind) and unkind to other words for the same.
"""

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.quality.corpora import corpora_in
from bench.quality.stores import Stores
from memory_mcp.app import App
from memory_mcp.model.calendar import Calendar
from memory_mcp.question.intent import Intent
from memory_mcp.question.understand import topic_subject
from memory_mcp.requests.answers import SearchResponse
from memory_mcp.requests.plain import tokens_of
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest, search
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.topics import find_telling
from memory_mcp.search.policy.plan import How

_LABELS = Path(__file__).parent.parent / "labels" / "explore.jsonl"
_CORPORA = ("commits", "lifebench-en", "lifebench-zh")
#: Topics that count, and tokens of an answer.
_FIRST, _TOKENS = 10, 900
#: What is compared, in the order of the table.
_ROWS = ("first ten topics", "the same, their names alone", "answer with topics", "answer without", "its themes alone")


@dataclass
class Scores:
    """Shares of themes found, by row; tokens of answers; questions that were not taken for exploring."""

    shares: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tokens: list[int] = field(default_factory=list)
    missed: int = 0


def explored(data: Path, folder: Path, half: str) -> str:
    """A table for each corpus."""
    rows = [json.loads(line) for line in _LABELS.read_text(encoding="utf-8").splitlines()]
    questions = [row for row in rows if half in ("all", row["half"])]
    messages = corpora_in(data, _CORPORA).stores
    stores = Stores(folder, messages)
    scores: dict[str, Scores] = defaultdict(Scores)
    for name in sorted(messages):
        of_store = [row for row in questions if name in (row["corpus"], row["source"])]
        with stores.opened(name, 2, {"topics.enabled": True}) as app:
            if not app.topics.status().usable:
                app.topics.rebuild_graph()
            for row in of_store:
                _by_topics(app, row, scores[row["source"]])
        with stores.opened(name, 2, {}) as app:
            for row in of_store:
                scores[row["source"]].shares["answer without"].append(_share(row, _said(_answer(app, row), themes=False)))
    return "\n".join(_table(source, half, of_source) for source, of_source in scores.items())


def _by_topics(app: App, row: Mapping[str, Any], into: Scores) -> None:
    answer = _answer(app, row)
    into.tokens.append(tokens_of(answer, 1.0))
    into.shares["answer with topics"].append(_share(row, _said(answer)))
    into.shares["its themes alone"].append(_share(row, _said(replace(answer, results=()))))
    into.missed += app.plan(Query(row["query"]), How()).intent is not Intent.EXPLORE
    names, shown = _first(app, row)
    into.shares["the same, their names alone"].append(_share(row, names))
    into.shares["first ten topics"].append(_share(row, names + shown))


def _first(app: App, row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Names of the first ten topics, and two statements of each, as topics_by_query shows them."""
    layer = app.topics
    graph = layer.read_graph()
    moment = dt.datetime.fromisoformat(row["as_of"]).replace(tzinfo=dt.UTC)
    as_of = int(moment.timestamp() * 1000)
    plan = app.plan(Query(row["query"]), How(intent=Intent.EXPLORE, as_of=as_of, calendar=Calendar("UTC")))
    view = replace(layer.read_view(None), now_ms=as_of, window=plan.window)
    topics = graph.best_topics(view, plan.text, _FIRST, topic_subject(plan.text))
    statements = []
    for topic in topics:
        nodes = app.tree.nodes([link.node_id for link in graph.list_links(topic.topic_id, view, 2, text=plan.text)[0]])
        statements += [bullet.text for node in nodes.values() if (bullet := find_telling(node, topic, plan.text))]
    return [text for topic in topics for text in (topic.label, *topic.keywords, *topic.parts)], statements


def _answer(app: App, row: Mapping[str, Any]) -> SearchResponse:
    request = SearchRequest(
        query=row["query"],
        intent=Intent.EXPLORE,
        limit=_FIRST,
        as_of=row["as_of"][:19],
        tz="UTC",
        scope="all",
        token_budget=_TOKENS,
    )
    return search(app, request, Caller(""))


def _said(answer: SearchResponse, themes: bool = True) -> list[str]:
    parts = [text for t in answer.themes for text in (t.theme, t.about, t.quote)] if themes else []
    return [*parts, *(text for r in answer.results for text in (r.title, r.quote))]


def _share(row: Mapping[str, Any], texts: Iterable[str]) -> float:
    """The share of a question's themes that texts name."""
    text = "\n".join(texts).lower()
    return fmean(any(word in text for word in theme["any"]) for theme in row["themes"])


def _table(source: str, half: str, scores: Scores) -> str:
    count = len(scores.tokens)
    head = f"{source}, {half}: {count} questions, {scores.missed} not taken for exploring"
    lines = [f"{head}; {fmean(scores.tokens):.0f} tokens an answer"]
    lines += [f"  {name:32} {fmean(scores.shares[name]):.3f}" for name in _ROWS]
    better, worse = _paired(scores.shares["answer with topics"], scores.shares["answer without"])
    return "\n".join([*lines, f"  answers with topics are better for {better}, worse for {worse}"])


def _paired(ours: Sequence[float], others: Sequence[float]) -> tuple[int, int]:
    pairs = list(zip(ours, others, strict=True))
    return sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
