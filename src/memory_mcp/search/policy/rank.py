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
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
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
    total, days, valued = sum(weights.values()), settings.half_life_days, []
    for hit in hits:
        signals = (
            ("salience", salience(hit)),
            ("recency", recency(hit.timestamp, now_ms, days)),
            # The layer's score on a logarithmic scale.
            ("relevance", min(max(1 + math.log(max(hit.score, _LEAST)) / -math.log(_LEAST), 0.0), 1.0)),
            ("usage", frequency(hit, now_ms, days, usage) if weights["usage"] else 0.0),
        )
        value = sum([weights[name] * signal for name, signal in signals]) / total
        shown_signals = [(name, round(signal, 4)) for name, signal in signals if weights[name]]
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
    if not any(hit.superseded_by for hit in ordered):
        return list(ordered)
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
    statements: list[_Statement] = []
    for hit in ordered:
        statement = _Statement.of(hit)
        at = _position_of_same(statements, statement)
        if at is None:
            distinct.append(hit)
            statements.append(statement)
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
    statements = list(map(_Statement.of, earlier))
    return [hit for hit in hits if _position_of_same(statements, _Statement.of(hit)) is None]


@dataclass(slots=True)
class _Statement:
    """What two hits are compared by."""

    first_grip: str
    event_id: str
    is_superseded: bool
    #: Its words, or the characters of a text without spaces; how many make a run, and bounds of the number of distinct runs.
    pieces: Sequence[str]
    distinct: frozenset[str]
    run: int
    least: int
    most: int
    runs: frozenset[_Run] | None = None

    @classmethod
    def of(cls, hit: Hit) -> "_Statement":
        pieces, run = _split_quote(hit.quote)
        distinct = frozenset(pieces)
        # Each distinct piece begins a run of its own, but those that occur among the last ones alone.
        most = len(pieces) - run + 1 if len(pieces) >= 2 * run else 0
        least = max(len(distinct) - run + 1, 0)
        return cls(
            hit.grip_ids[0] if hit.grip_ids else "", hit.event_id, bool(hit.superseded_by), pieces, distinct, run, least, most
        )

    def list_runs(self) -> frozenset[_Run]:
        """Return the distinct runs; made once."""
        if self.runs is None:
            self.runs = frozenset(zip(*[self.pieces[at:] for at in range(self.run)], strict=False))
        return self.runs

    def repeats(self, better: "_Statement") -> bool:
        """Return whether both have nearly the same runs; few texts get as far as making them."""
        if not (self.most and better.most) or self.most < _SAME * better.least or better.most < _SAME * self.least:
            return False
        # A run that is not shared has so many pieces that may be missing there.
        if len(self.distinct - better.distinct) > (1 - _SAME) * self.run * self.most + 1:
            return False
        runs, other_runs = self.list_runs(), better.list_runs()
        shared = len(runs & other_runs)
        return shared >= _SAME * (len(runs) + len(other_runs) - shared)


def _position_of_same(better_statements: Sequence[_Statement], statement: _Statement) -> int | None:
    """Return the position of the first better statement that says the same.

    Both have the same first grip, the same event, or nearly the same runs of words. What holds is not hidden by what does not.
    """
    grip, event_id = statement.first_grip, statement.event_id
    for position, better in enumerate(better_statements):
        if better.is_superseded and not statement.is_superseded:
            continue
        if (grip and better.first_grip == grip) or (event_id and better.event_id == event_id) or statement.repeats(better):
            return position
    return None


def _split_quote(quote: str) -> tuple[Sequence[str], int]:
    """Return the words of a quotation, or its characters without spaces, and how many make a run.

    Fewer than two runs (6 words, 16 characters) are not compared. Signs around words do not count: the same sentence ends with a
    full stop here and with a colon there.
    """
    folded = quote.casefold()
    # Of ASCII text the same in half the time: what stands between blanks is one word or none.
    if quote.isascii():
        words = [w for piece in folded.split() if (w := piece if piece.isalnum() else piece.strip(_SIGNS))]
    else:
        words = _WORD.findall(folded)
    unparted = sum(map(len, words)) > _LONG_WORDS * len(words)
    return ("".join(words), _RUN_UNPARTED) if unparted else (words, _RUN)
