"""What a change of the candidates' order does to what is found, by corpus and half, with bootstrap intervals."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.quality.measures import interval, table
from bench.quality.rows import FIVE, TEN
from bench.reader.files import Asked, Ranked, Store
from memory_mcp.search.layers.score import BOTH, rank_candidates

Numbers = NDArray[np.float64]
#: What is added to the log odds of the candidates of one question, by its position in its store.
Boost = Callable[[int], Numbers | None]

MEASURES = ("recall@10", "session@1", "any gold@5")


@dataclass(frozen=True, slots=True)
class Found:
    """What one order found for a question; NaN where no messages are named."""

    corpus: str
    half: str
    values: tuple[float, float, float]


def found_in(store: Store, boost: Boost) -> list[Found]:
    """What is found for every question of a store."""
    texts = {text.name: text for text in store.texts}
    found = []
    for at, (asked, ranked) in enumerate(zip(store.asked, store.ranked, strict=True)):
        first = first_places(ranked, boost(at))
        first_texts = [texts[int(name)] for name in ranked.candidates.message[first].tolist()]
        found.append(
            Found(asked.corpus, asked.half, values_of(asked, [t.id for t in first_texts], [t.session for t in first_texts]))
        )
    return found


def first_places(ranked: Ranked, boost: Numbers | None) -> Sequence[int]:
    """Positions of the first ten candidates."""
    places: list[int] = rank_candidates(ranked.candidates, BOTH, ranked.literal, TEN, boost).places.tolist()
    return places


def values_of(asked: Asked, messages: Sequence[str], sessions: Sequence[str]) -> tuple[float, float, float]:
    """The measures of one list of ten."""
    gold = frozenset(asked.messages)
    first = float(bool(sessions) and sessions[0] in asked.sessions)
    if not gold:
        return float("nan"), first, float("nan")
    return len(gold.intersection(messages)) / len(gold), first, float(bool(gold.intersection(messages[:FIVE])))


def by_corpus(found: Iterable[Found], half: str) -> Mapping[str, Numbers]:
    """Values by corpus, `(questions, measures)`."""
    rows: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for one in found:
        if half in ("all", one.half):
            rows[one.corpus].append(one.values)
    return {corpus: np.array(values) for corpus, values in rows.items()}


def comparison(before: Sequence[Found], after: Sequence[Found], half: str) -> str:
    """A table of paired differences in points, with intervals of 95 %; the last row is over all questions."""
    old, new = dict(by_corpus(before, half)), dict(by_corpus(after, half))
    old["all"], new["all"] = np.concatenate(list(old.values())), np.concatenate([new[corpus] for corpus in old])
    lines = []
    for corpus, values in old.items():
        cells = [corpus, str(len(values))]
        for k in range(len(MEASURES)):
            known = np.isfinite(values[:, k])
            if known.any():
                gap, low, high = interval((new[corpus][known, k] - values[known, k]).tolist())
                cells.append(f"{100 * values[known, k].mean():.1f} {gap:+.1f} [{low:+.1f}, {high:+.1f}]")
            else:
                cells.append("–")
        lines.append(cells)
    return table(["Corpus", "Questions", *MEASURES], lines)
