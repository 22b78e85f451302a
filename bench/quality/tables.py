"""The tables, computed from the rows alone."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.quality.corpora import CORPORA, Half, Kind
from bench.quality.measures import (
    AGENT,
    COMPARED,
    COMPARED_OF_AGENTS,
    DEFAULT,
    MEASURES,
    NOTHING,
    OURS,
    Cells,
    Measure,
    cells_of,
    difference,
    mean,
    median,
    number,
    of_kind,
    ordered,
    percent,
    table,
)
from bench.quality.rows import Row
from bench.quality.shown import asked_before, shown_by_default, with_keywords
from bench.quality.trust import confidence

#: By tier: the layers that can be used there.
USABLE: Mapping[int, Sequence[str]] = {
    2: ("bm25 nodes", "bm25 grips", "vector nodes", "vector grips", "hybrid nodes", "hybrid grips", "navigate"),
    3: ("vector nodes", "vector grips", "navigate"),
    4: ("bm25 nodes", "bm25 grips", "navigate"),
    5: ("navigate",),
}
#: Questions asked of the stores as they are.
_ASKED_OF_WHOLE_STORES = (Kind.ANSWERABLE, Kind.UNANSWERABLE, Kind.ADVERSARIAL)
RIVALS = ("plain BM25 sessions", "plain BM25 messages", "score mix")


def quality(rows: Sequence[Row]) -> str:
    """The three measures over answerable questions, of each system and corpus."""
    own = [r for r in rows if r.kind == Kind.ANSWERABLE and not r.system.startswith(AGENT)]
    corpora, cells = ordered((r.corpus for r in own), CORPORA), cells_of(own)
    counts = {c: len({r.question for r in own if r.corpus == c}) for c in corpora}
    lines = []
    for system in dict.fromkeys(r.system for r in own):
        lines.append([system, *(_measured(cells.get((c, system), ()), counts[c]) for c in corpora)])
    return table([" / ".join(MEASURES), *(f"{c} ({counts[c]})" for c in corpora)], lines)


def _measured(rows: Sequence[Row], count: int) -> str:
    """The measures of one cell, with the number of its questions where the system was not asked all of them."""
    shown = " / ".join(percent(mean(map(measure, rows))) for measure in MEASURES.values())
    return shown if len(rows) in (0, count) else f"{shown} (of {len(rows)})"


def comparison(before: Sequence[Row], after: Sequence[Row]) -> str:
    """What changed from one run to another, paired by question, of each system that both asked."""
    old, new = cells_of(before), cells_of(after)
    corpora = ordered((corpus for corpus, _ in new), CORPORA)
    lines = []
    for system in dict.fromkeys(system for corpus, system in new if (corpus, system) in old):
        for kind, measures in COMPARED.items():
            for name, measure in (COMPARED_OF_AGENTS if system.startswith(AGENT) else measures).items():
                pairs = [[of_kind(cells.get((c, system), ()), kind) for cells in (new, old)] for c in corpora]
                shown = [f"{percent(mean(map(measure, now)))}: {difference(now, then, measure)}" for now, then in pairs]
                if cells := ["" if NOTHING in cell else cell for cell in shown if cell]:
                    lines.append([system, name, *cells])
    return table(["system", "measure", *corpora], [line for line in lines if any(line[2:])])


def best_layer(cells: Cells, corpus: str, tier: int, measure: Measure) -> tuple[str, float | None]:
    """The layer usable at a tier that is best on a corpus, and its mean."""
    means = {name: mean(map(measure, cells.get((corpus, name), ()))) for name in USABLE[tier]}
    known = {name: value for name, value in means.items() if value is not None}
    best = max(known, key=known.__getitem__, default="")
    return best, known.get(best)


def differences(rows: Sequence[Row], tier: int) -> str:
    """intelligent_search at a tier minus the best layer alone, and minus plain search, with intervals."""
    own = [r for r in rows if r.kind == Kind.ANSWERABLE]
    cells, lines = cells_of(own), []
    for corpus in ordered((r.corpus for r in own), CORPORA):
        ours = cells.get((corpus, OURS.format(tier)), ())
        for name, measure in MEASURES.items():
            value = mean(map(measure, ours))
            if value is not None:
                layer, best = best_layer(cells, corpus, tier, measure)
                gaps = [difference(ours, cells.get((corpus, rival), ()), measure) for rival in (layer, *RIVALS)]
                lines.append([corpus, name, percent(value), f"{layer} {percent(best)}", *gaps])
    head = ["corpus", "measure", f"tier {tier}", "best layer alone", "minus that layer", *(f"minus {r}" for r in RIVALS)]
    return table(head, lines)


def cost(rows: Sequence[Row]) -> str:
    """Tokens of a default answer; the time of intelligent_search beside that of the layer that answered."""
    cells, lines = cells_of(rows), []
    for corpus in ordered((r.corpus for r in rows), CORPORA):
        asked, short = cells.get((corpus, OURS.format(2)), ()), cells.get((corpus, DEFAULT), ())
        if not asked and not short:
            continue
        took = {(r.system, r.question): r.ms for r in rows if r.corpus == corpus}
        methods = Counter(r.method for r in asked)
        named = ", ".join(f"{name} {100 * count / len(asked):.0f} %" for name, count in methods.most_common(3))
        own = median(r.ms for r in asked)
        layers = [median(took[key] for r in asked if (key := (_layer(r.method, what), r.question)) in took) for what in _WHAT]
        known = [value for value in layers if value]
        ratio = own / max(known) if own and known else None
        tokens = [number(mean(float(r.tokens) for r in short)), str(max((r.tokens for r in short), default=0))]
        lines.append([corpus, *tokens, number(own), *map(number, layers), number(ratio), named])
    head = ["corpus", "tokens, mean", "max", "p50 ms", "layer over nodes", "layer over grips", "ratio to the slower"]
    return table([*head, "answered by"], lines)


_WHAT = ("nodes", "grips")


def _layer(method: str, what: str) -> str:
    """The system that asks alone the layer that answered, the first of several."""
    method = method.partition("+")[0]
    return f"{method} {what}" if method in ("bm25", "vector", "hybrid") else "navigate"


def agent(rows: Sequence[Row]) -> str:
    """An agent's questions: right at once and in the end, and what was read for it."""
    lines = []
    for system in dict.fromkeys(r.system for r in rows if r.system.startswith(AGENT)):
        own = [r for r in rows if r.system == system]
        once, ever = sum(r.right_at == 1 for r in own), sum(r.right_at > 0 for r in own)
        tokens = [mean(float(r.first_tokens) for r in own), mean(float(r.tokens) for r in own)]
        most = max(r.first_tokens for r in own)
        name = system.removeprefix(AGENT)
        lines.append([name, str(len(own)), str(once), f"{tokens[0]:.0f}", str(most), str(ever), f"{tokens[1]:.0f}"])
    return table(["asked of", "questions", "right at once", "tokens, mean", "max", "right in the end", "tokens, mean"], lines)


def sections(rows: Sequence[Row]) -> dict[str, str]:
    """Every table of some rows by its title."""
    tiers = [t for t in USABLE if any(r.system == OURS.format(t) for r in rows)]
    made = {"Found, per cent": quality(rows)}
    for tier in tiers:
        made[f"Tier {tier} beside others, points [95 %]"] = differences(rows, tier)
    made["Shown by a default answer, per cent"] = shown_by_default(rows)
    made["With keywords, per cent and points [95 %]"] = with_keywords(rows)
    made["Asked before"] = asked_before(rows)
    made["Confidence, per cent"] = confidence(rows)
    made["Cost"] = cost(of_kind(rows, *_ASKED_OF_WHOLE_STORES))
    made["An agent's questions"] = agent(rows)
    return {title: text for title, text in made.items() if text}


def tables(rows: Sequence[Row]) -> str:
    """Every table, of each half and of both."""
    halves: list[tuple[str, ...]] = [(half,) for half in ordered((r.half for r in rows), tuple(Half))]
    if len(halves) > 1:
        halves.append(tuple(Half))
    parts = []
    for half in halves:
        parts.append(f"## Half: {' and '.join(half)}")
        for title, text in sections([r for r in rows if r.half in half]).items():
            parts += [f"### {title}", text]
    return "\n\n".join(parts) + "\n"


def first_difference(rows: Sequence[Row], shown: str) -> str:
    """The first line of a text that is not what the rows give; "" for none."""
    ours, theirs = tables(rows).splitlines(), shown.splitlines()
    for at in range(max(len(ours), len(theirs))):
        expected, found = (lines[at] if at < len(lines) else "(nothing)" for lines in (ours, theirs))
        if expected != found:
            return f"line {at + 1}: the rows give {expected!r}, the table says {found!r}"
    return ""
