"""How well what an answer says of itself tells right from wrong, and what it says where nothing answers."""

from collections.abc import Sequence

import numpy as np

from bench.quality.corpora import CORPORA, Kind
from bench.quality.measures import (
    at_one,
    holds_answer,
    is_ours,
    mean,
    number,
    of_kind,
    ordered,
    percent,
    strong,
    table,
)
from bench.quality.rows import Row

_KINDS = (Kind.ANSWERABLE, Kind.TAKEN_OUT, Kind.UNANSWERABLE, Kind.ADVERSARIAL)
#: What a word counts where an answer says no probability.
_WORDS = {"strong": 1.0, "weak": 0.5, "none": 0.0}
_HEAD = (
    *("system", "corpus", "answerable", "right first", "AUC right", "AUC answerable", "strong", "strong: holds the answer"),
    *("strong: right first", "right first: strong", "taken out", "taken out: strong", "unanswerable", "unanswerable: strong"),
    *("adversarial: strong", "none, answerable"),
)


def confidence(rows: Sequence[Row]) -> str:
    """How much an answer's own word is worth, of questions with an answer, without one, and with the evidence taken out."""
    lines = []
    for system in dict.fromkeys(row.system for row in rows if is_ours(row.system)):
        answers = [row for row in of_kind(rows, *_KINDS) if row.system == system]
        for corpus in (*ordered((row.corpus for row in answers), CORPORA), *(["all"] if answers else [])):
            lines.append([system, corpus, *_cells([row for row in answers if corpus in ("all", row.corpus)])])
    return table(_HEAD, lines)


def _cells(rows: Sequence[Row]) -> list[str]:
    """What is said of one corpus."""
    kinds = {kind: of_kind(rows, kind) for kind in Kind}
    answerable, taken_out = kinds[Kind.ANSWERABLE], kinds[Kind.TAKEN_OUT]
    unanswerable = kinds[Kind.UNANSWERABLE]
    right = [row for row in answerable if at_one(row)]
    certain = [row for row in answerable if strong(row)]
    holding, lacking = [[row for row in answerable if holds_answer(row) is holds] for holds in (True, False)]
    return [
        *(str(len(answerable)), str(len(right))),
        *(auc(holding, [*lacking, *taken_out]), auc(answerable, taken_out or unanswerable)),
        *(str(len(certain)), percent(mean(float(holds_answer(row)) for row in certain)), percent(mean(map(at_one, certain)))),
        percent(mean(map(strong, right))),
        *(str(len(taken_out)), percent(mean(map(strong, taken_out)))),
        *(str(len(unanswerable)), percent(mean(map(strong, unanswerable)))),
        percent(mean(map(strong, kinds[Kind.ADVERSARIAL]))),
        percent(mean(float(row.confidence == "none") for row in answerable)),
    ]


def certainty(row: Row) -> float:
    """How sure an answer is: its probability, else its word."""
    return _WORDS.get(row.confidence, 0.0) if row.probability is None else row.probability


def auc(positive: Sequence[Row], negative: Sequence[Row]) -> str:
    """How often the first of a pair is surer than the second; 0.50 is chance. Ties count half."""
    if not positive or not negative:
        return number(None)
    high, low = (np.array([certainty(row) for row in group]) for group in (positive, negative))
    wins = (high[:, None] > low[None, :]).mean() + (high[:, None] == low[None, :]).mean() / 2
    return f"{wins:.2f}"
