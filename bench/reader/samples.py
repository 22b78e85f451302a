"""Questions to train on: those of the tuning halves with their own candidates, and first sentences of docstrings.

Of a long message only its best window by the untrained rows is read, of its neighbours too.
"""

import ast
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.reader.files import Asked, Store
from bench.reader.late import BLOCK
from bench.reader.tokens import Ids, Rows, Vocabulary, rarity
from bench.reader.train import Sample
from bench.reader.trials import group_of
from memory_mcp.model.exchange import LISTED_LAST
from memory_mcp.search.layers.score import BOTH, log_odds

Numbers = NDArray[Any]

#: Power of a token's rarity; matches that count; how much one in the message before or after counts.
POWER, LEAST, BEFORE, AFTER = 1.5, 0.3, 0.6, 0.3
#: The best candidates by the present order, some others by chance, and the most of a session that is gold as a whole.
_BEST, _OTHERS, _OF_SESSION = 60, 20, 3
#: Of one package at most; words of a first sentence and of the rest; characters of that.
_PER_PACKAGE, _FEWEST, _MOST, _REST, _LONG = 700, 4, 25, 12, 800
#: Documents with most words and meaning in common, others by chance, and what a point of either is worth in log odds.
_ALIKE, _APART, _WORDS, _MEANING = 40, 10, 4.0, 4.0


class Sampler:
    """Makes samples with the rows that are there before training."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Use a vocabulary's own rows."""
        self._vocabulary, self._rows = vocabulary, vocabulary.unit_rows

    def of_store(self, store: Store) -> Iterator[Sample]:
        """Samples of the tuning half of a store's questions, those with a right candidate."""
        texts = self._vocabulary.ids(f"{text.speaker} {text.text}" for text in store.texts)
        rare, chance = rarity(texts, self._vocabulary.size), np.random.default_rng(1)
        place = {text.name: at for at, text in enumerate(store.texts)}
        for asked, ranked in zip(store.asked, store.ranked, strict=True):
            (question,) = self._vocabulary.ids([asked.text])
            evidence = np.flatnonzero((ranked.candidates.turn & LISTED_LAST) == 0)
            if asked.half != "tune" or not len(question) or not len(evidence):
                continue
            places = np.array([place[name] for name in ranked.candidates.message[evidence].tolist()])
            odds = log_odds(ranked.candidates.words, ranked.candidates.meaning, BOTH)[evidence]
            kept, gold = _drawn(asked, store, places, odds, chance)
            if gold.any():
                passages = [self._with_neighbours(store, texts, at, question, rare) for at in places[kept].tolist()]
                yield self._sample(group_of(asked.corpus), question, rare, passages, odds[kept], gold[kept])

    def of_pairs(self, pairs: Sequence[tuple[str, str]]) -> Iterator[Sample]:
        """First sentences as questions for the rest of their docstrings, among those most alike."""
        questions = self._vocabulary.ids(first for first, _ in pairs)
        texts = self._vocabulary.ids(rest for _, rest in pairs)
        rare, chance = rarity(texts, self._vocabulary.size), np.random.default_rng(2)
        postings: dict[int, list[int]] = defaultdict(list)
        for at, ids in enumerate(texts):
            for token in np.unique(ids).tolist():
                postings[token].append(at)
        sizes = np.array([max(len(ids), 1) for ids in texts])
        centres = np.stack([self._centre(ids, rare) for ids in texts])
        for at, question in enumerate(questions):
            if len(question) < _FEWEST or not len(texts[at]):
                continue
            shared = np.zeros(len(texts))
            for token in set(question.tolist()) & postings.keys():
                shared[postings[token]] += rare[token] ** 2 / (0.5 + 0.5 * sizes[postings[token]] / sizes.mean())
            near = np.maximum(centres @ self._centre(question, rare), 0.0) ** 2
            odds = _WORDS * shared / max(float(shared.max()), 1e-6) + _MEANING * near
            drawn = np.unique([*np.argsort(-odds)[:_ALIKE].tolist(), *chance.integers(0, len(texts), _APART).tolist(), at])
            passages = [[(self._window(texts[one], question, rare), 1.0)] for one in drawn.tolist()]
            yield self._sample("docstrings", question, rare, passages, odds[drawn], drawn == at)

    def _centre(self, ids: Ids, rare: Rows) -> Rows:
        total = (self._rows[ids] * rare[ids][:, np.newaxis]).sum(axis=0)
        centre: Rows = total / max(float(np.linalg.norm(total)), 1e-6)
        return centre

    def _window(self, ids: Ids, question: Ids, rare: Rows) -> Ids:
        """The window of a text that matches a question best."""
        if len(ids) <= 2 * BLOCK:
            return ids
        matched = np.maximum(self._rows[question] @ self._rows[ids].T - LEAST, 0.0)
        starts = range(0, len(ids) - BLOCK, BLOCK)
        best = max(starts, key=lambda at: float(rare[question] ** POWER @ matched[:, at : at + 2 * BLOCK].max(axis=1)))
        return ids[best : best + 2 * BLOCK]

    def _with_neighbours(self, store: Store, texts: Sequence[Ids], at: int, question: Ids, rare: Rows) -> list[tuple[Ids, float]]:
        session = store.texts[at].session
        near = [(at, 1.0), (at - 1, BEFORE), (at + 1, AFTER)]
        inside = [(n, counts) for n, counts in near if 0 <= n < len(texts) and store.texts[n].session == session]
        return [(self._window(texts[n], question, rare), counts) for n, counts in inside]

    def _sample(
        self, group: str, question: Ids, rare: Rows, passages: Sequence[list[tuple[Ids, float]]], odds: Numbers, gold: Numbers
    ) -> Sample:
        nothing = (np.zeros(1, dtype=np.int32), 0.0)
        pieces = [[(ids, counts) for ids, counts in several if len(ids)] or [nothing] for several in passages]
        sizes = [sum(len(ids) for ids, _ in several) for several in pieces]
        flat = [piece for several in pieces for piece in several]
        weights = rare[question] ** POWER
        return Sample(
            group=group,
            question=question,
            weights=(weights / max(float(weights.sum()), 1e-6)).astype(np.float32),
            tokens=np.concatenate([ids for ids, _ in flat]),
            counts=np.concatenate([np.full(len(ids), counts, dtype=np.float32) for ids, counts in flat]),
            begins=np.cumsum([0, *sizes[:-1]]).astype(np.int32),
            odds=odds.astype(np.float32),
            gold=(gold / gold.sum()).astype(np.float32),
        )


def _drawn(asked: Asked, store: Store, places: Numbers, odds: Numbers, chance: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Which candidates are trained on, and which of all answer.

    Where a session is gold as a whole, its best messages are.
    """
    texts = [store.texts[at] for at in places.tolist()]
    order = np.argsort(-odds)
    if asked.messages:
        gold = np.array([text.id in asked.messages for text in texts])
        excluded = np.zeros(len(places), dtype=bool)
    else:
        right = np.array([text.session in asked.sessions for text in texts])
        gold, excluded = np.zeros(len(places), dtype=bool), right
        gold[[at for at in order.tolist() if right[at]][:_OF_SESSION]] = True
    kept = np.zeros(len(places), dtype=bool)
    kept[order[:_BEST]] = True
    kept[chance.permutation(order[_BEST:])[:_OTHERS]] = True
    return np.flatnonzero((kept & ~excluded) | gold), gold


def docstring_pairs(folder: Path, most: int, seconds: float = 60.0) -> list[tuple[str, str]]:
    """First sentences and the rest of docstrings of installed packages, names masked, each sentence once."""
    files = sorted(path for path in folder.rglob("*.py") if "/test" not in str(path))
    np.random.default_rng(5).shuffle(files)
    pairs: dict[str, str] = {}
    counts: dict[str, int] = defaultdict(int)
    began = time.process_time()
    for path in files:
        if len(pairs) >= most or time.process_time() - began > seconds:
            break
        package = path.relative_to(folder).parts[0]
        for first, rest in _docstrings(path):
            if first not in pairs and counts[package] < _PER_PACKAGE:
                counts[package] += 1
                pairs[first] = rest
    return list(pairs.items())


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            first = re.sub(rf"\b{re.escape(node.name)}\b", "it", " ".join(first.split()))
            rest = " ".join(rest.split())[:_LONG]
            if _FEWEST <= len(first.split()) <= _MOST and len(rest.split()) >= _REST:
                yield first, rest
