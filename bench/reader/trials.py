"""Trials of late interaction: one shape and way of joining for all corpora, chosen on the tuning halves by the pooled mean."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.quality.corpora import LANGUAGES
from bench.reader.files import Store
from bench.reader.late import Matches, Reader, Shape, score
from bench.reader.measure import Found, first_places, values_of
from bench.reader.orders import JOININGS, Joining, Way
from bench.reader.tokens import Rows, Vocabulary

#: What is tried: all together in one run.
SHAPES = tuple(
    Shape(power, least, before, before / 2) for power, least, before in product((1.0, 1.5), (0.3, 0.5), (0.0, 0.3, 0.6))
)
#: Corpora that are asked of the same stores, or too small to be counted alone.
_CODING = frozenset({"commits", "messages", "answers"})


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its candidates' ids and its matches; none without candidates."""

    store: Store
    at: int
    messages: Sequence[str]
    sessions: Sequence[str]
    matches: Matches | None


def group_of(corpus: str) -> str:
    """What counts as one kind of material."""
    return "coding" if corpus in _CODING else "languages" if corpus in LANGUAGES else corpus


def cases_of(stores: Iterable[Store], vocabulary: Vocabulary, rows: Rows, mixed: float) -> list[Case]:
    """All questions of some stores, matched with their candidates."""
    cases = []
    for store in stores:
        reader, texts = Reader(store, vocabulary, rows, mixed), {text.name: text for text in store.texts}
        for at, (asked, ranked) in enumerate(zip(store.asked, store.ranked, strict=True)):
            names = ranked.candidates.message.tolist()
            matches = reader.match(asked.text, reader.places_of(names)) if names else None
            cases.append(Case(store, at, [texts[n].id for n in names], [texts[n].session for n in names], matches))
    return cases


def found_with(cases: Iterable[Case], shape: Shape | None, joining: Joining | None = None) -> list[Found]:
    """What is found when a score is joined with the present order; that order alone without a shape."""
    found = []
    for case in cases:
        scored = None if shape is None or case.matches is None else score(case.matches, shape)
        found.append(_found(case, joining, scored))
    return found


def _found(case: Case, joining: Joining | None, scored: Rows | None) -> Found:
    asked, ranked = case.store.asked[case.at], case.store.ranked[case.at]
    boost = None if joining is None or scored is None else joining.boost(ranked, scored)
    places = first_places(ranked, boost)
    values = values_of(asked, [case.messages[p] for p in places], [case.sessions[p] for p in places])
    return Found(asked.corpus, asked.half, values)


@dataclass(frozen=True, slots=True)
class Trials:
    """What each shape and way of joining gained on the tuning halves."""

    #: By group: the sum over its questions, and their number.
    gains: Mapping[tuple[Shape, Joining], Mapping[str, tuple[float, int]]]

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "Trials":
        """Try all."""
        tuned = [case for case in cases if case.store.asked[case.at].half == "tune"]
        before = found_with(tuned, None)
        gains = {}
        for shape in SHAPES:
            scored = [None if case.matches is None else score(case.matches, shape) for case in tuned]
            for joining in JOININGS:
                after = [_found(case, joining, own) for case, own in zip(tuned, scored, strict=True)]
                gains[shape, joining] = gains_of(before, after)
        return cls(gains)

    def best(self, way: Way | None = None, leave_out: str = "") -> tuple[Shape, Joining]:
        """The choice with the highest mean gain over the questions of all groups but one."""

        def gain(key: tuple[Shape, Joining]) -> float:
            kept = [value for group, value in self.gains[key].items() if group != leave_out]
            return sum(total for total, _ in kept) / max(sum(count for _, count in kept), 1)

        return max((key for key in self.gains if way in (None, key[1].way)), key=gain)


def gains_of(before: Sequence[Found], after: Sequence[Found]) -> Mapping[str, tuple[float, int]]:
    """By group: what recall@10 and session@1 gain, in points, their mean summed over the questions, and how many there are."""
    gains: dict[str, tuple[float, int]] = {}
    for old, new in zip(before, after, strict=True):
        gap = 100 * float(np.nanmean(np.subtract(new.values, old.values)[:2]))
        total, count = gains.get(group_of(old.corpus), (0.0, 0))
        gains[group_of(old.corpus)] = total + gap, count + 1
    return gains
