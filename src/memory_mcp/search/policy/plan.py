"""Plan a search from the question, the status of the layers and the settings: what is tried, in which order, and why. Pure.

Change here: which layer answers which intent.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import IntEnum, StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.question.intent import AMBIGUOUS, Intent
from memory_mcp.question.understand import Question, understand
from memory_mcp.search.layers.base import LayerName, LayerStatus, Query
from memory_mcp.search.layers.budget import StopConditions
from memory_mcp.search.policy.rank import POOL


class Tier(IntEnum):
    """What the memory can do at the moment; 5 always works."""

    FULL = 1
    HYBRID = 2
    SEMANTIC = 3
    KEYWORD = 4
    AGENTIC = 5

    @property
    def label(self) -> str:
        """The tier's name as people read it."""
        return self.name.capitalize()


def detect_tier(statuses: Sequence[LayerStatus]) -> Tier:
    """Return the tier of the usable layers."""
    usable = {s.name for s in statuses if s.usable}
    topics, vector, bm25 = (n in usable for n in (LayerName.TOPICS, LayerName.VECTOR, LayerName.BM25))
    if vector and bm25:
        return Tier.FULL if topics else Tier.HYBRID
    if vector:
        return Tier.SEMANTIC
    return Tier.KEYWORD if bm25 else Tier.AGENTIC


#: The order in which an intent tries its layers; agentic is always last (agent-retrieval-policy-prd.md, sections 4 and 10).
#: None stands for the best accelerator available.
CHAINS: Mapping[Intent, tuple[LayerName | None, ...]] = {
    Intent.EXPLORE: (LayerName.TOPICS, LayerName.HYBRID, LayerName.VECTOR, LayerName.BM25, LayerName.AGENTIC),
    Intent.ANSWER: (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR, LayerName.AGENTIC),
    Intent.LOCATE: (LayerName.BM25, LayerName.HYBRID, LayerName.VECTOR, LayerName.AGENTIC),
    Intent.TIME_BOXED: (None, LayerName.AGENTIC),
}
#: Accelerators, the best first, as tiers rank them.
BEST = (LayerName.HYBRID, LayerName.BM25, LayerName.VECTOR)
#: Layers that a layer is made of: once it has answered whole, asking them again adds nothing.
MADE_OF: Mapping[LayerName, frozenset[LayerName]] = {LayerName.HYBRID: frozenset({LayerName.BM25, LayerName.VECTOR})}


@dataclass(frozen=True, slots=True)
class Rules:
    """How an intent is enforced (cognitive-architecture.md; PRD section 5.5)."""

    #: Bounds that differ from the settings' defaults.
    bounds: Mapping[str, int]
    #: Probability of an answer from which no further layer is asked; 0: the usual one (`relevance.ENOUGH`).
    min_confidence: float = 0.0
    #: Whether the first result that literally holds what was asked for ends the search.
    first_match: bool = False
    #: Whether no bound may be exceeded.
    strict: bool = False
    #: Whether a scan may follow, when its trigger is met.
    escalates: bool = True
    #: The trigger in words.
    trigger: str = ""


RULES: Mapping[Intent, Rules] = {
    Intent.EXPLORE: Rules({"max_nodes_visited": 100, "beam_width": 5}, trigger="the pattern is incomplete"),
    Intent.ANSWER: Rules({"max_nodes_visited": 50}, min_confidence=0.25, trigger="the evidence is insufficient"),
    Intent.LOCATE: Rules({"max_nodes_visited": 20}, first_match=True, trigger="no exact match was found"),
    Intent.TIME_BOXED: Rules({"max_depth": 2}, strict=True, escalates=False),
}


#: Default number of paths that run side by side (2 to 5).
PATHS = 3
#: Share of a time limit that the best accelerator may usually take.
_OF_TIME = 0.6
_LEFT_OUT = "left out of this plan"
#: Hits of a first page that may turn out to be repetitions; of later pages twice those shown.
_FOLDED = 6


class Mode(StrEnum):
    """How layers are run (agent-retrieval-policy-prd.md, section 5.4)."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class How:
    """The caller's options; None leaves a choice to the policy."""

    intent: Intent | None = None
    mode: Mode | None = None
    bounds: Mapping[str, int | None] = field(default_factory=dict)
    #: Least score of a result. Given, it takes the place of the floor below which nothing is relevant.
    min_confidence: float | None = None
    #: Whether an answer that has none keeps all of its results, and not only the nearest.
    keeps_all: bool = False
    #: Layers that are not to be used.
    without: frozenset[LayerName] = frozenset()
    #: Results left out, to page on.
    offset: int = 0
    #: The moment time words are relative to, UTC milliseconds, and the calendar they are read on.
    as_of: int | None = None
    calendar: Calendar | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A layer that was not used, and why."""

    layer: str
    reason: str
    #: Whether it was left out because it would use up the time.
    too_slow: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How a question will be answered, decided before any layer runs."""

    intent: Intent
    confidence: float
    signals: tuple[str, ...]
    #: Texts that a result must hold literally, if the query names such things.
    exact: tuple[str, ...]
    #: The words to search for: the question without its deadline, its time and the words that ask for a search.
    text: str
    #: The words of `text` that results are judged by: without those that ask for patterns.
    judged: str
    #: Whether nothing in particular is asked for: what happened is listed.
    browses: bool
    tier: Tier
    mode: Mode
    why_mode: str
    #: Usable layers in the order in which they are tried; agentic is always the last.
    order: tuple[LayerName, ...]
    skipped: tuple[Skipped, ...]
    #: The layer that the intent would have tried first.
    first: LayerName
    bounds: StopConditions
    #: Whether no bound may be exceeded.
    strict: bool
    #: Score from which evidence is enough.
    min_confidence: float
    #: The least score of a result, if the caller named one.
    floor: float | None
    first_match: bool
    #: When a scan of the events may follow, in words; "" for never.
    escalates_when: str
    #: Deadline in milliseconds, read from the question or given with it.
    deadline_ms: int | None = None
    #: The moment the question is asked, UTC milliseconds.
    now_ms: int = 0
    window: TimeWindow | None = None
    #: The words that the window was read from; "" for one that the caller gave.
    window_words: str = ""
    #: Time before which an index of the order leaves out what ended, UTC milliseconds; 0 if all of them are whole.
    covered_from: int = 0
    #: The subject of which the latest decision is asked for, "" for any; None if the question is another.
    last_of: str | None = None
    #: Whether an answer that has none keeps all of its results.
    keeps_all: bool = False

    @property
    def is_overview(self) -> bool:
        """Whether nothing in particular and no list of a time is asked for."""
        return self.browses and self.intent is Intent.EXPLORE

    def find_gap(self, window: TimeWindow | None) -> TimeWindow | None:
        """Return the part of a window that an index does not cover."""
        part = TimeWindow(0, self.covered_from).intersection(window)
        return part if part.start_ms < part.end_ms else None

    @property
    def asks_parts_first(self) -> bool:
        """Whether a layer is asked before one that it is part of."""
        return any(part in self.order[:at] for at, name in enumerate(self.order) for part in MADE_OF.get(name, ()))

    @property
    def looks_up(self) -> bool:
        """Whether a keyword index may be asked."""
        return not {LayerName.BM25, LayerName.HYBRID}.isdisjoint(self.order)

    @property
    def paths(self) -> tuple[LayerName, ...]:
        """The layers that run at once: topics and `bounds.beam_width` others.

        Of a layer and the layers it is made of only the whole runs.
        """
        parts = {part for n in self.order for part in MADE_OF.get(n, ())}
        topic_layers = [n for n in self.order if n is LayerName.TOPICS]
        return (*topic_layers, *[n for n in self.order if n not in parts and n not in topic_layers][: self.bounds.beam_width])


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What a plan depends on besides the question."""

    statuses: Sequence[LayerStatus]
    settings: StopConditions
    now_ms: int
    calendar: Calendar
    #: Average time of each layer in milliseconds; a layer that has not run yet is missing.
    usual_ms: Mapping[LayerName, float] = field(default_factory=dict)


def make_plan(query: Query, how: How, context: PlanContext) -> Plan:
    """Return a question's plan. Raises InvalidQuery, ConfigError for bad bounds."""
    if not query.text.strip():
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    now_ms = context.now_ms if how.as_of is None else how.as_of
    question = understand(query.text, now_ms, how.calendar or context.calendar, how.bounds.get("timeout_ms"))
    rules, live = RULES[intent := how.intent or question.intent], [_leave_out(s, how.without) for s in context.statuses]
    browses = question.asks_period or (question.is_general and (query.window is not None or intent is Intent.EXPLORE))
    text = "" if browses else question.split_words
    mode, why = _choose_mode(how, question)
    bounds = _choose_bounds(how.bounds, context.settings, rules, mode, question.deadline_ms, pool_of(query.limit, how.offset))
    slow = _too_slow(live, context.usual_ms, bounds.timeout_ms) if intent is Intent.TIME_BOXED else {}
    order, skipped, first = _route_layers(intent, live, browses, slow)
    return Plan(
        intent=intent,
        confidence=1.0 if how.intent else question.confidence,
        signals=(f"{intent}: named by the caller",) if how.intent else question.signals,
        exact=question.exact,
        text=text,
        judged=question.particular if text and intent is Intent.EXPLORE else text,
        browses=browses,
        tier=detect_tier(live),
        mode=mode,
        why_mode=why,
        order=order,
        skipped=skipped,
        first=first,
        bounds=bounds,
        strict=rules.strict or how.bounds.get("timeout_ms") is not None,
        min_confidence=rules.min_confidence if how.min_confidence is None else how.min_confidence,
        floor=how.min_confidence,
        first_match=rules.first_match and bool(question.exact),
        escalates_when=rules.trigger if rules.escalates and not browses else "",
        deadline_ms=question.deadline_ms,
        now_ms=now_ms,
        window=query.window or question.window,
        window_words="" if query.window else question.window_words,
        covered_from=max((s.covered_from for s in live if s.name in order), default=0),
        last_of=question.last_of,
    )


def pool_of(limit: int, offset: int) -> int:
    """Return the number of hits to ask a layer for.

    For a first page `limit` + 7, at least 14; for later ones 3 x (`limit` + `offset` + 1) + 14.
    """
    least_hits = limit + offset + 1
    return max(POOL, least_hits + _FOLDED) if not offset else least_hits * 3 + POOL


def layers_named(names: Sequence[str]) -> frozenset[LayerName]:
    """Return layers by name; the agentic layer cannot be left out.

    Raises InvalidQuery for another name.
    """
    known_names = [n.value for n in LayerName if n not in (LayerName.TOC, LayerName.AGENTIC)]
    for name in names:
        if name not in known_names:
            raise InvalidQuery(f"cannot plan without {name!r}", f"Layers that can be left out are {', '.join(known_names)}.")
    return frozenset(LayerName(n) for n in names)


def _leave_out(status: LayerStatus, left_out: frozenset[LayerName]) -> LayerStatus:
    if status.name in left_out:
        return replace(status, enabled=False, reason=_LEFT_OUT)
    missing = sorted(MADE_OF.get(status.name, frozenset()) & left_out)
    return replace(status, enabled=False, reason=f"{missing[0]}: {_LEFT_OUT}") if missing else status


def _too_slow(statuses: Sequence[LayerStatus], usual_ms: Mapping[LayerName, float], timeout_ms: int) -> dict[LayerName, str]:
    """Return layers too slow for a short time limit, with the reason.

    Those are slower than 60% of `timeout_ms`, while a quicker one is usable.
    """
    usable = [s.name for s in statuses if s.usable and s.name in BEST]
    quickest = min((usual_ms.get(n, 0.0) for n in usable), default=0.0)
    return {
        name: f"usually takes {usual_ms[name]:.0f} ms, too long for {timeout_ms} ms"
        for name in usable
        if usual_ms.get(name, 0.0) > max(_OF_TIME * timeout_ms, quickest)
    }


def _route_layers(
    intent: Intent, statuses: Sequence[LayerStatus], browsing: bool, slow: Mapping[LayerName, str]
) -> tuple[tuple[LayerName, ...], tuple[Skipped, ...], LayerName]:
    """Return the layers to ask, those passed over, and the first choice.

    The agentic layer is always asked last. The chain follows what is live; the tier is a label for people.
    """
    status_by_name = {s.name: s for s in statuses}
    if browsing:  # themes are what topics are for; the tree lists what happened
        topics = status_by_name.get(LayerName.TOPICS)
        if intent is not Intent.EXPLORE or topics is None:
            return (LayerName.AGENTIC,), (), LayerName.AGENTIC
        if topics.usable:
            return (LayerName.TOPICS, LayerName.AGENTIC), (), LayerName.TOPICS
        return (LayerName.AGENTIC,), (Skipped(LayerName.TOPICS, topics.reason),), LayerName.TOPICS
    skipped: list[Skipped] = []
    order: list[LayerName] = []
    for name in CHAINS[intent]:
        for candidate in (name,) if name is not None else BEST:
            status = status_by_name.get(candidate)
            if status is not None and status.usable and candidate not in slow:
                order.append(candidate)
                break
            reason = slow.get(candidate) or (status.reason if status is not None else "no such layer")
            skipped.append(Skipped(candidate, reason, candidate in slow))
    first = CHAINS[intent][0] or order[0]
    if LayerName.AGENTIC not in order:  # it needs nothing but the tree, and is tried whatever its status says
        order.append(LayerName.AGENTIC)
        skipped = [s for s in skipped if s.layer != LayerName.AGENTIC]
    return tuple(order), tuple(skipped), first


def _choose_mode(how: How, question: Question) -> tuple[Mode, str]:
    beam = how.bounds.get("beam_width") or 1
    if how.mode is not None:
        return how.mode, "named by the caller"
    if beam > 1:
        return Mode.PARALLEL, f"beam_width={beam}"
    if how.intent is None and question.confidence <= AMBIGUOUS:
        return Mode.HYBRID, "the intent is ambiguous"
    return Mode.SEQUENTIAL, "the default"


def _choose_bounds(
    caller_bounds: Mapping[str, int | None],
    settings: StopConditions,
    rules: Rules,
    mode: Mode,
    deadline_ms: int | None,
    least_nodes: int,
) -> StopConditions:
    """Return the settings' bounds, changed by the intent and then the caller.

    An intent changes only bounds that the settings leave at their defaults. Raises ConfigError for a bound out of range.
    """
    usual = StopConditions()
    set_names = {f.name for f in dataclasses.fields(settings) if getattr(settings, f.name) != getattr(usual, f.name)}
    changes = {name: value for name, value in rules.bounds.items() if name not in set_names}
    if mode is Mode.SEQUENTIAL:
        changes.pop("beam_width", None)
    else:
        changes["beam_width"] = max(changes.get("beam_width", PATHS), 2) if settings.beam_width < 2 else settings.beam_width
    bounds = settings.with_changes(**changes)
    # Results count as visited nodes: a limit above the intent's bound raises that bound.
    if "max_nodes_visited" not in set_names:
        bounds = bounds.with_changes(max_nodes_visited=max(bounds.max_nodes_visited, least_nodes))
    bounds = bounds.with_changes(**caller_bounds)
    if mode is not Mode.SEQUENTIAL and bounds.beam_width < 2:
        bounds = bounds.with_changes(beam_width=2)
    return bounds if deadline_ms is None else bounds.with_changes(timeout_ms=min(bounds.timeout_ms, deadline_ms))
