"""What a default answer shows, and its tokens: alone, with keywords, and once the question itself was recorded."""

from collections.abc import Sequence

from bench.quality.corpora import CORPORA, Kind
from bench.quality.measures import (
    AGENT,
    DEFAULT,
    MEASURES,
    Cells,
    any_gold,
    at_one,
    cells_of,
    difference,
    mean,
    number,
    of_kind,
    ordered,
    percent,
    recorded_among_five,
    recorded_first,
    table,
)
from bench.quality.rows import Row

#: Ends the name of a system that was asked with keywords.
_WITH = " with keywords"
_SHOWN = {**MEASURES, "any gold": any_gold}


def shown_by_default(rows: Sequence[Row]) -> str:
    """Whether a default answer quotes any message that answers, in whichever form."""
    lines = []
    cells = cells_of(of_kind(rows, Kind.ANSWERABLE))
    for corpus in ordered((corpus for corpus, system in cells if system == DEFAULT), CORPORA):
        answers = [row for row in cells[corpus, DEFAULT] if any_gold(row) is not None]
        if answers:
            lines.append([corpus, str(len(answers)), percent(mean(map(any_gold, answers))), *_tokens(answers)])
    return table(["corpus", "questions", "any gold shown", "tokens, mean", "max"], lines)


def _tokens(rows: Sequence[Row]) -> tuple[str, str]:
    """The mean and the largest number of tokens."""
    return number(mean(float(row.tokens) for row in rows)), str(max((row.tokens for row in rows), default=0))


def with_keywords(rows: Sequence[Row]) -> str:
    """The same questions with and without the written keywords."""
    lines = []
    cells = cells_of(of_kind(rows, Kind.ANSWERABLE))
    for system in dict.fromkeys(system for _, system in cells if _WITH in system and not system.startswith(AGENT)):
        for corpus in (*ordered((corpus for corpus, name in cells if name == system), CORPORA), "all"):
            worded = _of_system(cells, system, corpus)
            keys = {(row.corpus, row.question) for row in worded}
            plain = _of_system(cells, system.partition(_WITH)[0], corpus)
            plain = [row for row in plain if (row.corpus, row.question) in keys]
            measured = [f"{percent(mean(map(m, worded)))}: {difference(worded, plain, m)}" for m in _SHOWN.values()]
            lines.append([system, corpus, str(len(worded)), *measured, _tokens(plain)[0], _tokens(worded)[0]])
    return table(["system", "corpus", "questions", *_SHOWN, "tokens alone", "with keywords"], lines)


def _of_system(cells: Cells, system: str, corpus: str) -> list[Row]:
    """The rows of a system over one corpus, or over all."""
    return [row for (name, label), rows in cells.items() if label == system and corpus in (name, "all") for row in rows]


def asked_before(rows: Sequence[Row]) -> str:
    """What becomes of the answer once the question itself was recorded, over searches in other words."""
    lines = []
    cells, plain_cells = (cells_of(of_kind(rows, kind)) for kind in (Kind.ASKED_BEFORE, Kind.PARAPHRASED))
    corpora = ordered((corpus for corpus, system in cells if system == DEFAULT), CORPORA)
    for corpus in (*corpora, *(["all"] if corpora else [])):
        plain, recorded = (_of_system(group, DEFAULT, corpus) for group in (plain_cells, cells))
        lines.append(
            [
                *(corpus, str(len(recorded))),
                *(str(sum(bool(measure(row)) for row in recorded)) for measure in (recorded_first, recorded_among_five)),
                *(percent(mean(map(at_one, group))) for group in (plain, recorded)),
                difference(recorded, plain, at_one),
                *(percent(mean(map(any_gold, group))) for group in (plain, recorded)),
                *(_tokens(group)[0] for group in (plain, recorded)),
            ]
        )
    head = ["corpus", "searches", "recorded question first", "among five", "right session first, without", "with", "difference"]
    return table([*head, "any gold, without", "with", "tokens without", "with"], lines)
