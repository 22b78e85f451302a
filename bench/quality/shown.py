"""What a default answer shows, and its tokens: alone, with keywords, and once the question itself was recorded."""

from collections.abc import Sequence

from bench.quality.corpora import CORPORA, Kind
from bench.quality.measures import (
    DEFAULT,
    MEASURES,
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
    for system in dict.fromkeys(system for _, system in cells if _WITH in system and not system.startswith("agent")):
        alone = system.partition(_WITH)[0]
        for corpus in (*ordered((corpus for corpus, name in cells if name == system), CORPORA), "all"):
            chosen = [row for (name, what), group in cells.items() if what == system and corpus in (name, "all") for row in group]
            asked = {(row.corpus, row.question) for row in chosen}
            plain = [row for (_, what), group in cells.items() if what == alone for row in group]
            plain = [row for row in plain if (row.corpus, row.question) in asked]
            shown = [f"{percent(mean(map(m, chosen)))}: {difference(chosen, plain, m)}" for m in _SHOWN.values()]
            lines.append([system, corpus, str(len(chosen)), *shown, _tokens(plain)[0], _tokens(chosen)[0]])
    return table(["system", "corpus", "questions", *_SHOWN, "tokens alone", "with keywords"], lines)


def asked_before(rows: Sequence[Row]) -> str:
    """What becomes of the answer once the question itself was recorded, over searches in other words."""
    lines = []
    before = [row for row in of_kind(rows, Kind.ASKED_BEFORE) if row.system == DEFAULT]
    for corpus in (*ordered((row.corpus for row in before), CORPORA), *(["all"] if before else [])):
        recorded = [row for row in before if corpus in ("all", row.corpus)]
        alone = [row for row in of_kind(rows, Kind.PARAPHRASED) if row.system == DEFAULT and corpus in ("all", row.corpus)]
        lines.append(
            [
                *(corpus, str(len(recorded))),
                *(str(sum(bool(measure(row)) for row in recorded)) for measure in (recorded_first, recorded_among_five)),
                *(percent(mean(map(at_one, group))) for group in (alone, recorded)),
                difference(recorded, alone, at_one),
                *(percent(mean(map(any_gold, group))) for group in (alone, recorded)),
                *(_tokens(group)[0] for group in (alone, recorded)),
            ]
        )
    head = ["corpus", "searches", "recorded question first", "among five", "right session first, without", "with", "difference"]
    return table([*head, "any gold, without", "with", "tokens without", "with"], lines)
