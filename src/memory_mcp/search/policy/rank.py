"""Rank hits, and fold those that repeat others: the ranking layer. Pure.

Every signal is a value in 0..1, and a hit's final value the weighted mean of those that are on: salience (what kind of
statement it is, how much of the like its node holds, pins), recency (a half-life), relevance (the layer's own calibrated
score) and usage (how often it was opened; an opening counts half after another half-life).

Invariants
1. `score` stays the layer's; the values of ranking are in `parts`.
2. A statement never ranks above the one that superseded it, nor scores as much; a retracted one scores less than all others.
3. Nothing is lost: a hit that is folded into another is counted there.

Change here: in which order results are shown, the weights and half-life of ranking, and what counts as a repetition.
"""

import math
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memory_mcp.base.errors import ConfigError
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.grip import RETRACTED, GripUsage
from memory_mcp.model.ids import GripId
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind
from memory_mcp.search.layers.base import Hit

SIGNALS = ("salience", "recency", "relevance", "usage")
#: Weights by preset. "spec": cognitive-architecture.md, ranking policy. "default": on judged queries nothing found more than
#: relevance alone, and the specification's weights lost 16 points of right sessions first (LoCoMo). These weights of salience
#: and recency lose nothing significant and decide between equals. The weight of usage is not measured.
PRESETS: dict[str, dict[str, float]] = {
    "default": {"salience": 0.01, "recency": 0.002, "relevance": 0.988, "usage": 0.05},
    "spec": {"salience": 0.3, "recency": 0.3, "relevance": 0.3, "usage": 0.1},
}
#: Hits that an index is asked for at least, so that there is something to choose from, folding leaves enough, and the pages
#: of one answer are cut from one order. Each costs 0.3 ms at 100,000 documents (measured).
POOL = 14
_DAY_MS = 86_400_000
#: The score that counts as 0.
_LEAST = 1e-6
#: Two quotations that share so much of their runs of words say the same (Jaccard).
_SAME = 0.9
#: Words of one run, and characters of one where words are longer than this on average: Chinese, Japanese, Thai. A quotation
#: of fewer than two runs is not compared: "yes, do that" is said everywhere and about everything.
_RUN, _RUN_UNPARTED, _LONG_WORDS = 3, 8, 20
_WORD = re.compile(r"\w+(?:[^\w\s]+\w+)*")
_SIGNS = string.punctuation.replace("_", "") + "".join(map(chr, (*range(32), 127)))
_Run = tuple[str, ...]
#: The part of a score that counts how many hits were folded into one.
_FOLDED = "folded"
#: Grips that one hit names at most.
_GRIPS = 3
#: Factor on the score of a hit that is placed behind another, so that scores show the order and ranking cannot reverse it.
BEHIND = 0.85


@dataclass(frozen=True, slots=True)
class RankingSettings:
    """Settings of the order in which results are shown."""

    preset: str = field(
        default="default",
        metadata={"help": "Weights of the four signals: default (as measured) or spec (0.3, 0.3, 0.3 and 0.1)."},
    )
    half_life_days: float = field(
        default=90.0, metadata={"help": "Days after which a memory's recency, and an opening of it, count half."}
    )
    usage: bool = field(default=False, metadata={"help": "Count how often a quotation is opened, and rank by it."})
    collapse: bool = field(default=True, metadata={"help": "Results that say the same are shown once, with all their grips."})

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown preset or a half-life out of range."""
        if self.preset not in PRESETS:
            raise ConfigError(f"ranking.preset must be {' or '.join(PRESETS)}, not {self.preset!r}")
        if not 0 < self.half_life_days <= 36_500:
            raise ConfigError("ranking.half_life_days must be above 0 and at most 36500")

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each of the `SIGNALS`, in a new dict."""
        return dict(PRESETS[self.preset])


def rank_hits(
    hits: Sequence[Hit],
    settings: RankingSettings,
    now_ms: int,
    *,
    names_time: bool,
    exact: bool,
    usage: Mapping[GripId, GripUsage],
) -> list[Hit]:
    """Return hits by final value, best first, with their signals in `parts`.

    Requests come last. Superseded hits come after their successors and retracted ones last, all with lower scores than what
    holds. Recency (`now_ms`: UTC milliseconds) does not count where the query names a time or is `exact`, i.e. names an
    identifier, nor usage where no grip of a hit was opened.
    """
    weights = settings.weights
    if names_time or exact:
        weights["recency"] = 0.0
    if not (settings.usage and any(i in usage for hit in hits for i in _grips_of(hit))):
        weights["usage"] = 0.0
    days, valued = settings.half_life_days, []
    for hit in hits:
        signals = {
            "salience": salience(hit),
            "recency": recency(hit.timestamp, now_ms, days),
            # The layer's score on a logarithmic scale.
            "relevance": min(max(1 + math.log(max(hit.score, _LEAST)) / -math.log(_LEAST), 0.0), 1.0),
            "usage": frequency(hit, now_ms, days, usage) if weights["usage"] else 0.0,
        }
        value = sum(weights[name] * signals[name] for name in SIGNALS) / sum(weights.values())
        shown_signals = tuple((name, round(v, 4)) for name, v in signals.items() if weights[name])
        valued.append((value, copy_with(hit, parts=(*hit.parts, *shown_signals, ("rank", round(value, 4))))))
    ordered = [hit for _, hit in sorted(valued, key=lambda pair: (pair[1].asks, -pair[0], shown_id(pair[1])))]
    ordered = _lower_superseded(_order_by_succession(ordered))
    return _fold_repetitions(ordered) if settings.collapse else ordered


def show_values(hits: Sequence[Hit], settings: RankingSettings) -> tuple[Hit, ...]:
    """Return hits with the score that is shown.

    With the weights of "spec" that is the value they are ranked by, which never rises.
    """
    if settings.preset != "spec":
        return tuple(hits)
    valued: list[Hit] = []
    for hit in hits:
        value = dict(hit.parts).get("rank", hit.score)
        valued.append(copy_with(hit, score=min(value, valued[-1].score) if valued else value))
    return tuple(valued)


def shown_id(hit: Hit) -> str:
    """Return the id of a hit's grip, else node, else event."""
    return hit.grip_id or hit.node_id or hit.event_id


def salience(hit: Hit) -> float:
    """Return the salience of a hit, 0..1.

    1 if it is pinned, else the mean of its kind's and its node's, or its kind's alone.
    """
    if hit.pinned:
        return 1.0
    kind_salience = KIND_SALIENCE[MemoryKind(hit.kind)] if hit.kind else KIND_SALIENCE[MemoryKind.OBSERVATION]
    return (kind_salience + hit.salience) / 2 if hit.salience > 0 else kind_salience


def recency(timestamp: int, now_ms: int, half_life_days: float) -> float:
    """Return how recent a time is: 1 now, half after each half-life."""
    return float(0.5 ** (max(0, now_ms - timestamp) / _DAY_MS / half_life_days))


def frequency(hit: Hit, now_ms: int, half_life_days: float, usage: Mapping[GripId, GripUsage]) -> float:
    """Return how often a hit was opened, 0..1.

    0 never, 0.5 once just now; an opening counts half after each half-life.
    """
    times = (at for i in _grips_of(hit) if i in usage for at in usage[i].times)
    return float(1 - 0.5 ** sum(recency(at, now_ms, half_life_days) for at in times))


def _grips_of(hit: Hit) -> set[GripId]:
    return {*hit.grip_ids, *([GripId(hit.grip_id)] if hit.grip_id else [])}


def _order_by_succession(ordered: Sequence[Hit]) -> list[Hit]:
    holder = {i: at for at, hit in reversed(list(enumerate(ordered))) for i in _grips_of(hit)}
    waiting: dict[int, list[int]] = {}
    done: list[int] = []
    placed_positions: set[int] = set()

    def name(at: int) -> None:
        done.append(at)
        placed_positions.add(at)
        for later in waiting.pop(at, ()):
            name(later)

    for at, hit in enumerate(ordered):
        successor = holder.get(GripId(hit.superseded_by)) if hit.superseded_by else None
        if successor is None or successor == at or successor in placed_positions:
            name(at)
        else:
            waiting.setdefault(successor, []).append(at)
    # Statements that supersede each other in a circle still wait: they come last, in the order they had.
    placed = [ordered[at] for at in (*done, *sorted(at for several in waiting.values() for at in several))]
    return sorted(placed, key=lambda hit: hit.superseded_by == RETRACTED)


def _lower_superseded(placed: Sequence[Hit]) -> list[Hit]:
    if not any(hit.superseded_by for hit in placed):
        return list(placed)
    holding = [hit.score for hit in placed if hit.superseded_by != RETRACTED]
    scores: dict[str, float] = {RETRACTED: min(holding)} if holding else {}
    worth: list[Hit] = []
    for hit in placed:
        over = scores.get(hit.superseded_by)
        score = hit.score if over is None else min(hit.score, round(over * BEHIND, 6))
        for grip in _grips_of(hit):
            scores.setdefault(grip, score)
        worth.append(copy_with(hit, score=score))
    return worth


def _fold_repetitions(ordered: Sequence[Hit]) -> list[Hit]:
    """Fold each hit into the first better one that says the same.

    That one takes its grips, three in all, counts it in `times` and in `parts` as "folded", and has the time of the last.
    """
    distinct: list[Hit] = []
    runs: list[frozenset[_Run]] = []
    for hit in ordered:
        own_runs = _word_runs(hit.quote)
        at = _position_of_same(distinct, runs, hit, own_runs)
        if at is None:
            distinct.append(hit)
            runs.append(own_runs)
            continue
        better = distinct[at]
        grips = tuple(dict.fromkeys((*better.grip_ids, *hit.grip_ids)))[:_GRIPS]
        # Two documents of one message say it once.
        times = better.times + (0 if hit.event_id and hit.event_id == better.event_id else hit.times)
        last = max(better.last or better.timestamp, hit.last or hit.timestamp)
        folded = dict(better.parts).get(_FOLDED, 0.0) + 1
        parts = (*(part for part in better.parts if part[0] != _FOLDED), (_FOLDED, folded))
        distinct[at] = copy_with(better, grip_ids=grips, times=times, last=last, parts=parts)
    return distinct


def drop_repetitions(earlier: Sequence[Hit], hits: Sequence[Hit], settings: RankingSettings) -> list[Hit]:
    """Return the hits that add something to those of earlier pages.

    Among more hits another of those that say the same may come first, so that folding alone does not keep it from a page.
    """
    if not (earlier and settings.collapse):
        return list(hits)
    runs = [_word_runs(hit.quote) for hit in earlier]
    return [hit for hit in hits if _position_of_same(earlier, runs, hit, _word_runs(hit.quote)) is None]


def _position_of_same(
    better_hits: Sequence[Hit], better_runs: Sequence[frozenset[_Run]], hit: Hit, hit_runs: frozenset[_Run]
) -> int | None:
    """Return the position of the first better hit that says the same.

    Both have the same first grip, the same event, or nearly the same runs of words. What holds is not hidden by what does not.
    """
    grips, event_id, size = hit.grip_ids[:1], hit.event_id, len(hit_runs)
    for position, (better, runs) in enumerate(zip(better_hits, better_runs, strict=True)):
        if better.superseded_by and not hit.superseded_by:
            continue
        if (grips and better.grip_ids[:1] == grips) or (event_id and better.event_id == event_id):
            return position
        if size and runs and min(size, len(runs)) >= _SAME * max(size, len(runs)):
            shared = len(hit_runs & runs)
            if shared >= _SAME * (size + len(runs) - shared):
                return position
    return None


def _word_runs(quote: str) -> frozenset[_Run]:
    """Return all runs of 3 words, or 8 characters without spaces.

    Empty below 6 words (16 characters). Signs around words do not count: the same sentence ends with a full stop here and with a
    colon there.
    """
    folded = quote.casefold()
    # Of ASCII text the same in half the time: what stands between blanks is one word or none.
    words = [w for piece in folded.split() if (w := piece.strip(_SIGNS))] if quote.isascii() else _WORD.findall(folded)
    unparted = sum(map(len, words)) > _LONG_WORDS * len(words)
    pieces, run = ("".join(words), _RUN_UNPARTED) if unparted else (words, _RUN)
    if len(pieces) < 2 * run:
        return frozenset()
    return frozenset(zip(*(pieces[at:] for at in range(run)), strict=False))
