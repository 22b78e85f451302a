"""What is measured of a row, and how it is counted, compared and written."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bench.quality.corpora import Kind
from bench.quality.rows import FIVE, Row

Measure = Callable[[Row], float | None]

OURS = "intelligent_search tier {}"
DEFAULT = "default answer"
AGENT = "agent: "
#: Resamples of an interval, and their seed.
_RESAMPLES, _SEED = 2000, 5
NOTHING = "–"


def at_one(row: Row) -> float | None:
    """Whether the first result is of a right session."""
    return float(row.session_rank == 1)


def at_five(row: Row) -> float | None:
    """Whether one of the first five results is of a right session."""
    return float(1 <= row.session_rank <= FIVE)


def recall(row: Row) -> float | None:
    """Share of the messages that answer among the first ten results; None where none are named."""
    return row.found / row.gold if row.gold else None


def any_gold(row: Row) -> float | None:
    """Whether the whole answer quotes any message that answers; None where none are named, or that was not looked at."""
    return float(row.quoted > 0) if row.gold and row.quoted is not None else None


def holds_answer(row: Row) -> bool:
    """Whether what was shown holds the answer: one of its messages, else, where none are named, a result of its session."""
    shown = any_gold(row)
    return bool(at_five(row) if shown is None else shown)


def strong(row: Row) -> float | None:
    """Whether the answer calls itself strong."""
    return float(row.confidence == "strong")


def recorded_first(row: Row) -> float | None:
    """Whether a recorded question comes first; None in a store without any."""
    return None if row.recorded_rank is None else float(row.recorded_rank == 1)


def recorded_among_five(row: Row) -> float | None:
    """Whether a recorded question is among the first five; None in a store without any."""
    return None if row.recorded_rank is None else float(1 <= row.recorded_rank <= FIVE)


def hundreds_of_tokens(row: Row) -> float | None:
    """Tokens, so that what is written in per cent is their number."""
    return row.tokens / 100


def right_at_once(row: Row) -> float | None:
    """Whether an agent's first answer was right."""
    return float(row.right_at == 1)


def right_in_the_end(row: Row) -> float | None:
    """Whether an agent was shown the answer at all."""
    return float(row.right_at > 0)


MEASURES: Mapping[str, Measure] = {"session@1": at_one, "session@5": at_five, "recall@10": recall}
#: What two runs are compared by, for each kind of question; an agent's are compared by what it was shown.
COMPARED: Mapping[str, Mapping[str, Measure]] = {
    Kind.ANSWERABLE: {**MEASURES, "any gold": any_gold, "strong": strong, "tokens": hundreds_of_tokens},
    Kind.UNANSWERABLE: {"strong, unanswerable": strong},
    Kind.TAKEN_OUT: {"strong, evidence taken out": strong},
    Kind.PARAPHRASED: {"session@1, other words": at_one},
    Kind.ASKED_BEFORE: {
        "recorded question first": recorded_first,
        "recorded question among five": recorded_among_five,
        "session@1, asked before": at_one,
    },
}
COMPARED_OF_AGENTS: Mapping[str, Measure] = {
    "right at once": right_at_once,
    "right in the end": right_in_the_end,
    "tokens": hundreds_of_tokens,
}


def is_ours(system: str) -> bool:
    """Whether a system says how sure it is."""
    return system.startswith((DEFAULT, OURS.format("")))


#: Rows of one half by corpus and system.
Cells = Mapping[tuple[str, str], Sequence[Row]]


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; "" without lines."""
    shown = ["| " + " | ".join(cells) + " |" for cells in (head, *lines)]
    return "\n".join([shown[0], "|" + "---|" * len(head), *shown[1:]]) if len(shown) > 1 else ""


def ordered(names: Iterable[str], order: Sequence[str]) -> list[str]:
    """Names in a given order; others at the end."""
    known = list(dict.fromkeys(names))
    return [n for n in order if n in known] + [n for n in known if n not in order]


def cells_of(rows: Iterable[Row]) -> Cells:
    """Rows by corpus and system."""
    made: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        made[row.corpus, row.system].append(row)
    return made


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is there; None of nothing."""
    there = [v for v in values if v is not None]
    return sum(there) / len(there) if there else None


def percent(value: float | None) -> str:
    """In per cent."""
    return NOTHING if value is None else f"{100 * value:.1f}"


def interval(gaps: Sequence[float]) -> tuple[float, float, float]:
    """The mean of paired differences and its bootstrap interval (95 %), in points."""
    drawn = np.random.default_rng(_SEED).integers(0, len(gaps), (_RESAMPLES, len(gaps)))
    low, high = np.percentile(np.asarray(gaps)[drawn].mean(axis=1), (2.5, 97.5))
    return 100 * sum(gaps) / len(gaps), 100 * float(low), 100 * float(high)


def difference(ours: Sequence[Row], theirs: Sequence[Row], measure: Measure) -> str:
    """The paired difference of two systems over the questions that both were asked."""
    other = {(row.corpus, row.question): measure(row) for row in theirs}
    pairs = [(measure(row), other.get((row.corpus, row.question))) for row in ours]
    gaps = [a - b for a, b in pairs if a is not None and b is not None]
    if not gaps:
        return NOTHING
    gap, low, high = interval(gaps)
    return f"{gap:+.1f} [{low:+.1f}, {high:+.1f}]"


def median(values: Iterable[float]) -> float | None:
    """The middle value; None of nothing."""
    there = sorted(values)
    return there[len(there) // 2] if there else None


def number(value: float | None) -> str:
    """With one digit."""
    return NOTHING if value is None else f"{value:.1f}"


def of_kind(rows: Sequence[Row], *kinds: str) -> list[Row]:
    """The rows of some kinds of questions."""
    return [row for row in rows if row.kind in kinds]
